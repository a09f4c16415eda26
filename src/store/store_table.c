/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for all engines (store_table.h): which row a frame belongs to, and the sums by row over a finished tree. */
#include "store/store_table.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/wrap.h"

int store_table_init(struct store_table *t, const struct store_table_query *q)
{
    *t = (struct store_table){.q = *q};
    arena_init(&t->arena, 0);
    return q->rows == ROWS_FRAME ? tree_new(1, 0, &t->frames) : 0;
}

void store_table_done(struct store_table *t)
{
    mem_free(t->rows);
    mem_free(t->gaps);
    map_done(&t->gap_map);
    mem_free(t->keys);
    map_done(&t->key_map);
    tree_free(t->frames);
    arena_done(&t->arena);
    *t = (struct store_table){0};
}

enum granularity store_table_granularity(enum store_rows rows)
{
    static const enum granularity need[] = {
        [ROWS_FUNCTION] = BY_FILEFUNCTION, [ROWS_FILE] = BY_FILE,       [ROWS_LINE] = BY_LINE,
        [ROWS_MAPPING] = BY_ADDRESS,       [ROWS_PACKAGE] = BY_ADDRESS, [ROWS_FRAME] = BY_ADDRESS,
        [ROWS_UNLINED] = BY_ADDRESS,
    };

    return need[rows];
}

/* --- the row of a frame --- */

static struct str name_of(struct store_table *t, struct str name, const struct frame *f, bool by_address)
{
    if (!name.n && by_address && f->mapping.n)
        name =
            f->address
                ? str_from(arena_printf(&t->arena, "%.*s+0x%llx", STR_FMT(f->mapping), (unsigned long long) f->address))
                : f->mapping;
    return name.n ? name : STR("[unknown]");
}

static enum table_scope scope_of(const struct frame *f)
{
    return frame_is_of_script(f) ? SCOPE_FILE : f->kind == FRAME_KERNEL ? SCOPE_KERNEL : SCOPE_USER;
}

/* False: the frame is in no row. */
static bool key_of(struct store_table *t, const struct frame *f, struct table_key *ret)
{
    *ret = (struct table_key){0};
    switch (t->q.rows) {
    case ROWS_FUNCTION:
    case ROWS_LINE:
        ret->name = name_of(t, f->function, f, true);
        ret->file = frame_file(f);
        ret->several_files = f->in_files;
        ret->line = t->q.rows == ROWS_LINE ? f->line : 0;
        ret->scope = t->q.rows == ROWS_LINE ? SCOPE_FILE : scope_of(f);
        break;
    case ROWS_FILE:
        ret->name = name_of(t, f->file, f, false);
        break;
    case ROWS_MAPPING:
        ret->name = name_of(t, f->mapping, f, false);
        break;
    case ROWS_PACKAGE:
        ret->name = name_of(t, frame_package(f), f, false);
        break;
    case ROWS_FRAME:
        break;
    case ROWS_UNLINED:
        if (f->file.n || f->line || !f->build_id.n || !f->address || f->kind == FRAME_KERNEL)
            return false;
        ret->name = f->build_id;
        ret->address = f->address;
        break;
    }
    return !(t->q.function.n && !str_eq(ret->name, t->q.function)) && !(t->q.file.n && !str_eq(ret->file, t->q.file));
}

static bool is_row(const struct table_key *row, const struct table_key *k)
{
    return row->line == k->line && row->address == k->address && row->scope == k->scope && str_eq(row->name, k->name) &&
           (k->scope != SCOPE_FILE || str_eq(row->file, k->file));
}

/* Another frame of a row: its file is that of the row only while no other is known. */
static int note_file(struct store_table *t, struct table_key *row, const struct table_key *k)
{
    row->several_files |= k->several_files || (row->file.n && k->file.n && !str_eq(row->file, k->file));
    if (row->several_files)
        row->file = (struct str){0};
    else if (k->file.n && !row->file.n)
        row->file = arena_str(&t->arena, k->file);
    return row->file.n || row->several_files || !k->file.n ? 0 : -ENOMEM;
}

/* Returns the row of the key: if it is new, n_rows. */
static uint32_t intern_key(struct store_table *t, const struct table_key *k)
{
    uint64_t h = hash_mix(hash64_str(k->name) ^ (uint64_t) k->line ^ k->address,
                          k->scope == SCOPE_FILE ? hash64_str(k->file) | 1 : 1 + 2ul * k->scope);

    for (struct map_pos p = map_find(&t->key_map, h); p.index != MAP_NONE; p = map_next(&t->key_map, p))
        if (is_row(&t->keys[p.index], k))
            return note_file(t, &t->keys[p.index], k) < 0 ? TABLE_NO_MEMORY : p.index;
    if (t->q.max_rows && t->n_rows == t->q.max_rows)
        return TABLE_NO_ROW;
    if (array_reserve(t->keys, t->cap_keys, (size_t) t->n_rows + 1, TABLE_NO_MEMORY) < 0 ||
        map_insert(&t->key_map, h, t->n_rows) < 0)
        return TABLE_NO_MEMORY;
    t->keys[t->n_rows] = *k;
    t->keys[t->n_rows].name = arena_str(&t->arena, k->name);
    t->keys[t->n_rows].file = arena_str(&t->arena, k->file);
    return t->n_rows;
}

static uint32_t intern_frame(struct store_table *t, const struct frame *f)
{
    uint32_t i = tree_frame(t->frames, f);

    return i == TREE_NONE ? TABLE_NO_MEMORY : i - 1;
}

/* The build ID of a frame that lacks a name or a line; empty where it does not matter for this table. */
static struct str binary_lacking(const struct store_table *t, const struct frame *f)
{
    if (t->q.rows == ROWS_UNLINED)
        return (struct str){0};
    if (tree_frame_nameless(f))
        return f->build_id;
    if (t->q.rows == ROWS_PACKAGE && !f->file.n && !f->line && f->kind != FRAME_KERNEL)
        return f->build_id;
    return f->unlined;
}

static int note_gap(struct store_table *t, struct str build_id, bool named)
{
    uint64_t h = hash64_str(build_id) + named;
    int r;

    for (struct map_pos p = map_find(&t->gap_map, h); p.index != MAP_NONE; p = map_next(&t->gap_map, p))
        if (t->gaps[p.index].named == named && str_eq(t->gaps[p.index].build_id, build_id))
            return 0;
    r = array_reserve(t->gaps, t->cap_gaps, (size_t) t->n_gaps + 1, UINT32_MAX);
    if (r == 0)
        r = map_insert(&t->gap_map, h, t->n_gaps);
    if (r < 0)
        return r;
    t->gaps[t->n_gaps] = (struct table_gap){arena_str(&t->arena, build_id), named};
    return t->gaps[t->n_gaps++].build_id.p ? 0 : -ENOMEM;
}

uint32_t store_table_row(struct store_table *t, const struct frame *f)
{
    struct str gap = binary_lacking(t, f);
    struct table_key key;
    uint32_t row;

    if (gap.n && note_gap(t, gap, !tree_frame_nameless(f)) < 0)
        return TABLE_NO_MEMORY;
    if (!key_of(t, f, &key))
        return TABLE_NO_ROW;
    row = t->q.rows == ROWS_FRAME ? intern_frame(t, f) : intern_key(t, &key);
    if (row == TABLE_NO_MEMORY || row == TABLE_NO_ROW)
        return row;
    if (row >= t->n_rows) {
        if (array_reserve(t->rows, t->cap_rows, (size_t) row + 1, TABLE_NO_MEMORY) < 0)
            return TABLE_NO_MEMORY;
        t->rows[row] = (struct table_row){0};
        t->n_rows = row + 1;
    }
    if (t->q.rows != ROWS_MAPPING && t->q.rows != ROWS_PACKAGE)
        t->rows[row].kind = MAX(t->rows[row].kind, f->kind);
    return row;
}

/* --- the rows of a tree --- */

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
