/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns sums into batches and pprof files (profile.h). OTLP has ELF addresses and cpu/nanoseconds only; pprof has
 * run-time addresses with mappings, Go's pair samples,cpu, and links as labels.
 */
#include "sdk/profile.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/compress.h"
#include "base/mem.h"
#include "codec/pprof.h"
#include "demangle/demangle.h"
#include "model/builder.h"
#include "model/semconv.h"
#include "sdk/ext_frames.h"
#include "sdk/frame_table.h"
#include "sdk/heap_unseen.h"
#include "sdk/heap_view.h"
#include "sdk/start.h"
#include "sdk/modules.h"
#include "sdk/span.h"

enum {
    LINES_MAX = 64, /* maximum number of inlined calls at one address */
    LINE_ROUNDS = 3
};

struct profile_maker {
    struct builder *b;
    bool pprof, lines;
    const struct profile_resource *resource; /* NULL for pprof, as is the scope */
    const struct profile_scope *scope;
    uint32_t *locations; /* by frame; 0 = not created yet */
    uint32_t *mappings;  /* by file */
    struct buf text;
    uint32_t stack[CORE_DEPTH_MAX + 2];
};

static const struct {
    const char *types[5][2];
    uint32_t n, n_otlp; /* OTLP leaves out the first n - n_otlp types */
    const char *period[2];
} kinds[N_KINDS] = {
    [TYPE_CPU] = {{{"samples", "count"}, {"cpu", "nanoseconds"}}, 2, 1, {"cpu", "nanoseconds"}},
    [TYPE_WALL] = {{{"samples", "count"}, {"wall", "nanoseconds"}}, 2, 1, {"wall", "nanoseconds"}},
    [TYPE_HEAP] =
        {{{"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}, {"peak_space", "bytes"}},
         4,
         4,
         {"space", "bytes"}},
    [TYPE_LOCK] = {{{"contentions", "count"}, {"delay", "nanoseconds"}}, 2, 2, {"contentions", "count"}},
    [TYPE_GOROUTINE] = {{{"goroutine", "count"}}, 1, 1, {"goroutine", "count"}},
    [TYPE_THREADCREATE] = {{{"threadcreate", "count"}}, 1, 1, {"threadcreate", "count"}},
};

/* --- dictionary --- */
static uint32_t make_mapping(struct profile_maker *m, uint32_t file)
{
    const struct module_file *f = modules_file(file);
    char id[2 * BUILD_ID_MAX];
    struct mapping map = {0};
    uint32_t attrs[5], n = 0;

    if (!f || !f->path)
        return 0;
    hex_write(id, f->build_id, f->build_id_n);
    if (f->build_id_n)
        attrs[n++] = builder_attr_str(m->b, STR(SEMCONV_BUILD_ID_GNU), (struct str){id, 2 * f->build_id_n});
    if (m->pprof) {
        map = (struct mapping){.start = f->lo & ~0xfffull, .limit = f->hi, .offset = f->offset & ~0xfffull};
        attrs[n++] = builder_attr_bool(m->b, STR(SEMCONV_PPROF_HAS_FUNCTIONS), true);
        if (m->lines) {
            attrs[n++] = builder_attr_bool(m->b, STR(SEMCONV_PPROF_HAS_FILENAMES), true);
            attrs[n++] = builder_attr_bool(m->b, STR(SEMCONV_PPROF_HAS_LINE_NUMBERS), true);
            attrs[n++] = builder_attr_bool(m->b, STR(SEMCONV_PPROF_HAS_INLINE_FRAMES), true);
        }
    }
    map.filename = builder_string(m->b, f->memory ? STR("[vdso]") : str_from(f->path));
    return builder_mapping(m->b, &map, attrs, n);
}

static uint32_t mapping_of(struct profile_maker *m, uint32_t file)
{
    if (!m->mappings[file])
        m->mappings[file] = make_mapping(m, file);
    return m->mappings[file];
}

/* Without template arguments and parameters, as pprof shows names; returns `otherwise` if the name cannot be
 * demangled. */
static uint32_t short_name(struct profile_maker *m, struct str system, struct str otherwise)
{
    buf_reset(&m->text);
    if (demangle_function(system, DEMANGLE_SIMPLE, &m->text) == 0 && m->text.n)
        return builder_string(m->b, buf_str(&m->text));
    return builder_string(m->b, otherwise);
}

static uint32_t make_function(struct profile_maker *m, const struct sdk_frame *f)
{
    struct function fn = {.name = short_name(m, f->name, f->name), .system_name = builder_string(m->b, f->name)};

    return builder_function(m->b, &fn);
}

/* Stores the lines of a frame, at most max; returns their number. */
static uint32_t make_lines(struct profile_maker *m, const struct sdk_frame *f, struct line *ret, uint32_t max)
{
    uint32_t n = m->lines ? MIN(f->lines.n, max) : 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct frame_line *l = &f->lines.v[i];
        struct str system = l->system_name.n ? l->system_name : l->function;
        struct function fn = {.name = short_name(m, system, l->function),
                              .system_name = builder_string(m->b, system),
                              .filename = builder_string(m->b, l->file),
                              .start_line = l->start_line};

        ret[i] = (struct line){.function = builder_function(m->b, &fn), .line = l->line};
    }
    if (!n && f->name.n) {
        ret[0] = (struct line){.function = make_function(m, f)};
        n = 1;
    }
    return n;
}

static uint32_t make_external(struct profile_maker *m, const struct sdk_frame *f)
{
    const struct ext_frame *x = ext_frames_at(f->address);
    struct function fn = {.name =
                              builder_string(m->b, x->line.function), /* pprof would demangle a system name: <module> */
                          .filename = builder_string(m->b, x->line.file),
                          .start_line = x->line.start_line};
    struct line line = {.function = builder_function(m->b, &fn), .line = x->line.line};
    uint32_t attr = builder_attr_str(m->b, STR(SEMCONV_FRAME_TYPE), x->kind);

    return builder_location(
        m->b, &(struct builder_location){.lines = &line, .n_lines = 1, .attrs = &attr, .n_attrs = m->pprof ? 0 : 1});
}

static uint32_t make_native(struct profile_maker *m, const struct sdk_frame *f)
{
    const struct module_file *file = modules_file(f->file);
    uint64_t address = f->address + (m->pprof && f->file && file ? file->bias : 0);
    struct line lines[LINES_MAX];
    uint32_t n = make_lines(m, f, lines, LINES_MAX), attr;

    if (!f->file && n) /* "[truncated]" and its like */
        return builder_location(m->b, &(struct builder_location){.lines = lines, .n_lines = n});
    attr = builder_attr_str(m->b, STR(SEMCONV_FRAME_TYPE), STR("native"));
    return builder_location(m->b, &(struct builder_location){.mapping = mapping_of(m, f->file),
                                                             .address = address,
                                                             .lines = lines,
                                                             .n_lines = n,
                                                             .attrs = &attr,
                                                             .n_attrs = m->pprof ? 0 : 1});
}

static uint32_t make_location(struct profile_maker *m, uint32_t id)
{
    const struct sdk_frame *f = frame_at(id);

    return f->file == FRAME_EXTERNAL ? make_external(m, f) : make_native(m, f);
}

static uint32_t make_stack(struct profile_maker *m, const uint32_t *frames, uint32_t n)
{
    n = MIN(n, (uint32_t) ARRAY_SIZE(m->stack));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *l = &m->locations[frames[i]];

        if (!*l)
            *l = make_location(m, frames[i]);
        m->stack[i] = *l;
    }
    return builder_stack(m->b, m->stack, n);
}

/* --- samples --- */
static uint32_t put_hex_label(struct profile_maker *m, const char *key, const uint8_t *p, uint32_t n)
{
    char text[32];

    hex_write(text, p, n);
    return builder_attr_str(m->b, str_from(key), (struct str){text, 2 * n});
}

static struct run make_attrs(struct profile_maker *m, const struct agg *a, const struct agg_entry *e)
{
    uint32_t attrs[SPAN_ATTRS_MAX / 2 + 3], n = 0;
    const uint8_t *p = a->bytes + e->attrs;

    for (uint32_t i = 0; i + 2u <= e->attrs_n && i + 2u + p[i + 1] <= e->attrs_n; i += 2u + p[i + 1]) {
        struct str key = span_key(p[i]);

        if (key.n)
            attrs[n++] = builder_attr_str(m->b, key, (struct str){(const char *) p + i + 2, p[i + 1]});
    }
    if (m->pprof && e->flags & RECORD_LINK) {
        attrs[n++] = put_hex_label(m, "trace_id", e->trace_id, 16);
        attrs[n++] = put_hex_label(m, "span_id", e->span_id, 8);
    }
    if (!m->pprof && e->thread)
        attrs[n++] = builder_attr_int(m->b, STR(SEMCONV_THREAD_ID), e->thread, STR(""));
    return builder_attrs(m->b, attrs, n);
}

static uint32_t make_link(struct profile_maker *m, const struct agg_entry *e)
{
    struct link l;

    if (m->pprof || !(e->flags & RECORD_LINK))
        return 0;
    memcpy(l.trace_id, e->trace_id, sizeof l.trace_id);
    memcpy(l.span_id, e->span_id, sizeof l.span_id);
    return builder_link(m->b, &l);
}

/* Puts the samples of an entry whose times are known, one value for each time; returns their sum. */
static int64_t put_timed(struct profile_maker *m, const struct agg *a, const struct agg_entry *e,
                         struct builder_sample *s)
{
    uint64_t *times = mem_alloc(e->n_times * sizeof *times);
    int64_t *values = mem_alloc(e->n_times * sizeof *values), sum = 0;
    uint32_t n = e->n_times;

    for (uint32_t i = e->first_time; times && values && i; i = a->times[i - 1].next) { /* the newest is the first */
        const struct agg_time *t = &a->times[i - 1];

        times[--n] = (a->epoch_ms + (uint64_t) (int64_t) t->time_ms) * 1000000;
        values[n] = t->value;
        sum += t->value;
    }
    if (times && values) {
        s->values = values;
        s->n_values = s->n_timestamps = e->n_times;
        s->timestamps = times;
        builder_sample(m->b, s);
        s->timestamps = NULL;
        s->n_timestamps = 0;
    }
    mem_free(times);
    mem_free(values);
    return sum;
}

static void put_agg(struct profile_maker *m, const struct agg *a, uint32_t skip, uint32_t n_types)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct agg_entry *e = &a->v[i];
        int64_t left[2] = {e->value[0], e->value[1]};
        struct builder_sample s = {
            .stack = make_stack(m, a->frames + e->stack, e->n), .link = make_link(m, e), .attrs = make_attrs(m, a, e)};

        if (!m->pprof && e->n_times && n_types == 1) {
            left[1] -= put_timed(m, a, e, &s);
            if (!left[1])
                continue;
        }
        s.values = left + skip;
        s.n_values = n_types;
        builder_sample(m->b, &s);
    }
}

void profile_heap_at(const struct profile_part *part, uint32_t i, struct heap_view *ret)
{
    heap_view_at(i, part->delta, ret);
    for (int k = 0; k < 4 && i < part->n_base; k++)
        ret->v[k] -= part->base[i].v[k];
}

static void put_unseen(struct profile_maker *m, const struct profile_part *part, int64_t allocated)
{
    int64_t unseen = heap_unseen(allocated), values[5] = {0, 0, 0, unseen, unseen};
    uint32_t frame = FRAME_UNSEEN;

    if (!unseen)
        return;
    builder_sample(m->b, &(struct builder_sample){
                             .stack = make_stack(m, &frame, 1), .values = values, .n_values = part->peak ? 5 : 4});
    start_unseen(unseen);
}

static void put_heap(struct profile_maker *m, const struct profile_part *part)
{
    int64_t allocated = 0;

    for (uint32_t i = 0, n = heap_view_count(); i < n; i++) {
        struct heap_view v;

        heap_view_at(i, 0, &v);
        allocated += v.v[1];
        profile_heap_at(part, i, &v);
        if (v.v[0] | v.v[1] | v.v[2] | v.v[3])
            builder_sample(m->b, &(struct builder_sample){
                                     .stack = make_stack(m, v.frames, v.n), .values = v.v, .n_values = part->peak ? 5 : 4});
    }
    if (!part->n_base)
        put_unseen(m, part, allocated);
}

static void put_part(struct profile_maker *m, const struct profile_part *part)
{
    uint32_t n = m->pprof ? kinds[part->type].n : kinds[part->type].n_otlp, skip = kinds[part->type].n - n;
    const char *const *period = kinds[part->type].period;
    struct value_type types[5];
    struct profile *p;

    n += part->peak;
    for (uint32_t i = 0; i < n; i++)
        types[i] = (struct value_type){builder_string(m->b, str_from(kinds[part->type].types[skip + i][0])),
                                       builder_string(m->b, str_from(kinds[part->type].types[skip + i][1]))};
    p = builder_profile(m->b, types, n);
    if (p) {
        p->period = part->period;
        p->time_ns = part->type == TYPE_HEAP ? part->time_ns : MIN(part->time_ns, agg_earliest(part->agg));
        p->duration_ns =
            part->duration_ns + part->time_ns - p->time_ns; /* a sample may be drained after its interval */
        p->default_type = part->type == TYPE_HEAP ? 4 : 0;
        p->period_type =
            (struct value_type){builder_string(m->b, str_from(period[0])), builder_string(m->b, str_from(period[1]))};
    }
    if (part->type == TYPE_HEAP)
        put_heap(m, part);
    else
        put_agg(m, part->agg, skip, n);
}

/* --- the whole profile --- */
/* While this waits for lines, samples are drained into the same sums and their frames may move, so the query uses a
 * copy. Returns the number of frames asked about. */
static uint32_t find_lines(const struct profile_part *part, const uint32_t *frames, uint32_t n)
{
    uint32_t *copy = mem_alloc(MAX(n, 1u) * sizeof *copy);
    uint32_t asked = 0;

    if (copy) {
        memcpy(copy, frames, n * sizeof *copy);
        asked = frames_find_lines(copy, n, part->lines_until, part->pump);
    }
    mem_free(copy);
    return asked;
}

static const uint32_t *frames_of(const struct profile_part *part, uint32_t *ret_n)
{
    if (part->type == TYPE_HEAP)
        return heap_view_frames(ret_n);
    *ret_n = (uint32_t) part->agg->n_frames;
    return part->agg->frames;
}

static void name_heap(void)
{
    for (uint32_t i = 0, n = heap_view_count(); i < n; i++) {
        struct heap_view v;

        heap_view_at(i, 0, &v);
        for (uint32_t k = 0; k < v.n; k++)
            if (!frame_at(v.frames[k])->asked) {
                frames_name(v.frames, v.n);
                break;
            }
    }
}

static void name_part(const struct profile_part *part)
{
    uint32_t n;
    const uint32_t *frames = frames_of(part, &n);

    if (part->type == TYPE_HEAP)
        name_heap();
    else
        frames_name(frames, n);
}

/* Returns the number of frames asked about. */
static uint32_t find_lines_of_parts(const struct profile_part *parts, uint32_t n_parts)
{
    uint32_t asked = 0;

    for (uint32_t i = 0; i < n_parts; i++) {
        uint32_t n;
        const uint32_t *frames = frames_of(&parts[i], &n);

        if (parts[i].lines_until > clock_mono())
            asked += find_lines(&parts[i], frames, n);
    }
    return asked;
}

void profile_name_parts(const struct profile_part *parts, uint32_t n_parts)
{
    /* Samples that arrived in the meantime have frames of their own; a second answer takes much less time. */
    for (uint32_t i = 0; i < LINE_ROUNDS && find_lines_of_parts(parts, n_parts); i++)
        ;
    for (uint32_t i = 0; i < n_parts; i++)
        name_part(&parts[i]);
}

static void put_resource(struct profile_maker *m, const struct profile_resource *r)
{
    builder_resource(m->b);
    if (!r)
        return;
    builder_resource_attr_str(m->b, STR(SEMCONV_SERVICE_NAME), r->name);
    if (r->version.n)
        builder_resource_attr_str(m->b, STR(SEMCONV_SERVICE_VERSION), r->version);
    for (uint32_t i = 0; i < r->n_attrs; i++)
        builder_resource_attr(m->b, r->attrs[i].key, &r->attrs[i].value);
}

static void put_scope(struct profile_maker *m, const struct profile_scope *s)
{
    const struct {
        struct str key;
        int64_t v;
    } attrs[] = {{STR(SEMCONV_WICK_RATE), s ? s->rate : 0},
                 {STR(SEMCONV_WICK_LOST), s ? s->lost : 0},
                 {STR(SEMCONV_WICK_CPU_NS), s ? s->cpu_ns : 0},
                 {STR(SEMCONV_WICK_GOVERNOR), s ? s->governor : 0}};

    builder_scope(m->b, STR("wick"), STR(WICK_VERSION));
    for (size_t i = 0; s && i < ARRAY_SIZE(attrs); i++) {
        struct value v = {.kind = VALUE_INT, .integer = attrs[i].v};

        builder_scope_attr(m->b, attrs[i].key, &v);
    }
}

static int make(struct profile_maker *m, const struct profile_part *parts, uint32_t n, struct batch **ret,
                struct err *e)
{
    int r = builder_new(NULL, &m->b);

    if (r < 0)
        return err_set(e, r, "out of memory for a profile");
    m->lines = !m->pprof || (n && parts[0].lines_until);
    m->locations = mem_zalloc_array(frames_count() + 1ul, sizeof *m->locations);
    m->mappings = mem_zalloc_array(modules_files() + 1ul, sizeof *m->mappings);
    if (!m->locations || !m->mappings) {
        r = err_set(e, -ENOMEM, "out of memory for a profile");
    } else {
        put_resource(m, m->resource);
        put_scope(m, m->scope);
        if (m->pprof && modules_files() > 1)
            mapping_of(m, 1); /* the program itself: pprof assumes that the first mapping is the program */
        for (uint32_t i = 0; i < n; i++)
            put_part(m, &parts[i]);
        r = builder_finish(m->b, ret, e);
    }
    buf_done(&m->text);
    mem_free(m->locations);
    mem_free(m->mappings);
    builder_free(m->b);
    return r;
}

int profile_make(const struct profile_part *parts, uint32_t n, const struct profile_resource *resource,
                 const struct profile_scope *scope, struct batch **ret, struct err *e)
{
    struct profile_maker m = {.resource = resource, .scope = scope};

    return make(&m, parts, n, ret, e);
}

int profile_make_pprof(const struct profile_part *part, struct buf *out, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(buf_done) struct buf plain = BUF_INIT;
    struct profile_maker m = {.pprof = true};
    int r;

    profile_name_parts(part, 1);
    r = make(&m, part, 1, &b, e);
    if (r == 0)
        r = pprof_encode(b, &b->profiles[0], &plain, e);
    if (r == 0)
        r = compress_deflate(COMPRESS_GZIP, 0, plain.p, plain.n, out, e);
    return r;
}
