/* SPDX-License-Identifier: Apache-2.0 */
/* The source of the demo's services (demo_source.h). tools/embed makes the array. */
#include "demo/demo_source.h"

#include <errno.h>
#include <stddef.h>

extern const char demo_shop_text[];
extern const size_t demo_shop_text_size;

int demo_source(void *ctx, struct str file, struct buf *out, struct err *e)
{
    (void) ctx;
    if (!str_ends(file, STR("/src/demo/demo_shop.c")))
        return err_set(e, -ENOENT, "the demo has the source of its services only, not %.*s", STR_FMT(file));
    buf_put(out, demo_shop_text, demo_shop_text_size);
    return buf_error(out);
}
