/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes speedscope's JSON (speedscope.h). There is one frame per (location, line) of the dictionary, in its order:
 *
 *   {"$schema":..., "shared":{"frames":[{"name","file","line","col"}...]},
 *    "profiles":[{"type":"sampled","name","unit","startValue":0,"endValue":SUM,"samples":[[root...leaf]...],
 *                 "weights":[...]}...],
 *    "name","activeProfileIndex","exporter"}
 */
#include "codec/speedscope.h"

#include <errno.h>

#include "base/json.h"
#include "base/mem.h"
#include "codec/frame_name.h"

static void put_frame(const struct batch *b, uint32_t location, uint32_t k, struct buf *scratch, struct buf *out)
{
    const struct dict *d = &b->dict;
    const struct location *l = &d->locations[location];
    bool first = true;

    if (buf_error(scratch)) /* it is sticky: the caller reports it */
        return;
    buf_reset(scratch);
    frame_name(b, location, k, scratch);
    buf_putc(out, '{');
    json_put_key_str(out, &first, "name", buf_str(scratch));
    if (k < l->lines.n) {
        const struct line *line = &d->lines[l->lines.off + k];
        struct str file = d->strings[d->functions[line->function].filename];

        if (file.n) {
            json_put_key_str(out, &first, "file", file);
        }
        if (line->line > 0) {
            json_put_key_i64(out, &first, "line", line->line);
        }
        if (line->column > 0) {
            json_put_key_i64(out, &first, "col", line->column);
        }
    }
    buf_putc(out, '}');
}

/* Writes all frames; start[i] becomes the number of location i's first one. */
static int put_frames(const struct batch *b, uint32_t *start, struct buf *out)
{
    _cleanup_(buf_done) struct buf scratch = BUF_INIT;
    uint32_t n = 0;
    bool first = true;

    for (uint32_t i = 0; i < b->dict.n_locations; i++) {
        start[i] = n;
        for (uint32_t k = 0; k < frame_count(&b->dict.locations[i]); k++, n++) {
            json_sep(out, &first);
            put_frame(b, i, k, &scratch, out);
        }
    }
    return buf_error(&scratch);
}

static void put_stack(const struct batch *b, struct run stack, const uint32_t *start, struct buf *out)
{
    bool first = true;

    buf_putc(out, '[');
    for (uint32_t i = stack.n; i > 0; i--) {
        uint32_t location = b->dict.indices[stack.off + i - 1];

        for (uint32_t k = frame_count(&b->dict.locations[location]); k > 0; k--) {
            json_sep(out, &first);
            json_put_u64(out, start[location] + k - 1);
        }
    }
    buf_putc(out, ']');
}

/* The units that the format supports. */
static const char *unit_name(struct str unit)
{
    static const char *const known[] = {"nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"};

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_is(unit, known[i]))
            return known[i];
    return "none";
}

static void put_profile(const struct batch *b, const struct profile *p, uint32_t type, const uint32_t *start,
                        struct buf *out)
{
    bool first = true, key = true;
    int64_t sum = 0;

    buf_putc(out, '{');
    json_put_key(out, &key, "type");
    buf_puts(out, "\"sampled\"");
    json_put_key_str(out, &key, "name", b->dict.strings[p->types[type].type]);
    json_put_key_str(out, &key, "unit", str_from(unit_name(b->dict.strings[p->types[type].unit])));
    json_put_key(out, &key, "samples");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];

        if (batch_sample_value(b, p, s, type) <= 0)
            continue;
        json_sep(out, &first);
        put_stack(b, b->dict.stacks[s->stack], start, out);
    }
    buf_putc(out, ']');
    json_put_key(out, &key, "weights");
    buf_putc(out, '[');
    first = true;
    for (uint32_t i = 0; i < p->samples.n; i++) {
        int64_t v = batch_sample_value(b, p, &b->samples[p->samples.off + i], type);

        if (v <= 0)
            continue;
        json_sep(out, &first);
        json_put_i64(out, v);
        sum += v;
    }
    buf_putc(out, ']');
    json_put_key(out, &key, "startValue");
    buf_putc(out, '0');
    json_put_key_i64(out, &key, "endValue", sum);
    buf_putc(out, '}');
}

int speedscope_encode(const struct batch *b, const struct profile *p, struct str name, struct buf *out, struct err *e)
{
    _cleanup_(mem_freep) uint32_t *start = mem_zalloc_array(b->dict.n_locations, sizeof *start);
    bool first = true;
    int r = start ? 0 : -ENOMEM;

    if (r == 0) {
        buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"shared\":{\"frames\":[");
        r = put_frames(b, start, out);
    }
    if (r == 0) {
        buf_puts(out, "]},\"profiles\":[");
        for (uint32_t i = 0; i < p->n_types; i++) {
            json_sep(out, &first);
            put_profile(b, p, i, start, out);
        }
        buf_puts(out, "],\"name\":");
        json_put_str(out, name);
        buf_printf(out, ",\"activeProfileIndex\":%u,\"exporter\":\"wick " WICK_VERSION "\"}\n",
                   p->default_type ? p->default_type - 1 : p->n_types - 1);
        r = buf_error(out);
    }
    return r < 0 ? err_set(e, r, "cannot write speedscope: %m") : 0;
}
