/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_to_flamebearer() of tree_form.h. Bars of a level in drawing order, each placed relative to the end of the bar
 * before it on its level. A diff places both sides: a bar's width is the sum of its two columns.
 */
#include <errno.h>

#include "base/json.h"
#include "query/tree_form.h"

struct bars {
    uint32_t *first_child, *next; /* per node, children in index order */
    uint32_t *depth;
    int64_t *x[2];      /* per node and column: left edge */
    uint32_t *order;    /* nodes by depth, left to right */
    uint32_t *level_at; /* per depth: first of order */
    uint32_t n_levels;
    struct arena arena;
};

static int bars_alloc(struct bars *b, uint32_t n)
{
    arena_init(&b->arena, 0);
    b->first_child = arena_zalloc_array(&b->arena, n, sizeof(uint32_t));
    b->next = arena_zalloc_array(&b->arena, n, sizeof(uint32_t));
    b->depth = arena_zalloc_array(&b->arena, n, sizeof(uint32_t));
    b->order = arena_zalloc_array(&b->arena, n, sizeof(uint32_t));
    b->level_at = arena_zalloc_array(&b->arena, (size_t) n + 2, sizeof(uint32_t));
    b->x[0] = arena_zalloc_array(&b->arena, n, sizeof(int64_t));
    b->x[1] = arena_zalloc_array(&b->arena, n, sizeof(int64_t));
    return b->first_child && b->next && b->depth && b->order && b->level_at && b->x[0] && b->x[1] ? 0 : -ENOMEM;
}

/* Children lists, depths, and the nodes of each level in drawing order: parents come before children, so one level's
 * order follows from the one above. */
static void bars_layout(struct bars *b, const struct tree *t)
{
    uint32_t n = 1, from = 0, to = 1;

    for (uint32_t i = t->n_nodes; i-- > 1;) {
        b->next[i] = b->first_child[t->parent[i]];
        b->first_child[t->parent[i]] = i;
    }
    for (; from < to; from = to, to = n) {
        b->level_at[b->n_levels++] = from;
        for (uint32_t k = from; k < to; k++) {
            uint32_t p = b->order[k];
            int64_t x[2] = {b->x[0][p], b->x[1][p]};

            for (uint32_t c = b->first_child[p]; c; c = b->next[c]) {
                for (uint32_t col = 0; col < t->n_columns; col++) {
                    b->x[col][c] = x[col];
                    x[col] += t->total[col][c];
                }
                b->order[n++] = c;
            }
        }
    }
    b->level_at[b->n_levels] = n;
}

static void put_level(struct buf *out, const struct tree *t, const struct bars *b, uint32_t level)
{
    int64_t end[2] = {0, 0};

    buf_putc(out, '[');
    for (uint32_t k = b->level_at[level]; k < b->level_at[level + 1]; k++) {
        uint32_t i = b->order[k];

        if (k > b->level_at[level])
            buf_putc(out, ',');
        for (uint32_t col = 0; col < t->n_columns; col++) {
            json_put_i64(out, b->x[col][i] - end[col]);
            buf_putc(out, ',');
            json_put_i64(out, t->total[col][i]);
            buf_putc(out, ',');
            json_put_i64(out, t->self[col][i]);
            buf_putc(out, ',');
            end[col] = b->x[col][i] + t->total[col][i];
        }
        json_put_u64(out, i ? t->frame[i] + 1 : 0);
    }
    buf_putc(out, ']');
}

static void put_names(struct buf *out, const struct tree *t)
{
    buf_puts(out, "[\"total\"");
    for (uint32_t i = 0; i < t->n_frames; i++) {
        const struct frame *f = &t->frames[i];

        buf_putc(out, ',');
        if (f->function.n || i == TREE_FOLDED)
            json_put_str(out, i == TREE_FOLDED ? STR("other") : f->function);
        else
            buf_printf(out, "\"0x%llx\"", (unsigned long long) f->address);
    }
    buf_putc(out, ']');
}

int tree_to_flamebearer(struct buf *out, const struct tree *t)
{
    struct bars b = {0};
    int64_t max_self = 0;
    int r = bars_alloc(&b, t->n_nodes);

    if (r < 0) {
        arena_done(&b.arena);
        return r;
    }
    bars_layout(&b, t);
    for (uint32_t c = 0; c < t->n_columns; c++)
        for (uint32_t i = 0; i < t->n_nodes; i++)
            max_self = MAX(max_self, t->self[c][i]);
    buf_puts(out, "{\"names\":");
    put_names(out, t);
    buf_puts(out, ",\"levels\":[");
    for (uint32_t l = 0; l < b.n_levels; l++) {
        if (l)
            buf_putc(out, ',');
        put_level(out, t, &b, l);
    }
    buf_puts(out, "],\"numTicks\":");
    json_put_i64(out, t->total[0][0] + (t->n_columns > 1 ? t->total[1][0] : 0));
    buf_puts(out, ",\"maxSelf\":");
    json_put_i64(out, max_self);
    buf_putc(out, '}');
    arena_done(&b.arena);
    return buf_error(out);
}
