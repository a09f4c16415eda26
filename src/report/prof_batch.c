/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts between struct prof and struct batch. Pools are borrowed from the batch where their shape is the same
 * (stacks' frames, lines, values), so a large profile is not held twice.
 *
 * Attributes for what pprof has and OTLP does not: pprof.profile.{comment,drop_frames,keep_frames,doc_url},
 * pprof.scope.default_sample_type, pprof.mapping.{has_functions,has_filenames,has_line_numbers,has_inline_frames},
 * pprof.location.is_folded.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/semconv.h"
#include "report/prof.h"

struct prof_reader {
    struct prof *p;
    const struct batch *b;
    uint32_t *strings; /* batch string -> pool string */
    struct map sets;   /* attribute run -> label set, by entries of `seen` */
    struct seen {
        struct run run;
        uint32_t set;
    } * seen;
    size_t n_seen, cap_seen;
    struct prof_label *scratch;
    size_t cap_scratch;
};

static bool attr_true(const struct batch *b, struct run attrs, struct str key)
{
    const struct attr *a = attrs.n ? batch_attr(b, attrs, key) : NULL;

    return a && a->value.kind == VALUE_BOOL && a->value.boolean;
}

static struct str build_id(const struct batch *b, struct run attrs)
{
    static const struct str keys[] = {STR(SEMCONV_BUILD_ID_GNU), STR(SEMCONV_BUILD_ID_GO),
                                      STR(SEMCONV_BUILD_ID_HTLHASH)};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct attr *a = attrs.n ? batch_attr(b, attrs, keys[i]) : NULL;

        if (a && a->value.kind == VALUE_STR)
            return value_str(&a->value);
    }
    return (struct str){0};
}

static int copy_ids(uint64_t **ret, const uint64_t *ids, size_t n)
{
    if (!ids)
        return 0;
    *ret = mem_dup(ids, n * sizeof(*ids));
    return *ret ? 0 : -ENOMEM;
}

static int read_mappings(struct prof_reader *rd)
{
    const struct dict *d = &rd->b->dict;

    for (size_t i = 1; i < d->n_mappings; i++) {
        const struct mapping *m = &d->mappings[i];
        struct run a = m->attrs;
        int64_t r = prof_add_mapping(rd->p, &(struct prof_mapping){
                                                m->start,
                                                m->limit,
                                                m->offset,
                                                rd->strings[m->filename],
                                                strtab_id(&rd->p->pool->strings, build_id(rd->b, a)),
                                                attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_FUNCTIONS)),
                                                attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_FILENAMES)),
                                                attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_LINE_NUMBERS)),
                                                attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_INLINE_FRAMES)),
                                            });

        if (r < 0)
            return (int) r;
    }
    return copy_ids(&rd->p->mapping_ids, rd->b->mapping_ids, d->n_mappings);
}

static int read_locations(struct prof_reader *rd)
{
    const struct dict *d = &rd->b->dict;
    struct prof *p = rd->p;

    mem_free(p->locations);
    p->cap_locations = d->n_locations;
    p->locations = mem_zalloc_array(d->n_locations, sizeof(*p->locations));
    mem_free(p->functions);
    p->cap_functions = d->n_functions;
    p->functions = mem_zalloc_array(d->n_functions, sizeof(*p->functions));
    if (!p->locations || !p->functions)
        return -ENOMEM;
    p->n_locations = d->n_locations;
    p->n_functions = d->n_functions;
    for (size_t i = 1; i < d->n_locations; i++) {
        const struct location *l = &d->locations[i];

        p->locations[i] = (struct prof_location){l->address, l->mapping, l->lines,
                                                 attr_true(rd->b, l->attrs, STR(SEMCONV_PPROF_IS_FOLDED))};
    }
    for (size_t i = 1; i < d->n_functions; i++) {
        const struct function *f = &d->functions[i];

        p->functions[i] = (struct prof_function){rd->strings[f->name], rd->strings[f->system_name],
                                                 rd->strings[f->filename], f->start_line};
    }
    p->lines = d->lines;
    p->n_lines = d->n_lines;
    p->frames = d->indices;
    p->n_frames = d->n_indices;
    return copy_ids(&p->location_ids, rd->b->location_ids, d->n_locations);
}

struct label_order {
    struct prof_label label;
    uint32_t position;
    bool numeric;
};

static int by_key(const void *a, const void *b, void *pool)
{
    const struct label_order *x = a, *y = b;
    const struct strtab *t = pool;

    if (x->numeric != y->numeric)
        return x->numeric - y->numeric;
    if (x->label.key != y->label.key)
        return str_cmp(strtab_get(t, x->label.key), strtab_get(t, y->label.key));
    return x->position < y->position ? -1 : 1;
}

static uint32_t value_text(struct prof_reader *rd, const struct value *v)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    if (v->kind == VALUE_STR)
        return strtab_id(&rd->p->pool->strings, value_str(v));
    value_print(&text, v);
    return strtab_copy(&rd->p->pool->strings, buf_str(&text));
}

static int64_t make_label_set(struct prof_reader *rd, struct run attrs)
{
    _cleanup_(mem_freep) struct label_order *order = mem_zalloc_array(attrs.n, sizeof(*order));
    const struct dict *d = &rd->b->dict;
    uint32_t n = 0, n_num = 0;

    if (!order || array_reserve(rd->scratch, rd->cap_scratch, attrs.n, 1u << 24) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < attrs.n; i++) {
        const struct attr *a = &d->attrs[d->indices[attrs.off + i]];
        struct label_order *o = &order[n];

        *o = (struct label_order){.label = {.key = rd->strings[a->key]}, .position = i};
        if (a->value.kind == VALUE_INT) {
            if (!a->value.integer && !a->unit)
                continue; /* pprof does not distinguish it from an absent one */
            o->numeric = true;
            o->label.num = a->value.integer;
            o->label.unit = rd->strings[a->unit];
            n_num++;
        } else {
            o->label.str = value_text(rd, &a->value);
        }
        n++;
    }
    qsort_r(order, n, sizeof(*order), by_key, &rd->p->pool->strings);
    for (uint32_t i = 0; i < n; i++)
        rd->scratch[i] = order[i].label;
    return prof_add_labels(rd->p, rd->scratch, n - n_num, n_num);
}

/* Batches intern attribute runs, so equal runs are looked up, not read again. */
static int64_t label_set(struct prof_reader *rd, struct run attrs)
{
    uint64_t h = hash64_u64(((uint64_t) attrs.off << 32) | attrs.n);
    int64_t set;
    int r;

    if (!attrs.n)
        return 0;
    for (struct map_pos q = map_find(&rd->sets, h); q.index != MAP_NONE; q = map_next(&rd->sets, q))
        if (rd->seen[q.index].run.off == attrs.off && rd->seen[q.index].run.n == attrs.n)
            return rd->seen[q.index].set;
    set = make_label_set(rd, attrs);
    if (set < 0)
        return set;
    r = array_reserve(rd->seen, rd->cap_seen, rd->n_seen + 1, 1u << 30);
    if (r >= 0)
        r = map_insert(&rd->sets, h, (uint32_t) rd->n_seen);
    if (r < 0)
        return r;
    rd->seen[rd->n_seen++] = (struct seen){attrs, (uint32_t) set};
    return set;
}

static int read_samples(struct prof_reader *rd, const struct profile *from)
{
    const struct batch *b = rd->b;
    struct prof *p = rd->p;
    bool borrow = true;

    p->samples = mem_zalloc_array(from->samples.n ? from->samples.n : 1, sizeof(*p->samples));
    p->cap_samples = from->samples.n ? from->samples.n : 1;
    if (!p->samples)
        return -ENOMEM;
    for (uint32_t i = 0; i < from->samples.n; i++)
        borrow &= b->samples[from->samples.off + i].values.n == p->n_types;
    if (borrow) {
        p->values = b->values;
        p->n_values = b->n_values;
    }
    for (uint32_t i = 0; i < from->samples.n; i++) {
        const struct sample *s = &b->samples[from->samples.off + i];
        struct prof_sample *to = &p->samples[p->n_samples++];
        int64_t set = label_set(rd, s->attrs), off = s->values.off;

        if (!borrow) {
            int64_t sums[PROFILE_TYPES_MAX];

            for (uint32_t k = 0; k < p->n_types; k++)
                sums[k] = batch_sample_value(b, from, s, k);
            off = prof_add_values(p, sums, p->n_types);
        }
        if (set < 0 || off < 0)
            return -ENOMEM;
        *to = (struct prof_sample){b->dict.stacks[s->stack], (uint32_t) set, (uint32_t) off};
    }
    return 0;
}

static int read_header(struct prof_reader *rd, const struct profile *from)
{
    const struct batch *b = rd->b;
    struct prof *p = rd->p;

    for (uint32_t i = 0; i < from->n_types && i < PROFILE_TYPES_MAX; i++)
        p->types[p->n_types++] = (struct prof_type){rd->strings[from->types[i].type], rd->strings[from->types[i].unit]};
    if (from->default_type && from->default_type <= p->n_types)
        p->default_type = p->types[from->default_type - 1].type;
    p->period_type = (struct prof_type){rd->strings[from->period_type.type], rd->strings[from->period_type.unit]};
    p->period = from->period;
    p->time_ns = from->time_ns;
    p->duration_ns = from->duration_ns;
    for (uint32_t i = 0; i < from->attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[from->attrs.off + i]];
        struct str key = batch_string(b, a->key);
        uint32_t v;

        if (!str_starts(key, STR("pprof.")))
            continue;
        if (str_eq(key, STR(SEMCONV_PPROF_COMMENT)) && a->value.kind == VALUE_ARRAY) {
            for (uint32_t k = 0; k < a->value.n; k++)
                if (prof_add_comment(p, value_text(rd, &a->value.array[k])) < 0)
                    return -ENOMEM;
            continue;
        }
        v = value_text(rd, &a->value);
        if (str_eq(key, STR(SEMCONV_PPROF_COMMENT))) {
            if (prof_add_comment(p, v) < 0)
                return -ENOMEM;
        } else if (str_eq(key, STR(SEMCONV_PPROF_DROP_FRAMES))) {
            p->drop_frames = v;
        } else if (str_eq(key, STR(SEMCONV_PPROF_KEEP_FRAMES))) {
            p->keep_frames = v;
        } else if (str_eq(key, STR(SEMCONV_PPROF_DOC_URL))) {
            p->doc_url = v;
        } else if (str_eq(key, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE)) && !p->default_type) {
            p->default_type = v;
        }
    }
    return 0;
}

static void reader_done(struct prof_reader *rd)
{
    mem_free(rd->strings);
    mem_free(rd->seen);
    mem_free(rd->scratch);
    map_done(&rd->sets);
    prof_free(rd->p);
}

int prof_from_batch(struct prof_pool *pool, struct batch *b, const struct profile *from, struct prof **ret,
                    struct err *e)
{
    _cleanup_(reader_done) struct prof_reader rd = {.b = b};
    unsigned long failures = mem_failures();
    int r = prof_new(pool, &rd.p);

    if (r >= 0)
        r = array_push(pool->batches, pool->n_batches, pool->cap_batches, PROF_BATCHES_MAX, b);
    if (r < 0)
        return err_set(e, r, "too many profiles, or not enough memory for one more");
    batch_ref(b);
    rd.strings = mem_alloc(b->dict.n_strings * sizeof(*rd.strings));
    if (!rd.strings)
        return -ENOMEM;
    map_reserve(&pool->strings.map, (uint32_t) pool->strings.n + b->dict.n_strings);
    for (size_t i = 0; i < b->dict.n_strings; i++)
        rd.strings[i] = strtab_id(&pool->strings, b->dict.strings[i]);
    r = read_mappings(&rd);
    if (r >= 0)
        r = read_locations(&rd);
    if (r >= 0)
        r = read_header(&rd, from);
    if (r >= 0)
        r = read_samples(&rd, from);
    if (r >= 0)
        r = strtab_error(&pool->strings);
    if (r >= 0 && mem_failures() != failures)
        r = -ENOMEM;
    if (r < 0)
        return err_set(e, r, "not enough memory for the profile");
    *ret = TAKE(rd.p);
    return 0;
}

/* --- to a batch --- */

struct prof_writer {
    const struct prof *p;
    struct batch *b;
    size_t cap_attrs, cap_indices, cap_strings;
    struct attr *attrs;
    uint32_t *indices;
    struct str *strings;
    size_t n_attrs, n_indices, n_strings;
    struct run *sets; /* per label set */
    uint32_t keys;    /* batch string of the first attribute key */
};

enum { OUT_MAX = 1u << 31 };

static uint32_t out_string(struct prof_writer *w, struct str s)
{
    if (array_reserve(w->strings, w->cap_strings, w->n_strings + 1, OUT_MAX) < 0)
        return 0;
    w->strings[w->n_strings] = s;
    return (uint32_t) w->n_strings++;
}

static int out_index(struct prof_writer *w, uint32_t v)
{
    if (array_push(w->indices, w->n_indices, w->cap_indices, OUT_MAX, v) < 0)
        return -ENOMEM;
    return 0;
}

static int out_attr(struct prof_writer *w, uint32_t key, uint32_t unit, struct value v)
{
    if (array_reserve(w->attrs, w->cap_attrs, w->n_attrs + 1, OUT_MAX) < 0)
        return -ENOMEM;
    w->attrs[w->n_attrs] = (struct attr){key, unit, v};
    return out_index(w, (uint32_t) w->n_attrs++);
}

static struct value string_value(struct str s)
{
    return (struct value){.kind = VALUE_STR, .n = s.n, .str = s.p};
}

/* Attribute keys are appended after the pool's strings, so that ids of the pool are ids of the batch. */
static int out_named(struct prof_writer *w, struct str key, struct value v)
{
    return out_attr(w, out_string(w, key), 0, v);
}

static int out_label_sets(struct prof_writer *w)
{
    const struct prof *p = w->p;

    w->sets = mem_zalloc_array(p->n_label_sets, sizeof(*w->sets));
    if (!w->sets)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_label_sets; i++) {
        const struct prof_labels *s = &p->label_sets[i];

        w->sets[i] = (struct run){(uint32_t) w->n_indices, s->n_str + s->n_num};
        for (uint32_t k = 0; k < s->n_str + s->n_num; k++) {
            const struct prof_label *l = &p->labels[s->off + k];
            struct value v =
                k < s->n_str ? string_value(prof_str(p, l->str)) : (struct value){.kind = VALUE_INT, .integer = l->num};

            if (out_attr(w, l->key, l->unit, v) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

static int out_mappings(struct prof_writer *w)
{
    const struct prof *p = w->p;
    struct mapping *out = arena_zalloc_array(&w->b->arena, p->n_mappings, sizeof(*out));
    const struct value yes = {.kind = VALUE_BOOL, .boolean = true};

    if (!out)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_mappings; i++) {
        const struct prof_mapping *m = &p->mappings[i];
        uint32_t off = (uint32_t) w->n_indices;
        int r = 0;

        if (m->build_id)
            r |= out_named(w,
                           str_find_char(prof_str(p, m->build_id), '/') >= 0 ? STR(SEMCONV_BUILD_ID_GO)
                                                                             : STR(SEMCONV_BUILD_ID_GNU),
                           string_value(prof_str(p, m->build_id)));
        if (m->has_functions)
            r |= out_named(w, STR(SEMCONV_PPROF_HAS_FUNCTIONS), yes);
        if (m->has_filenames)
            r |= out_named(w, STR(SEMCONV_PPROF_HAS_FILENAMES), yes);
        if (m->has_line_numbers)
            r |= out_named(w, STR(SEMCONV_PPROF_HAS_LINE_NUMBERS), yes);
        if (m->has_inline_frames)
            r |= out_named(w, STR(SEMCONV_PPROF_HAS_INLINE_FRAMES), yes);
        if (r < 0)
            return -ENOMEM;
        out[i] = (struct mapping){m->start, m->limit, m->offset, m->file, {off, (uint32_t) w->n_indices - off}};
    }
    w->b->dict.mappings = out;
    w->b->dict.n_mappings = (uint32_t) p->n_mappings;
    return 0;
}

static int out_locations(struct prof_writer *w)
{
    const struct prof *p = w->p;
    struct location *out = arena_zalloc_array(&w->b->arena, p->n_locations, sizeof(*out));
    struct function *functions = arena_zalloc_array(&w->b->arena, p->n_functions, sizeof(*functions));
    struct line *lines = arena_zalloc_array(&w->b->arena, p->n_lines ? p->n_lines : 1, sizeof(*lines));
    uint32_t folded_key = out_string(w, STR(SEMCONV_PPROF_IS_FOLDED));

    if (!out || !functions || !lines)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_locations; i++) {
        const struct prof_location *l = &p->locations[i];
        uint32_t off = (uint32_t) w->n_indices;

        if (l->is_folded && out_attr(w, folded_key, 0, (struct value){.kind = VALUE_BOOL, .boolean = true}) < 0)
            return -ENOMEM;
        out[i] = (struct location){l->address, l->mapping, l->lines, {off, (uint32_t) w->n_indices - off}};
    }
    for (size_t i = 1; i < p->n_functions; i++) {
        const struct prof_function *f = &p->functions[i];

        functions[i] = (struct function){f->name, f->system_name, f->filename, f->start_line};
    }
    if (p->n_lines)
        memcpy(lines, p->lines, p->n_lines * sizeof(*lines));
    w->b->dict.locations = out;
    w->b->dict.n_locations = (uint32_t) p->n_locations;
    w->b->dict.functions = functions;
    w->b->dict.n_functions = (uint32_t) p->n_functions;
    w->b->dict.lines = lines;
    w->b->dict.n_lines = (uint32_t) p->n_lines;
    return 0;
}

static int out_samples(struct prof_writer *w)
{
    const struct prof *p = w->p;
    struct sample *out = arena_zalloc_array(&w->b->arena, p->n_samples ? p->n_samples : 1, sizeof(*out));
    struct run *stacks = arena_zalloc_array(&w->b->arena, p->n_samples + 1, sizeof(*stacks));
    int64_t *values = arena_zalloc_array(&w->b->arena, p->n_samples * p->n_types + 1, sizeof(*values));

    if (!out || !stacks || !values)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct prof_sample *s = &p->samples[i];

        stacks[i + 1] = (struct run){(uint32_t) w->n_indices, s->frames.n};
        for (uint32_t k = 0; k < s->frames.n; k++)
            if (out_index(w, p->frames[s->frames.off + k]) < 0)
                return -ENOMEM;
        memcpy(values + i * p->n_types, p->values + s->values, p->n_types * sizeof(*values));
        out[i] = (struct sample){.stack = (uint32_t) i + 1,
                                 .attrs = w->sets[s->labels],
                                 .values = {(uint32_t) (i * p->n_types), p->n_types}};
    }
    w->b->samples = out;
    w->b->n_samples = (uint32_t) p->n_samples;
    w->b->values = values;
    w->b->n_values = (uint32_t) (p->n_samples * p->n_types);
    w->b->dict.stacks = stacks;
    w->b->dict.n_stacks = (uint32_t) p->n_samples + 1;
    return 0;
}

static int out_header(struct prof_writer *w)
{
    const struct prof *p = w->p;
    struct batch *b = w->b;
    struct profile *out = arena_zalloc(&b->arena, sizeof(*out));
    struct value_type *types = arena_zalloc_array(&b->arena, p->n_types ? p->n_types : 1, sizeof(*types));
    int r = 0;

    b->resources = arena_zalloc(&b->arena, sizeof(*b->resources));
    b->scopes = arena_zalloc(&b->arena, sizeof(*b->scopes));
    if (!out || !types || !b->resources || !b->scopes)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n_types; i++) {
        types[i] = (struct value_type){p->types[i].type, p->types[i].unit};
        if (p->default_type && p->types[i].type == p->default_type && !out->default_type)
            out->default_type = i + 1;
    }
    out->types = types;
    out->n_types = p->n_types;
    out->samples = (struct run){0, (uint32_t) p->n_samples};
    out->period_type = (struct value_type){p->period_type.type, p->period_type.unit};
    out->period = p->period;
    out->time_ns = p->time_ns;
    out->duration_ns = p->duration_ns;
    out->attrs.off = (uint32_t) w->n_indices;
    if (p->n_comments) {
        struct value *list = arena_zalloc_array(&b->arena, p->n_comments, sizeof(*list));

        if (!list)
            return -ENOMEM;
        for (size_t i = 0; i < p->n_comments; i++)
            list[i] = string_value(prof_str(p, p->comments[i]));
        r |= out_named(w, STR(SEMCONV_PPROF_COMMENT),
                       (struct value){.kind = VALUE_ARRAY, .n = (uint32_t) p->n_comments, .array = list});
    }
    if (p->drop_frames)
        r |= out_named(w, STR(SEMCONV_PPROF_DROP_FRAMES), string_value(prof_str(p, p->drop_frames)));
    if (p->keep_frames)
        r |= out_named(w, STR(SEMCONV_PPROF_KEEP_FRAMES), string_value(prof_str(p, p->keep_frames)));
    if (p->doc_url)
        r |= out_named(w, STR(SEMCONV_PPROF_DOC_URL), string_value(prof_str(p, p->doc_url)));
    if (p->default_type && !out->default_type)
        r |= out_named(w, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE), string_value(prof_str(p, p->default_type)));
    out->attrs.n = (uint32_t) w->n_indices - out->attrs.off;
    b->profiles = out;
    b->resources[0].scopes = (struct run){0, 1};
    b->scopes[0].profiles = (struct run){0, 1};
    b->n_resources = b->n_scopes = b->n_profiles = 1;
    return r < 0 ? -ENOMEM : 0;
}

static int out_ids(struct prof_writer *w)
{
    const struct prof *p = w->p;
    uint64_t *mappings = NULL, *locations = NULL;

    if (p->mapping_ids) {
        mappings = arena_zalloc_array(&w->b->arena, p->n_mappings, sizeof(*mappings));
        if (!mappings)
            return -ENOMEM;
        memcpy(mappings, p->mapping_ids, p->n_mappings * sizeof(*mappings));
    }
    if (p->location_ids) {
        locations = arena_zalloc_array(&w->b->arena, p->n_locations, sizeof(*locations));
        if (!locations)
            return -ENOMEM;
        memcpy(locations, p->location_ids, p->n_locations * sizeof(*locations));
    }
    w->b->mapping_ids = mappings;
    w->b->location_ids = locations;
    return 0;
}

static void writer_done(struct prof_writer *w)
{
    mem_free(w->attrs);
    mem_free(w->indices);
    mem_free(w->strings);
    mem_free(w->sets);
    batch_unref(w->b);
}

/* Moves the tables that grew into the batch, which frees them. */
static void hand_over(struct prof_writer *w)
{
    struct dict *d = &w->b->dict;

    d->attrs = w->attrs;
    d->n_attrs = (uint32_t) w->n_attrs;
    d->indices = w->indices;
    d->n_indices = (uint32_t) w->n_indices;
    d->strings = w->strings;
    d->n_strings = (uint32_t) w->n_strings;
    w->b->owned[0] = TAKE(w->attrs);
    w->b->owned[1] = TAKE(w->indices);
    w->b->owned[2] = TAKE(w->strings);
}

int prof_to_batch(const struct prof *p, struct batch **ret, struct err *e)
{
    _cleanup_(writer_done) struct prof_writer w = {.p = p};
    const struct strtab *t = &p->pool->strings;
    int r = batch_new(0, &w.b);

    if (r >= 0)
        r = array_reserve(w.strings, w.cap_strings, t->n + 16, OUT_MAX);
    if (r >= 0)
        r = array_reserve(w.attrs, w.cap_attrs, 16, OUT_MAX);
    if (r >= 0) {
        memcpy(w.strings, t->v, t->n * sizeof(*t->v));
        w.n_strings = t->n;
        w.attrs[0] = (struct attr){0};
        w.n_attrs = 1;
        r = out_label_sets(&w);
    }
    if (r >= 0)
        r = out_mappings(&w);
    if (r >= 0)
        r = out_locations(&w);
    if (r >= 0)
        r = out_samples(&w);
    if (r >= 0)
        r = out_header(&w);
    if (r >= 0)
        r = out_ids(&w);
    if (r < 0)
        return err_set(e, r, "not enough memory to write the profile");
    hand_over(&w);
    *ret = TAKE(w.b);
    return 0;
}
