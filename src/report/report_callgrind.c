/* SPDX-License-Identifier: Apache-2.0 */
/* -callgrind: costs per node and call, for KCachegrind. Names appear in full once, then as (number). See report.h. */
#include <errno.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/wrap.h"
#include "report/report.h"

struct numbered {
    uint32_t *number; /* per string */
    uint32_t n;
};

struct callgrind {
    struct report *r;
    struct graph *g;
    struct buf *out;
    struct numbered objects, files, names;
    size_t n_strings;
    uint32_t *shown_name; /* per node: its name, made unique among equal names */
    struct units_conversion scale;
};

static void put_name(struct callgrind *c, const char *tag, struct numbered *n, uint32_t s)
{
    buf_puts(c->out, tag);
    if (s) {
        if (n->number[s]) {
            buf_printf(c->out, "(%u)", n->number[s]);
        } else {
            n->number[s] = ++n->n;
            buf_printf(c->out, "(%u) ", n->n);
            printable_put(c->out, prof_str(c->r->prof, s), false);
        }
    }
    buf_putc(c->out, '\n');
}

/* Relative to the previous node's address where that is shorter. */
static void put_address(struct callgrind *c, const struct graph_info *prev, uint64_t address)
{
    char absolute[24], relative[24];
    int n = snprintf(absolute, sizeof(absolute), address ? "0x%llx" : "0x0", (unsigned long long) address);

    if (prev && prev->address == address) {
        buf_putc(c->out, '*');
        return;
    }
    if (prev && snprintf(relative, sizeof(relative), "%+lld", (long long) (address - prev->address)) < n)
        buf_puts(c->out, relative);
    else
        buf_puts(c->out, absolute);
}

static int64_t scaled(const struct callgrind *c, int64_t v)
{
    struct str unit;

    return wrap_int64(units_convert(&c->scale, v, &unit));
}

/* Functions that share file and name but differ in object or start line get "[i/n]" after their name. */
struct twin {
    uint32_t file, name, object;
    uint32_t parent; /* in a call tree each path has functions of its own */
    int64_t start_line;
    uint32_t group, index; /* group: first twin of the same file and name */
    uint32_t size;         /* of the group, on its first */
};

struct twins {
    struct twin *v;
    size_t n, cap;
    struct map functions, groups;
};

static uint32_t twin_of(struct twins *t, const struct graph_info *i, uint32_t parent)
{
    uint64_t group_hash = hash64_u64(((uint64_t) i->file << 32) | i->name);
    uint64_t h =
        hash_mix(group_hash ^ ((uint64_t) parent << 32) ^ i->object, (uint64_t) i->start_line ^ 0x9e3779b97f4a7c15ull);
    struct map_pos p;
    uint32_t group;

    for (p = map_find(&t->functions, h); p.index != MAP_NONE; p = map_next(&t->functions, p)) {
        const struct twin *o = &t->v[p.index];

        if (o->file == i->file && o->name == i->name && o->object == i->object && o->start_line == i->start_line &&
            o->parent == parent)
            return p.index;
    }
    for (p = map_find(&t->groups, group_hash); p.index != MAP_NONE; p = map_next(&t->groups, p))
        if (t->v[p.index].file == i->file && t->v[p.index].name == i->name)
            break;
    if (array_reserve(t->v, t->cap, t->n + 1, 1u << 28) < 0 || map_insert(&t->functions, h, (uint32_t) t->n) < 0)
        return GRAPH_NONE;
    group = p.index != MAP_NONE ? p.index : (uint32_t) t->n;
    if (p.index == MAP_NONE && map_insert(&t->groups, group_hash, group) < 0)
        return GRAPH_NONE;
    t->v[t->n] = (struct twin){i->file, i->name, i->object, parent, i->start_line, group, 0, 0};
    t->v[t->n].index = t->v[group].size++;
    return (uint32_t) t->n++;
}

static int name_nodes(struct callgrind *c)
{
    struct twins t = {0};
    struct strtab *strings = &c->r->prof->pool->strings;
    uint32_t *twin = mem_alloc((c->g->n_nodes + 1) * sizeof(*twin));
    int r = twin ? 0 : -ENOMEM;

    for (size_t i = 0; r >= 0 && i < c->g->n_order; i++) {
        uint32_t n = c->g->order[i];

        twin[n] = twin_of(&t, graph_node_info(c->g, n), c->g->parent ? c->g->parent[n] : GRAPH_NONE);
        if (twin[n] == GRAPH_NONE)
            r = -ENOMEM;
    }
    for (size_t i = 0; r >= 0 && i < c->g->n_order; i++) {
        uint32_t n = c->g->order[i], name = graph_node_info(c->g, n)->name;
        const struct twin *w = &t.v[twin[n]];

        if (t.v[w->group].size > 1) {
            _cleanup_(buf_done) struct buf text = BUF_INIT;

            buf_printf(&text, "%.*s [%u/%u]", STR_FMT(prof_str(c->r->prof, name)), w->index + 1, t.v[w->group].size);
            name = strtab_copy(strings, buf_str(&text));
        }
        c->shown_name[n] = name;
    }
    mem_free(twin);
    mem_free(t.v);
    map_done(&t.functions);
    map_done(&t.groups);
    return r;
}

static void put_node(struct callgrind *c, uint32_t node, const struct graph_info *prev, uint32_t *scratch)
{
    const struct graph_info *i = graph_node_info(c->g, node);
    uint32_t n;

    if (!prev || prev->object != i->object || prev->file != i->file || prev->name != i->name) {
        buf_putc(c->out, '\n');
        put_name(c, "ob=", &c->objects, i->object);
        put_name(c, "fl=", &c->files, i->file);
        put_name(c, "fn=", &c->names, i->name);
    }
    put_address(c, prev, i->address);
    buf_printf(c->out, " %lld %lld\n", (long long) i->line, (long long) scaled(c, graph_flat(&c->g->nodes[node])));
    n = graph_sorted_edges(c->g, node, false, scratch);
    for (uint32_t k = 0; k < n; k++) {
        const struct graph_edge *e = &c->g->edges[scratch[k]];
        const struct graph_info *to = graph_node_info(c->g, e->dst);

        put_name(c, "cfl=", &c->files, to->file);
        put_name(c, "cfn=", &c->names, c->shown_name[e->dst]);
        buf_puts(c->out, "calls=0 ");
        put_address(c, prev, to->address);
        buf_printf(c->out, " %lld\n* * %lld\n", (long long) to->line, (long long) scaled(c, e->weight));
    }
}

static int put_all(struct callgrind *c)
{
    _cleanup_(mem_freep) uint32_t *scratch = mem_alloc((c->g->n_edges + 1) * sizeof(*scratch));
    const struct graph_info *prev = NULL;
    int r;

    c->shown_name = mem_zalloc_array(c->g->n_nodes + 1, sizeof(*c->shown_name));
    r = c->shown_name && scratch ? name_nodes(c) : -ENOMEM;
    if (r < 0)
        return r;
    c->n_strings = c->r->prof->pool->strings.n;
    c->objects.number = mem_zalloc_array(c->n_strings, sizeof(uint32_t));
    c->files.number = mem_zalloc_array(c->n_strings, sizeof(uint32_t));
    c->names.number = mem_zalloc_array(c->n_strings, sizeof(uint32_t));
    if (!c->objects.number || !c->files.number || !c->names.number)
        return -ENOMEM;
    buf_printf(c->out, "positions: instr line\nevents: %.*s(%.*s)\n", STR_FMT(c->r->o.sample_type),
               STR_FMT(c->r->o.output_unit));
    for (size_t i = 0; i < c->g->n_order; i++) {
        put_node(c, c->g->order[i], prev, scratch);
        prev = graph_node_info(c->g, c->g->order[i]);
    }
    return 0;
}

int report_callgrind(struct report *r, struct buf *out)
{
    struct callgrind c = {.r = r, .out = out};
    struct report_graph rg;
    int e;

    r->o.node_fraction = r->o.edge_fraction = 0;
    r->o.node_count = 0;
    e = report_graph(r, &rg);
    if (e < 0)
        return e;
    c.g = rg.g;
    report_select_unit(r, rg.g);
    c.scale = r->values;
    e = put_all(&c);
    mem_free(c.shown_name);
    mem_free(c.objects.number);
    mem_free(c.files.number);
    mem_free(c.names.number);
    graph_free(rg.g);
    return e;
}
