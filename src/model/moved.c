/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that moved between the two sides of a diff; see moved.h. */
#include "model/moved.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

#define WHOLE_PATH 0

static struct str last_components(struct str file, int n)
{
    size_t i = file.n;

    if (n == WHOLE_PATH)
        return file;
    while (i > 0 && !(file.p[i - 1] == '/' && --n == 0))
        i--;
    return (struct str){file.p + i, file.n - i};
}

static int compare_keys(const struct moved *a, const struct moved *b, int components)
{
    int r = str_cmp(a->name, b->name);

    if (!r)
        r = a->kind - b->kind;
    return r ? r : str_cmp(last_components(a->file, components), last_components(b->file, components));
}

/* By key; then side 0 before side 1, each in the order of files and lines. What has its match is last. */
static int compare(const void *x, const void *y, void *arg)
{
    const struct moved *a = x, *b = y;
    const int *components = arg;
    bool done_a = a->into != TREE_NONE, done_b = b->into != TREE_NONE;
    int r = done_a - done_b;

    if (!r)
        r = compare_keys(a, b, *components);
    if (!r)
        r = a->side - b->side;
    if (!r)
        r = str_cmp(a->file, b->file);
    return r ? r : (a->line > b->line) - (a->line < b->line);
}

/* Matches what is equal by so many components. */
static void match_by(struct moved *items, size_t n, int components)
{
    size_t end;

    qsort_r(items, n, sizeof *items, compare, &components);
    for (size_t i = 0; i < n && items[i].into == TREE_NONE; i = end) {
        size_t before = 0;

        for (end = i; end < n && items[end].into == TREE_NONE && !compare_keys(&items[i], &items[end], components);
             end++)
            before += items[end].side == 0;
        if (before * 2 != end - i)
            continue;
        for (size_t k = i; k < i + before; k++)
            items[k].into = items[k + before].into = items[k + before].index;
    }
}

void moved_match(struct moved *items, size_t n)
{
    static const int components[] = {WHOLE_PATH, 3, 2, 1};

    for (size_t i = 0; i < n; i++)
        items[i].into = TREE_NONE;
    for (size_t i = 0; i < ARRAY_SIZE(components) && n; i++)
        match_by(items, n, components[i]);
}

/* Bits per frame: in which columns it has values. */
static uint8_t *sides_of_frames(const struct tree *t)
{
    _cleanup_(mem_freep) uint8_t *nodes = mem_zalloc_array(t->n_nodes, 1);
    uint8_t *frames = mem_zalloc_array(t->n_frames, 1);

    if (!nodes || !frames) {
        mem_free(frames);
        return NULL;
    }
    for (uint32_t i = t->n_nodes; i-- > 1;) {
        nodes[i] |= (uint8_t) ((t->self[0][i] ? 1 : 0) | (t->self[1][i] ? 2 : 0));
        nodes[t->parent[i]] |= nodes[i];
        frames[t->frame[i]] |= nodes[i];
    }
    return frames;
}

int tree_match_moved(struct tree **t)
{
    struct tree *from = *t;
    _cleanup_(tree_freep) struct tree *to = NULL;
    _cleanup_(mem_freep) uint8_t *sides = sides_of_frames(from);
    _cleanup_(mem_freep) struct moved *items = mem_zalloc_array(from->n_frames, sizeof *items);
    size_t n = 0, moved = 0;
    int r;

    if (!sides || !items)
        return -ENOMEM;
    for (uint32_t i = 1; i < from->n_frames; i++) {
        const struct frame *f = &from->frames[i];

        if ((sides[i] == 1 || sides[i] == 2) && f->function.n && frame_is_of_script(f))
            items[n++] = (struct moved){f->function, f->file, f->start_line, i, f->kind, sides[i] == 2, 0};
    }
    moved_match(items, n);
    for (size_t i = 0; i < n; i++)
        if (items[i].side == 0 && items[i].into != TREE_NONE) {
            from->frames[items[i].index] = from->frames[items[i].into];
            moved++;
        }
    if (!moved)
        return 0;
    r = tree_new(2, from->arena.limit, &to);
    for (uint32_t c = 0; r == 0 && c < 2; c++)
        r = tree_merge_selfs(to, c, from, c);
    if (r < 0)
        return r;
    tree_sum_up(to);
    to->type = arena_str(&to->arena, from->type);
    to->unit = arena_str(&to->arena, from->unit);
    memcpy(to->covered_ns, from->covered_ns, sizeof to->covered_ns);
    tree_free(from);
    *t = TAKE(to);
    return 0;
}
