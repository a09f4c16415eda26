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

/* Releases in two folders. */
static struct tree *two_releases(void)
{
    struct tree *t;

    if (tree_new(2, 0, &t) < 0)
        return NULL;
    add(t, 0, &(struct at){"same", "/lib/a.py", 3}, FRAME_CPYTHON, 1);
    add(t, 1, &(struct at){"same", "/lib/a.py", 3}, FRAME_CPYTHON, 2);
    add(t, 0, &(struct at){"down", "/lib/a.py", 10}, FRAME_CPYTHON, 3); /* lines were added above */
    add(t, 1, &(struct at){"down", "/lib/a.py", 14}, FRAME_CPYTHON, 4);
    add(t, 0, &(struct at){"get", "/r1/shop/cart/views.py", 5}, FRAME_CPYTHON, 5); /* another folder, in two files */
    add(t, 0, &(struct at){"get", "/r1/shop/user/views.py", 5}, FRAME_CPYTHON, 6);
    add(t, 1, &(struct at){"get", "/r2/shop/user/views.py", 5}, FRAME_CPYTHON, 7);
    add(t, 1, &(struct at){"get", "/r2/shop/cart/views.py", 5}, FRAME_CPYTHON, 8);
    add(t, 0, &(struct at){"gone", "/r1/shop/cart/views.py", 50}, FRAME_CPYTHON, 9);
    add(t, 0, &(struct at){"split", "/r1/c.py", 1}, FRAME_CPYTHON, 13); /* one file became two: nobody knows which */
    add(t, 1, &(struct at){"split", "/r2/x/c.py", 1}, FRAME_CPYTHON, 14);
    add(t, 1, &(struct at){"split", "/r2/y/c.py", 1}, FRAME_CPYTHON, 15);
    add(t, 0, &(struct at){"other", "/r1/d.py", 1}, FRAME_CPYTHON, 16); /* a file of another name */
    add(t, 1, &(struct at){"other", "/r2/e.py", 1}, FRAME_CPYTHON, 17);
    add(t, 0, &(struct at){"kind", "C:\\r1\\f.js", 1}, FRAME_CPYTHON, 18);
    add(t, 1, &(struct at){"kind", "C:\\r2\\f.js", 1}, FRAME_V8JS, 19);
    add(t, 0, &(struct at){"handler", "C:\\r1\\f.js", 7}, FRAME_V8JS, 20);
    add(t, 1, &(struct at){"handler", "C:\\r2\\f.js", 7}, FRAME_V8JS, 21);
    tree_sum_up(t);
    return t;
}

/* Replaces t if something moved. */
static bool matched(struct tree **t)
{
    int64_t sums[2] = {(*t)->total[0][0], (*t)->total[1][0]};
    struct tree *to;

    eq_int(tree_match_moved(*t, 0, &to), 0);
    if (!to)
        return false;
    tree_free(*t);
    *t = to;
    eq_int(to->total[0][0], sums[0]);
    eq_int(to->total[1][0], sums[1]);
    return true;
}

static void test_releases(void)
{
    _cleanup_(tree_freep) struct tree *t = two_releases();

    eq_int(t->n_nodes, 2 + 17);
    ok(matched(&t));
    found(t, &(struct at){"same", "/lib/a.py", 3}, 1, 2);
    found(t, &(struct at){"down", "/lib/a.py", 14}, 3, 4);
    found(t, &(struct at){"get", "/r2/shop/cart/views.py", 5}, 5, 8);
    found(t, &(struct at){"get", "/r2/shop/user/views.py", 5}, 6, 7);
    found(t, &(struct at){"gone", "/r1/shop/cart/views.py", 50}, 9, 0); /* where it was */
    found(t, &(struct at){"split", "/r1/c.py", 1}, 13, 0);
    found(t, &(struct at){"split", "/r2/x/c.py", 1}, 0, 14);
    found(t, &(struct at){"split", "/r2/y/c.py", 1}, 0, 15);
    found(t, &(struct at){"other", "/r1/d.py", 1}, 16, 0);
    found(t, &(struct at){"other", "/r2/e.py", 1}, 0, 17);
    found(t, &(struct at){"kind", "C:\\r1\\f.js", 1}, 18, 0);
    found(t, &(struct at){"kind", "C:\\r2\\f.js", 1}, 0, 19);
    found(t, &(struct at){"handler", "C:\\r2\\f.js", 7}, 20, 21);
    eq_int(t->n_nodes, 2 + 13);
}

/* Files of one name are not one file where the folder of each still has something on both sides. */
static void test_nothing_moved(void)
{
    static const struct {
        struct at at;
        int64_t before, now;
    } all[] = {{{"get", "/app/orders/views.py", 5}, 900, 0},
               {{"get", "/app/users/views.py", 9}, 0, 900},
               {{"list", "/app/orders/views.py", 20}, 50, 50},
               {{"save", "/app/users/models.py", 3}, 50, 50},
               {{"g", "/a.c", 1}, 1, 0},
               {{"g", "/b/a.c", 1}, 0, 1}};
    _cleanup_(tree_freep) struct tree *t = NULL;

    eq_int(tree_new(2, 0, &t), 0);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        for (uint32_t c = 0; c < 2; c++)
            add(t, c, &all[i].at, i < 4 ? FRAME_CPYTHON : FRAME_NATIVE, c ? all[i].now : all[i].before);
    tree_sum_up(t);
    ok(!matched(&t));
}

/* Lambdas: their lines, before and now, with values that tell them apart. */
static struct tree *lambdas(const int *before, const int *now, int f_before, int f_now)
{
    struct tree *t;

    eq_int(tree_new(2, 0, &t), 0);
    for (uint32_t c = 0; c < 2; c++) {
        int64_t value = 100;

        add(t, c, &(struct at){"<module>", "/app/b.py", 1}, FRAME_CPYTHON, 1);
        if (f_before)
            add(t, c, &(struct at){"f", "/app/b.py", c ? f_now : f_before}, FRAME_CPYTHON, 1);
        for (const int *line = c ? now : before; *line; line++, value *= 10)
            add(t, c, &(struct at){"<lambda>", "/app/b.py", *line}, FRAME_CPYTHON, value);
    }
    tree_sum_up(t);
    return t;
}

static void test_namesakes(void)
{
    struct tree *t;

    /* a line was added above: 11 is now what 10 was; which is which cannot be known in general */
    t = lambdas((const int[]){10, 11, 0}, (const int[]){11, 12, 0}, 20, 21);
    ok(matched(&t));
    found(t, &(struct at){"<lambda>", "/app/b.py", 0}, 1100, 1100);
    found(t, &(struct at){"f", "/app/b.py", 21}, 1, 1);
    tree_free(t);
    t = lambdas((const int[]){10, 11, 0}, (const int[]){11, 12, 0}, 0, 0); /* nothing says that it was not edited */
    ok(matched(&t));
    found(t, &(struct at){"<lambda>", "/app/b.py", 0}, 1100, 1100);
    tree_free(t);
    t = lambdas((const int[]){10, 0}, (const int[]){50, 0}, 20, 21); /* one on each side */
    ok(matched(&t));
    found(t, &(struct at){"<lambda>", "/app/b.py", 50}, 100, 100);
    tree_free(t);
    t = lambdas((const int[]){10, 0}, (const int[]){50, 0}, 20, 20); /* not edited: these are two */
    ok(!matched(&t));
    tree_free(t);
    t = lambdas((const int[]){10, 30, 0}, (const int[]){10, 30, 0}, 20, 20);
    ok(!matched(&t));
    tree_free(t);
    t = lambdas((const int[]){10, 30, 0}, (const int[]){10, 50, 0}, 20, 20); /* not edited: another one runs now */
    ok(!matched(&t));
    found(t, &(struct at){"<lambda>", "/app/b.py", 30}, 1000, 0);
    found(t, &(struct at){"<lambda>", "/app/b.py", 50}, 0, 1000);
    tree_free(t);
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
    struct tree *to = NULL;
    int r = tree_new(2, 0, &t);

    for (uint32_t c = 0; r == 0 && c < 2; c++)
        r = tree_merge(t, c, releases, c);
    r = r < 0 ? r : tree_match_moved(t, 0, &to);
    tree_free(to);
    return r;
}

int main(void)
{
    tap_run(test_releases);
    tap_run(test_nothing_moved);
    tap_run(test_namesakes);
    tap_run(test_folded_once);
    releases = two_releases();
    tap_torture(torture_match);
    tree_free(releases);
    return tap_done();
}
