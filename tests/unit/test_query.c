/* SPDX-License-Identifier: Apache-2.0 */
/* Questions over the engine `memory`, whose own answers the conformance suite checks. */
#include <errno.h>

#include "tap.h"

#include "base/clock.h"
#include "model/builder.h"
#include "query/answer_fields.h"
#include "query/query.h"

#define T0 (1700000000ll * NS_PER_S)

static int64_t fixed_now(void)
{
    return T0 + 3600 * NS_PER_S;
}

/* "main;a;b@b.c" root first -> stack of a batch being built; "b@": its file is not known. */
static uint32_t stack_of(struct builder *b, const char *folded)
{
    struct str rest = str_from(folded), names[32];
    uint32_t locations[32], n = 0, k = 0;

    while (rest.n)
        names[n++] = str_cut(&rest, ';');
    while (n-- > 0) {
        bool has_file = memchr(names[n].p, '@', names[n].n);
        struct str file = names[n], name = str_cut(&file, '@');
        struct function f = {.name = builder_string(b, name),
                             .filename = builder_string(b, has_file ? file : STR("/src/app/main.c"))};
        struct line l = {.function = builder_function(b, &f), .line = 10 + (int64_t) name.n};

        locations[k++] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    }
    return builder_stack(b, locations, k);
}

struct row {
    const char *service, *type, *unit, *stack;
    int64_t at_s, value;
    uint8_t trace; /* first byte of the trace that it is linked to; 0: none */
};

static struct store *filled(const struct row *rows, size_t n)
{
    struct store *s = NULL;
    struct err e = {0};

    if (store_open(&store_memory, &(struct store_config){.now = fixed_now}, &s, &e) < 0)
        tap_fail("%s", e.message);
    for (size_t i = 0; i < n; i++) {
        _cleanup_(builder_freep) struct builder *b = NULL;
        _cleanup_(batch_unrefp) struct batch *batch = NULL;
        struct ack_result result = {0};
        struct value_type t;
        struct profile *p;
        uint32_t link = 0;

        builder_new(NULL, &b);
        builder_resource(b);
        builder_resource_attr_str(b, STR("service.name"), str_from(rows[i].service));
        builder_resource_attr_str(b, STR("service.version"), STR("v1"));
        t = (struct value_type){builder_string(b, str_from(rows[i].type)), builder_string(b, str_from(rows[i].unit))};
        p = builder_profile(b, &t, 1);
        p->time_ns = T0 + rows[i].at_s * NS_PER_S;
        p->duration_ns = 10 * NS_PER_S;
        if (rows[i].trace)
            link = builder_link(b, &(struct link){{rows[i].trace}, {1}});
        builder_sample(b,
                       &(struct builder_sample){
                           .stack = stack_of(b, rows[i].stack), .link = link, .values = &rows[i].value, .n_values = 1});
        eq_int(builder_finish(b, &batch, NULL), 0);
        eq_int(store_append_wait(s, batch, &(struct sink_context){.tenant = "", .received_ns = fixed_now()}, &result),
               0);
    }
    return s;
}

static const struct row cpu[] = {
    {"shop", "cpu", "nanoseconds", "main;serve;encode", 0, 10},
    {"shop", "cpu", "nanoseconds", "main;serve;encode;encode", 60, 5},
    {"shop", "cpu", "nanoseconds", "main;serve;std::sort", 120, 20},
    {"shop", "cpu", "nanoseconds", "main;net/http.(*conn).serve", 1800, 7},
    {"cart", "cpu", "nanoseconds", "main;idle", 0, 100},
};

static struct query *ask(const char *query, const char *from, const char *to, const char *base_from,
                         const char *base_to)
{
    const struct {
        const char *name, *text;
    } texts[] = {{"from", from}, {"to", to}, {"base_from", base_from}, {"base_to", base_to}};
    struct query_params p = {.tenant = "", .query = str_from(query), .now = fixed_now()};
    struct query *q = NULL;
    struct err e = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
        r = query_params_set(&p, texts[i].name, str_from(texts[i].text), &e);
    if (r < 0 || query_compile(&p, &q, &e) < 0)
        tap_fail("%s", e.message);
    return q;
}

static const struct query_row *row(const struct query_table *t, const char *name)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (str_is(t->rows[i].name, name))
            return &t->rows[i];
    tap_fail("no row %s", name);
    return &t->rows[0];
}

static void test_top(void)
{
    _cleanup_(store_closep) struct store *s = filled(cpu, ARRAY_SIZE(cpu));
    _cleanup_(query_freep) struct query *q = ask("cpu{service_name=\"shop\"}", NULL, NULL, NULL, NULL);
    struct query_table t;
    struct err e = {0};

    eq_int(query_top(s, q, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_SELF, 2}, &t, &e), 0);
    eq_int(t.n, 2);
    eq_int(t.n_all, 5);
    eq_int(t.total[0], 42);
    eq_str(t.rows[0].name, STR("std::sort"));
    eq_int(t.rows[1].self[0], 15);
    eq_int(t.rows[1].total[0], 15); /* encode calls itself: counted once */
    query_table_done(&t);
    eq_int(query_top(s, q, &(struct query_order){ROWS_PACKAGE, QUERY_SORT_TOTAL, 0}, &t, &e), 0);
    eq_int(row(&t, "net/http")->self[0], 7);
    eq_int(row(&t, "std")->self[0], 20);
    query_table_done(&t);
    eq_int(query_top(s, q, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_DELTA, 0}, &t, &e), -EINVAL);
}

/* Lines of some addresses only, and one file in the folders of two builds. */
static void test_function_in_files(void)
{
    static const struct row half[] = {
        {"shop", "cpu", "nanoseconds", "main@;work@/build1/a.c;work@", 0, 10},
        {"shop", "cpu", "nanoseconds", "main@m.c;work@/build2/a.c", 60, 5},
    };
    _cleanup_(store_closep) struct store *s = filled(half, ARRAY_SIZE(half));
    _cleanup_(query_freep) struct query *q = ask("cpu", NULL, NULL, NULL, NULL);
    struct query_table t;
    struct err e = {0};

    eq_int(query_top(s, q, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_TOTAL, 0}, &t, &e), 0);
    eq_int(t.n_all, 2);
    eq_int(row(&t, "main")->total[0], 15);
    eq_str(row(&t, "main")->file, STR("m.c"));
    eq_int(row(&t, "work")->total[0], 15); /* once on each path */
    eq_int(row(&t, "work")->self[0], 15);
    eq_int(row(&t, "work")->file.n, 0);
    query_table_done(&t);
    eq_int(query_top(s, q, &(struct query_order){ROWS_LINE, QUERY_SORT_TOTAL, 0}, &t, &e), 0);
    eq_int(t.n_all, 5);
    query_table_done(&t);
}

static uint32_t row_of(struct store_table *t, enum frame_kind kind, const char *file)
{
    return store_table_row(t, &(struct frame){.function = STR("run"), .file = str_from(file), .kind = (uint8_t) kind});
}

/* What distinguishes functions of the same name. */
static void test_function_rows(void)
{
    struct store_table t;
    uint32_t user, kernel, python;

    eq_int(store_table_init(&t, &(struct store_table_query){.rows = ROWS_FUNCTION}), 0);
    user = row_of(&t, FRAME_NATIVE, NULL);
    eq_int(row_of(&t, FRAME_NATIVE, "run.c"), user);
    eq_int(row_of(&t, FRAME_UNKNOWN, NULL), user);
    eq_str(t.keys[user].file, STR("run.c"));
    kernel = row_of(&t, FRAME_KERNEL, NULL);
    ok(kernel != user);
    python = row_of(&t, FRAME_CPYTHON, "run.py");
    ok(python != user && python != kernel);
    eq_int(row_of(&t, FRAME_CPYTHON, "run.py"), python);
    ok(row_of(&t, FRAME_CPYTHON, "other.py") != python);
    eq_int(row_of(&t, FRAME_UNKNOWN, "run.py"), python); /* of a pprof file */
    eq_int(row_of(&t, FRAME_RUST, "other.c"), user);
    eq_int(row_of(&t, FRAME_NATIVE, "run.c"), user);
    eq_int(t.keys[user].file.n, 0); /* one of two */
    eq_int(t.n_rows, 4);
    store_table_done(&t);
}

static void test_diff(void)
{
    _cleanup_(store_closep) struct store *s = filled(cpu, ARRAY_SIZE(cpu));
    _cleanup_(query_freep) struct query *q =
        ask("cpu{service.name=\"shop\"}", "1700001800", "1700003600", "1700000000", "1700001800");
    struct query_table t;
    struct err e = {0};

    eq_int(query_top(s, q, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_DELTA, 0}, &t, &e), 0);
    eq_int(t.total[0], 35);
    eq_int(t.total[1], 7);
    eq_str(t.rows[0].name, STR("net/http.(*conn).serve")); /* 7 in 10 s; std::sort has 20 in 130 s */
    eq_int(row(&t, "net/http.(*conn).serve")->self[1], 7);
    query_table_done(&t);
}

static void test_callers(void)
{
    _cleanup_(store_closep) struct store *s = filled(cpu, ARRAY_SIZE(cpu));
    _cleanup_(query_freep) struct query *q = ask("cpu{service.name=\"shop\"}", NULL, NULL, NULL, NULL);
    _cleanup_(store_callers_done) struct store_callers x = {0};
    struct err e = {0};

    eq_int(query_callers(s, q, STR("encode"), &x, &e), 0);
    eq_int(x.callers->total[0][0], 15);
    eq_int(x.callees->total[0][0], 15);
    eq_int(x.callers->n_nodes, 4); /* root, encode, serve, main */
    eq_str(x.callers->frames[x.callers->frame[2]].function, STR("serve"));
    eq_int(x.callees->n_nodes, 3); /* root, encode, encode */
}

static void test_lines(void)
{
    _cleanup_(store_closep) struct store *s = filled(cpu, ARRAY_SIZE(cpu));
    _cleanup_(query_freep) struct query *q = ask("cpu", NULL, NULL, NULL, NULL);
    struct query_table t;
    struct err e = {0};

    eq_int(query_lines(s, q, &(struct query_place){.function = STR("encode")}, &t, &e), 0);
    eq_int(t.n, 1);
    eq_int(t.rows[0].line, 16);
    eq_int(t.rows[0].self[0], 15);
    query_table_done(&t);
}

static void test_lists(void)
{
    _cleanup_(store_closep) struct store *s = filled(cpu, ARRAY_SIZE(cpu));
    _cleanup_(query_freep) struct query *q = ask("cpu", NULL, NULL, NULL, NULL);
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct query_names names;
    struct query_services services;
    struct query_profiles profiles;
    struct err e = {0};

    eq_int(query_labels(s, q, STR("service_name"), QUERY_LABELS_ALL, &names, &e), 0);
    record_put_value(&b, &answer_of_labels, &(struct record_list){names.v, names.n});
    eq_str(buf_str(&b), STR("[\"cart\",\"shop\"]"));
    query_names_done(&names);
    buf_reset(&b);
    eq_int(query_services(s, q, &services, &e), 0);
    record_put_value(&b, &answer_of_services, &(struct record_list){services.v, services.n});
    eq_str(buf_str(&b),
           STR("[{\"name\":\"cart\",\"types\":[\"cpu\"],\"versions\":[\"v1\"]},{\"name\":\"shop\",\"types\":"
               "[\"cpu\"],\"versions\":[\"v1\"]}]"));
    query_services_done(&services);
    eq_int(query_profiles(s, q, true, 2, &profiles, &e), 0);
    eq_int(profiles.n_all, 5);
    eq_int(profiles.v[0].value, 100);
    eq_int(profiles.v[1].value, 20);
    query_profiles_done(&profiles);
}

/* Ten seconds each: two in a row, one that overlaps, one after a short gap, one after a long one. */
static void test_coverage(void)
{
    static const struct row rows[] = {
        {"shop", "cpu", "nanoseconds", "main;steady", 0, 10},   {"shop", "cpu", "nanoseconds", "main;steady", 10, 10},
        {"shop", "cpu", "nanoseconds", "main;steady", 15, 10},  {"shop", "cpu", "nanoseconds", "main;steady", 80, 60},
        {"shop", "cpu", "nanoseconds", "main;steady", 600, 10}, {"shop", "cpu", "nanoseconds", "main;new", 600, 2},
        {"cart", "cpu", "nanoseconds", "main;idle", 2000, 1},
    };
    _cleanup_(store_closep) struct store *s = filled(rows, ARRAY_SIZE(rows));
    _cleanup_(query_freep) struct query *hour = ask("cpu{service_name=\"shop\"}", NULL, NULL, NULL, NULL);
    _cleanup_(query_freep) struct query *day = ask("cpu{service_name=\"shop\"}", "now-1d", NULL, NULL, NULL);
    _cleanup_(query_freep) struct query *none = ask("cpu{service_name=\"none\"}", NULL, NULL, NULL, NULL);
    _cleanup_(query_freep) struct query *diff =
        ask("cpu{service_name=\"shop\"}", "1700000500", "1700001000", "1700000000", "1700000500");
    struct query_series_params by = {.step = 60 * NS_PER_S};
    struct store_points points;
    struct query_table t;
    int64_t covered[2], steps[60];
    struct err e = {0};

    eq_int(query_coverage(s, hour, covered, &e), 0);
    eq_int(covered[0], 100 * NS_PER_S);
    eq_int(query_coverage(s, day, covered, &e), 0); /* whatever the range */
    eq_int(covered[0], 100 * NS_PER_S);
    eq_int(query_coverage(s, none, covered, &e), 0);
    eq_int(covered[0], 0);
    eq_int(query_coverage(s, diff, covered, &e), 0);
    eq_int(covered[0], 90 * NS_PER_S);
    eq_int(covered[1], 10 * NS_PER_S);
    eq_int(query_top(s, diff, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_DELTA, 0}, &t, &e), 0);
    eq_int(t.covered_ns[0], 90 * NS_PER_S);
    eq_str(t.rows[0].name, STR("new")); /* 90 in 90 s and 10 in 10 s are one rate: only this changed */
    query_table_done(&t);
    eq_int(query_series(s, hour, &by, &points, &e), 0);
    eq_int(points.n_points, 60);
    eq_int(query_step_coverage(s, hour, &points, steps, NULL, &e), 0);
    eq_int(steps[0], 60 * NS_PER_S);
    eq_int(steps[1], 30 * NS_PER_S);
    eq_int(steps[5], 0);
    eq_int(steps[10], 10 * NS_PER_S);
    store_points_done(&points);
}

/* Two sources whose profiles start at different times. A range in the middle covers its length, and its first step as much
 * as the others: what profiles that started before it cover is not counted again. */
static void test_coverage_of_two_sources(void)
{
    struct row rows[20];
    _cleanup_(query_freep) struct query *q = ask("cpu", "1700000020", "1700000080", NULL, NULL);
    struct query_series_params by = {.step = 20 * NS_PER_S};
    struct store_points points;
    int64_t covered[2], steps[3];
    struct err e = {0};

    for (int i = 0; i < 20; i++)
        rows[i] = (struct row){"shop", "cpu", "nanoseconds", "main;steady", 5 * i, 10};
    {
        _cleanup_(store_closep) struct store *s = filled(rows, ARRAY_SIZE(rows));

        eq_int(query_coverage(s, q, covered, &e), 0);
        eq_int(covered[0], 60 * NS_PER_S);
        eq_int(query_series(s, q, &by, &points, &e), 0);
        eq_int(points.n_points, 3);
        eq_int(query_step_coverage(s, q, &points, steps, NULL, &e), 0);
        for (int i = 0; i < 3; i++)
            eq_int(steps[i], 20 * NS_PER_S);
        store_points_done(&points);
    }
}

/* Each series of an answer has its own: two services that were profiled at different times. */
static void test_coverage_of_series(void)
{
    static const struct row rows[] = {
        {"shop", "cpu", "nanoseconds", "main;steady", 0, 10},
        {"cart", "cpu", "nanoseconds", "main;idle", 5, 10},
        {"cart", "cpu", "nanoseconds", "main;idle", 300, 10},
    };
    _cleanup_(store_closep) struct store *s = filled(rows, ARRAY_SIZE(rows));
    _cleanup_(query_freep) struct query *q = ask("cpu", NULL, NULL, NULL, NULL);
    struct query_series_params by = {.step = 60 * NS_PER_S, .by = STR("service.name")};
    struct store_points points;
    int64_t steps[60], each[2 * 60];
    struct err e = {0};

    eq_int(query_series(s, q, &by, &points, &e), 0);
    eq_int(points.n_series, 2);
    eq_int(query_step_coverage(s, q, &points, steps, each, &e), 0);
    eq_int(steps[0], 15 * NS_PER_S); /* together */
    eq_int(steps[5], 10 * NS_PER_S);
    for (uint32_t g = 0; g < 2; g++) {
        bool cart = str_is(points.labels[g].v[0].value, "cart");

        eq_int(each[g * points.n_points], 10 * NS_PER_S);
        eq_int(each[g * points.n_points + 5], cart ? 10 * NS_PER_S : 0);
    }
    store_points_done(&points);
}

/* Samples of a trace: other services do not count, whatever they cover, and all profiles of its own do. */
static void test_coverage_of_spans(void)
{
    static const struct row rows[] = {
        {"shop", "cpu", "nanoseconds", "main;steady", 0, 10, 7},
        {"shop", "cpu", "nanoseconds", "main;steady", 10, 10, 0},
        {"cart", "cpu", "nanoseconds", "main;idle", 300, 10, 0},
        {"cart", "cpu", "nanoseconds", "main;idle", 310, 10, 9},
    };
    static const struct {
        const char *trace, *span;
        int64_t seconds;
    } cases[] = {
        {"07000000000000000000000000000000", "", 20},
        {"07000000000000000000000000000000", "0100000000000000", 20},
        {"", "0100000000000000", 40},                 /* of both */
        {"01000000000000000000000000000000", "", 40}, /* of none: what there is */
    };
    _cleanup_(store_closep) struct store *s = filled(rows, ARRAY_SIZE(rows));

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct query_params p = {.tenant = "", .query = STR("cpu"), .any_trace = true, .now = fixed_now()};
        struct query_series_params by = {.step = 3600 * NS_PER_S};
        _cleanup_(query_freep) struct query *q = NULL;
        struct store_points points;
        int64_t covered[2], step[2];
        struct err e = {0};

        eq_int(query_params_set(&p, "trace_id", str_from(cases[i].trace), &e), 0);
        eq_int(query_params_set(&p, "span_id", str_from(cases[i].span), &e), 0);
        eq_int(query_compile(&p, &q, &e), 0);
        eq_int(query_coverage(s, q, covered, &e), 0);
        eq_int(covered[0], cases[i].seconds * NS_PER_S);
        eq_int(query_series(s, q, &by, &points, &e), 0);
        eq_int(query_step_coverage(s, q, &points, step, NULL, &e), 0);
        eq_int(step[0], cases[i].seconds * NS_PER_S);
        store_points_done(&points);
    }
}

static void test_leaks(void)
{
    struct row rows[24];
    _cleanup_(query_freep) struct query *q = ask("heap", "1700000000", "1700000800", NULL, NULL);
    struct query_leaks l;
    struct err e = {0};

    for (int i = 0; i < 8; i++) {
        rows[3 * i] = (struct row){"shop", "inuse_space", "bytes", "main;cache", i * 100 + 5, 1000 + 100 * i};
        rows[3 * i + 1] = (struct row){"shop", "inuse_space", "bytes", "main;pool", i * 100 + 5, 5000};
        rows[3 * i + 2] = (struct row){"shop", "inuse_space", "bytes", "main;shrink", i * 100 + 5, 5000 - 100 * i};
    }
    {
        _cleanup_(store_closep) struct store *s = filled(rows, ARRAY_SIZE(rows));

        eq_int(query_leaks(s, q, 10, &l, &e), 0);
    }
    eq_int(l.n, 1);
    eq_str(l.tree->frames[l.tree->frame[l.rows[0].node]].function, STR("cache"));
    ok(l.rows[0].slope > 0 && l.rows[0].fit > 0.99);
    query_leaks_done(&l);
}

/* Sums and differences of what senders chose do not fit into 64 bits: no answer may depend on that they do. */
static void test_extremes(void)
{
    static const struct row rows[] = {
        {"shop", "things", "count", "main;a", 0, INT64_MIN},     {"shop", "things", "count", "main;b", 60, INT64_MAX},
        {"shop", "things", "count", "main;a;c", 120, INT64_MAX}, {"shop", "things", "count", "main;d", 180, 5},
        {"cart", "things", "count", "main;a", 120, INT64_MIN},
    };
    _cleanup_(store_closep) struct store *s = filled(rows, ARRAY_SIZE(rows));
    _cleanup_(query_freep) struct query *q = ask("things", "1700000000", "1700000400", NULL, NULL);
    _cleanup_(query_freep) struct query *diff = ask("things", "1700000100", "1700000400", "1700000000", "1700000100");
    _cleanup_(tree_freep) struct tree *flame = NULL;
    _cleanup_(store_callers_done) struct store_callers x = {0};
    struct query_table t;
    struct query_leaks l;
    struct query_spans spans;
    struct query_binaries binaries;
    struct store_points points;
    struct err e = {0};

    eq_int(query_flame(s, q, &flame, &e), 0);
    eq_int(query_callers(s, q, STR("a"), &x, &e), 0);
    eq_int(query_top(s, diff, &(struct query_order){ROWS_FUNCTION, QUERY_SORT_SHARE, 0}, &t, &e), 0);
    query_table_done(&t);
    eq_int(query_leaks(s, q, 10, &l, &e), 0);
    query_leaks_done(&l);
    eq_int(query_spans(s, q, 10, &spans, &e), 0);
    query_spans_done(&spans);
    eq_int(query_binaries(s, q, 10, &binaries, &e), 0);
    query_binaries_done(&binaries);
    eq_int(query_series(s, q, &(struct query_series_params){0}, &points, &e), 0);
    store_points_done(&points);
}

static int compile_text(const char *name, const char *text, struct query **ret, struct err *e)
{
    struct query_params p = {.tenant = "", .now = fixed_now()};
    int r = query_params_set(&p, name, str_from(text), e);

    return r < 0 ? r : query_compile(&p, ret, e);
}

static void test_errors(void)
{
    static const struct {
        const char *name, *text, *words;
    } cases[] = {
        {"query", "cpu{a=", "query: "},
        {"from", "yesterday", "from: "},
        {"from", "now+1h", "query: the time range is empty"},
        {"focus", "a(", "focus: bad regular expression"},
        {"trace_id", "12", "trace_id: '12' is not 32 hexadecimal digits"},
        {"span_id", "0102030405060708", "span_id requires trace_id"},
        {"profile", "x", "profile: 'x' is not 32 hexadecimal digits"},
        {"times", "now", "times: 'now' is not sample or profile"},
        {"by", "colour", "by: 'colour' is not function"},
        {"max_nodes", "4294967296", "max_nodes: '4294967296' is not a number"},
        {"min_share", "2", "min_share: '2' is not between 0 and 1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct query *q = NULL;
        struct err e = {0};

        eq_int(compile_text(cases[i].name, cases[i].text, &q, &e), -EINVAL);
        if (!str_starts(str_from(e.message), str_from(cases[i].words)))
            tap_fail("'%s' does not start with '%s'", e.message, cases[i].words);
    }
}

/* Typed parameters are what text says. */
static void test_params(void)
{
    struct query_params p = {.tenant = "", .now = fixed_now()};

    eq_int(query_params_set(&p, "from", STR("now-1h"), NULL), 0);
    ok(p.from.given && p.from.ns == fixed_now() - 3600 * NS_PER_S && !p.to.given);
    eq_int(query_params_set(&p, "from", STR("0"), NULL), 0);
    ok(p.from.given && p.from.ns == 0);
    eq_int(query_params_set(&p, "profile", STR("00000000000000010000000000000002"), NULL), 0);
    ok(p.has_profile && p.profile.hi == 1 && p.profile.lo == 2);
    eq_int(query_params_set(&p, "by", STR("line"), NULL), 0);
    eq_int(query_params_set(&p, "max_nodes", STR("4294967295"), NULL), 0);
    eq_int(query_params_set(&p, "min_share", STR("1"), NULL), 0);
    eq_int(query_params_set(&p, "times", STR("sample"), NULL), 0);
    ok(p.by == BY_LINE && p.max_nodes == UINT32_MAX && p.min_share == 1 && p.by_sample);
    eq_int(query_params_set(&p, "times", STR("profile"), NULL), 0);
    eq_int(query_params_set(&p, "max_nodes", STR(""), NULL), 0);
    ok(!p.by_sample && p.max_nodes == UINT32_MAX);
}

/* Names of a path may hold what joins them. */
static void test_zoom(void)
{
    static const char *const names[] = {"a", "Ljava/lang/String;.f", "b\\c", ""};
    struct query_params p = {.tenant = "", .zoom = STR("a;Ljava/lang/String\\;.f;b\\\\c;"), .now = fixed_now()};
    struct query *q = NULL;

    ok(query_compile(&p, &q, NULL) == 0);
    ok(q->q.n_zoom == ARRAY_SIZE(names));
    for (uint32_t i = 0; i < q->q.n_zoom; i++)
        ok(str_is(q->q.zoom[i], names[i]));
    query_free(q);
}

/* The samples of an export as "stack value", joined by spaces. */
static void export_is(struct store *s, struct query *q, const char *wanted, uint32_t functions)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    eq_int(query_export(s, q, &b, NULL), 0);
    for (uint32_t i = 0; i < b->n_profiles; i++)
        for (uint32_t k = 0; k < b->profiles[i].samples.n; k++) {
            const struct sample *x = &b->samples[b->profiles[i].samples.off + k];
            struct run stack = b->dict.stacks[x->stack];

            buf_puts(&text, text.n ? " " : "");
            for (uint32_t n = stack.n; n-- > 0;) {
                const struct location *l = &b->dict.locations[b->dict.indices[stack.off + n]];

                for (uint32_t j = l->lines.n; j-- > 0;) {
                    const struct function *f = &b->dict.functions[b->dict.lines[l->lines.off + j].function];

                    buf_printf(&text, "%.*s;", STR_FMT(batch_string(b, f->name)));
                }
            }
            buf_printf(&text, "=%lld", (long long) b->values[x->values.off]);
        }
    eq_str(buf_str(&text), str_from(wanted));
    eq_int(b->dict.n_functions, functions + 1);
    query_free(q);
}

static struct query *ask_frames(const char *focus, const char *ignore, const char *hide)
{
    struct query *q = ask("cpu{service.name=\"shop\"}", "now-1h", "", "", "");

    q->q.focus = str_from(focus);
    q->q.ignore = str_from(ignore);
    q->q.hide = str_from(hide);
    return q;
}

/* An export has what the flame graph of the selection has, and no other name. */
static void test_export(void)
{
    struct store *s = filled(cpu, ARRAY_SIZE(cpu));

    export_is(
        s, ask_frames("", "", ""),
        "main;serve;encode;=10 main;serve;encode;encode;=5 main;serve;std::sort;=20 main;net/http.(*conn).serve;=7", 5);
    export_is(s, ask_frames("encode", "", ""), "main;serve;encode;=10 main;serve;encode;encode;=5", 3);
    export_is(s, ask_frames("", "encode|sort", ""), "main;net/http.(*conn).serve;=7", 2);
    export_is(s, ask_frames("serve", "encode$", "^(main|serve)$"), "std::sort;=20 net/http.(*conn).serve;=7", 2);
    export_is(s, ask_frames("sort", "", "."), "=20", 0); /* the value stays, as in the root of a tree */
    export_is(s, ask_frames("main\\.c$", "http|sort", ""), "main;serve;encode;=10 main;serve;encode;encode;=5", 3);
    export_is(s, ask_frames("nothing", "", ""), "", 0);
    store_close(s);
}

/* Of inlined functions, each is a frame. */
static void test_export_inlined(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    struct ack_result result = {0};
    struct store *s = filled(NULL, 0);
    struct value_type t;
    struct line lines[3] = {0};
    uint32_t location, stack;
    int64_t value = 3;

    builder_new(NULL, &b);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("shop"));
    for (int i = 0; i < 3; i++)
        lines[i].function = builder_function(
            b,
            &(struct function){.name = builder_string(b, str_from((const char *const[]){"leaf", "copy", "outer"}[i]))});
    location = builder_location(b, &(struct builder_location){.address = 1, .lines = lines, .n_lines = 3});
    stack = builder_stack(b, &location, 1);
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    builder_profile(b, &t, 1)->time_ns = T0 + NS_PER_S;
    builder_sample(b, &(struct builder_sample){.stack = stack, .values = &value, .n_values = 1});
    eq_int(builder_finish(b, &batch, NULL), 0);
    eq_int(store_append_wait(s, batch, &(struct sink_context){.tenant = "", .received_ns = fixed_now()}, &result), 0);
    export_is(s, ask_frames("copy", "", "leaf|outer"), "copy;=3", 1);
    export_is(s, ask_frames("copy", "", "copy"), "outer;leaf;=3", 2);
    store_close(s);
}

static struct store *export_store;

static int torture_export(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct query_params p = {
        .tenant = "", .from = query_at(fixed_now() - 3600 * NS_PER_S), .focus = STR("encode"), .now = fixed_now()};
    _cleanup_(query_freep) struct query *q = NULL;
    int r = query_compile(&p, &q, NULL);

    return r < 0 ? r : query_export(export_store, q, &b, NULL);
}

static int torture_compile(void)
{
    struct query_params p = {.tenant = "",
                             .query = STR("cpu{service.name=~\"a.*\"}"),
                             .base_from = query_at(fixed_now() - 7200 * NS_PER_S),
                             .focus = STR("x"),
                             .zoom = STR("a;b"),
                             .now = fixed_now()};
    struct query *q = NULL;
    int r = query_compile(&p, &q, NULL);

    query_free(q);
    return r;
}

static void test_packages(void)
{
    static const struct {
        const char *function, *file, *mapping;
        enum frame_kind kind;
        const char *package;
    } table[] = {
        {"net/http.(*conn).serve", "", "", FRAME_GO, "net/http"},
        {"example.com/shop/cart.(*Cart).Checkout", "/src/cart.go", "/srv/shop", FRAME_NATIVE, "example.com/shop/cart"},
        {"main.main", "", "", FRAME_UNKNOWN, "main"},
        {"com.shop.Cart.add", "Cart.java", "", FRAME_JVM, "com.shop"},
        {"std::sort<int*>", "", "/usr/lib/libx.so.1", FRAME_NATIVE, "std"},
        {"void shop::cart::add(int)", "/src/cart.cc", "/srv/shop", FRAME_NATIVE, "shop"},
        {"sort<std::pair<int, int>>", "", "/srv/shop", FRAME_NATIVE, "shop"},
        {"malloc", "", "/usr/lib/x86_64-linux-gnu/libc.so.6", FRAME_NATIVE, "libc.so.6"},
        {"", "", "/srv/shop", FRAME_NATIVE, "shop"},
        {"handler", "/srv/app/views.py", "", FRAME_CPYTHON, "/srv/app"},
        {"vfs_read", "", "", FRAME_KERNEL, "[kernel]"},
        {"helper", "/src/app/main.c", "", FRAME_NATIVE, "/src/app"},
        {"helper", "", "", FRAME_UNKNOWN, ""},
        {"memcpy@@GLIBC_2.14", "", "", FRAME_UNKNOWN, ""},
        {"memcpy@GLIBC_2.2.5", "", "/usr/lib/libc.so.6", FRAME_NATIVE, "libc.so.6"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct frame f = {.function = str_from(table[i].function),
                          .file = str_from(table[i].file),
                          .mapping = str_from(table[i].mapping),
                          .kind = table[i].kind};

        eq_str(frame_package(&f), str_from(table[i].package));
    }
}

int main(void)
{
    tap_run(test_top);
    tap_run(test_function_in_files);
    tap_run(test_function_rows);
    tap_run(test_diff);
    tap_run(test_callers);
    tap_run(test_lines);
    tap_run(test_lists);
    tap_run(test_coverage);
    tap_run(test_coverage_of_two_sources);
    tap_run(test_coverage_of_series);
    tap_run(test_coverage_of_spans);
    tap_run(test_leaks);
    tap_run(test_extremes);
    tap_run(test_errors);
    tap_run(test_params);
    tap_run(test_zoom);
    tap_run(test_packages);
    tap_run(test_export);
    tap_run(test_export_inlined);
    tap_torture(torture_compile);
    export_store = filled(cpu, ARRAY_SIZE(cpu));
    tap_torture(torture_export);
    store_close(export_store);
    return tap_done();
}
