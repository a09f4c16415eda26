/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts of the server: the limits and the ledger of the intake, files with symbols, links to source, pprof as JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "model/batch.h"
#include "model/builder.h"
#include "model/sink.h"
#include "serve/serve_intake.h"
#include "server/binary_store.h"
#include "server/pprof_json.h"
#include "server/serve_config.h"
#include "server/source_link.h"
#include "tap.h"

/* --- the intake --- */

static struct ack_result last;
static unsigned taken;

static void remember(struct ack *a, const struct ack_result *r)
{
    (void) a;
    last = *r;
}

static void accept_all(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    (void) s;
    (void) data.batch;
    (void) ctx;
    taken++;
    ack_ok(ack);
}

static bool says(struct serve_intake *o, const char *line)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    serve_intake_metrics(o, &b);
    return strstr(buf_cstr(&b), line) != NULL;
}

static void test_limits(void)
{
    struct sink store = {accept_all}, *t, *u;
    struct serve_limits limits = {.samples_per_second = 2, .request = 1 << 20};
    struct serve_intake *o = NULL;
    struct ack ack = {remember};
    struct sink_context ctx = {.tenant = "t", .received_ns = clock_wall()};
    struct profile p = {0};
    struct batch b = {.refs = 1, .n_samples = 25, .n_profiles = 1, .profiles = &p};

    eq_int(serve_intake_new(&(struct serve_intake_options){.limits = &limits}, &o), 0);
    serve_intake_open(o, &(struct serve_intake_ends){.store = &store});
    t = serve_intake_sink(o, "t");
    u = serve_intake_sink(o, "u");
    sink_consume(t, &b, &ctx, &ack); /* two a second: twenty are saved up */
    eq_int(last.status, SINK_OK);    /* larger than all that is saved, and let in */
    sink_consume(t, &b, &ctx, &ack);
    eq_int(last.status, SINK_EXHAUSTED);
    ok(last.retry_ns > 2 * NS_PER_S && last.retry_ns < 5 * NS_PER_S); /* five samples of debt, and one second more */
    ok(strstr(last.message, "limits.samples_per_second") != NULL);
    sink_consume(u, &b, &ctx, &ack);
    eq_int(last.status, SINK_OK); /* another tenant has a limit of its own */
    serve_intake_limits(o, &(struct serve_limits){0});
    sink_consume(t, &b, &ctx, &ack);
    eq_int(last.status, SINK_OK);
    eq_int((int) taken, 3);
    ok(says(o, "wick_ingest_samples_total 75\n") && says(o, "wick_ingest_profiles_total 3\n"));
    ok(says(o, "wick_ingest_limited_total 1\n") && says(o, "wick_ingest_failed_total 0\n"));
    ok(says(o, "wick_ingest_in_flight 0\n") && says(o, "wick_ingest_seconds_count 3\n"));
    serve_intake_free(o);
}

static void refuse_all(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    static const struct ack_result results[] = {{.status = SINK_INVALID, .message = "bad"},
                                                {.status = SINK_UNAVAILABLE, .retry_ns = NS_PER_S, .message = "busy"},
                                                {.status = SINK_EXHAUSTED, .message = "full"},
                                                {.status = SINK_OK, .rejected = 1, .message = "one of them"}};

    (void) s;
    (void) data;
    (void) ctx;
    ack_complete(ack, &results[taken++ % ARRAY_SIZE(results)]);
}

/* Each refusal is counted once, under its reason. */
static void test_ledger(void)
{
    struct sink store = {refuse_all};
    struct serve_limits limits = {.request = 1 << 20};
    struct serve_intake *o = NULL;
    struct ack ack = {remember};
    struct sink_context ctx = {.tenant = "t"};
    struct profile p[2] = {{0}};
    struct batch b = {.refs = 1, .n_samples = 5, .n_profiles = 2, .profiles = p};

    taken = 0;
    eq_int(serve_intake_new(&(struct serve_intake_options){.limits = &limits}, &o), 0);
    serve_intake_open(o, &(struct serve_intake_ends){.store = &store});
    for (int i = 0; i < 4; i++)
        sink_consume(serve_intake_sink(o, "t"), &b, &ctx, &ack);
    ok(says(o, "wick_ingest_refused_total 3\n") && says(o, "wick_ingest_failed_total 2\n"));
    ok(says(o, "wick_ingest_limited_total 2\n") && says(o, "wick_ingest_profiles_total 1\n"));
    serve_intake_free(o);
}

static void test_many_tenants(void)
{
    struct serve_limits limits = {.request = 1 << 20};
    struct serve_intake *o = NULL;
    struct sink *first;
    char name[16];

    eq_int(serve_intake_new(&(struct serve_intake_options){.limits = &limits}, &o), 0);
    first = serve_intake_sink(o, "");
    for (int i = 1; i < 10000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        if (!serve_intake_sink(o, name) || serve_intake_sink(o, name) != serve_intake_sink(o, name))
            tap_fail("tenant %d", i);
    }
    ok(serve_intake_sink(o, "one more") == NULL);
    ok(first && serve_intake_sink(o, "") == first && serve_intake_sink(o, "t1") != first);
    serve_intake_free(o);
}

/* --- files --- */

static char whole[BINARY_PATH_SIZE]; /* the last that was */

static int write_at(struct binary_store *s, const char *tenant, const char *id, uint64_t offset, uint64_t size,
                    const char *bytes, uint64_t *ret_have)
{
    struct binary_piece piece = {tenant, str_from(id), offset, size, str_from(bytes)};

    return binary_store_write(s, &piece, ret_have, whole, NULL);
}

static void test_binaries(void)
{
    char dir[] = "/tmp/wick-test-binaries-XXXXXX", path[BINARY_PATH_SIZE], command[100];
    struct binary_store *s = NULL;
    struct binary_info info;
    uint64_t have = 9;

    ok(mkdtemp(dir) != NULL);
    eq_int(binary_store_open(dir, 20, 12, &s, NULL), 0);
    eq_int(write_at(s, "a", "abcd", 0, 8, "1234", &have), 0);
    eq_int((int) have, 4);
    eq_int(write_at(s, "a", "abcd", 2, 8, "34", &have), -ESTALE); /* not where it goes on */
    eq_int((int) have, 4);
    eq_int(write_at(s, "a", "abcd", 4, 8, "56789", &have), -ESTALE); /* more than was said */
    eq_int(write_at(s, "a", "abcd", 4, 8, "5678", &have), 1);
    eq_int(binary_store_find(s, "a", STR("abcd"), path, NULL), -ENOENT); /* not before it was looked at */
    eq_int(binary_store_accept(s, "a", STR("abcd"), whole, SYMBOLS_NAMES, NULL), 0);
    eq_int(binary_store_find(s, "a", STR("abcd"), path, &info), 0);
    eq_int((int) info.bytes, 8);
    eq_int(binary_store_find(s, "b", STR("abcd"), path, NULL), -ENOENT); /* another tenant has none */
    eq_int(write_at(s, "a", "eeee", 0, 13, "x", &have), -EFBIG);
    eq_int(write_at(s, "a", "eeee", 0, 12, "x", &have), 0);
    eq_int(write_at(s, "a", "eeee", 1, 12, "12345678901", &have), 1);
    eq_int(write_at(s, "a", "ffff", 0, 1, "x", &have), -EDQUOT); /* what is under way counts */
    binary_store_drop(s, whole);
    eq_int(write_at(s, "b", "ffff", 0, 1, "x", &have), 1);
    eq_int(write_at(s, "a", "ffff", 0, 1, "x", &have), 1);
    binary_store_free(s);
    eq_int(binary_store_open(dir, 20, 12, &s, NULL), 0); /* what was accepted is still there, the rest is gone */
    eq_int(binary_store_find(s, "a", STR("abcd"), path, &info), 0);
    eq_int(info.quality, SYMBOLS_NAMES);
    eq_int((int) binary_store_bytes(s), 8);
    eq_int(write_at(s, "a", "abcd", 4, 8, "5678", &have), -ESTALE);
    eq_int(binary_store_delete(s, "a", STR("abcd"), NULL), 0);
    eq_int(binary_store_delete(s, "a", STR("abcd"), NULL), -ENOENT);
    binary_store_free(s);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    eq_int(system(command), 0);
}

static void test_fetched_make_way(void)
{
    char dir[] = "/tmp/wick-test-fetched-XXXXXX", path[BINARY_PATH_SIZE], command[100];
    struct binary_store *s = NULL;
    uint64_t have;

    ok(mkdtemp(dir) != NULL);
    eq_int(binary_store_open(dir, 10, 10, &s, NULL), 0);
    for (int i = 0; i < 4; i++) {
        char id[8];

        snprintf(id, sizeof id, "id%02d", i);
        eq_int(write_at(s, BINARY_SHARED, id, 0, 4, "abcd", &have), 1);
        eq_int(binary_store_accept(s, BINARY_SHARED, str_from(id), whole, SYMBOLS_LINES, NULL), 0);
    }
    ok(binary_store_bytes(s) <= 10);
    eq_int(binary_store_find(s, BINARY_SHARED, STR("id00"), path, NULL), -ENOENT); /* the oldest */
    eq_int(binary_store_find(s, BINARY_SHARED, STR("id03"), path, NULL), 0);
    binary_store_free(s);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    eq_int(system(command), 0);
}

/* What was checked is what is kept, whoever sends something else for the same build id between. */
static void test_binaries_at_once(void)
{
    char dir[] = "/tmp/wick-test-at-once-XXXXXX", path[BINARY_PATH_SIZE], checked[BINARY_PATH_SIZE], command[100];
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct binary_store *s = NULL;
    uint64_t have;

    ok(mkdtemp(dir) != NULL);
    eq_int(binary_store_open(dir, 100, 100, &s, NULL), 0);
    eq_int(write_at(s, "a", "abcd", 0, 4, "good", &have), 1);
    memcpy(checked, whole, sizeof checked);
    eq_int(write_at(s, "a", "abcd", 0, 5, "wrong", &have), 1);
    ok(strcmp(checked, whole) != 0);
    eq_int(write_at(s, "a", "abcd", 0, 9, "half", &have), 0);
    binary_store_drop(s, whole);
    eq_int(binary_store_accept(s, "a", STR("abcd"), checked, SYMBOLS_NAMES, NULL), 0);
    eq_int(binary_store_accept(s, "a", STR("abcd"), whole, SYMBOLS_NAMES, NULL), -ENOENT);
    eq_int(binary_store_find(s, "a", STR("abcd"), path, NULL), 0);
    eq_int(fd_read_file(path, 100, &b, NULL), 0);
    eq_str(buf_str(&b), STR("good"));
    binary_store_free(s);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    eq_int(system(command), 0);
}

static void test_build_ids(void)
{
    ok(binary_id_ok(STR("0123abcd")) && binary_id_ok(STR("aB3_x-/Q=+")));
    ok(!binary_id_ok(STR("abc")) && !binary_id_ok(STR("../../etc")) && !binary_id_ok(STR("ab cd")) &&
       !binary_id_ok(STR("")));
}

/* --- links --- */

static void test_links(void)
{
    static const struct {
        struct serve_source source;
        const char *file, *revision, *link;
    } cases[] = {
        {{.prefix = "/a/", .repository = "https://gitlab.example/g/p/"},
         "/a/x y.c",
         "main",
         "https://gitlab.example/g/p/-/blob/main/x%20y.c#L5"},
        {{.prefix = "/a", .repository = "https://bitbucket.org/g/p"},
         "/a/b.c",
         "",
         "https://bitbucket.org/g/p/src/HEAD/b.c#lines-5"},
        {{.prefix = "", .link = "idea://open?file={dir}/{path}&line={line}", .dir = "/w/"},
         "z.c",
         "",
         "idea://open?file=/w/z.c&line=5"},
        {{.prefix = "/a/", .link = "x:{unknown}{path"}, "/a/b.c", "", "x:{unknown}{path"},
        {{.prefix = "/b/", .link = "x:{path}"}, "/a/b.c", "", NULL},
        {{.prefix = "/a/", .dir = "/w"}, "/a/b.c", "", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(buf_done) struct buf out = BUF_INIT;
        bool some = source_link(&cases[i].source, str_from(cases[i].file), 5, str_from(cases[i].revision), &out);

        ok(some == (cases[i].link != NULL));
        if (some)
            eq_str(buf_str(&out), str_from(cases[i].link));
    }
}

/* --- pprof as JSON --- */

static void test_pprof_json(void)
{
    static const char bytes[] = "\x12\x06\x0a\x02\x01\x02\x12\x00" /* sample {location_id [1, 2] packed, value [] } */
                                "\x32\x00\x32\x03"
                                "a\"b"                                         /* strings "" and a"b */
                                "\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* time_nanos -1 */
                                "\x12\x04\x08\x03\x10\x04"; /* sample {location_id 3, value 4} unpacked, later */
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    bool first = true;

    eq_int(pprof_json(&out, &first, (struct str){bytes, sizeof bytes - 1}, NULL), 0);
    eq_str(buf_str(&out),
           STR("\"sample\":[{\"locationId\":[\"1\",\"2\"],\"value\":[]},{\"locationId\":[\"3\"],\"value\":[\"4\"]}],"
               "\"stringTable\":[\"\",\"a\\\"b\"],\"timeNanos\":\"-1\""));
    buf_reset(&out);
    ok(pprof_json(&out, &first, STR("\x12\x7f"), NULL) < 0);
}

int main(void)
{
    tap_run(test_limits);
    tap_run(test_ledger);
    tap_run(test_many_tenants);
    tap_run(test_binaries);
    tap_run(test_binaries_at_once);
    tap_run(test_fetched_make_way);
    tap_run(test_build_ids);
    tap_run(test_links);
    tap_run(test_pprof_json);
    return tap_done();
}
