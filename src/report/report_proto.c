/* SPDX-License-Identifier: Apache-2.0 */
/* -proto and -topproto: profiles as reports. See report.h. */
#include <errno.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "report/report.h"

static bool has_ratio(const struct report *r)
{
    return r->o.ratio > 0 && r->o.ratio != 1;
}

/* Without inlines only the outermost line is kept, and columns only if requested. */
static int cut_inlines(struct report *r)
{
    struct prof *p = r->prof;

    if (r->o.detail.inlines)
        return 0;
    for (size_t i = 1; i < p->n_locations; i++) {
        struct run *l = &p->locations[i].lines;
        struct line last;
        int64_t off;

        if (!l->n)
            continue;
        last = p->lines[l->off + l->n - 1];
        if (!r->o.detail.column)
            last.column = 0;
        off = prof_add_lines(p, &last, 1);
        if (off < 0)
            return (int) off;
        *l = (struct run){(uint32_t) off, 1};
    }
    for (size_t i = 1; i < p->n_mappings; i++)
        p->mappings[i].has_inline_frames = false;
    return 0;
}

static int whole_profile(struct report *r)
{
    struct prof *p = r->prof;
    int e = cut_inlines(r);

    for (size_t i = 0; has_ratio(r) && i < p->n_samples; i++)
        for (uint32_t k = 0; k < p->n_types; k++) {
            int64_t *v = &p->values[p->samples[i].values + k];

            *v = wrap_int64((double) *v * r->o.ratio);
        }
    return e;
}

/* Functions by (name, file, start line), each once. */
static int64_t find_function(struct prof *out, struct map *map, const struct graph_info *i)
{
    uint64_t h =
        hash_mix(hash64_u64(((uint64_t) i->name << 32) | i->file), (uint64_t) i->start_line ^ 0x9e3779b97f4a7c15ull);
    int64_t n;

    for (struct map_pos p = map_find(map, h); p.index != MAP_NONE; p = map_next(map, p)) {
        const struct prof_function *f = &out->functions[p.index];

        if (f->name == i->name && f->filename == i->file && f->start_line == i->start_line)
            return p.index;
    }
    n = prof_add_function(out, &(struct prof_function){i->name, 0, i->file, i->start_line});
    return n < 0 || map_insert(map, h, (uint32_t) n) < 0 ? -ENOMEM : n;
}

static int add_entry(const struct report *r, struct prof *out, struct map *map, const struct graph *g, uint32_t node)
{
    const struct graph_info *i = graph_node_info(g, node);
    struct line line = {.line = i->line, .column = i->column};
    int64_t function = find_function(out, map, i), lines, location, frames, values, v[2];
    struct str unit;
    uint32_t l;

    if (function < 0)
        return (int) function;
    line.function = (uint32_t) function;
    lines = prof_add_lines(out, &line, 1);
    location =
        lines < 0
            ? lines
            : prof_add_location(out, &(struct prof_location){.address = i->address, .lines = {(uint32_t) lines, 1}});
    if (location < 0)
        return (int) location;
    l = (uint32_t) location;
    v[0] = wrap_int64(units_convert(&r->values, graph_cum(&g->nodes[node]), &unit));
    v[1] = wrap_int64(units_convert(&r->values, graph_flat(&g->nodes[node]), &unit));
    frames = prof_add_frames(out, &l, 1);
    values = prof_add_values(out, v, 2);
    if (frames < 0 || values < 0)
        return -ENOMEM;
    return prof_add_sample(out, &(struct prof_sample){{(uint32_t) frames, 1}, 0, (uint32_t) values});
}

static int top_profile(struct report *r, struct prof **ret)
{
    _cleanup_(prof_freep) struct prof *out = NULL;
    _cleanup_(graph_freep) struct graph *g = NULL;
    struct strtab *t = &r->prof->pool->strings;
    struct report_graph rg;
    struct map map = MAP_INIT;
    uint32_t unit;
    int e = prof_new(r->prof->pool, &out);

    if (e >= 0)
        e = report_graph(r, &rg);
    if (e < 0)
        return e;
    g = rg.g;
    report_select_unit(r, g);
    unit = strtab_copy(t, r->o.output_unit);
    out->types[0] = (struct prof_type){strtab_copy(t, STR("cum")), unit};
    out->types[1] = (struct prof_type){strtab_copy(t, STR("flat")), unit};
    out->n_types = 2;
    out->time_ns = r->prof->time_ns;
    out->duration_ns = r->prof->duration_ns;
    out->period_type = r->prof->period_type;
    out->period = r->prof->period;
    for (size_t i = 0; e >= 0 && i < g->n_order; i++)
        e = add_entry(r, out, &map, g, g->order[i]);
    map_done(&map);
    if (e < 0)
        return e;
    *ret = TAKE(out);
    return 0;
}

int report_proto(struct report *r, struct prof **ret_new, struct err *e)
{
    int n;

    *ret_new = NULL;
    n = r->o.format == REPORT_TOPPROTO ? top_profile(r, ret_new) : whole_profile(r);
    return n < 0 ? err_set(e, n, "not enough memory for the report") : 0;
}
