/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a tree as JSON and in the binary form; see tree_form.h. */
#include "query/tree_form.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

/* --- JSON --- */

static void put_text(struct buf *out, bool *first, const char *key, struct str s)
{
    if (!s.n)
        return;
    json_put_key_str(out, first, key, s);
}

static void put_frame(struct buf *out, const struct frame *f)
{
    bool first = true;

    buf_putc(out, '{');
    put_text(out, &first, "function", f->function);
    put_text(out, &first, "systemName", f->system_name);
    put_text(out, &first, "file", frame_file(f));
    if (f->line) {
        json_put_key_i64(out, &first, "line", f->line);
    }
    put_text(out, &first, "mapping", f->mapping);
    put_text(out, &first, "buildId", f->build_id);
    put_text(out, &first, "package", frame_package(f));
    if (f->address) {
        json_put_key(out, &first, "address");
        buf_printf(out, "\"0x%llx\"", (unsigned long long) f->address);
    }
    if (f->kind) {
        json_put_key_str(out, &first, "kind", str_from(frame_kind_name(f->kind)));
    }
    if (f->inlined) {
        json_put_key(out, &first, "inlined");
        buf_puts(out, "true");
    }
    buf_putc(out, '}');
}

/* [parent, frame, self, total(, self2, total2)(, folded)] */
static void put_node(struct buf *out, const struct tree *t, uint32_t i)
{
    buf_putc(out, '[');
    json_put_i64(out, i ? (int64_t) t->parent[i] : -1);
    buf_putc(out, ',');
    json_put_i64(out, i ? (int64_t) t->frame[i] : -1);
    for (uint32_t c = 0; c < t->n_columns; c++) {
        buf_putc(out, ',');
        json_put_i64(out, t->self[c][i]);
        buf_putc(out, ',');
        json_put_i64(out, t->total[c][i]);
    }
    if (t->folded && t->folded[i]) {
        buf_putc(out, ',');
        json_put_u64(out, t->folded[i]);
    }
    buf_putc(out, ']');
}

void tree_put_fields(struct buf *out, bool *first, const struct tree *t)
{
    json_put_key_str(out, first, "type", t->type);
    json_put_key_str(out, first, "unit", t->unit);
    if (t->covered_ns[0] || t->covered_ns[1]) {
        json_put_key(out, first, "coverage");
        if (t->n_columns == 1)
            json_put_i64(out, t->covered_ns[0]);
        else
            buf_printf(out, "[%lld,%lld]", (long long) t->covered_ns[0], (long long) t->covered_ns[1]);
    }
    json_put_key_u64(out, first, "columns", t->n_columns);
    buf_puts(out, ",\"frames\":[");
    for (uint32_t i = 0; i < t->n_frames; i++) {
        if (i)
            buf_putc(out, ',');
        put_frame(out, &t->frames[i]);
    }
    buf_puts(out, "],\"nodes\":[");
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        if (i)
            buf_putc(out, ',');
        put_node(out, t, i);
    }
    buf_putc(out, ']');
}

/* --- binary --- */

enum {
    BINARY_HEAD = 32,
    FLAG_FOLDED = 1,
    FLAG_COARSE = 2,
    FLAG_ALSO = 4,
    FLAG_COVERAGE = 8,
    FLAG_NAMING = 16,
    KIND_INLINED = 0x80
};

/* The interned, NUL-terminated texts of the binary form. */
struct texts {
    struct buf bytes;
    struct map map;
    struct {
        uint32_t off, n;
    } * v;
    size_t n, cap;
};

static void texts_done(struct texts *x)
{
    buf_done(&x->bytes);
    map_done(&x->map);
    mem_free(x->v);
}

/* Returns the offset of s, or a negative errno when memory runs out. */
static int64_t texts_add(struct texts *x, struct str s)
{
    uint64_t h = hash64_str(s);
    int r;

    for (struct map_pos p = map_find(&x->map, h); p.index != MAP_NONE; p = map_next(&x->map, p))
        if (str_eq((struct str){x->bytes.p + x->v[p.index].off, x->v[p.index].n}, s))
            return x->v[p.index].off;
    r = array_reserve(x->v, x->cap, x->n + 1, UINT32_MAX);
    if (r == 0)
        r = map_insert(&x->map, h, (uint32_t) x->n);
    if (r < 0)
        return r;
    x->v[x->n].off = (uint32_t) x->bytes.n;
    x->v[x->n++].n = s.n;
    buf_put_str(&x->bytes, s);
    buf_putc(&x->bytes, 0);
    return buf_error(&x->bytes) ? buf_error(&x->bytes) : (int64_t) x->v[x->n - 1].off;
}

static void pad8(struct buf *out, size_t start)
{
    size_t odd = (out->n - start) % 8;

    if (odd)
        buf_pad(out, 0, 8 - odd);
}

static void put_doubles(struct buf *out, const int64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double d = (double) v[i];

        buf_put(out, &d, sizeof d);
    }
}

static void put_nodes(struct buf *out, const struct tree *t, size_t start)
{
    for (uint32_t i = 0; i < t->n_nodes; i++)
        put_u32(out, i ? t->parent[i] : UINT32_MAX);
    pad8(out, start);
    for (uint32_t i = 0; i < t->n_nodes; i++)
        put_u32(out, i ? t->frame[i] : 0);
    pad8(out, start);
    for (uint32_t c = 0; c < t->n_columns; c++)
        put_doubles(out, t->self[c], t->n_nodes);
    for (uint32_t c = 0; c < t->n_columns; c++)
        put_doubles(out, t->total[c], t->n_nodes);
    if (t->folded) {
        buf_put(out, t->folded, t->n_nodes * sizeof *t->folded);
        pad8(out, start);
    }
}

static struct str frame_function(const struct frame *f)
{
    return f->function;
}

static struct str frame_binary(const struct frame *f)
{
    return f->mapping.n ? f->mapping : f->home;
}

/* The line to look at: the frame's line, or the line where the function starts. */
static uint32_t frame_line(const struct frame *f)
{
    int64_t line = f->line ? f->line : f->start_line ? f->start_line : f->in_line;

    return (uint32_t) MIN(MAX(line, 0), (int64_t) UINT32_MAX);
}

/* Writes one u32 array over all frames: the offset of one text of each frame. */
static int put_texts(struct buf *out, const struct tree *t, struct texts *x, struct str (*text)(const struct frame *),
                     size_t start)
{
    for (uint32_t i = 0; i < t->n_frames; i++) {
        int64_t off = texts_add(x, text(&t->frames[i]));

        if (off < 0)
            return (int) off;
        put_u32(out, (uint32_t) off);
    }
    pad8(out, start);
    return 0;
}

static int put_frames(struct buf *out, const struct tree *t, struct texts *x, size_t start)
{
    static struct str (*const texts[])(const struct frame *) = {frame_function, frame_file, frame_binary,
                                                                frame_package};
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        r = put_texts(out, t, x, texts[i], start);
        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; i < t->n_frames; i++)
        put_u32(out, frame_line(&t->frames[i]));
    pad8(out, start);
    for (uint32_t i = 0; i < t->n_frames; i++)
        buf_putc(out, (char) (t->frames[i].kind | (t->frames[i].inlined ? KIND_INLINED : 0)));
    pad8(out, start);
    return 0;
}

/* Appends the covered time and the sampling rates. Returns false when neither is known. */
static bool put_coverage(struct buf *out, const struct tree *t, const struct store_notes *notes, size_t start)
{
    double v[5] = {(double) t->covered_ns[0], (double) t->covered_ns[1], notes ? notes->rate_min : 0,
                   notes ? notes->rate_max : 0, notes ? notes->rate_mean : 0};

    if (v[0] <= 0 && v[1] <= 0 && v[2] <= 0)
        return false;
    pad8(out, start);
    buf_put(out, v, sizeof v);
    return true;
}

int tree_to_binary(struct buf *out, const struct tree *t, const struct store_notes *notes)
{
    _cleanup_(texts_done) struct texts x = {0};
    size_t start = out->n;
    uint32_t head[8] = {0, t->n_nodes, t->n_frames, t->n_columns, 0, t->folded ? FLAG_FOLDED : 0};
    int64_t r;

    memcpy(head, "WTR2", 4);
    buf_put(out, head, BINARY_HEAD);
    r = texts_add(&x, (struct str){0});
    if (r >= 0)
        r = texts_add(&x, t->type);
    if (r >= 0)
        r = texts_add(&x, t->unit);
    if (r < 0)
        return (int) r;
    put_nodes(out, t, start);
    r = put_frames(out, t, &x, start);
    if (r < 0)
        return (int) r;
    if (notes && notes->damaged) {
        r = texts_add(&x, str_from(notes->damage));
        if (r < 0)
            return (int) r;
        head[6] = notes->damaged;
        head[7] = (uint32_t) r;
    }
    if (notes && notes->coarse)
        head[5] |= FLAG_COARSE;
    if (notes && notes->also)
        head[5] |= FLAG_ALSO;
    if (notes && notes->naming)
        head[5] |= FLAG_NAMING;
    buf_put(out, x.bytes.p, x.bytes.n);
    if (put_coverage(out, t, notes, start))
        head[5] |= FLAG_COVERAGE;
    if (buf_error(out))
        return buf_error(out);
    head[4] = (uint32_t) x.bytes.n;
    memcpy(out->p + start, head, BINARY_HEAD);
    return 0;
}
