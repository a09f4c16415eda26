/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how much memory symbols take, and frees what only the writer needs; see symbols.h. */
#include "base/mem.h"
#include "store/engines/segment/symbols/symbols.h"

static size_t map_bytes(const struct map *m)
{
    return m->slots ? (m->mask + (size_t) 1) * sizeof *m->slots : 0;
}

static size_t stable_bytes(const struct pinned *s)
{
    return (size_t) pinned_count(s) * s->elem;
}

size_t symbols_bytes(const struct symbols *s, size_t *ret_maps)
{
    const struct map *const maps[] = {&s->string_map,   &s->mapping_map, &s->function_map,
                                      &s->location_map, &s->series_map,  &s->service_map};
    size_t rows = s->arena.used + s->defs.cap + stable_bytes(&s->strings) + stable_bytes(&s->mappings) +
                  stable_bytes(&s->functions) + stable_bytes(&s->locations) + stable_bytes(&s->series);
    size_t own =
        s->location_prints.slots ? (s->location_prints.mask + (size_t) 1) * sizeof *s->location_prints.slots : 0;

    for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
        own += map_bytes(maps[i]);
    for (uint32_t i = 0; i < pinned_count(&s->services); i++) {
        const struct sym_service *v = sym_service(s, i);

        rows += sizeof *v + stable_bytes(&v->nodes);
        own += map_bytes(&v->node_map) + (v->stacks ? (v->stack_mask + (size_t) 1) * sizeof *v->stacks : 0);
    }
    if (ret_maps)
        *ret_maps = own;
    return rows + own;
}

void symbols_drop_maps(struct symbols *s)
{
    map_done(&s->string_map);
    map_done(&s->mapping_map);
    map_done(&s->function_map);
    map_done(&s->location_map);
    map_done(&s->series_map);
    idmap_done(&s->location_prints);
    memset(s->mapped, 0, sizeof s->mapped);
    for (uint32_t i = 0; i < pinned_count(&s->services); i++) {
        struct sym_service *v = sym_service(s, i);

        map_done(&v->node_map);
        v->mapped = 0;
        mem_free(v->stacks);
        v->stacks = NULL;
        v->n_stacks = v->stack_mask = 0;
    }
}
