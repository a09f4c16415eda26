/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of struct prof: life cycle, growing, copies (prof.h). Conversion from and to batches is in
 * prof_batch.c. */
#include "report/prof.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"

enum { PROF_MAX = 1u << 31 };

int prof_pool_init(struct prof_pool *pool)
{
    *pool = (struct prof_pool){0};
    return strtab_init(&pool->strings);
}

void prof_pool_done(struct prof_pool *pool)
{
    for (size_t i = 0; i < pool->n_batches; i++)
        batch_unref(pool->batches[i]);
    mem_free(pool->batches);
    strtab_done(&pool->strings);
    *pool = (struct prof_pool){0};
}

int prof_new(struct prof_pool *pool, struct prof **ret)
{
    _cleanup_(prof_freep) struct prof *p = mem_zalloc(sizeof(*p));

    if (!p)
        return -ENOMEM;
    p->pool = pool;
    p->has_period_type = true;
    if (array_reserve(p->mappings, p->cap_mappings, 4, PROF_MAX) < 0 ||
        array_reserve(p->functions, p->cap_functions, 16, PROF_MAX) < 0 ||
        array_reserve(p->locations, p->cap_locations, 16, PROF_MAX) < 0 ||
        array_reserve(p->labels, p->cap_labels, 4, PROF_MAX) < 0 ||
        array_reserve(p->label_sets, p->cap_label_sets, 4, PROF_MAX) < 0)
        return -ENOMEM;
    p->mappings[0] = (struct prof_mapping){0};
    p->functions[0] = (struct prof_function){0};
    p->locations[0] = (struct prof_location){0};
    p->label_sets[0] = (struct prof_labels){0};
    p->n_mappings = p->n_functions = p->n_locations = p->n_label_sets = 1;
    *ret = TAKE(p);
    return 0;
}

void prof_free(struct prof *p)
{
    if (!p)
        return;
    mem_free(p->comments);
    mem_free(p->mappings);
    mem_free(p->functions);
    mem_free(p->locations);
    mem_free(p->mapping_ids);
    mem_free(p->location_ids);
    if (p->cap_lines)
        mem_free(p->lines);
    if (p->cap_frames)
        mem_free(p->frames);
    if (p->cap_values)
        mem_free(p->values);
    mem_free(p->samples);
    mem_free(p->labels);
    mem_free(p->label_sets);
    map_done(&p->label_map);
    mem_free(p);
}

/* Copies a borrowed pool before it grows. */
static int own(void **v, size_t *cap, size_t n, size_t need, size_t elem)
{
    void *mine = NULL;
    size_t mine_cap = 0;
    int r;

    if (*cap || !*v)
        return mem_grow(v, cap, need ? need : 1, elem, PROF_MAX);
    r = mem_grow(&mine, &mine_cap, need ? need : 1, elem, PROF_MAX);
    if (r < 0)
        return r;
    if (n)
        memcpy(mine, *v, n * elem);
    *v = mine;
    *cap = mine_cap;
    return 0;
}

int64_t prof_add_mapping(struct prof *p, const struct prof_mapping *m)
{
    int r = array_reserve(p->mappings, p->cap_mappings, p->n_mappings + 1, PROF_MAX);

    if (r < 0)
        return r;
    p->mappings[p->n_mappings] = *m;
    return (int64_t) p->n_mappings++;
}

int64_t prof_add_function(struct prof *p, const struct prof_function *f)
{
    int r = array_reserve(p->functions, p->cap_functions, p->n_functions + 1, PROF_MAX);

    if (r < 0)
        return r;
    p->functions[p->n_functions] = *f;
    return (int64_t) p->n_functions++;
}

int64_t prof_add_location(struct prof *p, const struct prof_location *l)
{
    int r = array_reserve(p->locations, p->cap_locations, p->n_locations + 1, PROF_MAX);

    if (r < 0)
        return r;
    if (p->location_ids) { /* the new one gets an id above all others */
        uint64_t *ids = mem_realloc_array(p->location_ids, p->n_locations + 1, sizeof(*ids)), max = 0;

        if (!ids)
            return -ENOMEM;
        p->location_ids = ids;
        for (size_t i = 1; i < p->n_locations; i++)
            max = MAX(max, ids[i]);
        ids[p->n_locations] = max + 1;
    }
    p->locations[p->n_locations] = *l;
    return (int64_t) p->n_locations++;
}

int64_t prof_add_lines(struct prof *p, const struct line *lines, uint32_t n)
{
    int r = own((void **) &p->lines, &p->cap_lines, p->n_lines, p->n_lines + n, sizeof(*lines));
    size_t off = p->n_lines;

    if (r < 0)
        return r;
    if (n)
        memcpy(p->lines + off, lines, n * sizeof(*lines));
    p->n_lines += n;
    return (int64_t) off;
}

int64_t prof_add_frames(struct prof *p, const uint32_t *frames, uint32_t n)
{
    int r = own((void **) &p->frames, &p->cap_frames, p->n_frames, p->n_frames + n, sizeof(*frames));
    size_t off = p->n_frames;

    if (r < 0)
        return r;
    if (n)
        memcpy(p->frames + off, frames, n * sizeof(*frames));
    p->n_frames += n;
    return (int64_t) off;
}

int64_t prof_add_values(struct prof *p, const int64_t *values, uint32_t n)
{
    int r = own((void **) &p->values, &p->cap_values, p->n_values, p->n_values + n, sizeof(*values));
    size_t off = p->n_values;

    if (r < 0)
        return r;
    if (n)
        memcpy(p->values + off, values, n * sizeof(*values));
    p->n_values += n;
    return (int64_t) off;
}

int prof_add_sample(struct prof *p, const struct prof_sample *s)
{
    return array_push(p->samples, p->n_samples, p->cap_samples, PROF_MAX, *s);
}

int prof_add_comment(struct prof *p, uint32_t comment)
{
    return array_push(p->comments, p->n_comments, p->cap_comments, PROF_MAX, comment);
}

static uint64_t labels_hash(const struct prof_label *l, uint32_t n_str, uint32_t n_num)
{
    uint64_t h = hash64_u64(((uint64_t) n_str << 32) | n_num);

    for (uint32_t i = 0; i < n_str + n_num; i++)
        h = hash_mix(h ^ (((uint64_t) l[i].key << 32) | (l[i].str ^ l[i].unit)),
                     (uint64_t) l[i].num ^ 0x9e3779b97f4a7c15ull);
    return h;
}

static bool labels_equal(const struct prof_label *a, const struct prof_label *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].key != b[i].key || a[i].str != b[i].str || a[i].num != b[i].num || a[i].unit != b[i].unit)
            return false;
    return true;
}

int64_t prof_add_labels(struct prof *p, const struct prof_label *labels, uint32_t n_str, uint32_t n_num)
{
    uint64_t h;
    int r;

    if (!(n_str + n_num))
        return 0;
    h = labels_hash(labels, n_str, n_num);
    for (struct map_pos q = map_find(&p->label_map, h); q.index != MAP_NONE; q = map_next(&p->label_map, q)) {
        const struct prof_labels *s = &p->label_sets[q.index];

        if (s->n_str == n_str && s->n_num == n_num && labels_equal(p->labels + s->off, labels, n_str + n_num))
            return q.index;
    }
    r = array_reserve(p->labels, p->cap_labels, p->n_labels + n_str + n_num, PROF_MAX);
    if (r >= 0)
        r = array_reserve(p->label_sets, p->cap_label_sets, p->n_label_sets + 1, PROF_MAX);
    if (r >= 0)
        r = map_insert(&p->label_map, h, (uint32_t) p->n_label_sets);
    if (r < 0)
        return r;
    memcpy(p->labels + p->n_labels, labels, (n_str + n_num) * sizeof(*labels));
    p->label_sets[p->n_label_sets] = (struct prof_labels){(uint32_t) p->n_labels, n_str, n_num};
    p->n_labels += n_str + n_num;
    return (int64_t) p->n_label_sets++;
}

bool prof_labels_have_unit(const struct prof_label *labels, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (labels[i].unit)
            return true;
    return false;
}

bool prof_sample_is_base(const struct prof *p, const struct prof_sample *s)
{
    const struct prof_labels *set = &p->label_sets[s->labels];

    for (uint32_t i = 0; i < set->n_str; i++)
        if (str_eq(prof_str(p, p->labels[set->off + i].key), STR("pprof::base")) &&
            str_eq(prof_str(p, p->labels[set->off + i].str), STR("true")))
            return true;
    return false;
}

static int dup_table(void **ret, size_t *ret_cap, const void *v, size_t n, size_t elem)
{
    int r = mem_grow(ret, ret_cap, n ? n : 1, elem, PROF_MAX);

    if (r < 0)
        return r;
    if (n)
        memcpy(*ret, v, n * elem);
    return 0;
}

static int dup_ids(uint64_t **ret, const uint64_t *ids, size_t n)
{
    if (!ids)
        return 0;
    *ret = mem_dup(ids, n * sizeof(*ids));
    return *ret ? 0 : -ENOMEM;
}

#define DUP(field) dup_table((void **) &c->field, &c->cap_##field, p->field, p->n_##field, sizeof(*p->field))

int prof_copy(const struct prof *p, struct prof **ret)
{
    _cleanup_(prof_freep) struct prof *c = mem_dup(p, sizeof(*p));

    if (!c)
        return -ENOMEM;
    c->comments = NULL;
    c->mappings = NULL;
    c->functions = NULL;
    c->locations = NULL;
    c->mapping_ids = c->location_ids = NULL;
    c->samples = NULL;
    c->values = NULL;
    c->labels = NULL;
    c->label_sets = NULL;
    c->label_map = MAP_INIT;
    c->cap_comments = c->cap_mappings = c->cap_functions = c->cap_locations = c->cap_samples = c->cap_values = 0;
    c->cap_labels = c->cap_label_sets = 0;
    c->cap_lines = c->cap_frames = 0; /* borrowed from p: never changed in place */
    if (DUP(comments) < 0 || DUP(mappings) < 0 || DUP(functions) < 0 || DUP(locations) < 0 || DUP(samples) < 0 ||
        DUP(values) < 0 || DUP(labels) < 0 || DUP(label_sets) < 0 ||
        dup_ids(&c->mapping_ids, p->mapping_ids, p->n_mappings) < 0 ||
        dup_ids(&c->location_ids, p->location_ids, p->n_locations) < 0)
        return -ENOMEM;
    for (uint32_t i = 1; i < c->n_label_sets; i++) {
        const struct prof_labels *s = &c->label_sets[i];

        if (map_insert(&c->label_map, labels_hash(c->labels + s->off, s->n_str, s->n_num), i) < 0)
            return -ENOMEM;
    }
    *ret = TAKE(c);
    return 0;
}
