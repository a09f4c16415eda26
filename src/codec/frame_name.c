/* SPDX-License-Identifier: Apache-2.0 */
/* Names and kinds of frames for the text formats (frame_name.h). */
#include "codec/frame_name.h"

#include "base/unnamed.h"
#include "model/semconv.h"

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
    else
        unnamed_put(out, d->strings[d->mappings[l->mapping].filename], l->address);
}

struct str frame_type(const struct batch *b, uint32_t location)
{
    struct run attrs = b->dict.locations[location].attrs;
    const struct attr *a = attrs.n ? batch_attr(b, attrs, STR(SEMCONV_FRAME_TYPE)) : NULL;

    return a ? value_str(&a->value) : (struct str){0};
}
