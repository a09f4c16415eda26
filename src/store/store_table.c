/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the values of a tree by row, without counting a row twice on a path; see store_table.h. */
#include "store/store_table.h"

#include <errno.h>

#include "base/mem.h"
#include "base/wrap.h"

uint32_t store_table_row(struct store_table *t, const struct frame *f)
{
    uint32_t row = t->row(t->ctx, f);

    if (row == TABLE_NO_ROW || row == TABLE_NO_MEMORY || row < t->n_rows)
        return row;
    if (array_reserve(t->rows, t->cap_rows, (size_t) row + 1, TABLE_NO_MEMORY) < 0)
        return TABLE_NO_MEMORY;
    memset(t->rows + t->n_rows, 0, (row + 1 - t->n_rows) * sizeof *t->rows);
    t->n_rows = row + 1;
    return row;
}

void store_table_restart(struct store_table *t)
{
    t->n_rows = 0;
    t->sum[0] = t->sum[1] = 0;
    t->restart(t->ctx);
}

void store_table_done(struct store_table *t)
{
    mem_free(t->rows);
    arena_done(&t->arena);
}

static bool on_path(const struct tree *t, const uint32_t *row_of_frame, uint32_t node, uint32_t row)
{
    for (uint32_t p = t->parent[node]; p != 0 && p != TREE_NONE; p = t->parent[p])
        if (row_of_frame[t->frame[p]] == row)
            return true;
    return false;
}

int store_table_add_tree(struct store_table *t, const struct tree *tree)
{
    _cleanup_(mem_freep) uint32_t *row_of_frame = mem_alloc(tree->n_frames * sizeof *row_of_frame);

    if (!row_of_frame)
        return -ENOMEM;
    row_of_frame[TREE_FOLDED] = TABLE_NO_ROW;
    for (uint32_t i = 1; i < tree->n_frames; i++) {
        row_of_frame[i] = store_table_row(t, &tree->frames[i]);
        if (row_of_frame[i] == TABLE_NO_MEMORY)
            return -ENOMEM;
    }
    t->type = arena_str(&t->arena, tree->type);
    t->unit = arena_str(&t->arena, tree->unit);
    for (uint32_t c = 0; c < tree->n_columns; c++)
        t->sum[c] = wrap_add(t->sum[c], tree->total[c][0]);
    for (uint32_t i = 1; i < tree->n_nodes; i++) {
        uint32_t row = row_of_frame[tree->frame[i]];
        bool again;

        if (row == TABLE_NO_ROW)
            continue;
        again = on_path(tree, row_of_frame, i, row);
        for (uint32_t c = 0; c < tree->n_columns; c++) {
            t->rows[row].self[c] = wrap_add(t->rows[row].self[c], tree->self[c][i]);
            if (!again)
                t->rows[row].total[c] = wrap_add(t->rows[row].total[c], tree->total[c][i]);
        }
    }
    return 0;
}
