/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that moved between the two sides of a diff; see moved.h. */
#include "model/moved.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

/* --- files --- */

struct place {
    struct str path;
    uint8_t sides;
    bool matched;
    uint32_t into;    /* index of the place that it is now */
    uint32_t seen[2]; /* how many of the places before this one, in order of paths, are on each side */
};

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

/* The last n components of a path. */
static struct str path_end(struct str path, int n)
{
    uint32_t i = path.n;

    while (i > 0 && !(is_slash(path.p[i - 1]) && --n == 0))
        i--;
    return str_slice(path, i, path.n);
}

/* The length of the folder that is left of a path without the components at its end that other has, too; 0 = none. */
static uint32_t folder_before_common_end(struct str path, struct str other)
{
    uint32_t i = path.n, k = other.n, folder = 0;

    for (; i > 0 && k > 0 && path.p[i - 1] == other.p[k - 1]; i--, k--)
        if (is_slash(path.p[i - 1]))
            folder = i;
    return k == 0 && i > 0 && is_slash(path.p[i - 1]) ? i : folder;
}

/* The first place whose path is within the folder or after it; with after, the first one after it. */
static uint32_t find_place(const struct place *v, uint32_t n, struct str folder, bool after)
{
    uint32_t low = 0, high = n;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int r = str_cmp(str_slice(v[mid].path, 0, MIN(v[mid].path.n, folder.n)), folder);

        if (r < 0 || (after && r == 0))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Whether a folder has nothing on a side: 0 base, 1 new. v has one more place, the end. */
static bool is_empty_folder(const struct place *v, uint32_t n, struct str folder, int side)
{
    return v[find_place(v, n, folder, false)].seen[side] == v[find_place(v, n, folder, true)].seen[side];
}

static bool was_replaced(const struct place *v, uint32_t n, struct str old, struct str new)
{
    uint32_t a = folder_before_common_end(old, new), b = folder_before_common_end(new, old);

    return (!a || is_empty_folder(v, n, str_slice(old, 0, a), 1)) &&
           (!b || is_empty_folder(v, n, str_slice(new, 0, b), 0));
}

struct end_order {
    const struct place *places;
    int components;
};

static int compare_ends(const struct end_order *o, uint32_t a, uint32_t b)
{
    return str_cmp(path_end(o->places[a].path, o->components), path_end(o->places[b].path, o->components));
}

/* By the end of the path; what has its match is last. */
static int order_by_end(const void *x, const void *y, void *arg)
{
    const uint32_t *a = x, *b = y;
    const struct end_order *o = arg;
    int r = o->places[*a].matched - o->places[*b].matched;

    if (!r)
        r = compare_ends(o, *a, *b);
    return r ? r : o->places[*a].sides - o->places[*b].sides;
}

/* Matches files of one side that are the only ones with an end of so many components. */
static void match_by_end(struct place *v, uint32_t n, uint32_t *alone, uint32_t n_alone, int components)
{
    struct end_order o = {v, components};
    uint32_t end;

    qsort_r(alone, n_alone, sizeof *alone, order_by_end, &o);
    for (uint32_t i = 0; i < n_alone && !v[alone[i]].matched; i = end) {
        struct place *old = &v[alone[i]], *new;

        for (end = i + 1; end < n_alone && !v[alone[end]].matched && !compare_ends(&o, alone[i], alone[end]);)
            end++;
        if (end - i != 2)
            continue;
        new = &v[alone[i + 1]];
        if (old->sides != MOVED_BASE || new->sides != MOVED_NEW || !was_replaced(v, n, old->path, new->path))
            continue;
        old->into = alone[i + 1];
        old->matched = new->matched = true;
    }
}

static int match_places(struct place *v, uint32_t n)
{
    _cleanup_(mem_freep) uint32_t *alone = mem_zalloc_array(n + 1ul, sizeof *alone);
    uint32_t n_alone = 0;

    if (!alone)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        v[i + 1].seen[0] = v[i].seen[0] + !!(v[i].sides & MOVED_BASE);
        v[i + 1].seen[1] = v[i].seen[1] + !!(v[i].sides & MOVED_NEW);
        v[i].into = i;
        if (v[i].path.n && v[i].sides != (MOVED_BASE | MOVED_NEW))
            alone[n_alone++] = i;
    }
    for (int components = 4; components > 0 && n_alone; components--)
        match_by_end(v, n, alone, n_alone, components);
    return 0;
}

static int order_by_file(const void *x, const void *y)
{
    const struct moved *a = x, *b = y;

    return str_cmp(a->file, b->file);
}

/* Sets the place of every item: that of its file on the new side, if it has one. */
static int find_places(struct moved *items, size_t n)
{
    _cleanup_(mem_freep) struct place *places = mem_zalloc_array(n + 1, sizeof *places);
    uint32_t last = 0;
    int r;

    if (!places)
        return -ENOMEM;
    qsort(items, n, sizeof *items, order_by_file);
    for (size_t i = 0; i < n; i++) {
        last += i > 0 && !str_eq(items[i].file, items[i - 1].file);
        places[last].path = items[i].file;
        places[last].sides |= items[i].sides;
        items[i].place = last;
    }
    r = match_places(places, last + 1);
    for (size_t i = 0; r == 0 && i < n; i++)
        items[i].place = places[items[i].place].into;
    return r;
}

/* --- functions of a file --- */

static int compare_names(const struct moved *a, const struct moved *b)
{
    int r = a->kind - b->kind;

    return r ? r : str_cmp(a->name, b->name);
}

static int order_in_file(const void *x, const void *y)
{
    const struct moved *a = x, *b = y;
    int r = (a->place > b->place) - (a->place < b->place);

    if (!r)
        r = compare_names(a, b);
    if (!r)
        r = (a->line > b->line) - (a->line < b->line);
    return r ? r : a->sides - b->sides;
}

/* Functions of one name in a file, by line. */
struct namesakes {
    struct moved *items;
    size_t n;
    uint32_t lines[2];       /* how many, per side */
    int64_t line[2];         /* the last one */
    bool same_lines;         /* both sides have the same */
    const struct moved *now; /* one that is on the new side */
};

static struct namesakes namesakes_at(struct moved *items, size_t n)
{
    struct namesakes g = {.items = items, .same_lines = true};
    size_t end;

    for (; g.n < n && !compare_names(&items[0], &items[g.n]); g.n = end) {
        uint8_t sides = 0;

        for (end = g.n; end < n && items[end].line == items[g.n].line && !compare_names(&items[0], &items[end]);
             end++) {
            sides |= items[end].sides;
            if (items[end].sides & MOVED_NEW)
                g.now = &items[end];
        }
        for (int c = 0; c < 2; c++)
            if (sides & (1 << c)) {
                g.lines[c]++;
                g.line[c] = items[g.n].line;
            }
        g.same_lines &= sides == (MOVED_BASE | MOVED_NEW);
    }
    return g;
}

/* <lambda>, f.<locals>.<genexpr>, (anonymous): there may be others that were not sampled. */
static bool is_nameless(struct str name)
{
    return !name.n || name.p[name.n - 1] == '>' || name.p[name.n - 1] == ')';
}

/* An edit is seen where a function that is alone with its name has another line. Without any that kept its line, nothing is
 * known. */
static bool was_edited(struct moved *items, size_t n)
{
    bool kept = false;

    for (size_t i = 0; i < n;) {
        struct namesakes g = namesakes_at(items + i, n - i);

        i += g.n;
        if (g.lines[0] != 1 || g.lines[1] != 1 || is_nameless(g.items[0].name))
            continue;
        if (g.line[0] != g.line[1])
            return true;
        kept = true;
    }
    return !kept;
}

/* What has the same line is the same. */
static void match_lines(const struct namesakes *g)
{
    for (size_t i = 0; i + 1 < g->n; i++)
        if (g->items[i].line == g->items[i + 1].line) /* base, then new */
            g->items[i].into = g->items[i + 1].index;
}

static void match_namesakes(const struct namesakes *g, bool edited)
{
    bool one = g->lines[0] == 1 && g->lines[1] == 1;

    if (!g->lines[0] || !g->lines[1])
        return;
    if (g->same_lines || (!edited && (!one || is_nameless(g->items[0].name))))
        return match_lines(g);
    for (size_t i = 0; i < g->n; i++) {
        g->items[i].into = g->now->index;
        g->items[i].lineless = !one;
    }
}

int moved_match(struct moved *items, size_t n)
{
    size_t end;
    int r = n ? find_places(items, n) : 0;

    if (r < 0 || !n)
        return r;
    qsort(items, n, sizeof *items, order_in_file);
    for (size_t i = 0; i < n; i++)
        items[i].into = items[i].index;
    for (size_t i = 0; i < n; i = end) {
        bool edited;

        for (end = i; end < n && items[end].place == items[i].place;)
            end++;
        edited = was_edited(items + i, end - i);
        for (size_t k = i; k < end;) {
            struct namesakes g = namesakes_at(items + k, end - k);

            match_namesakes(&g, edited);
            k += g.n;
        }
    }
    return 0;
}

/* --- trees --- */

/* Bits per frame: the sides on which it has values. */
static uint8_t *sides_of_frames(const struct tree *t)
{
    _cleanup_(mem_freep) uint8_t *nodes = mem_zalloc_array(t->n_nodes, 1);
    uint8_t *frames = mem_zalloc_array(t->n_frames, 1);

    if (!nodes || !frames) {
        mem_free(frames);
        return NULL;
    }
    for (uint32_t i = t->n_nodes; i-- > 1;) {
        nodes[i] |= (uint8_t) ((t->self[0][i] ? MOVED_BASE : 0) | (t->self[1][i] ? MOVED_NEW : 0));
        nodes[t->parent[i]] |= nodes[i];
        frames[t->frame[i]] |= nodes[i];
    }
    return frames;
}

/* Returns the number of items; those that are on one side only in *alone. */
static size_t items_of(const struct tree *t, const uint8_t *sides, struct moved *items, size_t *alone)
{
    size_t n = 0;

    *alone = 0;
    for (uint32_t i = 1; i < t->n_frames; i++) {
        const struct frame *f = &t->frames[i];

        if (!sides[i] || !f->function.n || !frame_is_of_script(f))
            continue;
        *alone += sides[i] != (MOVED_BASE | MOVED_NEW);
        items[n++] = (struct moved){.name = f->function,
                                    .file = f->file,
                                    .line = f->start_line,
                                    .index = i,
                                    .kind = f->kind,
                                    .sides = sides[i]};
    }
    return n;
}

/* Copies t. frames has, for each frame of t, that of `to`; 0 = not looked up yet. */
static int copy_nodes(const struct tree *t, uint32_t *frames, struct tree *to)
{
    _cleanup_(mem_freep) uint32_t *nodes = mem_zalloc_array(t->n_nodes, sizeof *nodes);

    if (!nodes)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        if (i) {
            uint32_t f = t->frame[i];

            if (!frames[f] && f != TREE_FOLDED)
                frames[f] = tree_frame(to, &t->frames[f]);
            nodes[i] = frames[f] == TREE_NONE ? TREE_NONE : tree_child(to, nodes[t->parent[i]], frames[f]);
        }
        if (nodes[i] == TREE_NONE)
            return -ENOMEM;
        for (uint32_t c = 0; c < t->n_columns; c++)
            tree_add(to, nodes[i], c, t->self[c][i]);
        if (t->folded && t->folded[i] && tree_set_folded(to, nodes[i], t->folded[i]) < 0)
            return -ENOMEM;
    }
    tree_sum_up(to);
    return 0;
}

/* Adds the items, as what they are now. */
static int copy_items(const struct tree *t, const struct moved *items, size_t n, uint32_t *frames, struct tree *to)
{
    for (size_t i = 0; i < n; i++) {
        struct frame f = t->frames[items[i].into];

        if (items[i].lineless)
            f.start_line = f.in_line = 0;
        frames[items[i].index] = tree_frame(to, &f);
        if (frames[items[i].index] == TREE_NONE)
            return -ENOMEM;
    }
    return 0;
}

int tree_match_moved(const struct tree *t, size_t memory_limit, struct tree **ret)
{
    _cleanup_(tree_freep) struct tree *to = NULL;
    _cleanup_(mem_freep) uint8_t *sides = sides_of_frames(t);
    _cleanup_(mem_freep) struct moved *items = mem_zalloc_array(t->n_frames, sizeof *items);
    _cleanup_(mem_freep) uint32_t *frames = mem_zalloc_array(t->n_frames, sizeof *frames);
    size_t n, alone, moved = 0;
    int r;

    *ret = NULL;
    if (!sides || !items || !frames)
        return -ENOMEM;
    n = items_of(t, sides, items, &alone);
    r = alone ? moved_match(items, n) : 0;
    for (size_t i = 0; r == 0 && alone && i < n; i++)
        moved += items[i].into != items[i].index || items[i].lineless;
    if (r < 0 || !moved)
        return r;
    r = tree_new(t->n_columns, memory_limit, &to);
    if (r == 0)
        r = copy_items(t, items, n, frames, to);
    if (r == 0)
        r = copy_nodes(t, frames, to);
    if (r < 0)
        return r;
    to->type = arena_str(&to->arena, t->type);
    to->unit = arena_str(&to->arena, t->unit);
    memcpy(to->covered_ns, t->covered_ns, sizeof to->covered_ns);
    *ret = TAKE(to);
    return 0;
}
