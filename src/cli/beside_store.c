/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the span index of a store; see beside_store.h. */
#include "cli/beside_store.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "conf/paths.h"
#include "span/span_index.h"
#include "store/store.h"

int store_spans_open(const char *dir, bool read_only, struct span_index **ret, struct err *e)
{
    char path[PATH_SIZE + 8];
    /* Nothing is dropped while it is open: limits are left to the server, which has the configuration. */
    struct span_index_config c = {.dir = path, .size = UINT64_MAX, .read_only = read_only, .min_free = -1};

    *ret = NULL;
    if (store_engine_of(str_from(dir)) && !store_engine_of(str_from(dir))->in_dir)
        return 0;
    snprintf(path, sizeof path, "%s/spans", dir);
    return access(path, F_OK) < 0 ? 0 : span_index_open(&c, ret, e);
}
