/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that moved between the two sides of a diff (moved.h). */
#include "tap.h"

#include "model/moved.h"

struct at {
    const char *name, *file;
    int line;
};

/* Adds a path of one frame below main with a value. */
static void add(struct tree *t, uint32_t column, const struct at *at, enum frame_kind kind, int64_t value)
{
    struct frame main = {.function = STR("main"), .kind = FRAME_NATIVE};
    struct frame f = {
        .function = str_from(at->name), .file = str_from(at->file), .start_line = at->line, .kind = (uint8_t) kind};
    uint32_t node = tree_child(t, 0, tree_frame(t, &main));

    tree_add(t, tree_child(t, node, tree_frame(t, &f)), column, value);
}

static void found(struct tree *t, const struct at *at, int64_t before, int64_t now)
{
    uint32_t n = 0;

    for (uint32_t i = 2; i < t->n_nodes; i++) {
        const struct frame *f = &t->frames[t->frame[i]];

        if (str_is(f->function, at->name) && str_is(f->file, at->file) && f->start_line == at->line) {
            eq_int(t->total[0][i], before);
            eq_int(t->total[1][i], now);
            n++;
        }
    }
    eq_int(n, 1);
}

static struct tree *two_releases(void)
{
    struct tree *t;

    if (tree_new(2, 0, &t) < 0)
        return NULL;
    add(t, 0, &(struct at){"same", "/r1/shop/a.py", 3}, FRAME_CPYTHON, 1);
    add(t, 1, &(struct at){"same", "/r1/shop/a.py", 3}, FRAME_CPYTHON, 2);
    add(t, 0, &(struct at){"down", "/r1/shop/a.py", 10}, FRAME_CPYTHON, 3); /* lines were added above */
    add(t, 1, &(struct at){"down", "/r1/shop/a.py", 14}, FRAME_CPYTHON, 4);
    add(t, 0, &(struct at){"get", "/r1/shop/cart/views.py", 5}, FRAME_CPYTHON, 5); /* another folder, in two files */
    add(t, 0, &(struct at){"get", "/r1/shop/user/views.py", 5}, FRAME_CPYTHON, 6);
    add(t, 1, &(struct at){"get", "/r2/shop/user/views.py", 5}, FRAME_CPYTHON, 7);
    add(t, 1, &(struct at){"get", "/r2/shop/cart/views.py", 5}, FRAME_CPYTHON, 8);
    add(t, 0, &(struct at){"<lambda>", "/r1/b.py", 10}, FRAME_CPYTHON, 9); /* two of one name, in order */
    add(t, 0, &(struct at){"<lambda>", "/r1/b.py", 20}, FRAME_CPYTHON, 10);
    add(t, 1, &(struct at){"<lambda>", "/r2/b.py", 12}, FRAME_CPYTHON, 11);
    add(t, 1, &(struct at){"<lambda>", "/r2/b.py", 22}, FRAME_CPYTHON, 12);
    add(t, 0, &(struct at){"split", "/r1/c.py", 1}, FRAME_CPYTHON, 13); /* one became two: nobody knows which */
    add(t, 1, &(struct at){"split", "/r2/x/c.py", 1}, FRAME_CPYTHON, 14);
    add(t, 1, &(struct at){"split", "/r2/y/c.py", 1}, FRAME_CPYTHON, 15);
    add(t, 0, &(struct at){"other", "/r1/c.py", 1}, FRAME_CPYTHON, 16); /* in a file of another name */
    add(t, 1, &(struct at){"other", "/r2/d.py", 1}, FRAME_CPYTHON, 17);
    add(t, 0, &(struct at){"kind", "/r1/e.py", 1}, FRAME_CPYTHON, 18);
    add(t, 1, &(struct at){"kind", "/r2/e.py", 1}, FRAME_V8JS, 19);
    tree_sum_up(t);
    return t;
}

static void test_tree(void)
{
    _cleanup_(tree_freep) struct tree *t = two_releases();
    int64_t sums[2] = {t->total[0][0], t->total[1][0]};

    eq_int(t->n_nodes, 2 + 18);
    eq_int(tree_match_moved(&t), 0);
    eq_int(t->total[0][0], sums[0]);
    eq_int(t->total[1][0], sums[1]);
    found(t, &(struct at){"same", "/r1/shop/a.py", 3}, 1, 2);
    found(t, &(struct at){"down", "/r1/shop/a.py", 14}, 3, 4);
    found(t, &(struct at){"get", "/r2/shop/cart/views.py", 5}, 5, 8);
    found(t, &(struct at){"get", "/r2/shop/user/views.py", 5}, 6, 7);
    found(t, &(struct at){"<lambda>", "/r2/b.py", 12}, 9, 11);
    found(t, &(struct at){"<lambda>", "/r2/b.py", 22}, 10, 12);
    found(t, &(struct at){"split", "/r1/c.py", 1}, 13, 0);
    found(t, &(struct at){"split", "/r2/x/c.py", 1}, 0, 14);
    found(t, &(struct at){"split", "/r2/y/c.py", 1}, 0, 15);
    found(t, &(struct at){"other", "/r1/c.py", 1}, 16, 0);
    found(t, &(struct at){"other", "/r2/d.py", 1}, 0, 17);
    found(t, &(struct at){"kind", "/r1/e.py", 1}, 18, 0);
    found(t, &(struct at){"kind", "/r2/e.py", 1}, 0, 19);
    eq_int(t->n_nodes, 2 + 13);
}

/* A function that is on both sides at one place moves nowhere, even where a second one of its name comes or goes. */
static void test_nothing_moved(void)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct tree *before;

    eq_int(tree_new(2, 0, &t), 0);
    add(t, 0, &(struct at){"f", "/a.py", 1}, FRAME_CPYTHON, 1);
    add(t, 1, &(struct at){"f", "/a.py", 1}, FRAME_CPYTHON, 1);
    add(t, 1, &(struct at){"f", "/b/a.py", 1}, FRAME_CPYTHON, 1);
    add(t, 0, &(struct at){"g", "/a.c", 1}, FRAME_NATIVE,
        1); /* what is compiled has no file in its key, or is not of a script */
    add(t, 1, &(struct at){"g", "/b/a.c", 1}, FRAME_NATIVE, 1);
    before = t;
    eq_int(tree_match_moved(&t), 0);
    ok(t == before);
    eq_int(t->n_nodes, 2 + 4);
}

/* What was cut is counted once, whatever the number of columns. */
static void test_folded_once(void)
{
    _cleanup_(tree_freep) struct tree *t = two_releases();
    _cleanup_(tree_freep) struct tree *small = NULL;
    struct tree *both;
    uint32_t folded = 0;

    eq_int(tree_prune(t, &(struct tree_prune){.max_nodes = 6}, &small), 0);
    eq_int(tree_new(2, 0, &both), 0);
    for (uint32_t c = 0; c < 2; c++)
        eq_int(tree_merge(both, c, small, c), 0);
    for (uint32_t i = 0; i < both->n_nodes; i++)
        folded += both->folded[i];
    ok(folded > 0);
    for (uint32_t i = 0; i < small->n_nodes; i++)
        folded -= small->folded[i];
    eq_int(folded, 0);
    tree_free(both);
}

static struct tree *releases;

static int torture_match(void)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    int r = tree_new(2, 0, &t);

    for (uint32_t c = 0; r == 0 && c < 2; c++)
        r = tree_merge(t, c, releases, c);
    return r < 0 ? r : tree_match_moved(&t);
}

int main(void)
{
    tap_run(test_tree);
    tap_run(test_nothing_moved);
    tap_run(test_folded_once);
    releases = two_releases();
    tap_torture(torture_match);
    tree_free(releases);
    return tap_done();
}
