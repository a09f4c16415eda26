/* SPDX-License-Identifier: Apache-2.0 */
/* See pprof_fetch.h. */
#include "cli/pprof_fetch.h"

#include <errno.h>

int pprof_fetch(const struct pprof_args *a, const char *source, struct buf *out, bool *ret_remote, struct err *e)
{
    return err_set(e, -ENOENT, "stat %s: no such file or directory", source);
}
