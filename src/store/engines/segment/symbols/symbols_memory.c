/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how much memory symbols take, and frees what only the writer needs, and moves the rest to files; see symbols.h. */
#include <fcntl.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/symbols/symbols.h"

static size_t map_bytes(const struct map *m)
{
    return m->slots ? (m->mask + (size_t) 1) * sizeof *m->slots : 0;
}

/* What is in use of the blocks that are in memory. */
static size_t stable_bytes(const struct pinned *s)
{
    size_t left = pinned_count(s), sum = 0;

    for (int i = 0; left && i < PINNED_BLOCKS; i++) {
        size_t n = MIN(left, pinned_block_size(s, i) / s->elem);

        if (!(s->out & 1u << i))
            sum += n * s->elem;
        left -= n;
    }
    return sum;
}

size_t symbols_bytes(const struct symbols *s, size_t *ret_maps)
{
    const struct map *const maps[] = {&s->string_map,   &s->mapping_map, &s->function_map,
                                      &s->location_map, &s->series_map,  &s->service_map};
    size_t rows = s->arena.used - s->chunks_out + s->defs.cap + stable_bytes(&s->strings) + stable_bytes(&s->mappings) +
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

/* --- moving to a file --- */

static void add_piece(struct symbols_paging *x, struct symbols_piece piece, size_t *left)
{
    bool moved = piece.out ? *piece.out & piece.bit : *piece.chunk;

    if (!piece.p || moved || piece.size < PAGED_MIN || (piece.size > *left && x->n) || x->n == ARRAY_SIZE(x->pieces))
        return;
    x->pieces[x->n++] = piece;
    *left -= MIN(piece.size, *left);
}

static void add_table(struct symbols_paging *x, struct pinned *t, size_t *left)
{
    for (int i = 0; i < PINNED_BLOCKS; i++)
        add_piece(x,
                  (struct symbols_piece){atomic_load(&t->blocks[i]), pinned_block_size(t, i), &t->out, 1u << i, NULL},
                  left);
}

bool symbols_page_begin(struct symbols *s, size_t most, struct symbols_paging *ret)
{
    struct pinned *const tables[] = {&s->strings, &s->mappings, &s->functions, &s->locations, &s->series};

    ret->symbols = s;
    ret->n = 0;
    ret->fd = -1;
    for (struct arena_chunk *c = s->arena.chunk; c; c = c->next)
        add_piece(ret, (struct symbols_piece){c, sizeof *c + c->size, NULL, 0, &c->out}, &most);
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
        add_table(ret, tables[i], &most);
    for (uint32_t i = 0; i < pinned_count(&s->services); i++)
        add_table(ret, &sym_service(s, i)->nodes, &most);
    return ret->n > 0;
}

int symbols_page_write(struct symbols_paging *x, int dir)
{
    off_t at = 0;
    int r = 0;

    x->fd = fd_open(dir, ".", O_TMPFILE | O_RDWR, 0600);
    if (x->fd < 0)
        return x->fd;
    for (unsigned i = 0; r == 0 && i < x->n; i++) {
        r = paged_write(x->fd, at, x->pieces[i].p, x->pieces[i].size);
        at += (off_t) paged_length(x->pieces[i].size);
    }
    return r == 0 ? fd_datasync(x->fd) : r; /* an error must be found while the memory is there */
}

void symbols_page_end(struct symbols_paging *x)
{
    off_t at = 0;

    for (unsigned i = 0; i < x->n; i++) {
        if (paged_swap(x->fd, at, x->pieces[i].p, x->pieces[i].size) == 0) {
            if (x->pieces[i].out) {
                *x->pieces[i].out |= x->pieces[i].bit;
            } else {
                *x->pieces[i].chunk = true;
                x->symbols->chunks_out += x->pieces[i].size;
            }
            x->symbols->out += x->pieces[i].size;
            x->symbols->n_out++;
        }
        at += (off_t) paged_length(x->pieces[i].size);
    }
}

void symbols_drop_maps(struct symbols *s)
{
    map_done(&s->string_map);
    map_done(&s->mapping_map);
    map_done(&s->function_map);
    map_done(&s->location_map);
    map_done(&s->series_map);
    idmap_done(&s->location_prints);
    if (!s->defs.n)
        buf_done(&s->defs);
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
