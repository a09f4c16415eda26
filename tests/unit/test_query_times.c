/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about when samples were taken (query_heat.h, query_chart.h, times=sample), on a store in memory and on one on
 * disk. */
#include "tap.h"

#include <ftw.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/builder.h"
#include "query/query_chart.h"
#include "query/query_heat.h"

#define T0 (1700000000ll * NS_PER_S)
#define MS NS_PER_MS
#define LONG_MS (-7200ll * 1000) /* when there is data for an hour */

static int64_t fixed_now(void)
{
    return T0 + 3600 * NS_PER_S;
}

/* Sample number i of a thread begins 100 ms after the one before; value and time are those of the agent: CPU time ends at
 * the time of its sample, a wait begins there. */
struct timed {
    const char *type;
    int64_t tid;
    const char *leaf;
    int64_t at_ms, ms;
    uint8_t span;
};

static uint32_t stack_of(struct builder *b, const char *leaf)
{
    const char *names[] = {leaf, "work", "main"};
    uint32_t locations[3];

    for (int i = 0; i < 3; i++) {
        struct function f = {.name = builder_string(b, str_from(names[i]))};
        struct line l = {.function = builder_function(b, &f), .line = 1};

        locations[i] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    }
    return builder_stack(b, locations, 3);
}

static void append_at(struct store *s, const struct timed *v, size_t n, const char *type, int64_t at)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    struct ack_result result = {0};
    struct value_type t;
    struct profile *p;

    builder_new(NULL, &b);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("shop"));
    builder_resource_attr(b, STR("process.pid"), &(struct value){.kind = VALUE_INT, .integer = 7});
    t = (struct value_type){builder_string(b, str_from(type)), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    p->time_ns = at;
    p->duration_ns = 10 * NS_PER_S;
    for (size_t i = 0; i < n; i++) {
        int64_t value = v[i].ms * MS;
        uint64_t time = (uint64_t) (at + v[i].at_ms * MS);
        uint32_t id = builder_attr_int(b, STR("thread.id"), v[i].tid, (struct str){0});
        struct link link = {.trace_id = {1}, .span_id = {v[i].span}};

        if (strcmp(v[i].type, type) == 0)
            builder_sample(b, &(struct builder_sample){.stack = stack_of(b, v[i].leaf),
                                                       .link = v[i].span ? builder_link(b, &link) : 0,
                                                       .attrs = builder_attrs(b, &id, 1),
                                                       .values = &value,
                                                       .n_values = 1,
                                                       .timestamps = v[i].at_ms >= 0 ? &time : NULL,
                                                       .n_timestamps = v[i].at_ms >= 0});
    }
    eq_int(builder_finish(b, &batch, NULL), 0);
    eq_int(store_append_wait(s, batch, &(struct sink_context){.tenant = "", .received_ns = fixed_now()}, &result), 0);
}

static void append(struct store *s, const struct timed *v, size_t n, const char *type)
{
    append_at(s, v, n, type, T0);
}

static const struct timed samples[] = {
    {"cpu", 1, "parse", 1100, 100, 5},  {"cpu", 1, "parse", 1200, 100, 5}, {"off_cpu", 1, "poll", 1200, 600, 5},
    {"cpu", 1, "encode", 1900, 100, 0}, {"cpu", 2, "idle", 5010, 10, 0},   {"cpu", 3, "untimed", -1, 40, 0},
};

static struct query *ask(int64_t from_ms, int64_t to_ms, const char *times)
{
    struct query *q = NULL;
    struct err e = {0};

    if (query_compile(&(struct query_params){.tenant = "",
                                             .query = STR("cpu{service.name=\"shop\"}"),
                                             .from = query_at(T0 + from_ms * MS),
                                             .to = query_at(T0 + to_ms * MS),
                                             .by_sample = times && strcmp(times, "sample") == 0,
                                             .now = fixed_now()},
                      &q, &e) < 0)
        tap_fail("%s", e.message);
    return q;
}

/* Cells of 20 ms in columns of one second. */
static void check_heat(struct store *s)
{
    _cleanup_(query_freep) struct query *q = ask(500, 6000, "");
    struct arena a;
    struct query_heat h = {.arena = &a};
    struct err e = {0};

    arena_init(&a, 0);
    h.step = NS_PER_S;
    eq_int(query_heat(s, q, &h, &e), 0);
    eq_int(h.from, T0);
    eq_int(h.n_columns, 6);
    eq_int(h.n_rows, 50);
    eq_int(h.samples, 4);
    eq_int(h.timed, 310 * MS);
    eq_int(h.untimed, 0); /* its profile starts before the range */
    eq_int(h.max, 100 * MS);
    eq_int(h.values[1 * 50 + 5], 100 * MS);
    eq_int(h.values[1 * 50 + 10], 100 * MS);
    eq_int(h.values[1 * 50 + 45], 100 * MS);
    eq_int(h.values[5 * 50 + 0], 10 * MS);
    arena_done(&a);
}

/* A range within a profile selects samples by their own time; its coverage is the range. */
static void check_taken(struct store *s)
{
    _cleanup_(query_freep) struct query *q = ask(1150, 1950, "sample");
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct err e = {0};
    int64_t covered[2];

    eq_int(query_flame(s, q, &t, &e), 0);
    eq_int(t->total[0][0], 200 * MS);
    eq_int(query_coverage(s, q, covered, &e), 0);
    eq_int(covered[0], 800 * MS);
}

static const char *leaf(const struct query_chart *c, const struct chart_cell *x)
{
    static char text[64];

    snprintf(text, sizeof text, "%.*s", STR_FMT(c->tree->frames[c->tree->frame[x->node]].function));
    return text;
}

/* From 1 s to 2 s in columns of 100 ms: parse 0-2, poll (waiting) 2-8, encode 8-9. */
static void check_chart(struct store *s)
{
    _cleanup_(query_freep) struct query *q = ask(1000, 2000, "");
    struct query_chart c = {.n_columns = 10};
    struct err e = {0};

    eq_int(query_chart(s, q, &c, &e), 0);
    eq_int(c.n_all, 1);
    eq_int(c.threads[0].id, 1);
    eq_int(c.threads[0].pid, 7);
    eq_int(c.threads[0].value[CHART_RUNNING], 300 * MS);
    eq_int(c.threads[0].value[CHART_WAITING], 600 * MS);
    eq_int(c.threads[0].n_cells, 3);
    for (uint32_t i = 0; i < 3 && c.threads[0].n_cells == 3; i++) {
        static const struct {
            uint32_t at, n;
            const char *leaf;
            int kind;
        } wanted[] = {{0, 2, "parse", CHART_RUNNING}, {2, 6, "poll", CHART_WAITING}, {8, 1, "encode", CHART_RUNNING}};
        const struct chart_cell *x = &c.threads[0].cells[i];

        eq_int(x->column, wanted[i].at);
        eq_int(x->n, wanted[i].n);
        eq_int(x->kind, wanted[i].kind);
        ok(strcmp(leaf(&c, x), wanted[i].leaf) == 0);
    }
    eq_int(c.n_spans, 1);
    eq_int(c.spans[0].from, T0 + 1000 * MS);
    eq_int(c.spans[0].to, T0 + 1800 * MS);
    eq_int(c.spans[0].link.span_id[0], 5);
    query_chart_done(&c);
}

/* A long range with little data is read whole, wherever in it the data is. */
static void check_little(struct store *s)
{
    _cleanup_(query_freep) struct query *q = ask(-1800 * 1000, 1800 * 1000, "");
    struct query_chart c = {0};
    struct err e = {0};

    eq_int(query_chart(s, q, &c, &e), 0);
    ok(!c.sliced);
    eq_int(c.n_all, 2);
    query_chart_done(&c);
}

/* Over a long range with more, a short time of each column is read, from its first profile on. */
static void check_long(struct store *s)
{
    _cleanup_(query_freep) struct query *q = ask(LONG_MS, LONG_MS + 3600 * 1000, "");
    struct query_chart c = {0};
    struct err e = {0};

    eq_int(query_chart(s, q, &c, &e), 0);
    ok(c.sliced);
    eq_int(c.n_columns, CHART_SLICES);
    eq_int(c.n_all, 1); /* thread 2 ran after the first two seconds */
    eq_int(c.threads[0].samples, 4 * MIN(c.n_read, 64u));
    query_chart_done(&c);
}

static void run(const struct store_ops *ops, const char *dir)
{
    struct store *s = NULL;
    struct err e = {0};

    if (store_open(
            ops, &(struct store_config){.dir = dir, .now = fixed_now, .manual = true, .min_free = -1, .reserve = 4096},
            &s, &e) < 0)
        tap_fail("%s", e.message);
    append(s, samples, ARRAY_SIZE(samples), "cpu");
    append(s, samples, ARRAY_SIZE(samples), "off_cpu");
    for (int64_t i = 0; i < 64; i++) { /* in every second column, in the middle of it */
        int64_t at = T0 + LONG_MS * MS + 2 * i * (3600 * NS_PER_S / CHART_SLICES) + 10 * NS_PER_S;

        append_at(s, samples, ARRAY_SIZE(samples), "cpu", at);
        append_at(s, samples, ARRAY_SIZE(samples), "off_cpu", at);
    }
    for (int flushed = 0; flushed < 2; flushed++) {
        check_heat(s);
        check_taken(s);
        check_chart(s);
        check_little(s);
        check_long(s);
        eq_int(store_flush(s, &e), 0);
    }
    store_close(s);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

int main(void)
{
    char dir[] = "/tmp/wick-times-XXXXXX";

    run(&store_memory, NULL);
    tap_end("in memory");
    ok(mkdtemp(dir) != NULL);
    run(&store_segment, dir);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    tap_end("on disk, before and after a flush");
    return tap_done();
}
