/* SPDX-License-Identifier: Apache-2.0 */
/* http1.h and http.h: heads, framing, smuggling, chunks, URLs, queries, cookies, dates. */
#include "net/http1.h"

#include "base/clock.h"
#include "tap.h"

static const struct http1_limits limits = {.head_bytes = 8192, .headers = 20};

static int parse(const char *text, struct http1_head *ret, struct arena *a)
{
    static char copy[16384];
    size_t n = strlen(text);
    ssize_t head;

    memcpy(copy, text, n);
    head = http1_head_length(copy, n, 0, limits.head_bytes);
    if (head <= 0)
        return head ? (int) head : -EAGAIN;
    return http1_parse_request(copy, (size_t) head, &limits, a, ret, NULL);
}

static void test_request_heads(void)
{
    static const struct {
        const char *text;
        int result;
    } table[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 0},
        {"GET / HTTP/1.1\nHost: x\n\n", 0},
        {"GET / HTTP/1.0\r\n\r\n", 0},
        {"GET / HTTP/1.1\r\nHost: x\r\n", -EAGAIN},
        {"GET / HTTP/1.1\r\n\r\n", -EBADMSG},                       /* no host */
        {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", -EBADMSG}, /* two */
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", -EPROTONOSUPPORT},
        {"GET /\r\nHost: x\r\n\r\n", -EBADMSG},
        {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", -EBADMSG},
        {"G ET / HTTP/1.1\r\nHost: x\r\n\r\n", -EBADMSG},
        {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", -EBADMSG},
        {"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", -EBADMSG},      /* blank before the colon */
        {"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", -EBADMSG}, /* folded */
        {"GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", -EBADMSG},    /* bare CR */
        {"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\r\n\r\n", -EBADMSG},
        {"GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n", -EBADMSG},
        {"GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", 0},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x3\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", -ENOTSUP},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", -ENOTSUP},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", -EBADMSG},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct http1_head h;
        struct arena a;
        int r;

        arena_init(&a, 0);
        r = parse(table[i].text, &h, &a);
        if (r != table[i].result)
            tap_fail("%d, not %d, for: %s", r, table[i].result, table[i].text);
        arena_done(&a);
    }
}

static void test_head_fields(void)
{
    struct http1_head h;
    struct arena a;

    arena_init(&a, 0);
    eq_int(
        parse("POST /a?b=c HTTP/1.1\r\nHOST: x:1\r\nConnection: Close\r\nExpect: 100-continue\r\ncontent-length: 12\r\n"
              "X-Y:  spaced\t \r\n\r\n",
              &h, &a),
        0);
    eq_str(h.method, STR("POST"));
    eq_str(h.target, STR("/a?b=c"));
    eq_str(http_headers_get(&h.headers, "host"), STR("x:1"));
    eq_str(http_headers_get(&h.headers, "x-y"), STR("spaced"));
    eq_int(h.framing, HTTP1_LENGTH);
    eq_int(h.content_length, 12);
    ok(!h.keep_alive && h.expect_continue);
    arena_done(&a);
}

static void test_limits(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct http1_head h;
    struct arena a;

    arena_init(&a, 0);
    buf_puts(&b, "GET / HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 30; i++)
        buf_printf(&b, "h%d: v\r\n", i);
    buf_puts(&b, "\r\n");
    eq_int(parse(buf_cstr(&b), &h, &a), -E2BIG);
    buf_reset(&b);
    buf_puts(&b, "GET /");
    buf_pad(&b, 'a', 9000);
    eq_int(parse(buf_cstr(&b), &h, &a), -EMSGSIZE);
    arena_done(&a);
}

/* Feeds step bytes at a time; the content, or an error. */
static int read_chunks(const char *text, size_t step, struct buf *out, bool *ret_done)
{
    struct http1_head head = {.framing = HTTP1_CHUNKED};
    struct http1_body body;
    size_t n = strlen(text);

    http1_body_init(&body, &head);
    for (size_t at = 0; at < n && !body.done;) {
        const char *p = text + at;
        size_t left = MIN(step, n - at);

        while (left && !body.done) {
            struct str piece;
            int r = http1_body_next(&body, &p, &left, &piece);

            if (r < 0)
                return r;
            buf_put_str(out, piece);
        }
        at = (size_t) (p - text);
    }
    *ret_done = body.done;
    return 0;
}

static void test_chunks(void)
{
    static const struct {
        const char *text, *want;
        int result;
        bool done;
    } table[] = {
        {"3\r\nabc\r\n0\r\n\r\n", "abc", 0, true},
        {"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n", "abc0123456789", 0, true},
        {"3\r\nabc\r\n", "abc", 0, false},
        {"3\nabc\r\n0\r\n\r\n", "", -EBADMSG, false},
        {"3\r\nabcd\r\n0\r\n\r\n", "", -EBADMSG, false},
        {"\r\n", "", -EBADMSG, false},
        {"g\r\n", "", -EBADMSG, false},
        {"-1\r\n", "", -EBADMSG, false},
        {"0x3\r\nabc\r\n", "", -EBADMSG, false},
        {"fffffffffffffffff\r\n", "", -EBADMSG, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        for (size_t step = 1; step < 40; step += 3) {
            _cleanup_(buf_done) struct buf out = BUF_INIT;
            bool done = false;

            eq_int(read_chunks(table[i].text, step, &out, &done), table[i].result);
            if (table[i].result == 0) {
                eq_str(buf_str(&out), str_from(table[i].want));
                eq_int(done, table[i].done);
            }
        }
}

static void test_chunk_flood(void)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, out = BUF_INIT;
    bool done;

    for (int i = 0; i < 10000; i++)
        buf_puts(&text, "1\r\na\r\n");
    eq_int(read_chunks(buf_cstr(&text), 100000, &out, &done), -EBADMSG); /* one-byte chunks do not pay */
}

static void test_responses(void)
{
    static const struct {
        const char *text;
        int result, status;
        enum http1_framing framing;
    } table[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 0, 200, HTTP1_LENGTH},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 0, 200, HTTP1_NO_BODY},
        {"HTTP/1.1 204 No Content\r\n\r\n", 0, 204, HTTP1_NO_BODY},
        {"HTTP/1.0 200 OK\r\n\r\n", 0, 200, HTTP1_TO_CLOSE},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 200, HTTP1_CHUNKED},
        {"HTTP/1.1 20x OK\r\n\r\n", -EBADMSG, 0, 0},
        {"HTTP/1.1 2000 OK\r\n\r\n", -EBADMSG, 0, 0},
        {"ICY 200 OK\r\n\r\n", -EBADMSG, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char copy[256];
        struct http1_head h;
        struct arena a;

        arena_init(&a, 0);
        memcpy(copy, table[i].text, strlen(table[i].text));
        eq_int(http1_parse_response(copy, strlen(table[i].text), &limits, &a, &h, NULL), table[i].result);
        if (table[i].result == 0) {
            eq_int(h.status, table[i].status);
            eq_int(h.framing, table[i].framing);
        }
        arena_done(&a);
    }
}

static void test_urls(void)
{
    struct http_url u;

    eq_int(http_url_parse("http://localhost:4318/v1?x=1", &u, NULL), 0);
    ok(strcmp(u.host, "localhost") == 0 && strcmp(u.port, "4318") == 0 && strcmp(u.authority, "localhost:4318") == 0);
    ok(strcmp(u.target, "/v1?x=1") == 0 && !u.https);
    eq_int(http_url_parse("https://[::1]", &u, NULL), 0);
    ok(strcmp(u.host, "::1") == 0 && strcmp(u.port, "443") == 0 && strcmp(u.authority, "[::1]") == 0 && u.https);
    eq_int(http_url_parse("unix:///run/w.sock", &u, NULL), 0);
    ok(strcmp(u.unix_path, "/run/w.sock") == 0);
    eq_int(http_url_parse("ftp://x", &u, NULL), -EINVAL);
    eq_int(http_url_parse("http://", &u, NULL), -EINVAL);
    eq_int(http_url_parse("http://u:p@x/", &u, NULL), -EINVAL);
    eq_int(http_url_parse("http://x:99999/", &u, NULL), -EINVAL);
    eq_int(http_url_parse("http://x/a\r\nb", &u, NULL), -EINVAL);
}

static void test_queries(void)
{
    struct http_header cookies[] = {{STR("cookie"), STR("a=1; session=\"xyz\"; b")}};
    struct http_headers h = {cookies, 1, 1};
    struct arena a;

    arena_init(&a, 0);
    eq_str(http_query_get(STR("a=1&b=x+y%21&c"), &a, "b"), STR("x y!"));
    eq_str(http_query_get(STR("a=1&b=x&c"), &a, "c"), STR(""));
    ok(!http_query_get(STR("a=1"), &a, "z").p);
    ok(!http_query_get(STR("a=%zz"), &a, "a").p);
    eq_str(http_cookie(&h, "session"), STR("xyz"));
    ok(!http_cookie(&h, "b").p);
    ok(http_list_has(STR("gzip, deflate;q=0.5"), "Deflate") && !http_list_has(STR("gzip"), "zip"));
    arena_done(&a);
}

static void test_dates(void)
{
    int64_t now = 784111777ll * NS_PER_S, v = 0;
    char text[40];

    http_date_format(now, text);
    eq_str(str_from(text), STR("Sun, 06 Nov 1994 08:49:37 GMT"));
    eq_int(http_retry_after(STR("120"), now, &v), 0);
    eq_int(v, 120 * NS_PER_S);
    eq_int(http_retry_after(STR("Sun, 06 Nov 1994 08:50:37 GMT"), now, &v), 0);
    eq_int(v, 60 * NS_PER_S);
    eq_int(http_retry_after(STR("soon"), now, &v), -EINVAL);
    eq_int(http_headers_add(&(struct http_headers){0}, &(struct arena){0}, STR("a"), STR("b\r\nc: d")), -EINVAL);
}

int main(void)
{
    tap_run(test_request_heads);
    tap_run(test_head_fields);
    tap_run(test_limits);
    tap_run(test_chunks);
    tap_run(test_chunk_flood);
    tap_run(test_responses);
    tap_run(test_urls);
    tap_run(test_queries);
    tap_run(test_dates);
    return tap_done();
}
