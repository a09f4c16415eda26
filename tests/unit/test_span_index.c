/* SPDX-License-Identifier: Apache-2.0 */
/* The span index: blocks, decoding, files that survive damage and restart, limits of size and age, tenants, counting. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "made_spans.h"
#include "span/span_decode.h"
#include "span/span_files.h"
#include "tap.h"

static char dir[64];
static _Atomic int64_t wall = 1700000000ll * NS_PER_S;

static int64_t now(void)
{
    return wall;
}

static struct span_index *open_index(const char *where, uint64_t size, int64_t keep)
{
    struct span_index_config c = {.dir = where, .size = size, .keep = keep, .now = now, .min_free = -1};
    struct span_index *x = NULL;
    struct err e = {0};

    if (span_index_open(&c, &x, &e) < 0)
        tap_fail("%s", e.message);
    return x;
}

static int count_row(void *ctx, const struct span_row *s)
{
    (void) s;
    ++*(int *) ctx;
    return 0;
}

static int count(struct span_index *x, struct span_filter f)
{
    struct err e = {0};
    int n = 0;

    f.to = f.to ? f.to : INT64_MAX;
    if (span_index_each(x, &f, count_row, &n, &e) < 0)
        tap_fail("%s", e.message);
    return n;
}

/* --- tests --- */

static void test_decoding(void)
{
    struct span_index *x = open_index(NULL, 0, 0);
    struct made_span v[] = {{1, 1, 0, "GET /", wall, 100, 2, 2}, {1, 2, 1, "db", wall + 5, 50, 3, 0}, {0}};
    struct ack_result r;

    v[2] = (struct made_span){1, 3, 0, "no start", 0, 0, 1, 0};
    r = append_spans(x, "", "1", v, 3);
    eq_int(r.status, SINK_OK);
    eq_int(r.rejected, 1);
    eq_int(count(x, (struct span_filter){.tenant = ""}), 2);
    eq_int(count(x, (struct span_filter){.tenant = "", .service = STR("shop"), .version = STR("1")}), 2);
    eq_int(count(x, (struct span_filter){.tenant = "", .service = STR("shop"), .version = STR("2")}), 0);
    eq_int(count(x, (struct span_filter){.tenant = "", .name = STR("db")}), 1);
    eq_int(count(x, (struct span_filter){.tenant = "", .name = STR("shop")}), 0);
    eq_int(count(x, (struct span_filter){.tenant = "", .requests = true}), 1);
    eq_int(count(x, (struct span_filter){.tenant = "", .errors = true}), 1);
    eq_int(count(x, (struct span_filter){.tenant = "", .min_duration = 51, .max_duration = 100}), 0);
    eq_int(count(x, (struct span_filter){.tenant = "", .min_duration = 50, .max_duration = 101}), 2);
    eq_int(count(x, (struct span_filter){.tenant = "", .from = wall + 1}), 1);
    eq_int(count(x, (struct span_filter){.tenant = "", .to = wall}), 0);
    eq_int(count(x, (struct span_filter){.tenant = "other"}), 0);
    r = append(x, "", STR("\x0a\x05\x12"), false);
    eq_int(r.status, SINK_INVALID);
    ok(strstr(r.message, "OTLP traces"));
    span_index_close(x);
}

static void test_json(void)
{
    struct span_index *x = open_index(NULL, 0, 0);
    struct str good = STR(
        "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"0af7651916cd43dd8448eb211c80319c\",\"spanId\":"
        "\"AQIDBAUGBwg=\",\"parentSpanId\":null,\"name\":\"a\\u0062\",\"kind\":\"SPAN_KIND_CONSUMER\",\"startTimeUnixNano\":"
        "\"1700000000000000000\",\"endTimeUnixNano\":1700000000000000009,\"attributes\":[{\"key\":\"x\",\"value\":{}}],"
        "\"status\":{\"code\":2}},{}]},null]},{\"resource\":null}],\"other\":[1]}");
    struct ack_result r = append(x, "", good, true);

    if (r.status != SINK_OK)
        tap_fail("%s", r.message);
    eq_int(r.status, SINK_OK);
    eq_int(r.rejected, 1);
    eq_int(count(x,
                 (struct span_filter){
                     .tenant = "", .name = STR("ab"), .requests = true, .errors = true, .min_duration = 9}),
           1);
    eq_int(append(x, "", STR("{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{]}]}]}"), true).status, SINK_INVALID);
    eq_int(append(x, "", STR("{\"resourceSpans\":{}}"), true).status, SINK_INVALID);
    eq_int(append(x, "", STR(""), true).status, SINK_INVALID);
    eq_int(append(x, "", STR("{}"), true).status, SINK_OK);
    span_index_close(x);
}

/* A repeated request is stored once; equal IDs of another tenant, or of the other side of a call, are not the same. */
static void test_repeated(void)
{
    struct span_index *x = open_index(NULL, 0, 0);
    struct made_span v = {1, 1, 0, "GET /", wall, 100, 2, 0};
    struct span_index_stats s;

    for (int i = 0; i < 3; i++)
        eq_int(append_spans(x, "one", "1", &v, 1).status, SINK_OK);
    eq_int(append_spans(x, "two", "1", &v, 1).status, SINK_OK);
    v.kind = 3;
    eq_int(append_spans(x, "one", "1", &v, 1).status, SINK_OK);
    eq_int(count(x, (struct span_filter){.tenant = "one"}), 2);
    eq_int(count(x, (struct span_filter){.tenant = "two"}), 1);
    span_index_stats(x, &s);
    eq_int(s.duplicates, 2);
    eq_int(s.spans, 3);
    span_index_close(x);
}

static void path_of(const char *tenant, int number, char *ret, size_t size)
{
    snprintf(ret, size, "%s/t-%s/%016x.spans", dir, tenant, number);
}

/* Restart; a file that ends in the middle of a block; one with a flipped bit. */
static void test_restart(void)
{
    struct span_index *x = open_index(dir, 0, 0);
    struct made_span v[2] = {{1, 1, 0, "first", wall, 100, 2, 0}, {2, 1, 0, "second", wall, 100, 2, 0}};
    struct span_index_stats s;
    char path[200], c;
    struct stat st;
    int fd;

    for (int i = 0; i < 2; i++)
        eq_int(append_spans(x, "\xff", "1", &v[i], 1).status, SINK_OK);
    span_index_close(x);
    path_of("ff", 1, path, sizeof path);
    fd = open(path, O_RDWR);
    ok(fd >= 0 && fstat(fd, &st) == 0 && ftruncate(fd, st.st_size - 3) == 0);
    x = open_index(dir, 0, 0);
    span_index_stats(x, &s);
    eq_int(s.torn, 1);
    eq_int(count(x, (struct span_filter){.tenant = "\xff", .name = STR("first")}), 1);
    eq_int(count(x, (struct span_filter){.tenant = "\xff"}), 1);
    eq_int(append_spans(x, "\xff", "1", &v[1], 1).status, SINK_OK);
    eq_int(count(x, (struct span_filter){.tenant = "\xff"}), 2);
    /* damage while it is open: the block is left out, the others are read */
    ok(pread(fd, &c, 1, SPAN_BLOCK_HEADER + 10) == 1);
    c = (char) (c ^ 1);
    ok(pwrite(fd, &c, 1, SPAN_BLOCK_HEADER + 10) == 1);
    close(fd);
    eq_int(count(x, (struct span_filter){.tenant = "\xff", .name = STR("second")}), 1);
    eq_int(count(x, (struct span_filter){.tenant = "\xff"}), 1);
    span_index_stats(x, &s);
    ok(s.damaged >= 1);
    span_index_close(x);
}

static struct str many_spans(struct buf *b, const char *name, int n)
{
    struct made_span *v = calloc((size_t) n, sizeof *v);

    for (int i = 0; i < n; i++)
        v[i] = (struct made_span){(uint32_t) i, 1, 0, name, wall + i, 1, 2, 0};
    buf_reset(b);
    put_request(b, "shop", "1", v, (size_t) n);
    free(v);
    return buf_str(b);
}

/* Over the size the largest tenant loses its oldest file; after `keep` every file goes. */
static void test_limits(void)
{
    char where[80];
    struct span_index *x;
    struct span_index_stats s;
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    snprintf(where, sizeof where, "%s/limited", dir);
    x = open_index(where, 1 << 20, 3600 * NS_PER_S);
    eq_int(append(x, "small", many_spans(&b, "s", 10), false).status, SINK_OK);
    for (int i = 0; i < 30; i++) {
        wall += NS_PER_S;
        eq_int(append(x, "large", many_spans(&b, "l", 1000), false).status, SINK_OK);
    }
    for (int i = 0; i < 6000; i++, usleep(10000)) {
        span_index_stats(x, &s);
        if (s.bytes <= 1 << 20)
            break;
    }
    ok(s.bytes <= 1 << 20 && s.bytes > 1 << 19);
    ok(s.dropped > 0);
    eq_int(count(x, (struct span_filter){.tenant = "small"}), 10);
    ok(count(x, (struct span_filter){.tenant = "large"}) > 8000);
    wall += 3601 * NS_PER_S;
    eq_int(count(x, (struct span_filter){.tenant = "large"}), 0);
    eq_int(append(x, "new", many_spans(&b, "n", 10), false).status, SINK_OK);
    for (int i = 0; i < 6000; i++, usleep(10000)) {
        span_index_stats(x, &s);
        if (s.files <= 1)
            break;
    }
    eq_int(s.files, 1);
    span_index_close(x);
}

static void test_requests(void)
{
    struct span_index *x = open_index(NULL, 0, 0);
    struct made_span v[] = {{1, 1, 0, "a", wall, 100, 2, 2},
                            {1, 2, 1, "b", wall + 1, 10, 3, 0},
                            {2, 1, 9, "a", wall + NS_PER_S, 5, 5, 0},
                            {3, 1, 0, "job", wall + NS_PER_S, 7, 1, 0}};
    struct span_requests_query q = {
        .tenant = "", .service = STR("shop"), .from = wall, .to = wall + 2 * NS_PER_S, .step = NS_PER_S};
    struct span_requests n;
    struct err e = {0};

    append_spans(x, "", "1", v, 2);
    append_spans(x, "", "2", v + 2, 2);
    eq_int(span_index_requests(x, &q, &n, &e), 0);
    eq_int(n.n, 2);
    eq_int(n.n_windows, 2);
    eq_str(n.v[0].version, STR("1"));
    eq_int(n.v[0].count[0], 1);
    eq_int(n.v[0].errors[0], 1);
    eq_int(n.v[0].duration[0], 100);
    eq_int(n.v[0].count[1], 0);
    eq_int(n.v[1].count[1], 2);
    eq_int(n.v[1].duration[1], 12);
    span_requests_done(&n);
    eq_int(span_index_requests(NULL, &q, &n, &e), 0);
    eq_int(n.n, 0);
    span_requests_done(&n);
    span_index_close(x);
}

/* Many blocks, long and many names: what is written is read. */
static void write_one(void *ctx, int i)
{
    char name[1100];
    struct span_row s = {.link = {.trace_id = {1}, .span_id = {(uint8_t) i, (uint8_t) (i >> 8), 1}},
                         .start = i,
                         .duration = 2 * i,
                         .service = STR("s"),
                         .kind = SPAN_CLIENT};

    snprintf(name, sizeof name, "%0*d", i % 7 ? 20 : 1090, i);
    s.name = str_from(name);
    span_writer_add(ctx, &s);
}

static void test_blocks(void)
{
    struct span_writer w;
    struct span_block b = {0};
    struct str rest;
    int n = 0;

    span_writer_init(&w, 5, 0);
    for (int i = 0; i < 5000; i++)
        write_one(&w, i);
    eq_int(span_writer_end(&w), 0);
    eq_int(w.n, 5000);
    for (rest = buf_str(&w.out); rest.n; rest = str_slice(rest, SPAN_BLOCK_HEADER + b.head.payload, rest.n)) {
        eq_int(span_block_read(&b, rest.p, rest.n), 0);
        for (uint32_t i = 0; i < b.head.n_rows; i++, n++) {
            struct span_row s;

            span_block_row(&b, i, &s);
            if (s.start != n || s.duration != 2 * n || s.name.n != (n % 7 ? 20u : (unsigned) SPAN_STRING_MAX) ||
                !str_is(s.service, "s") || s.version.n || s.kind != SPAN_CLIENT)
                tap_fail("row %d differs", n);
        }
    }
    eq_int(n, 5000);
    for (size_t cut = 0; cut < 200; cut++)
        ok(span_block_read(&b, w.out.p, cut) < 0);
    span_block_done(&b);
    span_writer_done(&w);
}

static int torture_append(void)
{
    struct span_writer w;
    int r;

    span_writer_init(&w, 5, 0);
    for (int i = 0; i < 50; i++)
        write_one(&w, i);
    r = span_writer_end(&w);
    span_writer_done(&w);
    return r;
}

enum { TRACE_BLOCKS = 200, SPANS_PER_BLOCK = 60, BLOCKS_OF_TRACE = 3 };

/* The spans of trace n, found by its filter, and how many blocks were read for that. */
static int count_trace(struct span_index *x, uint32_t n, uint64_t *ret_blocks)
{
    struct span_filter f = {.tenant = "traces", .of_trace = true, .trace_id = {1}};
    struct span_index_stats before, after;
    int found;

    store_u32(f.trace_id + 1, n);
    span_index_stats(x, &before);
    found = count(x, f);
    span_index_stats(x, &after);
    *ret_blocks = after.blocks_read - before.blocks_read;
    return found;
}

/* Every trace has a span in three blocks, as when three services send it; each is found, reading few blocks besides those. */
static void check_traces(struct span_index *x, uint32_t without)
{
    uint32_t traces = TRACE_BLOCKS * SPANS_PER_BLOCK / BLOCKS_OF_TRACE;
    uint64_t read = 0, n;

    for (uint32_t i = 0; i < traces; i++) {
        int found = count_trace(x, i + 1, &n);

        if (found != (i == without ? 0 : BLOCKS_OF_TRACE))
            tap_fail("trace %u has %d spans", i + 1, found);
        read += n;
    }
    ok(read <= (uint64_t) traces * (BLOCKS_OF_TRACE + TRACE_BLOCKS / 25));
    eq_int(count_trace(x, traces + 100, &n), 0);
}

static bool is_of_trace(void *ctx, const struct span_row *s)
{
    return memcmp(s->link.trace_id, ctx, 16) == 0;
}

static void test_traces(void)
{
    static uint8_t deleted[16] = {1};
    const char *places[] = {NULL, dir};
    struct span_delete d = {.to = INT64_MAX, .matches = is_of_trace, .ctx = deleted};
    struct err e = {0};
    uint64_t n;

    store_u32(deleted + 1, 78);
    for (int k = 0; k < 2; k++) {
        struct span_index *x = open_index(places[k], 4 << 20, 0);

        for (uint32_t b = 0; b < TRACE_BLOCKS; b++) {
            struct made_span v[SPANS_PER_BLOCK];

            for (uint32_t i = 0; i < SPANS_PER_BLOCK; i++) {
                uint32_t at = b * SPANS_PER_BLOCK + i, third = TRACE_BLOCKS * SPANS_PER_BLOCK / BLOCKS_OF_TRACE;

                v[i] = (struct made_span){at % third + 1, at + 1, 0, "GET /", wall, 5, 2, 0};
            }
            eq_int(append_spans(x, "traces", "1", v, SPANS_PER_BLOCK).status, SINK_OK);
        }
        check_traces(x, UINT32_MAX);
        if (k == 1) { /* the filters are made again */
            span_index_close(x);
            x = open_index(places[k], 4 << 20, 0);
            check_traces(x, UINT32_MAX);
        }
        eq_int(span_index_delete(x, "traces", &d, &n, &e), 0);
        eq_int(n, BLOCKS_OF_TRACE);
        check_traces(x, 77);
        span_index_close(x);
    }
}

int main(void)
{
    snprintf(dir, sizeof dir, "/tmp/test_span_index.XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    tap_run(test_blocks);
    tap_run(test_decoding);
    tap_run(test_json);
    tap_run(test_repeated);
    tap_run(test_restart);
    tap_run(test_limits);
    tap_run(test_requests);
    tap_run(test_traces);
    tap_torture(torture_append);
    {
        char command[128];

        snprintf(command, sizeof command, "rm -rf %s", dir);
        if (system(command) != 0)
            return 1;
    }
    return tap_done();
}
