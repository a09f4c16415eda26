/* SPDX-License-Identifier: Apache-2.0 */
/* Reports over a small profile made here: units, names, graphs, filters, merging; and with every allocation failing. */
#include "base/buf.h"
#include "model/builder.h"
#include "report/gopath.h"
#include "report/prof.h"
#include "report/report_driver.h"
#include "report/strtab.h"
#include "report/tabwriter.h"
#include "report/units.h"
#include "batch_validate.h"
#include "tap.h"

static struct str label(struct buf *b, int64_t v, const char *from, const char *to)
{
    buf_reset(b);
    units_label(b, v, str_from(from), str_from(to));
    return buf_str(b);
}

static void test_units(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    eq_str(label(&b, 1500000000, "nanoseconds", "auto"), STR("1.50s"));
    eq_str(label(&b, 10, "ms", "minimum"), STR("10ms"));
    eq_str(label(&b, 1, "ns", "hours"), STR("0"));
    eq_str(label(&b, 7200, "seconds", "auto"), STR("2hrs"));
    eq_str(label(&b, -2048, "bytes", "auto"), STR("-2kB"));
    eq_str(label(&b, 1048576, "bytes", "kb"), STR("1024kB"));
    eq_str(label(&b, 5, "count", "minimum"), STR("5"));
    eq_str(label(&b, 5, "widgets", "gadgets"), STR("5gadgets"));
    eq_str(label(&b, 3000000000, "bytes", "count"), STR("3000000000B"));
    buf_reset(&b);
    units_percentage(&b, 1, 3);
    units_percentage(&b, 1, 1);
    units_percentage(&b, 1, 300000);
    units_percentage(&b, 5, 0);
    eq_str(buf_str(&b), STR("33.33%  100%0.00033%    0%"));
    ok(units_compatible(STR("samples"), STR("ms"), STR("sample"), STR("seconds")));
    ok(!units_compatible(STR("space"), STR("bytes"), STR("space"), STR("seconds")));
}

static void test_paths(void)
{
    static const struct {
        const char *in, *out;
    } cases[] = {{"", "."},       {"a/b", "a/b"},         {"/a//b/", "/a/b"}, {"./a/../b", "b"}, {"../../a", "../../a"},
                 {"/../a", "/a"}, {"a/./b/../../c", "c"}, {"a/..", "."},      {"/", "/"},        {"..", ".."}};
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        gopath_clean(&b, str_from(cases[i].in));
        eq_str(buf_str(&b), str_from(cases[i].out));
        if (gopath_is_clean(str_from(cases[i].in)))
            eq_str(str_from(cases[i].in), str_from(cases[i].out));
    }
    eq_str(gopath_base(STR("/a/b/")), STR("b"));
    eq_str(gopath_base(STR("///")), STR("/"));
    buf_reset(&b);
    gotime_duration(&b, 90500000000);
    buf_putc(&b, ' ');
    gotime_duration(&b, 1500);
    buf_putc(&b, ' ');
    gotime_duration(&b, 3600000000000);
    eq_str(buf_str(&b), STR("1m30.5s 1.5\xc2\xb5s 1h0m0s"));
}

static void test_tabs(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    eq_int(tabwriter_format(STR("k:\t Total 3\n \t2 (66%):\t x\n \t1:\t yy\n\nlong:\t end\n\n"), &b), 0);
    eq_str(buf_str(&b), STR(" k: Total 3\n    2 (66%): x\n          1: yy\n\n long: end\n\n"));
}

static void test_double(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    config_put_double(&b, 0.005);
    buf_putc(&b, ' ');
    config_put_double(&b, 1);
    buf_putc(&b, ' ');
    config_put_double(&b, 1e6);
    buf_putc(&b, ' ');
    config_put_double(&b, 123456);
    buf_putc(&b, ' ');
    config_put_double(&b, 0.00001);
    eq_str(buf_str(&b), STR("0.005 1 1e+06 123456 1e-05"));
}

/* main -> work -> (inlined) leaf, and main -> idle. */
static int make_batch(struct batch **ret)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    int r = builder_new(&(struct builder_limits){0}, &b);
    uint32_t f[4], loc[3], stack[2], bytes, route;
    struct value_type types[2];
    struct run labels;
    struct profile *p;

    if (r < 0)
        return r;
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"main", "work", "leaf", "idle"};
        uint32_t name = builder_string(b, str_from(names[i]));

        f[i] = builder_function(b, &(struct function){name, name, builder_string(b, STR("/src/a.c")), 1});
    }
    loc[0] = builder_location(
        b, &(struct builder_location){.address = 0x10, .lines = &(struct line){f[0], 10, 0}, .n_lines = 1});
    loc[1] =
        builder_location(b, &(struct builder_location){
                                .address = 0x20, .lines = (struct line[]){{f[2], 5, 0}, {f[1], 20, 0}}, .n_lines = 2});
    loc[2] = builder_location(
        b, &(struct builder_location){.address = 0x30, .lines = &(struct line){f[3], 30, 0}, .n_lines = 1});
    stack[0] = builder_stack(b, (uint32_t[]){loc[1], loc[0]}, 2);
    stack[1] = builder_stack(b, (uint32_t[]){loc[2], loc[0]}, 2);
    bytes = builder_attr_int(b, STR("bytes"), 2048, STR("bytes"));
    route = builder_attr_str(b, STR("route"), STR("/x"));
    labels = builder_attrs(b, (uint32_t[]){bytes, route}, 2);
    types[0] = (struct value_type){builder_string(b, STR("samples")), builder_string(b, STR("count"))};
    types[1] = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    builder_resource(b);
    builder_scope(b, STR(""), STR(""));
    p = builder_profile(b, types, 2);
    if (p)
        p->duration_ns = 1000000000;
    builder_sample(b, &(struct builder_sample){
                          .stack = stack[0], .attrs = labels, .values = (int64_t[]){3, 30000000}, .n_values = 2});
    builder_sample(b, &(struct builder_sample){.stack = stack[1], .values = (int64_t[]){1, 10000000}, .n_values = 2});
    return builder_finish(b, ret, NULL);
}

static int run_report(const char *command, enum report_format format, const char *option, const char *value,
                      struct buf *out)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct prof_pool pool;
    struct prof *p = NULL;
    struct pprof_config c;
    struct report_run run;
    struct arena a;
    struct report_command cmd = {command, format, {0}};
    int r = make_batch(&b);

    if (r < 0)
        return r;
    arena_init(&a, 0);
    config_defaults(&c);
    r = option ? config_set(&c, str_from(option), str_from(value), &a, NULL) : 0;
    if (r >= 0)
        r = prof_pool_init(&pool);
    else
        pool = (struct prof_pool){0};
    if (r >= 0)
        r = prof_from_batch(&pool, b, &b->profiles[0], &p, NULL);
    if (r >= 0) {
        r = report_run_prepare(&run, p, &cmd, &c, NULL, NULL);
        if (r >= 0)
            r = report_print(&run.report, out, NULL);
        if (r >= 0)
            r = buf_error(out);
        report_run_done(&run);
    }
    prof_free(p);
    prof_pool_done(&pool);
    arena_done(&a);
    return r;
}

#define HEAD "Type: cpu\nDuration: 1s, Total samples = 40ms ( 4.00%)\n"

static void test_top(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    eq_int(run_report("top", REPORT_TEXT, NULL, NULL, &b), 0);
    eq_str(buf_str(&b), STR(HEAD "Showing nodes accounting for 40ms, 100% of 40ms total\n"
                                 "      flat  flat%   sum%        cum   cum%\n"
                                 "      30ms 75.00% 75.00%       30ms 75.00%  leaf (inline)\n"
                                 "      10ms 25.00%   100%       10ms 25.00%  idle\n"
                                 "         0     0%   100%       40ms   100%  main\n"
                                 "         0     0%   100%       30ms 75.00%  work\n"));
}

static void test_filters(void)
{
    static const struct {
        const char *option, *value, *gone, *kept;
    } cases[] = {
        {"focus", "leaf", "idle", "leaf"},      {"ignore", "leaf", "leaf", "idle"},
        {"hide", "leaf", "leaf", "work"},       {"show", "main", "leaf", "main"},
        {"show_from", "work", "main", "work"},  {"tagfocus", "route=x", "idle", "leaf"},
        {"tagfocus", "2kb", "idle", "leaf"},    {"tagignore", "1kb:", "leaf", "idle"},
        {"prune_from", "work", "leaf", "work"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;

        eq_int(run_report("top", REPORT_TEXT, cases[i].option, cases[i].value, &b), 0);
        if (str_find(buf_str(&b), str_from(cases[i].kept)) < 0)
            tap_fail("%s=%s lost %s", cases[i].option, cases[i].value, cases[i].kept);
        /* The legend names the filter, so look after it. */
        ok(buf_cstr(&b) && !strstr(strstr(b.p, "flat%"), cases[i].gone));
    }
}

static void test_expression_errors(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    eq_int(run_report("top", REPORT_TEXT, "focus", "(", &b), -EINVAL);
    eq_int(run_report("top", REPORT_TEXT, "sample_index", "nope", &b), -EINVAL);
    eq_int(run_report("top", REPORT_TEXT, "divide_by", "0", &b), -EINVAL);
}

/* Twice the same profile is one with double values and the same tables; minus itself it is empty. */
static void test_merge(void)
{
    struct prof_pool pool;
    struct prof *p[2] = {NULL, NULL}, *sum = NULL;
    struct batch *b[2];

    eq_int(prof_pool_init(&pool), 0);
    for (int i = 0; i < 2; i++) {
        eq_int(make_batch(&b[i]), 0);
        eq_int(prof_from_batch(&pool, b[i], &b[i]->profiles[0], &p[i], NULL), 0);
        batch_unref(b[i]);
    }
    eq_int(prof_merge(p, 2, &sum, NULL), 0);
    eq_int(sum->n_samples, 2);
    eq_int(sum->n_locations, 4);
    eq_int(sum->n_functions, 5);
    eq_int(sum->values[sum->samples[0].values + 1], 60000000);
    eq_int(sum->duration_ns, 2000000000);
    prof_free(sum);
    prof_scale(p[1], -1);
    eq_int(prof_combine(p, 2, &sum, NULL), 0);
    eq_int(sum->n_samples, 0);
    prof_free(sum);
    prof_pool_done(&pool);
}

/* Written again, a profile has the same tables entry by entry, repeated ones included. */
static void test_written_tables(void)
{
    struct prof_pool pool;
    struct prof *p = NULL;
    struct batch *b = NULL, *again = NULL;
    struct prof_function function;
    struct prof_location location;

    eq_int(prof_pool_init(&pool), 0);
    eq_int(make_batch(&b), 0);
    eq_int(prof_from_batch(&pool, b, &b->profiles[0], &p, NULL), 0);
    function = p->functions[1];
    location = p->locations[1];
    eq_int(prof_add_function(p, &function), 5);
    eq_int(prof_add_location(p, &location), 4);
    eq_int(prof_to_batch(p, &again, NULL), 0);
    eq_int(batch_validate(again, NULL), 0);
    eq_int(again->dict.n_functions, 6);
    eq_int(again->dict.n_locations, 5);
    eq_str(again->dict.strings[again->dict.functions[5].name], STR("main"));
    eq_int(again->n_samples, 2);
    eq_int(again->values[1], 30000000);
    eq_int(again->samples[0].attrs.n, 2);
    eq_int(again->profiles[0].duration_ns, 1000000000);
    batch_unref(again);
    batch_unref(b);
    prof_free(p);
    prof_pool_done(&pool);
}

static int torture_write(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *again = NULL;
    struct prof_pool pool = {0};
    struct prof *p = NULL;
    int r = make_batch(&b);

    if (r >= 0)
        r = prof_pool_init(&pool);
    if (r >= 0)
        r = prof_from_batch(&pool, b, &b->profiles[0], &p, NULL);
    if (r >= 0)
        r = prof_to_batch(p, &again, NULL);
    prof_free(p);
    prof_pool_done(&pool);
    return r;
}

static int torture_top(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    return run_report("top", REPORT_TEXT, "focus", "main", &b);
}

static int torture_dot(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    return run_report("dot", REPORT_DOT, "tagroot", "route", &b);
}

static int torture_raw(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    return run_report("raw", REPORT_RAW, "tagshow", "bytes", &b);
}

int main(void)
{
    tap_run(test_units);
    tap_run(test_paths);
    tap_run(test_tabs);
    tap_run(test_double);
    tap_run(test_top);
    tap_run(test_filters);
    tap_run(test_expression_errors);
    tap_run(test_merge);
    tap_run(test_written_tables);
    tap_torture(torture_top);
    tap_torture(torture_write);
    tap_torture(torture_dot);
    tap_torture(torture_raw);
    return tap_done();
}
