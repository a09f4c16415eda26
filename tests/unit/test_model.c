/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "labels_text.h"
#include "model/builder.h"
#include "model/identity.h"
#include "model/labels.h"
#include "model/tree.h"
#include "model/types.h"

/* --- types --- */

static void test_type_lookup(void)
{
    static const struct {
        const char *type, *unit, *ptype, *punit;
        int64_t period;
        const char *name, *want_unit;
        int64_t scale;
        enum type_rule rule;
    } cases[] = {
        {"cpu", "nanoseconds", "cpu", "nanoseconds", 10000000, "cpu", "nanoseconds", 1, TYPE_DELTA},
        {"samples", "count", "cpu", "nanoseconds", 10000000, "cpu", "nanoseconds", 10000000, TYPE_DELTA},
        {"samples", "count", "wall", "microseconds", 5, "wall", "nanoseconds", 5000, TYPE_DELTA},
        {"samples", "count", "", "", 0, "samples", "count", 1, TYPE_DELTA},
        {"cpu", "microseconds", "", "", 0, "cpu", "nanoseconds", 1000, TYPE_DELTA},
        {"wall", "count", "wall", "nanoseconds", 7, "wall", "nanoseconds", 7, TYPE_DELTA},
        {"off_cpu", "nanoseconds", "", "", 0, "offcpu", "nanoseconds", 1, TYPE_DELTA},
        {"inuse_space", "bytes", "space", "bytes", 524288, "heap", "bytes", 1, TYPE_GAUGE},
        {"inuse_objects", "count", "space", "bytes", 524288, "heap_objects", "count", 1, TYPE_GAUGE},
        {"alloc_space", "bytes", "space", "bytes", 524288, "alloc", "bytes", 1, TYPE_DELTA},
        {"alloc_objects", "count", "space", "bytes", 524288, "alloc_objects", "count", 1, TYPE_DELTA},
        {"delay", "nanoseconds", "contentions", "count", 1, "lock", "nanoseconds", 1, TYPE_DELTA},
        {"contentions", "count", "contentions", "count", 1, "lock_count", "count", 1, TYPE_DELTA},
        {"goroutine", "count", "goroutine", "count", 1, "goroutine", "count", 1, TYPE_GAUGE},
        {"cache-misses", "count", "", "", 0, "cache-misses", "count", 1, TYPE_DELTA},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct type t;
        int64_t scale;

        type_lookup(&(struct type_spelling){.type = str_from(cases[i].type),
                                            .unit = str_from(cases[i].unit),
                                            .period_type = str_from(cases[i].ptype),
                                            .period_unit = str_from(cases[i].punit),
                                            .period = cases[i].period},
                    &t, &scale);
        eq_str(t.name, str_from(cases[i].name));
        eq_str(t.unit, str_from(cases[i].want_unit));
        eq_int(scale, cases[i].scale);
        eq_int(t.rule, cases[i].rule);
    }
}

static void test_type_names(void)
{
    static const char *const pairs[][2] = {
        {"cpu", "cpu"},
        {"off-cpu", "offcpu"},
        {"inuse_space", "heap"},
        {"memory", "heap"},
        {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", "cpu"},
        {"memory:alloc_space:bytes:space:bytes", "alloc"},
    };
    const struct type *all;
    struct type t;
    size_t n = type_all(&all);

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        ok(type_by_name(str_from(pairs[i][0]), &t));
        eq_str(t.name, str_from(pairs[i][1]));
    }
    ok(!type_by_name(STR("nonsense"), &t));
    eq_str(t.name, STR("nonsense"));
    for (size_t i = 0; i < n; i++) { /* every id reads back */
        _cleanup_(buf_done) struct buf b = BUF_INIT;

        type_pyroscope_id(&all[i], &b);
        ok(type_by_name(buf_str(&b), &t));
        eq_str(t.name, all[i].name);
    }
}

static void test_type_format(void)
{
    static const struct {
        const char *type;
        double v;
        bool per_s;
        const char *want;
    } cases[] = {
        {"cpu", 1.52e9, false, "1.52s"},       {"cpu", 1.4e9, true, "1.40 cores"},
        {"cpu", 250e6, false, "250ms"},        {"heap", 3.4 * 1048576, false, "3.40 MB"},
        {"goroutine", 12004, false, "12,004"}, {"cpu", 0, false, "0s"},
        {"heap", 3 * 1048576, true, "3 MB/s"}, {"goroutine", -1234567, false, "-1,234,567"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        struct type t;

        type_by_name(str_from(cases[i].type), &t);
        type_format(&b, &t, cases[i].v, cases[i].per_s);
        eq_str(buf_str(&b), str_from(cases[i].want));
    }
}

/* --- labels --- */

/* Printed and read again it means the same. */
static void check_printed(const struct selector *s, const struct labels *l)
{
    _cleanup_(buf_done) struct buf once = BUF_INIT, twice = BUF_INIT;
    struct selector again = {0};
    struct arena a;

    arena_init(&a, 0);
    selector_print(&once, s);
    if (selector_parse(buf_str(&once), &a, &again, NULL) < 0)
        tap_fail("'%.*s' does not parse", STR_FMT(buf_str(&once)));
    selector_print(&twice, &again);
    eq_str(buf_str(&twice), buf_str(&once));
    eq_int(selector_matches(&again, l), selector_matches(s, l));
    selector_done(&again);
    arena_done(&a);
}

static void test_selector(void)
{
    static const struct {
        const char *text;
        const char *type;
        bool parses, matches;
    } cases[] = {
        {"cpu{service.name=\"checkout\"}", "cpu", true, true},
        {"cpu{service_name=\"checkout\"}", "cpu", true, true},
        {"cpu{\"service.name\"='checkout', \"grün\"=\"ja\"}", "cpu", true, true},
        {"{service.name=~\"check.*\",deployment.environment!=\"dev\"}", "", true, true},
        {"{service.name=~\"heck\"}", "", true, false},
        {"{service.name!~\"heck\",}", "", true, true},
        {"{service.name!=\"checkout\"}", "", true, false},
        {"{missing=\"\"}", "", true, true},
        {"heap", "heap", true, true},
        {"", "", true, true},
        {"{}", "", true, true},
        {"process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", true, true},
        {"cpu{service.name=\"a\\\"b\"}", "cpu", true, false},
        {"cpu{service.name}", "", false, false},
        {"cpu{service.name=\"x\"", "", false, false},
        {"cpu{service.name=\"x}", "", false, false},
        {"cpu{service.name=~\"(\"}", "", false, false},
        {"cpu{} more", "", false, false},
        {"cpu,heap", "", false, false},
    };
    struct label v[] = {
        {STR("deployment.environment"), STR("prod")}, {STR("grün"), STR("ja")}, {STR("service.name"), STR("checkout")}};
    struct labels l = {v, 3};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct arena a;
        struct selector s = {0};
        struct err e = {0};
        int r;

        arena_init(&a, 0);
        r = selector_parse(str_from(cases[i].text), &a, &s, &e);
        if ((r == 0) != cases[i].parses)
            tap_fail("'%s': %d %s", cases[i].text, r, e.message);
        if (r == 0) {
            eq_str(s.type, str_from(cases[i].type));
            if (selector_matches(&s, &l) != cases[i].matches)
                tap_fail("'%s' matches wrongly", cases[i].text);
            check_printed(&s, &l);
        } else {
            ok(e.message[0]);
        }
        selector_done(&s);
        arena_done(&a);
    }
}

static void test_labels(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct arena a;
    struct labels l, m;

    arena_init(&a, 0);
    eq_int(builder_new(NULL, &b), 0);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.version"), STR("1.2"));
    builder_resource_attr_str(b, STR("process.executable.name"), STR("nginx"));
    builder_resource_attr(b, STR("process.pid"), &(struct value){.kind = VALUE_INT, .integer = 7});
    builder_resource(b);
    builder_resource_attr_str(b, STR("container.image.tag"), STR("v9"));
    eq_int(labels_from_resource(builder_batch(b), &builder_batch(b)->resources[0], labels_default_allow, &a, &l), 0);
    labels_print(&out, &l);
    eq_str(buf_str(&out), STR("{service.name=\"nginx\",service.version=\"1.2\"}"));
    eq_int(labels_from_resource(builder_batch(b), &builder_batch(b)->resources[1], labels_default_allow, &a, &m), 0);
    buf_reset(&out);
    labels_print(&out, &m);
    eq_str(buf_str(&out), STR("{service.name=\"unknown_service\",service.version=\"v9\"}"));
    eq_str(labels_service(STR("unknown_service:shop")), STR("shop"));
    eq_str(labels_service(STR("unknown_service:")), STR("unknown_service:"));
    eq_str(labels_service(STR("unknown_service")), STR("unknown_service"));
    ok(labels_eq(&l, &l) && !labels_eq(&l, &m));
    ok(!id128_eq(labels_id(&l), labels_id(&m)));
    eq_str(label_canonical_name(STR("k8s_namespace_name")), STR("k8s.namespace.name"));
    eq_str(label_canonical_name(STR("my_label")), STR("my_label"));
    arena_done(&a);
}

/* --- identity --- */

static void test_identity(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    uint32_t id, m1, m2, m3, fn, plain, named, shifted, fixed, at_fixed, other, interp;
    struct batch *batch;
    struct line line;
    struct id128 x;

    eq_int(builder_new(NULL, &b), 0);
    batch = builder_batch(b);
    id = builder_attr_str(b, STR("process.executable.build_id.gnu"), STR("abcd"));
    m1 = builder_mapping(b, &(struct mapping){.filename = builder_string(b, STR("/bin/a"))}, &id, 1);
    m2 = builder_mapping(b, &(struct mapping){.start = 0x555500400000, .limit = 0x555500500000, .offset = 0x1000}, &id,
                         1);
    m3 = builder_mapping(b, &(struct mapping){.start = 0x401000, .limit = 0x500000, .offset = 0x1000}, &id, 1);
    fn = builder_function(b, &(struct function){.name = builder_string(b, STR("f"))});
    line = (struct line){.function = fn, .line = 3};
    plain = builder_location(b, &(struct builder_location){.mapping = m1, .address = 0x1234});
    named =
        builder_location(b, &(struct builder_location){.mapping = m1, .address = 0x1234, .lines = &line, .n_lines = 1});
    shifted = builder_location(b, &(struct builder_location){.mapping = m2, .address = 0x555500400234});
    fixed = builder_location(b, &(struct builder_location){.mapping = m1, .address = 0x401234});
    at_fixed = builder_location(b, &(struct builder_location){.mapping = m3, .address = 0x401234});
    other =
        builder_location(b, &(struct builder_location){.mapping = m1, .address = 0x1235, .lines = &line, .n_lines = 1});
    interp = builder_location(b, &(struct builder_location){.lines = &line, .n_lines = 1});
    eq_int(builder_error(b), 0);
    eq_str(identity_build_id(batch, m1), STR("abcd"));
    x = identity_location(batch, plain);
    ok(id128_eq(x, identity_location(batch, named)));   /* names do not matter */
    ok(id128_eq(x, identity_location(batch, shifted))); /* nor whose convention the address has */
    /* a program that is linked to a fixed address runs at its ELF addresses */
    ok(id128_eq(identity_location(batch, fixed), identity_location(batch, at_fixed)));
    ok(!id128_eq(x, identity_location(batch, other)));
    ok(!id128_eq(x, identity_location(batch, interp)));
    /* fixed for ever: these numbers are on disks */
    if (x.hi != 0x4f07c845acf875b6ull)
        tap_fail("identities changed: %" PRIx64, x.hi);
}

/* --- tree --- */

static uint32_t path(struct tree *t, const char *words)
{
    struct str rest = str_from(words);
    uint32_t n = 0;

    while (rest.n && n != TREE_NONE) {
        struct str w = str_cut(&rest, ' ');
        uint32_t f = tree_frame(t, &(struct frame){.function = w});

        n = f == TREE_NONE ? TREE_NONE : tree_child(t, n, f);
    }
    return n;
}

static int make_tree(struct tree **ret)
{
    static const struct {
        const char *path;
        int64_t v;
    } rows[] = {{"main", 1},     {"main a", 10},  {"main a x", 5}, {"main b", 20},
                {"main b y", 2}, {"main b z", 3}, {"main c", 1},   {"main c w", 1}};
    _cleanup_(tree_freep) struct tree *t = NULL;
    int r = tree_new(1, 0, &t);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
        uint32_t n = path(t, rows[i].path);

        if (n == TREE_NONE)
            return -ENOMEM;
        tree_add(t, n, 0, rows[i].v);
    }
    if (r < 0)
        return r;
    tree_sum_up(t);
    *ret = TAKE(t);
    return 0;
}

static void test_tree(void)
{
    _cleanup_(tree_freep) struct tree *t = NULL, *p = NULL, *d = NULL;
    uint32_t folded = 0;

    eq_int(make_tree(&t), 0);
    eq_int(t->n_nodes, 9);
    eq_int(t->total[0][0], 43);
    eq_int(t->total[0][path(t, "main b")], 25);
    /* four nodes besides the root: main, a, b and the heaviest below */
    eq_int(tree_prune(t, &(struct tree_prune){.max_nodes = 5}, &p), 0);
    eq_int(p->total[0][0], 43);
    eq_int(p->total[0][path(p, "main a")], 15);
    eq_int(p->total[0][path(p, "main b")], 25);
    eq_int(p->self[0][path(p, "main a x")], 5);
    for (uint32_t i = 1; i < p->n_nodes; i++) {
        ok(p->parent[i] < i);
        if (p->frame[i] == TREE_FOLDED)
            folded += p->folded[i];
    }
    eq_int(folded, 4); /* y z c w */
    eq_int(tree_new(2, 0, &d), 0);
    eq_int(tree_merge(d, 0, t, 0), 0);
    eq_int(tree_merge(d, 1, p, 0), 0);
    eq_int(d->total[0][0], 43);
    eq_int(d->total[1][0], 43);
}

static void test_prune_shapes(void)
{
    _cleanup_(tree_freep) struct tree *t = NULL, *p = NULL, *q = NULL, *s = NULL, *again = NULL;

    eq_int(make_tree(&t), 0);
    eq_int(tree_prune(t, &(struct tree_prune){.root = path(t, "main b")}, &p), 0);
    eq_int(p->total[0][0], 25); /* the subtree alone, under the path to it */
    eq_int(p->n_nodes, 5);
    eq_int(tree_prune(t, &(struct tree_prune){.max_depth = 1}, &q), 0);
    eq_int(q->n_nodes, 3);
    eq_int(q->total[0][0], 43);
    eq_int(q->folded[2], 7);
    eq_int(tree_prune(t, &(struct tree_prune){.min_share = 0.3}, &s), 0);
    eq_int(s->total[0][0], 43);
    /* pruning what was pruned keeps sums and counts */
    eq_int(tree_prune(s, &(struct tree_prune){.max_depth = 1}, &again), 0);
    eq_int(again->total[0][0], 43);
    eq_int(again->folded[2], 7);
}

static int tree_torture(void)
{
    _cleanup_(tree_freep) struct tree *t = NULL, *p = NULL, *d = NULL;
    int r = make_tree(&t);

    if (r == 0)
        r = tree_prune(t, &(struct tree_prune){.max_nodes = 4}, &p);
    if (r == 0)
        r = tree_new(1, 0, &d);
    if (r == 0)
        r = tree_merge(d, 0, p, 0);
    return r;
}

static int selector_torture(void)
{
    struct arena a;
    struct selector s = {0};
    int r;

    arena_init(&a, 0);
    r = selector_parse(STR("cpu{a=~\"b.*\",c=\"d\"}"), &a, &s, NULL);
    selector_done(&s);
    arena_done(&a);
    return r;
}

int main(void)
{
    tap_run(test_type_lookup);
    tap_run(test_type_names);
    tap_run(test_type_format);
    tap_run(test_selector);
    tap_run(test_labels);
    tap_run(test_identity);
    tap_run(test_tree);
    tap_run(test_prune_shapes);
    tap_torture(tree_torture);
    tap_torture(selector_torture);
    return tap_done();
}
