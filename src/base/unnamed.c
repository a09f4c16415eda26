/* SPDX-License-Identifier: Apache-2.0 */
/* Spells code without a name (unnamed.h). */
#include "base/unnamed.h"

#include <inttypes.h>

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

void unnamed_put(struct buf *out, struct str file, uint64_t address)
{
    struct str base = base_name(file);

    if (base.n && base.p[0] == '[')
        buf_put_str(out, base);
    else if (base.n)
        buf_printf(out, "[%.*s]", STR_FMT(base));
    else if (address)
        buf_printf(out, "0x%" PRIx64, address);
    else
        buf_puts(out, "[unknown]");
}

void unnamed_put_at(struct buf *out, struct str file, uint64_t address)
{
    struct str base = base_name(file);

    if (base.n && address)
        buf_printf(out, "%.*s+0x%" PRIx64, STR_FMT(base), address);
    else
        unnamed_put(out, file, address);
}
