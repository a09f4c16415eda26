/* SPDX-License-Identifier: Apache-2.0 */
/* Names and kinds of frames for the text formats (frame_name.h). */
#include "codec/frame_name.h"

#include <inttypes.h>

#include "model/semconv.h"

static struct str file_part(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

void frame_name(const struct batch *b, uint32_t location, uint32_t line, struct buf *out)
{
    const struct dict *d = &b->dict;
    const struct location *l = &d->locations[location];
    struct str name = {0};

    if (line < l->lines.n) {
        const struct function *f = &d->functions[d->lines[l->lines.off + line].function];

        name = d->strings[f->name].n ? d->strings[f->name] : d->strings[f->system_name];
    }
    if (name.n)
        buf_put_str(out, name);
    else if (l->address)
        buf_printf(out, "0x%" PRIx64, l->address);
    else if (d->strings[d->mappings[l->mapping].filename].n)
        buf_printf(out, "[%.*s]", STR_FMT(file_part(d->strings[d->mappings[l->mapping].filename])));
    else
        buf_puts(out, "[unknown]");
}

struct str frame_type(const struct batch *b, uint32_t location)
{
    struct run attrs = b->dict.locations[location].attrs;
    const struct attr *a = attrs.n ? batch_attr(b, attrs, STR(SEMCONV_FRAME_TYPE)) : NULL;

    return a ? value_str(&a->value) : (struct str){0};
}
