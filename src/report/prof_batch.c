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
#include "model/builder.h"
#include "model/identity.h"
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
        int64_t r =
            prof_add_mapping(rd->p, &(struct prof_mapping){
                                        m->start,
                                        m->limit,
                                        m->offset,
                                        rd->strings[m->filename],
                                        strtab_id(&rd->p->pool->strings, identity_build_id(rd->b, (uint32_t) i)),
                                        batch_attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_FUNCTIONS)),
                                        batch_attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_FILENAMES)),
                                        batch_attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_LINE_NUMBERS)),
                                        batch_attr_true(rd->b, a, STR(SEMCONV_PPROF_HAS_INLINE_FRAMES)),
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
                                                 batch_attr_true(rd->b, l->attrs, STR(SEMCONV_PPROF_IS_FOLDED))};
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
    struct builder *b;
    struct run *sets; /* per label set */
    uint32_t *attrs;  /* of the label set or entry being written */
    size_t n_attrs, cap_attrs;
};

static uint32_t out_string(struct prof_writer *w, uint32_t id)
{
    return builder_string(w->b, prof_str(w->p, id));
}

static int out_attr(struct prof_writer *w, uint32_t attr)
{
    return array_push(w->attrs, w->n_attrs, w->cap_attrs, UINT32_MAX, attr);
}

/* Adds an attribute whose value is the string id, unless it is empty. */
static int out_text(struct prof_writer *w, struct str key, uint32_t id)
{
    return id ? out_attr(w, builder_attr_str(w->b, key, prof_str(w->p, id))) : 0;
}

static int out_flag(struct prof_writer *w, struct str key, bool flag)
{
    return flag ? out_attr(w, builder_attr_bool(w->b, key, true)) : 0;
}

static int out_label_sets(struct prof_writer *w)
{
    const struct prof *p = w->p;
    int r = 0;

    w->sets = mem_zalloc_array(p->n_label_sets, sizeof(*w->sets));
    if (!w->sets)
        return -ENOMEM;
    for (size_t i = 1; i < p->n_label_sets; i++) {
        const struct prof_labels *s = &p->label_sets[i];

        w->n_attrs = 0;
        for (uint32_t k = 0; r >= 0 && k < s->n_str + s->n_num; k++) {
            const struct prof_label *l = &p->labels[s->off + k];

            r = out_attr(w, k < s->n_str ? builder_attr_str(w->b, prof_str(p, l->key), prof_str(p, l->str))
                                         : builder_attr_int(w->b, prof_str(p, l->key), l->num, prof_str(p, l->unit)));
        }
        w->sets[i] = builder_attrs(w->b, w->attrs, (uint32_t) w->n_attrs);
    }
    return r;
}

static int out_mappings(struct prof_writer *w)
{
    for (size_t i = 1; i < w->p->n_mappings; i++) {
        const struct prof_mapping *m = &w->p->mappings[i];
        struct mapping out = {m->start, m->limit, m->offset, out_string(w, m->file), {0}};

        w->n_attrs = 0;
        if (out_text(w, identity_build_id_key(prof_str(w->p, m->build_id)), m->build_id) < 0 ||
            out_flag(w, STR(SEMCONV_PPROF_HAS_FUNCTIONS), m->has_functions) < 0 ||
            out_flag(w, STR(SEMCONV_PPROF_HAS_FILENAMES), m->has_filenames) < 0 ||
            out_flag(w, STR(SEMCONV_PPROF_HAS_LINE_NUMBERS), m->has_line_numbers) < 0 ||
            out_flag(w, STR(SEMCONV_PPROF_HAS_INLINE_FRAMES), m->has_inline_frames) < 0)
            return -ENOMEM;
        builder_mapping(w->b, &out, w->attrs, (uint32_t) w->n_attrs);
    }
    return 0;
}

static void out_locations(struct prof_writer *w)
{
    const struct prof *p = w->p;

    for (size_t i = 1; i < p->n_functions; i++) {
        const struct prof_function *f = &p->functions[i];

        builder_function(w->b, &(struct function){out_string(w, f->name), out_string(w, f->system_name),
                                                  out_string(w, f->filename), f->start_line});
    }
    for (size_t i = 1; i < p->n_locations; i++) {
        const struct prof_location *l = &p->locations[i];
        uint32_t folded = l->is_folded ? builder_attr_bool(w->b, STR(SEMCONV_PPROF_IS_FOLDED), true) : 0;

        builder_location(w->b, &(struct builder_location){.mapping = l->mapping,
                                                          .address = l->address,
                                                          .lines = l->lines.n ? p->lines + l->lines.off : NULL,
                                                          .n_lines = l->lines.n,
                                                          .attrs = &folded,
                                                          .n_attrs = l->is_folded});
    }
}

static int out_comments(struct prof_writer *w)
{
    const struct prof *p = w->p;
    _cleanup_(mem_freep) struct value *list = NULL;
    struct value all = {.kind = VALUE_ARRAY, .n = (uint32_t) p->n_comments};

    if (!p->n_comments)
        return 0;
    all.array = list = mem_zalloc_array(p->n_comments, sizeof(*list));
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_comments; i++) {
        struct str s = prof_str(p, p->comments[i]);

        list[i] = (struct value){.kind = VALUE_STR, .n = s.n, .str = s.p};
    }
    return out_attr(w, builder_attr(w->b, builder_string(w->b, STR(SEMCONV_PPROF_COMMENT)), 0, &all));
}

static int out_header(struct prof_writer *w)
{
    const struct prof *p = w->p;
    struct value_type types[PROFILE_TYPES_MAX],
        period = {out_string(w, p->period_type.type), out_string(w, p->period_type.unit)};
    uint32_t default_type = 0;
    struct profile *out;
    struct run attrs;

    for (uint32_t i = 0; i < p->n_types; i++) {
        types[i] = (struct value_type){out_string(w, p->types[i].type), out_string(w, p->types[i].unit)};
        if (p->default_type && p->types[i].type == p->default_type && !default_type)
            default_type = i + 1;
    }
    w->n_attrs = 0;
    if (out_comments(w) < 0 || out_text(w, STR(SEMCONV_PPROF_DROP_FRAMES), p->drop_frames) < 0 ||
        out_text(w, STR(SEMCONV_PPROF_KEEP_FRAMES), p->keep_frames) < 0 ||
        out_text(w, STR(SEMCONV_PPROF_DOC_URL), p->doc_url) < 0 ||
        out_text(w, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE), default_type ? 0 : p->default_type) < 0)
        return -ENOMEM;
    attrs = builder_attrs(w->b, w->attrs, (uint32_t) w->n_attrs);
    out = builder_profile(w->b, types, p->n_types);
    if (!out)
        return builder_error(w->b);
    out->default_type = default_type;
    out->period_type = period;
    out->period = p->period;
    out->time_ns = p->time_ns;
    out->duration_ns = p->duration_ns;
    out->attrs = attrs;
    return 0;
}

static void out_samples(struct prof_writer *w)
{
    const struct prof *p = w->p;

    builder_reserve_samples(w->b, (uint32_t) p->n_samples);
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct prof_sample *s = &p->samples[i];

        builder_sample(w->b,
                       &(struct builder_sample){.stack = builder_stack(w->b, prof_sample_frames(p, s), s->frames.n),
                                                .attrs = w->sets[s->labels],
                                                .values = prof_sample_values(p, s),
                                                .n_values = p->n_types});
    }
}

static int out_ids(struct prof_writer *w)
{
    struct batch *b = builder_batch(w->b);
    const struct prof *p = w->p;

    if (p->mapping_ids && !(b->mapping_ids = arena_dup(&b->arena, p->mapping_ids, p->n_mappings * sizeof(uint64_t))))
        return -ENOMEM;
    if (p->location_ids &&
        !(b->location_ids = arena_dup(&b->arena, p->location_ids, p->n_locations * sizeof(uint64_t))))
        return -ENOMEM;
    return 0;
}

static void writer_done(struct prof_writer *w)
{
    mem_free(w->attrs);
    mem_free(w->sets);
    builder_free(w->b);
}

int prof_to_batch(const struct prof *p, struct batch **ret, struct err *e)
{
    _cleanup_(writer_done) struct prof_writer w = {.p = p};
    struct dict room = {.n_functions = (uint32_t) p->n_functions,
                        .n_locations = (uint32_t) p->n_locations,
                        .n_lines = (uint32_t) p->n_lines,
                        .n_stacks = (uint32_t) p->n_samples};
    int r = builder_new(&(struct builder_limits){.every_entry = true}, &w.b);

    for (size_t i = 0; i < p->n_samples; i++)
        room.n_indices += p->samples[i].frames.n;
    if (r >= 0) {
        builder_reserve(w.b, &room);
        r = out_label_sets(&w);
    }
    if (r >= 0)
        r = out_mappings(&w);
    if (r < 0)
        return err_set(e, r, "not enough memory to write the profile");
    out_locations(&w);
    r = out_header(&w);
    if (r >= 0)
        out_samples(&w);
    if (r >= 0)
        r = out_ids(&w);
    if (r < 0)
        return err_set(e, r, "not enough memory to write the profile");
    return builder_finish(w.b, ret, e);
}
