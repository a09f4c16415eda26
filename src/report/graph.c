/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the call graph of a profile: infos, values, edges (graph.h). Trimming and order are in graph_trim.c and
 * graph_sort.c, tags in graph_tags.c. */
#include "report/graph.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "report/gopath.h"

enum { GRAPH_MAX = 1u << 30 };

void graph_free(struct graph *g)
{
    if (!g)
        return;
    mem_free(g->infos);
    mem_free(g->first_line);
    mem_free(g->line_infos);
    map_done(&g->info_map);
    mem_free(g->files);
    mem_free(g->nodes);
    mem_free(g->kept);
    mem_free(g->order);
    mem_free(g->edges);
    map_done(&g->edge_map);
    mem_free(g->in_first);
    mem_free(g->in);
    mem_free(g->out_first);
    mem_free(g->out);
    mem_free(g->parent);
    map_done(&g->tree_map);
    mem_free(g->tags);
    mem_free(g->tag_first);
    mem_free(g);
}

/* --- infos --- */

/* Removes the front of a path according to -trim_path, or as guessed from -source_path. */
static struct str trim_path(struct str path, struct str trim, struct str search)
{
    static const struct str always[] = {STR("/proc/self/cwd/./"), STR("/proc/self/cwd/")};

    for (struct str rest = search; !trim.n && rest.n;) {
        _cleanup_(buf_done) struct buf want = BUF_INIT;
        struct str dir = gopath_base(str_cut(&rest, ':'));
        ptrdiff_t at;

        buf_printf(&want, "/%.*s/", STR_FMT(dir));
        at = str_find(path, buf_str(&want));
        if (at >= 0)
            return str_slice(path, (size_t) at + want.n, path.n);
    }
    while (trim.n) {
        struct str one = str_cut(&trim, ':');
        bool slash = one.n && one.p[one.n - 1] == '/';

        if (str_starts(path, one) && (slash || (path.n > one.n && path.p[one.n] == '/')))
            return str_slice(path, one.n + !slash, path.n);
    }
    for (size_t i = 0; i < ARRAY_SIZE(always); i++)
        if (str_starts(path, always[i]))
            return str_slice(path, always[i].n, path.n);
    return path;
}

static uint32_t function_file(struct graph *g, uint32_t f)
{
    struct strtab *t = &g->prof->pool->strings;
    struct str path;

    if (g->files[f] != GRAPH_NONE)
        return g->files[f];
    path = trim_path(prof_str(g->prof, g->prof->functions[f].filename), g->o.trim_path, g->o.source_path);
    if (path.n && !gopath_is_clean(path)) {
        _cleanup_(buf_done) struct buf clean = BUF_INIT;

        gopath_clean(&clean, path);
        g->files[f] = strtab_copy(t, buf_str(&clean));
    } else {
        g->files[f] = strtab_id(t, path);
    }
    return g->files[f];
}

static uint64_t info_hash(const struct graph_info *i)
{
    uint64_t h = hash64_u64(((uint64_t) i->name << 32) | i->file);

    h = hash_mix(h ^ i->address, (uint64_t) i->line ^ 0x9e3779b97f4a7c15ull);
    return hash_mix(h ^ i->object, ((uint64_t) i->column << 32 ^ (uint64_t) i->start_line) ^ 0xd6e8feb86659fd93ull);
}

static bool info_equal(const struct graph_info *a, const struct graph_info *b)
{
    return a->name == b->name && a->address == b->address && a->file == b->file && a->line == b->line &&
           a->column == b->column && a->start_line == b->start_line && a->object == b->object;
}

static uint32_t intern_info(struct graph *g, const struct graph_info *i)
{
    uint64_t h = info_hash(i);

    for (struct map_pos p = map_find(&g->info_map, h); p.index != MAP_NONE; p = map_next(&g->info_map, p))
        if (info_equal(&g->infos[p.index], i))
            return p.index;
    if (array_reserve(g->infos, g->cap_infos, g->n_infos + 1, GRAPH_MAX) < 0 ||
        map_insert(&g->info_map, h, (uint32_t) g->n_infos) < 0)
        return GRAPH_NONE;
    g->infos[g->n_infos] = *i;
    return (uint32_t) g->n_infos++;
}

static uint32_t line_info(struct graph *g, const struct prof_location *l, const struct line *line)
{
    const struct prof *p = g->prof;
    const struct graph_detail *d = &g->o.detail;
    const struct prof_function *f = line ? &p->functions[line->function] : NULL;
    struct graph_info i = {.address = d->address ? l->address : 0};
    uint32_t object = l->mapping ? p->mappings[l->mapping].file : 0;

    if (!line || !line->function) {
        i.object = object;
        return intern_info(g, &i);
    }
    i.line = d->line ? line->line : 0;
    i.column = d->line && d->column ? line->column : 0;
    i.name = d->function ? f->name : 0;
    i.file = d->filename ? function_file(g, line->function) : 0;
    if (g->o.object_names || !i.name) {
        i.object = object;
        i.start_line = f->start_line;
    }
    return intern_info(g, &i);
}

static int make_infos(struct graph *g)
{
    const struct prof *p = g->prof;
    size_t n = 0;

    for (size_t i = 1; i < p->n_locations; i++)
        n += MAX(p->locations[i].lines.n, 1);
    g->first_line = mem_alloc((p->n_locations + 1) * sizeof(*g->first_line));
    g->line_infos = mem_alloc((n + 1) * sizeof(*g->line_infos));
    g->files = mem_alloc(p->n_functions * sizeof(*g->files));
    if (!g->first_line || !g->line_infos || !g->files)
        return -ENOMEM;
    memset(g->files, 0xff, p->n_functions * sizeof(*g->files));
    g->first_line[0] = 0;
    n = 0;
    for (size_t i = 1; i < p->n_locations; i++) {
        const struct prof_location *l = &p->locations[i];
        uint32_t from = !g->o.detail.inlines && l->lines.n > 1 ? l->lines.n - 1 : 0;

        g->first_line[i] = (uint32_t) n;
        if (!l->lines.n)
            g->line_infos[n++] = line_info(g, l, NULL);
        for (uint32_t k = from; k < l->lines.n; k++)
            g->line_infos[n++] = line_info(g, l, &p->lines[l->lines.off + k]);
    }
    g->first_line[p->n_locations] = (uint32_t) n;
    for (size_t i = 0; i < n; i++)
        if (g->line_infos[i] == GRAPH_NONE)
            return -ENOMEM;
    mem_free(TAKE(g->files));
    map_done(&g->info_map);
    return strtab_error(&p->pool->strings);
}

/* --- edges --- */

static uint32_t find_edge(struct graph *g, uint32_t src, uint32_t dst)
{
    uint64_t h = hash64_u64(((uint64_t) src << 32) | dst);

    for (struct map_pos p = map_find(&g->edge_map, h); p.index != MAP_NONE; p = map_next(&g->edge_map, p))
        if (g->edges[p.index].src == src && g->edges[p.index].dst == dst)
            return p.index;
    if (array_reserve(g->edges, g->cap_edges, g->n_edges + 1, GRAPH_MAX) < 0 ||
        map_insert(&g->edge_map, h, (uint32_t) g->n_edges) < 0)
        return GRAPH_NONE;
    g->edges[g->n_edges] = (struct graph_edge){.src = src, .dst = dst, .inlined = true};
    return (uint32_t) g->n_edges++;
}

static int add_edge(struct graph *g, uint32_t src, uint32_t dst, const struct graph_edge *add)
{
    uint32_t i = find_edge(g, src, dst);
    struct graph_edge *e;

    if (i == GRAPH_NONE)
        return -ENOMEM;
    e = &g->edges[i];
    if (e->stamp == g->stamp)
        return 0; /* counts once per sample */
    e->stamp = g->stamp;
    wrap_inc(&e->weight, add->weight);
    wrap_inc(&e->weight_div, add->weight_div);
    e->residual |= add->residual;
    e->inlined &= add->inlined;
    return 0;
}

/* Lists of edges per node: a counting sort by one end. */
static int list_edges(const struct graph *g, bool incoming, uint32_t **ret_first, uint32_t **ret_list)
{
    uint32_t *first = mem_zalloc_array(g->n_nodes + 2, sizeof(*first));
    uint32_t *list = mem_alloc((g->n_edges + 1) * sizeof(*list));

    mem_free(*ret_first);
    mem_free(*ret_list);
    *ret_first = first;
    *ret_list = list;
    if (!first || !list)
        return -ENOMEM;
    for (size_t i = 0; i < g->n_edges; i++)
        first[(incoming ? g->edges[i].dst : g->edges[i].src) + 2]++;
    for (size_t i = 2; i < g->n_nodes + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < g->n_edges; i++)
        list[first[(incoming ? g->edges[i].dst : g->edges[i].src) + 1]++] = (uint32_t) i;
    return 0;
}

static int index_edges(struct graph *g)
{
    int r = list_edges(g, true, &g->in_first, &g->in);

    if (r >= 0)
        r = list_edges(g, false, &g->out_first, &g->out);
    map_done(&g->edge_map);
    return r;
}

/* --- samples --- */

static bool sample_weight(const struct graph *g, const struct prof_sample *s, int64_t *w, int64_t *dw)
{
    const int64_t *v = prof_sample_values(g->prof, s);

    *w = v[g->o.value];
    *dw = g->o.mean ? v[0] : 0;
    return *w || *dw;
}

/* One sample, root to leaf. Values of a node and of an edge count once however often it recurs. */
static int add_sample(struct graph *g, const struct prof_sample *s, int64_t w, int64_t dw, bool edges)
{
    const uint32_t *frames = prof_sample_frames(g->prof, s);
    uint32_t parent = GRAPH_NONE;
    bool residual = false;

    g->stamp++;
    for (uint32_t i = s->frames.n; i-- > 0;) {
        uint32_t first = g->first_line[frames[i]], end = g->first_line[frames[i] + 1];

        for (uint32_t k = end; k-- > first;) {
            uint32_t n = g->line_infos[k];
            struct graph_node *node = &g->nodes[n];

            if (g->kept && !g->kept[n]) {
                residual = true;
                continue;
            }
            if (node->stamp != g->stamp) {
                node->stamp = g->stamp;
                wrap_inc(&node->cum, w);
                wrap_inc(&node->cum_div, dw);
            }
            if (edges && parent != GRAPH_NONE && parent != n &&
                add_edge(g, parent, n,
                         &(struct graph_edge){
                             .weight = w, .weight_div = dw, .residual = residual, .inlined = k != end - 1}) < 0)
                return -ENOMEM;
            parent = n;
            residual = false;
        }
    }
    if (parent != GRAPH_NONE && !residual) {
        wrap_inc(&g->nodes[parent].flat, w);
        wrap_inc(&g->nodes[parent].flat_div, dw);
    }
    return 0;
}

static bool counts(const struct graph *g, const struct graph_node *n)
{
    if (!n->cum && !n->flat)
        return false;
    return !(g->o.drop_negative && (n->flat < 0 || (!n->flat && n->cum < 0)));
}

static int select_nodes(struct graph *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n_nodes; i++)
        n += counts(g, &g->nodes[i]);
    mem_free(g->order);
    g->order = mem_alloc((n + 1) * sizeof(*g->order));
    if (!g->order)
        return -ENOMEM;
    g->n_order = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (counts(g, &g->nodes[i]))
            g->order[g->n_order++] = (uint32_t) i;
    return 0;
}

static int build_graph(struct graph *g, bool edges)
{
    int64_t w, dw;

    for (size_t i = 0; i < g->n_nodes; i++)
        g->nodes[i] = (struct graph_node){.info = (uint32_t) i};
    g->n_edges = 0;
    g->stamp = 0;
    map_reset(&g->edge_map);
    for (size_t i = 0; i < g->prof->n_samples; i++) {
        const struct prof_sample *s = &g->prof->samples[i];

        if (sample_weight(g, s, &w, &dw) && add_sample(g, s, w, dw, edges) < 0)
            return -ENOMEM;
    }
    return edges ? index_edges(g) : 0;
}

/* --- the call tree --- */

static uint32_t tree_node(struct graph *g, uint32_t parent, uint32_t info)
{
    uint64_t h = hash64_u64(((uint64_t) parent << 32) | info);
    size_t cap = g->cap_nodes;

    for (struct map_pos p = map_find(&g->tree_map, h); p.index != MAP_NONE; p = map_next(&g->tree_map, p))
        if (g->nodes[p.index].info == info && g->parent[p.index] == parent)
            return p.index;
    if (array_reserve(g->nodes, g->cap_nodes, g->n_nodes + 1, GRAPH_MAX) < 0)
        return GRAPH_NONE;
    if (g->cap_nodes != cap) {
        uint32_t *parents = mem_realloc_array(g->parent, g->cap_nodes, sizeof(*parents));

        if (!parents)
            return GRAPH_NONE;
        g->parent = parents;
    }
    if (map_insert(&g->tree_map, h, (uint32_t) g->n_nodes) < 0)
        return GRAPH_NONE;
    g->nodes[g->n_nodes] = (struct graph_node){.info = info};
    g->parent[g->n_nodes] = parent;
    return (uint32_t) g->n_nodes++;
}

static int add_tree_sample(struct graph *g, const struct prof_sample *s, int64_t w, int64_t dw)
{
    const uint32_t *frames = prof_sample_frames(g->prof, s);
    uint32_t parent = GRAPH_NONE;

    for (uint32_t i = s->frames.n; i-- > 0;) {
        uint32_t first = g->first_line[frames[i]], end = g->first_line[frames[i] + 1];

        for (uint32_t k = end; k-- > first;) {
            uint32_t n = tree_node(g, parent, g->line_infos[k]);

            if (n == GRAPH_NONE)
                return -ENOMEM;
            wrap_inc(&g->nodes[n].cum, w);
            wrap_inc(&g->nodes[n].cum_div, dw);
            g->stamp++;
            if (parent != GRAPH_NONE &&
                add_edge(g, parent, n, &(struct graph_edge){.weight = w, .weight_div = dw, .inlined = k != end - 1}) <
                    0)
                return -ENOMEM;
            parent = n;
        }
    }
    if (parent != GRAPH_NONE) {
        wrap_inc(&g->nodes[parent].flat, w);
        wrap_inc(&g->nodes[parent].flat_div, dw);
    }
    return 0;
}

static int build_tree(struct graph *g)
{
    int64_t w, dw;

    g->n_nodes = 0;
    for (size_t i = 0; i < g->prof->n_samples; i++) {
        const struct prof_sample *s = &g->prof->samples[i];

        if (sample_weight(g, s, &w, &dw) && add_tree_sample(g, s, w, dw) < 0)
            return -ENOMEM;
    }
    return index_edges(g);
}

int graph_visit(struct graph *g, const struct prof_sample *s, uint32_t **nodes, size_t *cap, uint32_t *ret_leaf)
{
    const uint32_t *frames = prof_sample_frames(g->prof, s);
    uint32_t parent = GRAPH_NONE, n = 0;
    bool residual = false;

    g->stamp++;
    for (uint32_t i = s->frames.n; i-- > 0;)
        for (uint32_t k = g->first_line[frames[i] + 1]; k-- > g->first_line[frames[i]];) {
            uint32_t node = g->o.call_tree ? tree_node(g, parent, g->line_infos[k]) : g->line_infos[k];

            if (node == GRAPH_NONE || array_reserve(*nodes, *cap, n + 1, GRAPH_MAX) < 0)
                return -ENOMEM;
            if (!g->o.call_tree && g->kept && !g->kept[node]) {
                residual = true;
                continue;
            }
            if (g->nodes[node].stamp != g->stamp)
                (*nodes)[n++] = node;
            g->nodes[node].stamp = g->stamp;
            parent = node;
            residual = false;
        }
    *ret_leaf = residual ? GRAPH_NONE : parent;
    return (int) n;
}

int graph_build(struct graph *g, bool edges)
{
    int r = g->o.call_tree ? 0 : build_graph(g, edges);

    return r < 0 ? r : select_nodes(g);
}

int graph_new(const struct prof *p, const struct graph_options *o, bool edges, struct graph **ret)
{
    _cleanup_(graph_freep) struct graph *g = mem_zalloc(sizeof(*g));
    int r;

    if (!g)
        return -ENOMEM;
    g->prof = p;
    g->o = *o;
    r = make_infos(g);
    if (r < 0)
        return r;
    if (o->call_tree) {
        r = build_tree(g);
        if (r >= 0)
            r = select_nodes(g);
    } else {
        g->nodes = mem_alloc((g->n_infos + 1) * sizeof(*g->nodes));
        g->cap_nodes = g->n_infos + 1;
        g->n_nodes = g->n_infos;
        r = g->nodes ? graph_build(g, edges) : -ENOMEM;
    }
    if (r < 0)
        return r;
    *ret = TAKE(g);
    return 0;
}
