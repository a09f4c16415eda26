/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging, scaling and normalising profiles in exactly pprof's order, because -raw shows the ids that come out of it:
 * locations, functions and mappings are numbered by first use, sample by sample, source by source; the first mapping of
 * the first source that has one stays first. Samples of equal (frames, labels) add up; all-zero samples are left out.
 */
#include <errno.h>
#include <math.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "report/prof.h"
#include "report/units.h"

enum { MAPPING_ROUND = 0x1000 };

struct merger {
    struct prof *p;
    const struct prof *src;
    uint32_t *locations, *functions, *mappings; /* of src -> of p, 0 = not yet */
    int64_t *offsets;                           /* per mapping of src: what its addresses move by */
    struct map sample_map, location_map, function_map, mapping_map;
    uint32_t *frames;
    size_t cap_frames;
    struct line *lines;
    size_t cap_lines;
};

static bool zero_sample(const struct prof *p, const struct prof_sample *s)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        if (p->values[s->values + i])
            return false;
    return true;
}

static uint64_t mapping_size(const struct prof_mapping *m)
{
    uint64_t size = m->limit - m->start + MAPPING_ROUND - 1;

    return size - size % MAPPING_ROUND;
}

static int64_t map_mapping(struct merger *g, uint32_t i)
{
    const struct prof_mapping *m = &g->src->mappings[i];
    uint32_t name = m->build_id ? m->build_id : m->file;
    uint64_t h = hash_mix(hash64_u64(mapping_size(m) ^ m->offset << 20), name ^ 0x9e3779b97f4a7c15ull);
    int64_t n;

    if (!i || g->mappings[i])
        return i ? g->mappings[i] : 0;
    for (struct map_pos q = map_find(&g->mapping_map, h); q.index != MAP_NONE; q = map_next(&g->mapping_map, q)) {
        const struct prof_mapping *o = &g->p->mappings[q.index];

        if (mapping_size(o) == mapping_size(m) && o->offset == m->offset &&
            (o->build_id ? o->build_id : o->file) == name) {
            g->offsets[i] = (int64_t) (o->start - m->start);
            return g->mappings[i] = q.index;
        }
    }
    n = prof_add_mapping(g->p, m);
    if (n < 0 || map_insert(&g->mapping_map, h, (uint32_t) n) < 0)
        return -ENOMEM;
    return g->mappings[i] = (uint32_t) n;
}

static int64_t map_function(struct merger *g, uint32_t i)
{
    const struct prof_function *f = &g->src->functions[i];
    uint64_t h = hash_mix(hash64_u64(((uint64_t) f->name << 32) | f->system_name),
                          (((uint64_t) f->filename << 32) | (uint32_t) f->start_line) ^ 0x9e3779b97f4a7c15ull);
    int64_t n;

    if (!i || g->functions[i])
        return i ? g->functions[i] : 0;
    for (struct map_pos q = map_find(&g->function_map, h); q.index != MAP_NONE; q = map_next(&g->function_map, q)) {
        const struct prof_function *o = &g->p->functions[q.index];

        if (o->name == f->name && o->system_name == f->system_name && o->filename == f->filename &&
            o->start_line == f->start_line)
            return g->functions[i] = q.index;
    }
    n = prof_add_function(g->p, f);
    if (n < 0 || map_insert(&g->function_map, h, (uint32_t) n) < 0)
        return -ENOMEM;
    return g->functions[i] = (uint32_t) n;
}

/* Two locations are one when mapping, address in it, folding and lines agree; of the columns pprof's key holds only the
 * last one. */
static uint64_t location_hash(const struct prof *p, const struct prof_location *l, const struct line *lines)
{
    uint64_t h = hash64_u64(l->address - p->mappings[l->mapping].start);

    h = hash_mix(h ^ l->mapping, (uint64_t) l->is_folded ^ 0x9e3779b97f4a7c15ull);
    for (uint32_t i = 0; i < l->lines.n; i++)
        h = hash_mix(h ^ lines[i].function, (uint64_t) lines[i].line ^ 0xd6e8feb86659fd93ull);
    return h;
}

static bool location_equal(const struct prof *p, const struct prof_location *a, const struct prof_location *b,
                           const struct line *lines_b)
{
    const struct line *lines_a = a->lines.n ? &p->lines[a->lines.off] : NULL;

    if (a->address != b->address || a->mapping != b->mapping || a->is_folded != b->is_folded ||
        a->lines.n != b->lines.n)
        return false;
    for (uint32_t i = 0; i < a->lines.n; i++)
        if (lines_a[i].function != lines_b[i].function || lines_a[i].line != lines_b[i].line)
            return false;
    return !a->lines.n || lines_a[a->lines.n - 1].column == lines_b[a->lines.n - 1].column;
}

static int64_t add_location(struct merger *g, struct prof_location *l)
{
    uint64_t h = location_hash(g->p, l, g->lines);
    int64_t n;

    for (struct map_pos q = map_find(&g->location_map, h); q.index != MAP_NONE; q = map_next(&g->location_map, q))
        if (location_equal(g->p, &g->p->locations[q.index], l, g->lines))
            return q.index;
    n = prof_add_lines(g->p, g->lines, l->lines.n);
    if (n < 0)
        return n;
    l->lines.off = (uint32_t) n;
    n = prof_add_location(g->p, l);
    if (n < 0 || map_insert(&g->location_map, h, (uint32_t) n) < 0)
        return -ENOMEM;
    return n;
}

static int64_t map_location(struct merger *g, uint32_t i)
{
    const struct prof_location *src = &g->src->locations[i];
    struct prof_location l = *src;
    int64_t n;

    if (!i || g->locations[i])
        return i ? g->locations[i] : 0;
    n = map_mapping(g, src->mapping);
    if (n < 0)
        return n;
    l.mapping = (uint32_t) n;
    l.address += (uint64_t) g->offsets[src->mapping];
    if (array_reserve(g->lines, g->cap_lines, l.lines.n, 1u << 30) < 0)
        return -ENOMEM;
    for (uint32_t k = 0; k < l.lines.n; k++) {
        struct line ln = g->src->lines[src->lines.off + k];

        n = map_function(g, ln.function);
        if (n < 0)
            return n;
        ln.function = (uint32_t) n;
        g->lines[k] = ln;
    }
    n = add_location(g, &l);
    if (n > 0)
        g->locations[i] = (uint32_t) n;
    return n;
}

static uint64_t sample_hash(const uint32_t *frames, uint32_t n, uint32_t labels)
{
    uint64_t h = hash64_u64(((uint64_t) n << 32) | labels);

    for (uint32_t i = 0; i < n; i++)
        h = hash_mix(h ^ frames[i], 0x9e3779b97f4a7c15ull);
    return h;
}

static int map_sample(struct merger *g, const struct prof_sample *s)
{
    const struct prof_labels *set = &g->src->label_sets[s->labels];
    int64_t labels = prof_add_labels(g->p, g->src->labels + set->off, set->n_str, set->n_num), frames, values;
    const int64_t *v = g->src->values + s->values;
    uint32_t n = s->frames.n;
    uint64_t h;

    if (labels < 0 || array_reserve(g->frames, g->cap_frames, n, 1u << 30) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        int64_t l = map_location(g, g->src->frames[s->frames.off + i]);

        if (l < 0)
            return (int) l;
        g->frames[i] = (uint32_t) l;
    }
    h = sample_hash(g->frames, n, (uint32_t) labels);
    for (struct map_pos q = map_find(&g->sample_map, h); q.index != MAP_NONE; q = map_next(&g->sample_map, q)) {
        const struct prof_sample *o = &g->p->samples[q.index];

        if (o->labels != labels || o->frames.n != n ||
            (n && memcmp(g->p->frames + o->frames.off, g->frames, n * sizeof(*g->frames)) != 0))
            continue;
        for (uint32_t i = 0; i < g->p->n_types; i++)
            wrap_inc(&g->p->values[o->values + i], v[i]);
        return 0;
    }
    frames = prof_add_frames(g->p, g->frames, n);
    values = prof_add_values(g->p, v, g->p->n_types);
    if (frames < 0 || values < 0 || map_insert(&g->sample_map, h, (uint32_t) g->p->n_samples) < 0)
        return -ENOMEM;
    return prof_add_sample(g->p, &(struct prof_sample){{(uint32_t) frames, n}, (uint32_t) labels, (uint32_t) values});
}

static int type_text(struct buf *out, const struct prof *p, struct prof_type t)
{
    buf_printf(out, "&{%.*s %.*s 0 0}", STR_FMT(prof_str(p, t.type)), STR_FMT(prof_str(p, t.unit)));
    return 0;
}

static bool same_type(struct prof_type a, struct prof_type b)
{
    return a.type == b.type && a.unit == b.unit;
}

static int compatible(const struct prof *a, const struct prof *b, struct err *e)
{
    _cleanup_(buf_done) struct buf x = BUF_INIT, y = BUF_INIT;
    bool ok = a->n_types == b->n_types;

    if (!same_type(a->period_type, b->period_type)) {
        type_text(&x, a, a->period_type);
        type_text(&y, b, b->period_type);
        return err_set(e, -EINVAL, "incompatible period types %.*s and %.*s", STR_FMT(buf_str(&x)),
                       STR_FMT(buf_str(&y)));
    }
    for (uint32_t i = 0; ok && i < a->n_types; i++)
        ok = same_type(a->types[i], b->types[i]);
    return ok ? 0 : err_set(e, -EINVAL, "incompatible sample types");
}

static int merge_comments(struct prof *p, const struct prof *s)
{
    for (size_t i = 0; i < s->n_comments; i++) {
        bool seen = false;

        for (size_t k = 0; k < p->n_comments; k++)
            seen |= p->comments[k] == s->comments[i];
        if (!seen && prof_add_comment(p, s->comments[i]) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int merge_headers(struct prof *p, struct prof *const *ps, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct prof *s = ps[i];
        int r = i ? compatible(ps[0], s, e) : 0;

        if (r < 0)
            return r;
        if (!p->time_ns || s->time_ns < p->time_ns)
            p->time_ns = s->time_ns;
        wrap_inc(&p->duration_ns, s->duration_ns);
        if (!p->period || p->period < s->period)
            p->period = s->period;
        if (!p->default_type)
            p->default_type = s->default_type;
        if (!p->doc_url)
            p->doc_url = s->doc_url;
        if (merge_comments(p, s) < 0)
            return -ENOMEM;
    }
    p->n_types = ps[0]->n_types;
    memcpy(p->types, ps[0]->types, sizeof(p->types));
    p->period_type = ps[0]->period_type;
    p->has_period_type = ps[0]->has_period_type;
    p->drop_frames = ps[0]->drop_frames;
    p->keep_frames = ps[0]->keep_frames;
    return 0;
}

static void source_done(struct merger *g)
{
    mem_free(TAKE(g->locations));
    mem_free(TAKE(g->functions));
    mem_free(TAKE(g->mappings));
    mem_free(TAKE(g->offsets));
}

static int merge_source(struct merger *g, const struct prof *src)
{
    g->src = src;
    g->locations = mem_zalloc_array(src->n_locations, sizeof(*g->locations));
    g->functions = mem_zalloc_array(src->n_functions, sizeof(*g->functions));
    g->mappings = mem_zalloc_array(src->n_mappings, sizeof(*g->mappings));
    g->offsets = mem_zalloc_array(src->n_mappings, sizeof(*g->offsets));
    if (!g->locations || !g->functions || !g->mappings || !g->offsets)
        return -ENOMEM;
    if (g->p->n_mappings == 1 && src->n_mappings > 1 && map_mapping(g, 1) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < src->n_samples; i++) {
        int r = zero_sample(src, &src->samples[i]) ? 0 : map_sample(g, &src->samples[i]);

        if (r < 0)
            return r;
    }
    source_done(g);
    return 0;
}

static void merger_done(struct merger *g)
{
    source_done(g);
    map_done(&g->sample_map);
    map_done(&g->location_map);
    map_done(&g->function_map);
    map_done(&g->mapping_map);
    mem_free(g->frames);
    mem_free(g->lines);
    prof_free(g->p);
}

static int merge_once(struct prof *const *ps, size_t n, struct prof **ret, struct err *e)
{
    _cleanup_(merger_done) struct merger g = {0};
    int r = prof_new(ps[0]->pool, &g.p);

    if (r >= 0)
        r = merge_headers(g.p, ps, n, e);
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = merge_source(&g, ps[i]);
    if (r < 0)
        return r == -ENOMEM ? err_set(e, r, "not enough memory to merge profiles") : r;
    *ret = TAKE(g.p);
    return 0;
}

int prof_merge(struct prof *const *ps, size_t n, struct prof **ret, struct err *e)
{
    _cleanup_(prof_freep) struct prof *p = NULL;
    int r = merge_once(ps, n, &p, e);
    bool zeros = false;

    if (r < 0)
        return r;
    for (size_t i = 0; i < p->n_samples; i++)
        zeros |= zero_sample(p, &p->samples[i]);
    if (zeros) /* once more, to drop what only they used */
        return merge_once(&p, 1, ret, e);
    *ret = TAKE(p);
    return 0;
}

void prof_scale_types(struct prof *p, const double *ratios)
{
    size_t kept = 0;
    bool ones = true;

    for (uint32_t k = 0; k < p->n_types; k++)
        ones &= ratios[k] == 1;
    if (ones)
        return;
    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t *v = p->values + p->samples[i].values;
        bool keep = false;

        for (uint32_t k = 0; k < p->n_types; k++) {
            if (ratios[k] == 1)
                continue;
            v[k] = wrap_int64(round((double) v[k] * ratios[k]));
            keep |= v[k] != 0;
        }
        if (keep)
            p->samples[kept++] = p->samples[i];
    }
    p->n_samples = kept;
}

void prof_scale(struct prof *p, double ratio)
{
    double ratios[PROFILE_TYPES_MAX];

    for (uint32_t i = 0; i < p->n_types; i++)
        ratios[i] = ratio;
    prof_scale_types(p, ratios);
}

int prof_normalize(struct prof *p, const struct prof *base, struct err *e)
{
    int64_t sum[PROFILE_TYPES_MAX] = {0}, base_sum[PROFILE_TYPES_MAX] = {0};
    double ratios[PROFILE_TYPES_MAX];
    int r = compatible(p, base, e);

    if (r < 0)
        return r;
    for (uint32_t k = 0; k < p->n_types; k++) {
        for (size_t i = 0; i < p->n_samples; i++)
            wrap_inc(&sum[k], p->values[p->samples[i].values + k]);
        for (size_t i = 0; i < base->n_samples; i++)
            wrap_inc(&base_sum[k], base->values[base->samples[i].values + k]);
        ratios[k] = sum[k] ? (double) base_sum[k] / (double) sum[k] : 0;
    }
    prof_scale_types(p, ratios);
    return 0;
}

/* --- types and units of several profiles --- */

static int find_type(const struct prof *p, uint32_t type)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        if (p->types[i].type == type)
            return (int) i;
    return -1;
}

/* Sample types that all have, in the order of the first. */
static uint32_t common_types(struct prof **ps, size_t n, uint32_t *ret)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < ps[0]->n_types; i++) {
        size_t count = 0;

        for (size_t k = 0; k < n; k++)
            for (uint32_t j = 0; j < ps[k]->n_types; j++)
                count += ps[k]->types[j].type == ps[0]->types[i].type;
        if (count == n)
            ret[found++] = ps[0]->types[i].type;
    }
    return found;
}

static void keep_types(struct prof *p, const uint32_t *types, uint32_t n)
{
    int order[PROFILE_TYPES_MAX];
    struct prof_type old[PROFILE_TYPES_MAX];
    uint32_t fallback = types[0];
    bool change = n != p->n_types;

    for (uint32_t i = 0; i < n; i++) {
        order[i] = find_type(p, types[i]);
        change |= order[i] != (int) i;
        if (types[i] == p->default_type)
            fallback = p->default_type;
    }
    if (!change)
        return;
    p->default_type = fallback;
    memcpy(old, p->types, sizeof(old));
    for (uint32_t i = 0; i < n; i++)
        p->types[i] = old[order[i]];
    for (size_t i = 0; i < p->n_samples; i++) {
        int64_t v[PROFILE_TYPES_MAX], *at = p->values + p->samples[i].values;

        for (uint32_t k = 0; k < n; k++)
            v[k] = at[order[k]];
        memcpy(at, v, n * sizeof(*v));
    }
    p->n_types = n;
}

/* The finest of the units; false when two of them are incompatible. */
static int finest(struct prof **ps, size_t n, int index, struct prof_type *ret, struct err *e)
{
    struct prof_type min = {0};

    for (size_t i = 0; i < n; i++) {
        struct prof_type t = index < 0 ? ps[i]->period_type : ps[i]->types[index];
        struct str unit;

        if (!i) {
            min = t;
            continue;
        }
        if (!units_compatible(prof_str(ps[0], min.type), prof_str(ps[0], min.unit), prof_str(ps[0], t.type),
                              prof_str(ps[0], t.unit)))
            return err_set(e, -EINVAL, "%s: incompatible types: {%.*s %.*s 0 0} {%.*s %.*s 0 0}",
                           index < 0 ? "period type" : "sample types", STR_FMT(prof_str(ps[0], min.type)),
                           STR_FMT(prof_str(ps[0], min.unit)), STR_FMT(prof_str(ps[0], t.type)),
                           STR_FMT(prof_str(ps[0], t.unit)));
        if (units_scale(1, prof_str(ps[0], t.unit), prof_str(ps[0], min.unit), &unit) < 1)
            min = t;
    }
    *ret = min;
    return 0;
}

static int unify_units(struct prof **ps, size_t n, struct err *e)
{
    struct prof_type period, types[PROFILE_TYPES_MAX];
    struct str unit;
    int r = finest(ps, n, -1, &period, e);

    for (uint32_t i = 0; r >= 0 && i < ps[0]->n_types; i++)
        r = finest(ps, n, (int) i, &types[i], e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        double ratios[PROFILE_TYPES_MAX];
        struct prof *p = ps[i];

        p->period =
            wrap_int64(units_scale(p->period, prof_str(p, p->period_type.unit), prof_str(p, period.unit), &unit));
        p->period_type.unit = period.unit;
        for (uint32_t k = 0; k < p->n_types; k++) {
            ratios[k] = units_scale(1, prof_str(p, p->types[k].unit), prof_str(p, types[k].unit), &unit);
            p->types[k].unit = types[k].unit;
        }
        prof_scale_types(p, ratios);
    }
    return 0;
}

int prof_unify(struct prof **ps, size_t n, struct err *e)
{
    uint32_t types[PROFILE_TYPES_MAX], n_types = common_types(ps, n, types);

    if (!n_types)
        return err_set(e, -EINVAL, "profiles have empty common sample type list");
    for (size_t i = 0; i < n; i++)
        keep_types(ps[i], types, n_types);
    return n > 1 ? unify_units(ps, n, e) : 0;
}

int prof_combine(struct prof **ps, size_t n, struct prof **ret, struct err *e)
{
    int r = prof_unify(ps, n, e);

    if (r < 0)
        return r;
    if (n == 1) {
        *ret = TAKE(ps[0]);
        return 0;
    }
    r = prof_merge(ps, n, ret, e);
    for (size_t i = 0; i < n; i++)
        prof_free(TAKE(ps[i]));
    return r;
}
