/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags of a graph's nodes: which labels the samples through a node had. Text labels of a sample are one tag, all of them
 * joined; of numeric ones only "bytes" makes tags, by its printed size. Only graphs that are drawn need them.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/printable.h"
#include "report/graph.h"
#include "report/units.h"

enum { TAGS_MAX = 1u << 28 };

struct tagger {
    struct graph *g;
    struct map map;
    uint32_t *joined; /* per label set: its text labels as one string + 1, 0 = not made yet */
    uint32_t *nodes;
    size_t cap_nodes;
    uint32_t bytes; /* the key "bytes" */
    uint32_t bytes_unit;
};

static int compare_text(const void *a, const void *b)
{
    return str_cmp(*(const struct str *) a, *(const struct str *) b);
}

/* "key:value" of all text labels, sorted, one a line. */
static uint32_t join_labels(struct tagger *t, uint32_t set)
{
    const struct prof *p = t->g->prof;
    const struct prof_labels *s = &p->label_sets[set];
    _cleanup_(mem_freep) struct str *text = mem_zalloc_array(s->n_str + 1, sizeof(*text));
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct arena arena;
    uint32_t n = 0, id;

    arena_init(&arena, 0);
    for (uint32_t i = 0; text && i < s->n_str; i++) {
        struct str key = prof_str(p, p->labels[s->off + i].key), value = prof_str(p, p->labels[s->off + i].str);

        if (!str_eq(key, STR("pprof::base")))
            text[n++] = str_from(arena_printf(&arena, "%.*s:%.*s", STR_FMT(key), STR_FMT(value)));
    }
    if (n)
        qsort(text, n, sizeof(*text), compare_text);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            buf_putc(&out, '\n');
        printable_put(&out, text[i], false);
    }
    id = strtab_copy(&p->pool->strings, buf_str(&out));
    arena_done(&arena);
    return id;
}

static uint32_t set_labels(struct tagger *t, uint32_t set)
{
    if (!set)
        return 0;
    if (!t->joined[set])
        t->joined[set] = join_labels(t, set) + 1;
    return t->joined[set] - 1;
}

static struct graph_tag *find_tag(struct tagger *t, const struct graph_tag *key)
{
    struct graph *g = t->g;
    uint64_t h = hash_mix(hash64_u64(((uint64_t) key->node << 32) | key->labels),
                          (((uint64_t) key->name << 1) | key->numeric) ^ 0x9e3779b97f4a7c15ull);

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p)) {
        struct graph_tag *o = &g->tags[p.index];

        if (o->node == key->node && o->labels == key->labels && o->name == key->name && o->numeric == key->numeric)
            return o;
    }
    if (array_reserve(g->tags, g->cap_tags, g->n_tags + 1, TAGS_MAX) < 0 ||
        map_insert(&t->map, h, (uint32_t) g->n_tags) < 0)
        return NULL;
    g->tags[g->n_tags] = *key;
    return &g->tags[g->n_tags++];
}

static int count_tag(struct tagger *t, const struct graph_tag *key, int64_t w, int64_t dw, bool flat)
{
    struct graph_tag *tag = find_tag(t, key);

    if (!tag)
        return -ENOMEM;
    if (flat) {
        wrap_inc(&tag->flat, w);
        wrap_inc(&tag->flat_div, dw);
    } else {
        wrap_inc(&tag->cum, w);
        wrap_inc(&tag->cum_div, dw);
    }
    return 0;
}

static int tag_node(struct tagger *t, uint32_t node, const struct prof_sample *s, int64_t w, int64_t dw, bool flat)
{
    const struct prof *p = t->g->prof;
    const struct prof_labels *set = &p->label_sets[s->labels];
    uint32_t labels = set_labels(t, s->labels);

    if (labels && count_tag(t, &(struct graph_tag){.node = node, .labels = labels, .name = labels}, w, dw, flat) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < set->n_num; i++) {
        const struct prof_label *l = &p->labels[set->off + set->n_str + i];
        _cleanup_(buf_done) struct buf name = BUF_INIT;
        struct graph_tag key = {.node = node, .labels = labels, .numeric = true, .value = l->num};

        if (l->key != t->bytes)
            continue;
        units_label(&name, l->num, prof_str(p, t->bytes_unit), t->g->o.output_unit);
        key.name = strtab_copy(&p->pool->strings, buf_str(&name));
        key.unit = t->bytes_unit;
        if (count_tag(t, &key, w, dw, flat) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int tag_sample(struct tagger *t, const struct prof_sample *s)
{
    const int64_t *v = prof_sample_values(t->g->prof, s);
    int64_t w = v[t->g->o.value], dw = t->g->o.mean ? v[0] : 0;
    uint32_t leaf;
    int n;

    if ((!w && !dw) || !s->labels)
        return 0;
    n = graph_visit(t->g, s, &t->nodes, &t->cap_nodes, &leaf);
    for (int i = 0; i < n; i++)
        if (tag_node(t, t->nodes[i], s, w, dw, false) < 0)
            return -ENOMEM;
    if (n >= 0 && leaf != GRAPH_NONE)
        n = tag_node(t, leaf, s, w, dw, true);
    return n < 0 ? n : 0;
}

static int by_node(const void *a, const void *b)
{
    const struct graph_tag *x = a, *y = b;

    return x->node < y->node ? -1 : x->node > y->node;
}

static int index_tags(struct graph *g)
{
    qsort(g->tags, g->n_tags, sizeof(*g->tags), by_node);
    mem_free(g->tag_first);
    g->tag_first = mem_zalloc_array(g->n_nodes + 1, sizeof(*g->tag_first));
    if (!g->tag_first)
        return -ENOMEM;
    for (size_t i = 0; i < g->n_tags; i++)
        g->tag_first[g->tags[i].node + 1]++;
    for (size_t i = 1; i <= g->n_nodes; i++)
        g->tag_first[i] += g->tag_first[i - 1];
    return 0;
}

int graph_build_tags(struct graph *g)
{
    struct tagger t = {.g = g};
    const struct prof *p = g->prof;
    int r = 0;

    g->n_tags = 0;
    if (!g->tags && array_reserve(g->tags, g->cap_tags, 16, TAGS_MAX) < 0)
        return -ENOMEM;
    t.joined = mem_zalloc_array(p->n_label_sets, sizeof(*t.joined));
    if (!t.joined)
        return -ENOMEM;
    t.bytes = strtab_copy(&p->pool->strings, STR("bytes"));
    t.bytes_unit = g->o.units ? strtab_copy(&p->pool->strings, label_unit(p, g->o.units, t.bytes)) : 0;
    for (size_t i = 0; r >= 0 && i < p->n_samples; i++)
        r = tag_sample(&t, &p->samples[i]);
    if (r >= 0)
        r = strtab_error(&p->pool->strings);
    if (r >= 0)
        r = index_tags(g);
    map_done(&t.map);
    mem_free(t.joined);
    mem_free(t.nodes);
    return r;
}

uint32_t graph_count_tags(const struct graph *g, uint32_t node)
{
    uint32_t n = 0;

    for (uint32_t i = g->tag_first[node]; i < g->tag_first[node + 1]; i++)
        n += g->tags[i].node != GRAPH_NONE && g->tags[i].flat != 0;
    return n;
}
