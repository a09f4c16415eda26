/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes folded stacks (folded.h). */
#include "codec/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/wrap.h"
#include "codec/frame_name.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { FRAMES_MAX = 65536 };

/* --- reading --- */

/* Cuts the number off the end of a line. Returns 0, 1 for a line without data, or -EINVAL. */
static int split_line(struct str line, struct str *ret_stack, int64_t *ret_value)
{
    uint32_t n;
    double v;

    line = str_trim(line);
    if (!line.n || line.p[0] == '#')
        return 1;
    for (n = line.n; n > 0 && line.p[n - 1] != ' ' && line.p[n - 1] != '\t'; n--)
        ;
    *ret_stack = str_trim(str_slice(line, 0, n));
    if (!ret_stack->n)
        return -EINVAL;
    if (str_to_i64(str_slice(line, n, line.n), 10, ret_value) == 0)
        return 0;
    if (str_to_double(str_slice(line, n, line.n), &v) < 0 || !(fabs(v) < 0x1p62))
        return -EINVAL;
    *ret_value = llround(v);
    return 0;
}

bool folded_probe(struct str text)
{
    struct str stack;
    int64_t value;
    int r = 1;

    while (text.n && r == 1)
        r = split_line(str_cut(&text, '\n'), &stack, &value);
    return r == 0 && str_is_utf8(stack);
}

/* Cuts off a "_[x]" suffix and returns its letter; 0 if there is none. */
static char cut_suffix(struct str *frame)
{
    const char *p = frame->p + frame->n - 4;

    if (frame->n < 5 || p[0] != '_' || p[1] != '[' || p[3] != ']' || !strchr("jik01", p[2]))
        return 0;
    frame->n -= 4;
    return p[2];
}

struct folded_reader {
    struct builder *b;
    uint32_t types[3]; /* attributes by kind: none, jvm, kernel */
    struct line *lines;
    uint32_t *stack;
    size_t cap_lines, cap_stack;
};

/* Frames are given from the leaf on. Inlined ones are collected in lines until the frame they are inlined into. */
static int read_stack(struct folded_reader *r, struct str text, uint32_t *ret_n)
{
    uint32_t n = 0, n_lines = 0;
    bool last = false;
    int rc;

    while (!last) {
        uint32_t at = text.n;
        struct str frame;
        char kind;

        while (at > 0 && text.p[at - 1] != ';')
            at--;
        frame = str_slice(text, at, text.n);
        last = at == 0;
        text.n = last ? 0 : at - 1;
        kind = cut_suffix(&frame);
        rc = array_reserve(r->lines, r->cap_lines, n_lines + 1, FRAMES_MAX);
        if (rc == 0)
            rc = array_reserve(r->stack, r->cap_stack, n + 1, FRAMES_MAX);
        if (rc < 0)
            return rc;
        r->lines[n_lines++] =
            (struct line){.function = builder_function(r->b, &(struct function){.name = builder_string(r->b, frame)})};
        if (kind == 'i' && !last)
            continue;
        r->stack[n++] = builder_location(r->b, &(struct builder_location){.lines = r->lines,
                                                                          .n_lines = n_lines,
                                                                          .attrs = &r->types[kind == 'k' ? 2 : 1],
                                                                          .n_attrs = kind != 0});
        n_lines = 0;
    }
    *ret_n = n;
    return 0;
}

static int read_lines(struct folded_reader *r, struct str text, struct err *e)
{
    for (unsigned long number = 1; text.n; number++) {
        struct str line = str_cut(&text, '\n'), stack;
        int64_t value;
        uint32_t n;
        int rc = split_line(line, &stack, &value);

        if (rc == 1)
            continue;
        if (rc < 0)
            return err_set(e, rc, "folded stacks: line %lu is not FRAME;FRAME... NUMBER: %.*s", number,
                           (int) MIN(line.n, 100u), line.p);
        rc = read_stack(r, stack, &n);
        if (rc < 0)
            return err_set(e, rc, "folded stacks: line %lu: more than %d frames", number, FRAMES_MAX);
        builder_sample(
            r->b, &(struct builder_sample){.stack = builder_stack(r->b, r->stack, n), .values = &value, .n_values = 1});
        if (builder_error(r->b))
            break;
    }
    return 0;
}

int folded_decode(struct str text, const struct folded_options *opts, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct folded_reader r = {0};
    struct value_type type;
    int rc = builder_new(&(struct builder_limits){.memory = opts ? opts->memory : 0}, &b);

    if (rc < 0)
        return rc;
    r.b = b;
    builder_resource(b);
    builder_scope(b, (struct str){0}, (struct str){0});
    type = (struct value_type){builder_string(b, opts && opts->type.n ? opts->type : STR("samples")),
                               builder_string(b, opts && opts->type.n ? opts->unit : STR("count"))};
    builder_profile(b, &type, 1);
    r.types[1] = builder_attr_str(b, STR(SEMCONV_FRAME_TYPE), STR("jvm"));
    r.types[2] = builder_attr_str(b, STR(SEMCONV_FRAME_TYPE), STR("kernel"));
    rc = read_lines(&r, text, e);
    mem_free(r.lines);
    mem_free(r.stack);
    return rc < 0 ? rc : builder_finish(b, ret, e);
}

/* --- writing --- */

struct folded_line {
    size_t at; /* offset of its text in the pool */
    uint32_t n;
    int64_t value;
};

struct folded_writer {
    const struct batch *b;
    struct buf pool; /* texts of all lines */
    struct folded_line *lines;
    size_t n_lines, cap_lines;
    struct map map;
    bool annotate;
};

static void put_frame(struct folded_writer *w, uint32_t location, uint32_t line)
{
    size_t start = w->pool.n;
    struct str type;

    frame_name(w->b, location, line, &w->pool);
    for (size_t i = start; i < w->pool.n; i++) {
        if (w->pool.p[i] == ';')
            w->pool.p[i] = ':';
        else if (w->pool.p[i] == '\n' || w->pool.p[i] == '\r')
            w->pool.p[i] = ' ';
    }
    if (!w->annotate)
        return;
    type = frame_type(w->b, location);
    if (str_is(type, "kernel"))
        buf_puts(&w->pool, "_[k]");
    else if (line + 1 < w->b->dict.locations[location].lines.n)
        buf_puts(&w->pool, "_[i]");
    else if (str_is(type, "jvm"))
        buf_puts(&w->pool, "_[j]");
}

/* Appends the stack to the pool, from the root to the leaf. */
static void put_stack(struct folded_writer *w, struct run stack)
{
    const struct dict *d = &w->b->dict;
    bool first = true;

    for (uint32_t i = stack.n; i > 0; i--) {
        uint32_t location = d->indices[stack.off + i - 1];

        for (uint32_t k = frame_count(&d->locations[location]); k > 0; k--) {
            if (!first)
                buf_putc(&w->pool, ';');
            first = false;
            put_frame(w, location, k - 1);
        }
    }
    if (first)
        buf_puts(&w->pool, "[empty]");
}

static struct str line_text(const struct folded_writer *w, const struct folded_line *l)
{
    return (struct str){w->pool.p + l->at, l->n};
}

/* Adds to the line with this stack; its text is removed from the pool again if it was already there. */
static int add_sample(struct folded_writer *w, struct run stack, int64_t value)
{
    struct folded_line l = {.at = w->pool.n, .value = value};
    uint64_t h;
    int r;

    put_stack(w, stack);
    if (buf_error(&w->pool))
        return buf_error(&w->pool);
    l.n = (uint32_t) (w->pool.n - l.at);
    h = hash64_str(line_text(w, &l));
    for (struct map_pos p = map_find(&w->map, h); p.index != MAP_NONE; p = map_next(&w->map, p))
        if (str_eq(line_text(w, &w->lines[p.index]), line_text(w, &l))) {
            wrap_inc(&w->lines[p.index].value, value);
            w->pool.n = l.at;
            return 0;
        }
    r = array_reserve(w->lines, w->cap_lines, w->n_lines + 1, UINT32_MAX);
    if (r == 0)
        r = map_insert(&w->map, h, (uint32_t) w->n_lines);
    if (r == 0)
        w->lines[w->n_lines++] = l;
    return r;
}

static int by_text(const void *a, const void *b, void *w)
{
    return str_cmp(line_text(w, a), line_text(w, b));
}

int folded_encode(const struct batch *b, const struct profile *p, uint32_t type, bool annotate, struct buf *out,
                  struct err *e)
{
    struct folded_writer w = {.b = b, .annotate = annotate, .map = MAP_INIT};
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < p->samples.n; i++) {
        const struct sample *s = &b->samples[p->samples.off + i];

        r = add_sample(&w, b->dict.stacks[s->stack], batch_sample_value(b, p, s, type));
    }
    if (r == 0 && w.n_lines)
        qsort_r(w.lines, w.n_lines, sizeof *w.lines, by_text, &w);
    for (size_t i = 0; r == 0 && i < w.n_lines; i++)
        if (w.lines[i].value) {
            buf_put_str(out, line_text(&w, &w.lines[i]));
            buf_printf(out, " %" PRId64 "\n", w.lines[i].value);
        }
    buf_done(&w.pool);
    mem_free(w.lines);
    map_done(&w.map);
    if (r == 0)
        r = buf_error(out);
    return r < 0 ? err_set(e, r, "cannot write folded stacks: %m") : 0;
}
