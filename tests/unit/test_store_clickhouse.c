/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite on engine `clickhouse`, and the comparison with engine `memory` on the same data, when
 * WICK_CLICKHOUSE_URL names a server: tests/integration/test_clickhouse.py starts one. Without a server, only what needs none is
 * tested: locations, SQL and the reading of answers. */
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/engines/clickhouse/click_cache.h"
#include "store/engines/clickhouse/click_load.h"
#include "store/engines/clickhouse/click_parcel.h"
#include "store/engines/clickhouse/click_schema.h"
#include "store_conformance.c"

static char place[512];

/* --- without a server --- */

static void test_locations(void)
{
    static const struct {
        const char *text, *problem; /* problem: NULL = none */
    } rows[] = {
        {"clickhouse://u@h:1/db", NULL},
        {"clickhouse://h", NULL},
        {"clickhouse://u@a:1,b:2,c/db?cluster=x&quorum=3&timeout=5", NULL},
        {"clickhouse://u:p@h:1/db", "password"},
        {"clickhouse://u@h:1/db;drop", "database"},
        {"clickhouse://u@h:1/db?cluster=a'b", "cluster"},
        {"clickhouse://u@h:1/db?colour=red", "colour"},
        {"clickhouse://u@h:1/db?quorum=0", "quorum"},
        {"clickhouse://u@/db", "host"},
        {"clickhouse://u@h:1/db?password_file=/nonexistent/x", "password"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct click_url u;
        struct err e = {0};
        int r = click_url_parse(rows[i].text, &u, &e);

        if (rows[i].problem ? r >= 0 || !strstr(e.message, rows[i].problem) : r < 0)
            tap_fail("%s: %d %s", rows[i].text, r, e.message);
        click_url_done(&u);
    }
    {
        struct click_url u;

        eq_int(click_url_parse("clickhouse://u@a:1,b/db?cluster=x&tls=true", &u, NULL), 0);
        eq_int(u.n_hosts, 2);
        eq_str(str_from(u.hosts[0]), STR("https://a:1"));
        eq_str(str_from(u.hosts[1]), STR("https://b:8443"));
        eq_str(str_from(u.database), STR("db"));
        eq_int(u.quorum, 2);
        click_url_done(&u);
    }
    tap_end("locations");
}

static void test_text(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    click_put_text(&out, (struct str){"a'b\\c\0\xff", 7});
    eq_str(buf_str(&out), STR("'a\\x27b\\x5cc\\x00\\xff'"));
    tap_end("text in SQL");
}

static int put_statement(void *ctx, struct str sql, struct err *e)
{
    (void) e;
    buf_put_str(ctx, sql);
    buf_puts(ctx, ";\n");
    return 0;
}

static void test_schema(void)
{
    static const char *const places[] = {"clickhouse://h/db", "clickhouse://h/db?cluster=c"};

    for (size_t i = 0; i < 2; i++) {
        _cleanup_(buf_done) struct buf old = BUF_INIT, modern = BUF_INIT, none = BUF_INIT;
        struct click_url u;
        struct err e = {0};

        eq_int(click_url_parse(places[i], &u, NULL), 0);
        eq_int(click_schema_plan(&u, 1816, 0, put_statement, &old, &e), 0);
        eq_int(click_schema_plan(&u, 2605, 0, put_statement, &modern, &e), 0);
        eq_int(click_schema_plan(&u, 2605, CLICK_SCHEMA_VERSION, put_statement, &none, &e), 0);
        eq_int(click_schema_plan(&u, 2605, CLICK_SCHEMA_VERSION + 1, put_statement, &none, &e), -EPROTO);
        ok(none.n == 0);
        eq_int(click_schema_plan(&u, 1816, 2, put_statement, &none, &e), 0); /* has no codecs: only the version */
        ok(!strstr(buf_cstr(&none), "ALTER") && strstr(none.p, "VALUES (3)"));
        eq_int(click_schema_plan(&u, 2203, 1, put_statement, &none, &e), 0);
        ok(strstr(buf_cstr(&none), "ADD COLUMN linked") &&
           strstr(none.p, "MODIFY COLUMN ts Int64 CODEC(T64, ZSTD(1))"));
        ok(!strstr(none.p, "GCD") && strstr(buf_cstr(&modern), "GCD"));
        ok(strstr(none.p, "MODIFY COLUMN key UInt64 CODEC(ZSTD(1)) TTL ") && strstr(none.p, "VALUES (4)"));
        ok(strstr(modern.p, "time LowCardinality(Int64)") && strstr(modern.p, "allow_suspicious_low_cardinality_types"));
        ok(!strstr(buf_cstr(&old), "LowCardinality") && !strstr(old.p, "TTL") && !strstr(old.p, "SETTINGS"));
        ok(!strstr(none.p, "MODIFY COLUMN time") && !strstr(none.p, "MODIFY COLUMN attrs"));
        ok(!!strstr(none.p, "samples_local ON CLUSTER 'c' MODIFY") == (i == 1));
        ok(!strstr(buf_cstr(&old), "CODEC") && strstr(buf_cstr(&modern), "CODEC"));
        ok(!!strstr(buf_cstr(&old), "ON CLUSTER 'c'") == (i == 1));
        ok(!!strstr(buf_cstr(&old), "ReplicatedMergeTree('/clickhouse/tables/{shard}/db/samples', '{replica}')") ==
           (i == 1));
        click_url_done(&u);
    }
    tap_end("statements of the schema");
}

/* Answers that were cut short anywhere are refused or read as fewer rows; nothing is read outside. */
static void test_damaged_answers(void)
{
    _cleanup_(buf_done) struct buf rows = BUF_INIT;
    struct click_cache *c = NULL;

    for (int i = 0; i < 3; i++) {
        put_u64(&rows, (uint64_t) i);
        put_u64(&rows, 7);
        put_u64(&rows, 0);
        put_bytes(&rows, "head", 4);
        put_bytes(&rows, "lines", 5);
    }
    for (size_t n = 0; n <= rows.n; n++) {
        _cleanup_(mem_freep) char *copy = mem_dup(rows.p, n);

        for (int kind = 0; kind < CLICK_SAMPLES; kind++) {
            eq_int(click_cache_new(&c), 0);
            pthread_mutex_lock(&c->lock);
            click_cache_parse(c, "", kind, (struct str){copy, (uint32_t) n});
            if (kind == CLICK_LOCATIONS)
                eq_int(c->kinds[kind].n, n / 35);
            pthread_mutex_unlock(&c->lock);
            click_cache_unref(c);
        }
    }
    tap_end("damaged answers");
}

static void test_nobody_there(void)
{
    struct store_config c = {.dir = "clickhouse://u@127.0.0.1:1/db"};
    struct store *s = NULL;
    struct err e = {0};

    ok(store_open_place(&c, &s, &e) < 0);
    ok(strstr(e.message, "127.0.0.1:1") != NULL);
    tap_end("no server");
}

/* --- with a server --- */

/* The suite's clock is years in the past, so that keys of profiles would have expired when they arrive. */
static void make_tables_that_keep_keys(struct click_http *h)
{
    uint32_t version;
    struct err e = {0};

    if (click_server_version(h, &version, &e) < 0 || click_schema_ensure(h, true, &e) < 0 ||
        (version >= 2101 &&
         (click_exec(h, STR("ALTER TABLE profiles MODIFY COLUMN key REMOVE TTL"), &e) < 0 ||
          click_exec(h, STR("ALTER TABLE profiles MODIFY COLUMN key_start REMOVE TTL"), &e) < 0)))
        tap_fail("tables: %s", e.message);
}

static void drop_database(struct suite *s)
{
    struct click_http h;
    struct err e = {0};
    _cleanup_(buf_done) struct buf sql = BUF_INIT;
    struct click_call call = {.no_database = true};

    (void) s;
    if (click_http_init(&h, place, &e) == 0) {
        buf_printf(&sql, "DROP DATABASE IF EXISTS %s", h.url.database);
        if (*h.url.cluster)
            buf_printf(&sql, " ON CLUSTER '%s'", h.url.cluster);
        if (click_send(&h, buf_str(&sql), &call, NULL, &e) < 0)
            tap_fail("drop: %s", e.message);
        else
            make_tables_that_keep_keys(&h);
    }
    click_http_done(&h);
}

static void compare(struct store *a, struct store *b, int64_t from, int64_t to, const char *when)
{
    _cleanup_(buf_done) struct buf x = BUF_INIT, y = BUF_INIT;
    size_t i = 0, line = 0;

    dump_answers(&x, a, from, to);
    dump_answers(&y, b, from, to);
    if (x.n == y.n && memcmp(x.p, y.p, x.n) == 0)
        return;
    for (; i < MIN(x.n, y.n) && x.p[i] == y.p[i]; i++)
        if (x.p[i] == '\n')
            line = i + 1;
    tap_fail("%s: want '%.*s', have '%.*s'", when, (int) MIN(x.n - line, 400), x.p + line, (int) MIN(y.n - line, 400),
             y.p + line);
}

/* Random requests to both engines, with deletions and reopening in between. */
static void random_run(uint64_t seed, int steps)
{
    struct gen g = {.state = seed * 77777 + 1, .services = 3, .instances = 3, .stacks = 30, .depth = 10};
    struct store_config c = {.now = suite_now, .manual = true, .dir = place, .cache = seed % 2 ? 1 : 0};
    struct store *oracle = NULL, *s = NULL;
    struct err e = {0};

    suite_clock = GEN_T0;
    if (store_open(&store_memory, &c, &oracle, &e) < 0 || store_open(&store_clickhouse, &c, &s, &e) < 0) {
        tap_fail("open: %s", e.message);
        store_close(oracle);
        return;
    }
    for (int i = 0; i < steps && !tap_bad; i++) {
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, suite_clock);
        struct sink_context ctx = {.tenant = "", .received_ns = suite_clock};

        suite_clock += gen_below(&g, 400) * NS_PER_S;
        store_append_wait(oracle, b, &ctx, NULL);
        if (store_append_wait(s, b, &ctx, NULL) < 0)
            tap_fail("append");
        ctx.tenant = "neighbour";
        store_append_wait(s, b, &ctx, NULL);
        if (i == steps / 2) {
            store_close(s);
            s = NULL;
            if (store_open(&store_clickhouse, &c, &s, &e) < 0)
                tap_fail("open: %s", e.message);
        }
        if (i == steps / 3) {
            struct asked k;

            ask(&k, "cpu{service.name=\"svc-1\"}", GEN_T0, suite_clock - 300 * NS_PER_S);
            eq_int(oracle->ops->delete (oracle, "", &k.q.columns[0], &e), 0);
            if (s->ops->delete (s, "", &k.q.columns[0], &e) < 0)
                tap_fail("delete: %s", e.message);
            ask_done(&k);
        }
    }
    if (s && !tap_bad) {
        compare(oracle, s, GEN_T0 - 3600 * NS_PER_S, GEN_T0 + 86400 * NS_PER_S, "all");
        compare(oracle, s, GEN_T0 + 100 * NS_PER_S, GEN_T0 + 3000 * NS_PER_S, "part");
    }
    store_close(oracle);
    store_close(s);
    suite_clock = GEN_T0;
}

/* --- parcels and the spool --- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static void test_parcels(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct store_config c = {.spool = "x"};
    struct intake_limits limits;
    struct click_block block, keys;
    struct click_parcel_reader r;
    struct ack_result result = {0};
    struct gen g = {.state = 5, .services = 2, .instances = 2, .stacks = 9, .depth = 5};
    _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, GEN_T0);
    enum click_table table;
    struct str bytes;
    int tables = 0, more;

    intake_limits_init(&limits, &c);
    click_block_init(&block, &c, &limits);
    click_block_init(&keys, &c, &limits);
    eq_int(click_block_add(&block, b, &(struct sink_context){.tenant = "", .received_ns = GEN_T0}, GEN_T0, &result), 0);
    ok(block.profiles > 0);
    eq_int(click_parcel_encode(&block, &out), 0);
    eq_int(click_parcel_open(buf_str(&out), &keys, &r), 0);
    eq_int(keys.places.n, block.places.n);
    eq_int(keys.dedup.n, block.dedup.n);
    while ((more = click_parcel_next(&r, &table, &bytes)) > 0) {
        ok((table == CLICK_SAMPLES || table == CLICK_LINKS ? block.sample_rows.n : block.rows[table].n) && bytes.n);
        tables++;
    }
    eq_int(more, 0);
    ok(tables > 3);
    for (uint32_t n = 0; n < out.n; n += 1 + n / 8) { /* cut off anywhere: refused, or an end between two tables */
        if (click_parcel_open((struct str){out.p, n}, NULL, &r) < 0)
            continue;
        while ((more = click_parcel_next(&r, &table, &bytes)) > 0)
            ok(bytes.p + bytes.n <= out.p + n);
    }
    click_block_done(&block);
    click_block_done(&keys);
    tap_end("parcels");
}

struct ordered_row {
    struct str tenant, service, type;
    int64_t time;
    struct str stack;
};

static int cmp_rows(const struct ordered_row *a, const struct ordered_row *b)
{
    int64_t hour = 3600ll * 1000000000;
    int r = str_cmp(a->tenant, b->tenant);

    r = r ? r : str_cmp(a->service, b->service);
    r = r ? r : str_cmp(a->type, b->type);
    r = r ? r : (a->time / hour > b->time / hour) - (a->time / hour < b->time / hour);
    r = r ? r : memcmp(a->stack.p, b->stack.p, 16);
    return r ? r : (a->time > b->time) - (a->time < b->time);
}

/* Reads the first five columns of a block of samples. */
static uint64_t read_samples(struct str block, struct ordered_row *rows, uint64_t max)
{
    struct cursor in = cursor_of(block.p, block.n);
    uint64_t n_columns = get_varint(&in), n = get_varint(&in);

    if (n_columns < 5 || n > max)
        return 0;
    for (int c = 0; c < 5; c++) {
        struct str name = get_bytes(&in), type = get_bytes(&in);

        for (uint64_t i = 0; i < n; i++) {
            if (str_is(type, "String"))
                *(c == 0 ? &rows[i].tenant : c == 1 ? &rows[i].service : &rows[i].type) = get_bytes(&in);
            else if (str_is(name, "time"))
                rows[i].time = (int64_t) get_u64(&in);
            else
                rows[i].stack = (struct str){(const char *) get_raw(&in, 16), 16};
        }
    }
    return in.bad ? 0 : n;
}

/* A block of samples is in the order of the table, so that the server need not sort it, and has every row. */
static void test_order(void)
{
    enum { N = 5000 };
    static struct ordered_row rows[N];
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct click_samples s;
    uint64_t state = 7, sum = 0, found = 0;

    click_samples_init(&s);
    for (int round = 0; round < 2; round++) {
        buf_reset(&out);
        sum = found = 0;
        for (int i = 0; i < N; i++) {
            static const char *const names[] = {"", "b", "a", "service-10", "service-9"};
            struct click_group g = {.tenant = str_from(names[i % 2]), .type = STR("cpu")};
            struct click_sample row = {.linked = i % 3 == 0};

            state = state * 6364136223846793005ull + 1442695040888963407ull;
            g.service = str_from(names[state >> 60 & 3 ? 3 + i % 2 : 2]);
            row.time = (int64_t) (state >> 20 & 0xffffff) * 1000000000;
            row.stack = (struct id128){(state >> 52) * 0x9e3779b97f4a7c15ull, state >> 52}; /* spread, as hashes are */
            row.link.trace_id[0] = (uint8_t) (state >> 33);
            sum += (uint64_t) row.time;
            eq_int(click_samples_group(&s, &g, row.time, &row.group), 0);
            eq_int(click_samples_add(&s, &row), 0);
        }
        eq_int(click_samples_encode(&s, CLICK_SAMPLES, &out), 1);
        eq_int(read_samples(buf_str(&out), rows, N), N);
        for (int i = 0; i < N; i++) {
            found += (uint64_t) rows[i].time;
            if (i && cmp_rows(&rows[i - 1], &rows[i]) > 0)
                tap_fail("row %d is before its predecessor", i);
        }
        ok(found == sum);
        buf_reset(&out);
        eq_int(click_samples_encode(&s, CLICK_LINKS, &out), 1);
        eq_int(read_samples(buf_str(&out), rows, N), (N + 2) / 3);
        click_samples_reset(&s);
        buf_reset(&out);
        eq_int(click_samples_encode(&s, CLICK_SAMPLES, &out), 0);
    }
    click_samples_done(&s);
    tap_end("order of samples");
}

static int append_one(struct store *s, int64_t time, struct ack_result *ret)
{
    _cleanup_(batch_unrefp) struct batch *b =
        simple_batch((struct simple[]){{.value = 5, .service = "a", .time = time}}, 1);

    memcpy(b->profiles[0].id, &time, sizeof time);
    *ret = (struct ack_result){0};
    return store_append_wait(s, b, &(struct sink_context){.tenant = "", .received_ns = GEN_T0}, ret);
}

/* ClickHouse is away: with a spool the store opens, acknowledges, recognises after a restart what it has, and refuses when the
 * spool is full. */
static void test_spool(void)
{
    char spool[64];
    struct store_config c = {.dir = "clickhouse://u@127.0.0.1:1/db", .spool = spool, .later = true, .now = suite_now};
    struct store_stats st;
    struct store *s = NULL;
    struct ack_result r;
    struct err e = {0};

    suite_clock = GEN_T0;
    snprintf(spool, sizeof spool, "/tmp/wick-spool-%d", (int) getpid());
    ok(store_check_config(&store_memory, &c, &e) < 0 && strstr(e.message, "only possible with ClickHouse"));
    if (store_open(&store_clickhouse, &c, &s, &e) < 0) {
        tap_fail("open: %s", e.message);
        tap_end("spool");
        return;
    }
    for (int i = 0; i < 3; i++)
        eq_int(append_one(s, GEN_T0 + i, &r), 0);
    eq_int(append_one(s, GEN_T0 + 1, &r), 0); /* again */
    eq_int(s->ops->stats(s, &st), 0);
    eq_int(st.profiles, 3);
    eq_int(st.duplicates, 1);
    ok(st.log_bytes > 0 && !st.problem[0]);
    store_close(s);
    eq_int(store_open(&store_clickhouse, &c, &s, &e), 0);
    eq_int(append_one(s, GEN_T0 + 2, &r), 0);
    eq_int(append_one(s, GEN_T0 + 3, &r), 0);
    eq_int(s->ops->stats(s, &st), 0);
    eq_int(st.profiles, 1);
    eq_int(st.duplicates, 1);
    store_close(s);
    c.spool_bytes = 1;
    eq_int(store_open(&store_clickhouse, &c, &s, &e), 0);
    ok(append_one(s, GEN_T0 + 4, &r) < 0 && strstr(r.message, "spool is full"));
    store_close(s);
    ok(nftw(spool, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
    tap_end("spool");
}

static bool is_part(const char *name)
{
    const char *parts = getenv("WICK_CLICKHOUSE_PARTS");

    return !parts || strstr(parts, name);
}

int main(void)
{
    const char *url = getenv("WICK_CLICKHOUSE_URL"), *steps = getenv("WICK_CLICKHOUSE_STEPS");
    struct suite s = {.ops = &store_clickhouse, .after = drop_database};

    test_locations();
    test_text();
    test_schema();
    test_damaged_answers();
    test_nobody_there();
    test_parcels();
    test_order();
    test_spool();
    if (!url)
        return tap_done();
    snprintf(place, sizeof place, "%s", url);
    s.config.dir = place;
    s.config.manual = true;
    for (s.settle = SETTLE_FRESH; s.settle < SETTLES; s.settle += SETTLE_REOPENED) {
        if (!is_part(s.settle ? "reopened" : "fresh"))
            continue;
        drop_database(NULL);
        store_conformance(&s);
    }
    for (uint64_t seed = 1; seed <= 2; seed++) {
        if (!is_part(seed == 1 ? "random1" : "random2"))
            continue;
        drop_database(NULL);
        random_run(seed, steps ? atoi(steps) : 30);
        tap_end("as engine memory answers");
    }
    drop_database(NULL);
    return tap_done();
}
