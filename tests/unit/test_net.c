/* SPDX-License-Identifier: Apache-2.0 */
/* Server and client together: both versions of HTTP, large answers, limits, deadlines, cancelling, reuse, no memory. */
#include <stdlib.h>
#include <unistd.h>

#include "net/address.h"
#include "net/client_conn.h"
#include "net/encoding.h"
#include "net_pair.h"

static void plain(enum client_protocol p, const char *version)
{
    struct client_request r = {0}, post = {0}, missing = {0};
    char *big = mem_alloc(3 << 20);
    struct client *c;

    memset(big, 'x', 3 << 20);
    start_server(NULL);
    c = new_client(p);
    get(c, &r, "/a?b=c");
    run_until(1);
    eq_int(r.error, 0);
    eq_int(r.status, 200);
    eq_str(r.answer, STR("/a?b=c"));
    eq_str(http_headers_get(&r.headers_in, "x-version"), str_from(version));
    client_request_done(&r);
    post.body = (struct str){big, 3 << 20};
    get(c, &post, "/echo");
    get(c, &missing, "/404");
    run_until(3);
    eq_int(post.error, 0);
    eq_int(post.answer.n, 3 << 20);
    ok(post.answer.n == 3 << 20 && memcmp(post.answer.p, big, 3 << 20) == 0);
    eq_int(missing.status, 404);
    ok(c->n_conns <= 2);
    client_request_done(&post);
    client_request_done(&missing);
    client_free(c);
    stop_server();
    eq_int(n_released, 3);
    mem_free(big);
}

static void test_plain(void)
{
    check_both(plain);
}

static void large_answers(enum client_protocol p, const char *version)
{
    struct client_request r = {0};
    struct client *c;

    start_server(NULL);
    c = new_client(p);
    get(c, &r, "/large?5000000");
    run_until(1);
    eq_int(r.error, 0);
    eq_int(r.answer.n, 5000000);
    if (p == CLIENT_HTTP2)
        eq_str(http_headers_get(&r.trailers, "x-end"), STR("1"));
    client_request_done(&r);
    client_free(c);
    stop_server();
}

static void test_large_answers(void)
{
    check_both(large_answers);
}

static void reuse(enum client_protocol p, const char *version)
{
    struct http_server_stats st;
    struct client *c;

    start_server(NULL);
    c = new_client(p);
    for (int i = 0; i < 50; i++) {
        struct client_request r = {0};

        get(c, &r, "/x");
        run_until(i + 1);
        eq_int(r.status, 200);
        client_request_done(&r);
    }
    http_server_stats(server, &st);
    eq_int(st.accepted, 1);
    client_free(c);
    stop_server();
}

static void test_reuse(void)
{
    check_both(reuse);
}

static void many(enum client_protocol p, const char *version)
{
    static struct client_request r[300];
    struct http_server_stats st;
    struct client *c;

    memset(r, 0, sizeof r);
    start_server(NULL);
    c = new_client(p);
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        get(c, &r[i], "/x");
    run_until(ARRAY_SIZE(r));
    http_server_stats(server, &st);
    ok(st.accepted <= (p == CLIENT_HTTP2 ? 1 : 8));
    for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
        eq_int(r[i].status, 200);
        client_request_done(&r[i]);
    }
    client_free(c);
    stop_server();
}

static void test_many(void)
{
    check_both(many);
}

static void deadlines(enum client_protocol p, const char *version)
{
    struct client_request r = {.timeout_ns = 30 * NS_PER_MS}, next = {0}, cancelled = {0};
    int64_t until = clock_mono() + 5 * NS_PER_S;
    struct client *c;

    start_server(NULL);
    c = new_client(p);
    get(c, &r, "/hold");
    run_until(1);
    eq_int(r.error, -ETIMEDOUT);
    while (!n_cancelled && clock_mono() < until) /* the server hears that nobody waits any more */
        loop_run_once(loop, 10 * NS_PER_MS);
    eq_int(n_cancelled, 1);
    get(c, &cancelled, "/hold");
    wait_held();
    client_cancel(&cancelled);
    get(c, &next, "/x");
    run_until(3);
    eq_int(cancelled.error, -ECANCELED);
    eq_int(next.status, 200);
    while (n_cancelled < 2 && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
    eq_int(n_cancelled, 2);
    client_request_done(&r);
    client_request_done(&next);
    client_request_done(&cancelled);
    client_free(c);
    stop_server();
}

static void test_deadlines(void)
{
    check_both(deadlines);
}

static void limits(enum client_protocol p, const char *version)
{
    struct client_request big = {.body = STR("0123456789abcdef")}, early = {.body = STR("x")},
                          cut = {.max_answer = 1000}, huge = {0}, after = {0};
    struct http_header header = {STR("x-big"), {0}};
    char *value = mem_alloc(100000);
    struct client *c;

    memset(value, 'v', 100000);
    header.value = (struct str){value, 100000};
    start_server(NULL);
    c = new_client(p);
    get(c, &big, "/small");
    get(c, &early, "/early");
    get(c, &cut, "/large?100000");
    run_until(3);
    eq_int(big.status, 413);
    eq_int(early.status, 403);
    eq_int(cut.error, -EFBIG);
    huge.headers = &header;
    huge.n_headers = 1;
    get(c, &huge, "/x");
    run_until(4);
    ok(huge.error < 0 || huge.status == 431);
    get(c, &after, "/x");
    run_until(5);
    eq_int(after.status, 200);
    client_request_done(&big);
    client_request_done(&early);
    client_request_done(&cut);
    client_request_done(&huge);
    client_request_done(&after);
    client_free(c);
    stop_server();
    mem_free(value);
}

static void test_limits(void)
{
    check_both(limits);
}

static void test_nobody_there(void)
{
    struct client_request r = {0}, unix_r = {0};
    struct client *c;

    start_server(NULL);
    stop_server();
    eq_int(loop_new(&loop, NULL), 0);
    n_done = 0;
    c = new_client(CLIENT_HTTP2);
    get(c, &r, "/");
    run_until(1);
    eq_int(r.error, -ECONNREFUSED);
    ok(!r.was_sent && strstr(r.err.message, "127.0.0.1"));
    client_request_done(&r);
    client_free(c);
    snprintf(url, sizeof url, "unix:///nonexistent/wick.sock");
    c = new_client(CLIENT_HTTP1);
    get(c, &unix_r, "/");
    run_until(2);
    eq_int(unix_r.error, -ENOENT);
    client_request_done(&unix_r);
    client_free(c);
    loop_free(loop);
}

/* The server goes away between requests: a reused connection that dies unanswered is replaced without a word. */
static void restart(enum client_protocol p, const char *version)
{
    struct http_server_options o = {.idle_timeout_ns = 20 * NS_PER_MS};
    struct client *c;

    start_server(&o);
    c = new_client(p);
    for (int i = 0; i < 5; i++) {
        struct client_request r = {0};
        int64_t until = clock_mono() + 22 * NS_PER_MS;

        get(c, &r, "/x");
        run_until(i + 1);
        eq_int(r.error, 0);
        eq_int(r.status, 200);
        client_request_done(&r);
        while (clock_mono() < until) /* about when the server gives up: either side may be first */
            loop_run_once(loop, NS_PER_MS);
    }
    client_free(c);
    stop_server();
}

static void test_restart(void)
{
    check_both(restart);
}

static void test_free_under_way(void)
{
    struct client_request r = {0}, waiting = {0};
    struct client *c;

    start_server(NULL);
    c = new_client(CLIENT_HTTP2);
    get(c, &r, "/hold");
    wait_held();
    get(c, &waiting, "/x");
    client_free(c);
    eq_int(n_done, 2);
    eq_int(r.error, -ECANCELED);
    client_request_done(&r);
    client_request_done(&waiting);
    stop_server(); /* the held request is cancelled by the disconnect */
    eq_int(n_cancelled, 1);
}

static void test_drain(void)
{
    struct client_request r = {0};
    int64_t until = clock_mono() + 5 * NS_PER_S;
    bool gone = false;
    struct client *c;

    start_server(NULL);
    c = new_client(CLIENT_HTTP2);
    get(c, &r, "/hold");
    wait_held();
    http_server_stop(server, 5 * NS_PER_S, server_gone, &gone);
    for (int i = 0; i < 5; i++)
        loop_run_once(loop, NS_PER_MS);
    ok(!gone);
    http_reply(held, 200, "text/plain", STR("last"));
    run_until(1);
    eq_int(r.error, 0);
    eq_str(r.answer, STR("last"));
    while (!gone && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
    ok(gone);
    client_request_done(&r);
    client_free(c);
    http_server_free(server);
    loop_free(loop);
}

static void test_unix_sockets(void)
{
    char path[] = "/tmp/wick-test-XXXXXX", address[64];
    struct client_request r = {0};
    struct client *c;
    struct err e;

    close(mkstemp(path));
    unlink(path);
    start_server(NULL);
    snprintf(address, sizeof address, "unix:%s", path);
    eq_int(http_server_listen(server, address, NULL, &e), 0);
    snprintf(url, sizeof url, "unix://%s", path);
    c = new_client(CLIENT_HTTP1);
    get(c, &r, "/x");
    run_until(1);
    eq_int(r.status, 200);
    client_request_done(&r);
    client_free(c);
    stop_server();
    eq_int(access(path, F_OK), -1); /* taken away with the listener */
}

/* A name with several addresses is listened to on all of them, on one port, or not at all. */
static void test_listen_by_name(void)
{
    struct address_parts parts = {.host = "::1"};
    struct address v6;
    struct client_request r = {0};
    struct client *c;
    char text[64];
    struct err e;
    int p = 0, fd;

    start_server(NULL);
    eq_int(http_server_listen(server, "localhost:0", &p, &e), 0);
    ok(p > 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", p);
    c = new_client(CLIENT_HTTP1);
    get(c, &r, "/x");
    run_until(1);
    eq_int(r.status, 200);
    client_request_done(&r);
    client_free(c);
    snprintf(text, sizeof text, "localhost:%d", p);
    eq_int(http_server_listen(server, text, &p, &e), -EADDRINUSE);
    snprintf(parts.port, sizeof parts.port, "0");
    if (address_numeric(&parts, &v6) == 0 && address_listen(&v6, &fd, &v6, NULL) == 0) {
        struct address all[8];

        snprintf(text, sizeof text, "localhost:%d", address_port(&v6)); /* taken on one of its addresses */
        address_split(text, NULL, &parts, NULL);
        if (address_resolve(&parts, all, ARRAY_SIZE(all), NULL) > 1)
            eq_int(http_server_listen(server, text, &p, &e), -EADDRINUSE);
        close(fd);
    }
    stop_server();
}

/* A server that accepts and then says nothing: keepalive pings find out, the connection is given up. */
static void test_keepalive(void)
{
    struct client_options o = {
        .protocol = CLIENT_HTTP2, .keepalive_time_ns = 30 * NS_PER_MS, .keepalive_timeout_ns = 40 * NS_PER_MS};
    struct address_parts parts;
    struct address a;
    struct client_request r = {0};
    struct client *c;
    int64_t start = clock_mono();
    int fd;

    eq_int(loop_new(&loop, NULL), 0);
    n_done = 0;
    address_split("127.0.0.1:0", NULL, &parts, NULL);
    eq_int(address_numeric(&parts, &a), 0);
    eq_int(address_listen(&a, &fd, &a, NULL), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", address_port(&a));
    o.loop = loop;
    o.url = url;
    eq_int(client_new(&o, &c, NULL), 0);
    get(c, &r, "/x");
    run_until(1);
    eq_int(r.error, -ETIMEDOUT);
    ok(strstr(r.err.message, "does not respond to pings"));
    ok(clock_mono() - start < 3 * NS_PER_S);
    eq_int(c->n_conns, 0);
    client_request_done(&r);
    client_free(c);
    loop_free(loop);
    close(fd);
}

static void test_request_limit(void)
{
    struct http_server_options o = {.max_requests = 1};
    struct client_request first = {0}, second = {0};
    struct client *c;

    start_server(&o);
    c = new_client(CLIENT_HTTP2);
    get(c, &first, "/hold");
    wait_held();
    get(c, &second, "/x");
    run_until(1);
    eq_int(second.status, 503);
    http_reply(held, 200, NULL, STR(""));
    run_until(2);
    eq_int(first.status, 200);
    client_request_done(&first);
    client_request_done(&second);
    client_free(c);
    stop_server();
}

/* No memory at any point: requests fail, nothing leaks, nothing hangs. */
static int one_request(void)
{
    struct http_server_options o = {.n_loops = 1, .handle = handle};
    struct client_options co = {.protocol = CLIENT_HTTP2};
    int64_t until = clock_mono() + 4 * NS_PER_S;
    struct client_request r = {.method = "GET", .target = STR("/x"), .done = on_done, .timeout_ns = 250 * NS_PER_MS};
    struct client *c = NULL;
    bool gone = false;
    int code;

    n_done = 0;
    loop = NULL;
    server = NULL;
    code = loop_new(&loop, NULL);
    if (code < 0)
        return code;
    o.loops = &loop;
    co.loop = loop;
    code = http_server_new(&o, &server, NULL);
    if (code == 0)
        code = http_server_listen(server, "127.0.0.1:0", &port, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    co.url = url;
    if (code == 0)
        code = client_new(&co, &c, NULL);
    if (code == 0)
        code = client_start(c, &r);
    if (code == 0) {
        while (!n_done && clock_mono() < until)
            loop_run_once(loop, 10 * NS_PER_MS);
        ok(n_done == 1);
        code = r.error ? r.error : r.status == 200 ? 0 : -EIO;
        client_request_done(&r);
    }
    client_free(c);
    if (server) {
        http_server_stop(server, 0, server_gone, &gone);
        while (!gone && clock_mono() < until)
            loop_run_once(loop, 10 * NS_PER_MS);
        ok(gone);
        http_server_free(server);
    }
    loop_free(loop);
    return code;
}

static void test_buffer_limit(void)
{
    struct http_server_options o = {.max_buffered = 1000};
    struct client_request r = {.body = {NULL, 5000}};
    char *body = mem_zalloc(5000);
    struct client *c;

    start_server(&o);
    c = new_client(CLIENT_HTTP2);
    r.body.p = body;
    get(c, &r, "/x");
    run_until(1);
    eq_int(r.status, 503);
    eq_str(http_headers_get(&r.headers_in, "retry-after"), STR("1"));
    client_request_done(&r);
    client_free(c);
    stop_server();
    mem_free(body);
}

static void test_codings(void)
{
    struct http_header h[] = {{STR("accept-encoding"), STR("gzip;q=0.5, zstd;q=0, deflate")}};
    struct http_headers list = {h, 1, 1};

    eq_int(http_accepted_coding(&list), COMPRESS_ZLIB);
    h[0].value = STR("gzip, br");
    eq_int(http_accepted_coding(&list), COMPRESS_GZIP);
    h[0].value = STR("identity");
    eq_int(http_accepted_coding(&list), COMPRESS_NONE);
}

int main(void)
{
    tap_run(test_plain);
    tap_run(test_large_answers);
    tap_run(test_reuse);
    tap_run(test_many);
    tap_run(test_deadlines);
    tap_run(test_limits);
    tap_run(test_nobody_there);
    tap_run(test_restart);
    tap_run(test_free_under_way);
    tap_run(test_drain);
    tap_run(test_unix_sockets);
    tap_run(test_listen_by_name);
    tap_run(test_keepalive);
    tap_run(test_request_limit);
    tap_run(test_buffer_limit);
    tap_run(test_codings);
    tap_torture_lax(one_request, "a request that cannot be sent ends by its callback");
    return tap_done();
}
