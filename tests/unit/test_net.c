/* SPDX-License-Identifier: Apache-2.0 */
/* Loop, server and client together, on one loop: both versions of HTTP, streams, limits, deadlines, cancelling, reuse. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/address.h"
#include "net/encoding.h"
#include "net/fetch.h"
#include "net/grpc_client.h"
#include "net/loop.h"
#include "net/server.h"
#include "tap.h"

/* --- the loop --- */
static int fired[8], n_fired;

struct numbered {
    struct loop_timer t;
    struct loop_call call;
    int number;
};

static void note_timer(struct loop_timer *t)
{
    fired[n_fired++] = container_of(t, struct numbered, t)->number;
}

static void note_call(struct loop_call *c)
{
    fired[n_fired++] = container_of(c, struct numbered, call)->number;
}

static void test_timers(void)
{
    struct numbered t[6] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}, {.number = 5}};
    struct loop *l;
    int64_t now = clock_mono();

    eq_int(loop_new(&l, NULL), 0);
    n_fired = 0;
    for (int i = 0; i < 6; i++)
        t[i].t.fire = note_timer;
    loop_timer_set(l, &t[3].t, now + 3 * NS_PER_MS);
    loop_timer_set(l, &t[1].t, now + 1 * NS_PER_MS);
    loop_timer_set(l, &t[2].t, now + 2 * NS_PER_MS);
    loop_timer_set(l, &t[5].t, now + 5 * NS_PER_MS);
    loop_timer_set(l, &t[4].t, now + 1 * NS_PER_MS);
    loop_timer_set(l, &t[4].t, now + 4 * NS_PER_MS); /* moved */
    loop_timer_cancel(&t[2].t);
    while (n_fired < 4 && clock_mono() < now + NS_PER_S)
        loop_run_once(l, -1);
    eq_int(n_fired, 4);
    eq_int(fired[0] * 1000 + fired[1] * 100 + fired[2] * 10 + fired[3], 1345);
    loop_free(l);
}

/* The heap against a plain scan. */
static void test_many_timers(void)
{
    enum { N = 500 };
    static struct numbered t[N];
    struct loop *l;
    uint64_t seed = 1;
    int64_t now = clock_mono(), last = 0;

    eq_int(loop_new(&l, NULL), 0);
    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        t[i] = (struct numbered){.t.fire = note_timer};
        loop_timer_set(l, &t[i].t, now + NS_PER_S * 100 + (int64_t) (seed >> 40));
    }
    for (int i = 0; i < N; i += 3)
        loop_timer_cancel(&t[i].t);
    for (int left = N - (N + 2) / 3; left; left--) {
        int best = -1;

        for (int i = 0; i < N; i++)
            if (t[i].t.loop && (best < 0 || t[i].t.at < t[best].t.at))
                best = i;
        ok(t[best].t.at >= last);
        last = t[best].t.at;
        loop_timer_cancel(&t[best].t);
    }
    loop_free(l);
}

static void test_calls(void)
{
    struct numbered a = {.number = 1, .call.run = note_call}, b = {.number = 2, .call.run = note_call},
                    c = {.number = 3, .call.run = note_call};
    struct loop *l;

    eq_int(loop_new(&l, NULL), 0);
    n_fired = 0;
    loop_defer(l, &b.call);
    loop_defer(l, &b.call);
    loop_defer(l, &c.call);
    loop_defer_cancel(l, &c.call);
    eq_int(loop_post(l, &a.call), 0);
    loop_run_once(l, 0);
    eq_int(n_fired, 2);
    eq_int(fired[0] * 10 + fired[1], 12);
    loop_free(l);
}

/* --- server and client on one loop --- */
static struct loop *loop;
static struct http_server *server;
static char url[64];
static int port, n_done;
static struct http_request *held; /* /hold keeps it */
static int n_cancelled, n_released;

static void on_cancelled(struct http_request *q)
{
    n_cancelled++;
    held = NULL;
    http_reply(q, 499, NULL, STR(""));
}

static void on_released(struct http_request *q)
{
    n_released++;
}

static void on_drained(struct http_request *q)
{
    uint64_t *left = q->user;
    char block[4096];

    while (*left) {
        size_t n = (size_t) MIN(*left, sizeof block);

        memset(block, (int) (*left & 63) + 32, n);
        *left -= n;
        if (http_stream_write(q, block, n) > HTTP_STREAM_HIGH)
            return;
    }
    http_finish(q);
}

static void stream(struct http_request *q)
{
    uint64_t *left = arena_zalloc(&q->arena, sizeof *left);

    str_to_u64(q->query, 10, left);
    q->user = left;
    q->drained = on_drained;
    http_add_trailer(q, "x-end", STR("1"));
    http_stream_start(q);
    on_drained(q);
}

static bool begin(void *arg, struct http_request *q)
{
    if (str_is(q->path, "/early")) {
        http_reply_text(q, 403, "no\n");
        return true;
    }
    if (str_is(q->path, "/small"))
        q->max_body = 10;
    return false;
}

static void handle(void *arg, struct http_request *q)
{
    q->released = on_released;
    if (grpc_is_request(q)) {
        _cleanup_(buf_done) struct buf inflated = BUF_INIT;
        struct grpc_status st = {0};
        struct str m;

        if (str_is(q->path, "/x.Y/Fail")) {
            grpc_status_set(&st, GRPC_RESOURCE_EXHAUSTED, "zu voll: 100%% \xc3\xa4");
            st.has_retry = true;
            st.retry_ns = 1500 * NS_PER_MS;
        } else {
            grpc_request_message(q, 1 << 20, &inflated, &m, &st);
        }
        grpc_reply(q, &st, m);
    } else if (str_is(q->path, "/hold")) {
        held = q;
        q->cancelled = on_cancelled;
    } else if (str_is(q->path, "/stream")) {
        stream(q);
    } else {
        http_add_header(q, "x-version", q->version == 20 ? STR("2") : STR("1"));
        http_reply(q, str_is(q->path, "/404") ? 404 : 200, "text/plain", q->body.n ? q->body : q->target);
    }
}

static void server_gone(void *arg)
{
    *(bool *) arg = true;
}

static void start_server(const struct http_server_options *more)
{
    struct http_server_options o = more ? *more : (struct http_server_options){0};
    struct err e = {0};

    eq_int(loop_new(&loop, NULL), 0);
    o.loops = &loop;
    o.n_loops = 1;
    o.handle = handle;
    o.begin = begin;
    eq_int(http_server_new(&o, &server, &e), 0);
    eq_int(http_server_listen(server, "127.0.0.1:0", &port, &e), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    n_done = n_cancelled = n_released = 0;
    held = NULL;
}

static void stop_server(void)
{
    struct http_server_stats st;
    bool gone = false;
    int64_t until = clock_mono() + 5 * NS_PER_S;

    http_server_stop(server, 200 * NS_PER_MS, server_gone, &gone);
    while (!gone && clock_mono() < until)
        loop_run_once(loop, 100 * NS_PER_MS);
    ok(gone);
    http_server_stats(server, &st);
    eq_int(st.connections, 0);
    eq_int(st.buffered, 0);
    http_server_free(server);
    loop_free(loop);
}

static void on_done(struct client_request *r)
{
    n_done++;
}

static void run_until(int want)
{
    int64_t until = clock_mono() + 10 * NS_PER_S;

    while (n_done < want && clock_mono() < until)
        loop_run_once(loop, 100 * NS_PER_MS);
    eq_int(n_done, want);
}

static struct client *new_client(enum client_protocol p)
{
    struct client_options o = {.loop = loop, .url = url, .protocol = p};
    struct client *c = NULL;

    eq_int(client_new(&o, &c, NULL), 0);
    return c;
}

static void get(struct client *c, struct client_request *r, const char *target)
{
    r->method = r->body.n ? "POST" : "GET";
    r->target = str_from(target);
    r->done = on_done;
    eq_int(client_start(c, r), 0);
}

static void check_both(void (*f)(enum client_protocol p, const char *version))
{
    f(CLIENT_HTTP1, "1");
    f(CLIENT_HTTP2, "2");
}

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
    ok(client_connections(c) <= 2);
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

static void streams(enum client_protocol p, const char *version)
{
    struct client_request r = {0};
    struct client *c;

    start_server(NULL);
    c = new_client(p);
    get(c, &r, "/stream?5000000");
    run_until(1);
    eq_int(r.error, 0);
    eq_int(r.answer.n, 5000000);
    if (p == CLIENT_HTTP2)
        eq_str(http_headers_get(&r.trailers, "x-end"), STR("1"));
    client_request_done(&r);
    client_free(c);
    stop_server();
}

static void test_streams(void)
{
    check_both(streams);
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
    while (!held && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
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
    get(c, &cut, "/stream?100000");
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
    int64_t until = clock_mono() + 5 * NS_PER_S;
    struct client *c;

    start_server(NULL);
    c = new_client(CLIENT_HTTP2);
    get(c, &r, "/hold");
    while (!held && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
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
    while (!held && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
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

/* --- gRPC --- */
static void call_done(struct grpc_call *c)
{
    n_done++;
}

static void test_grpc_calls(void)
{
    static const enum compression all[] = {COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_ZLIB, COMPRESS_ZSTD};
    char *big = mem_zalloc(600000);
    struct client *c;

    start_server(NULL);
    c = new_client(CLIENT_HTTP2);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct grpc_call call = {.path = STR("/x.Y/Echo"),
                                 .message = {big, 600000},
                                 .compression = all[i],
                                 .timeout_ns = 5 * NS_PER_S,
                                 .done = call_done};

        eq_int(grpc_call_start(c, &call), 0);
        run_until((int) i + 1);
        eq_int(call.status.code, GRPC_OK);
        ok(call.from_peer);
        eq_int(call.answer.n, 600000);
        grpc_call_done(&call);
    }
    client_free(c);
    stop_server();
    mem_free(big);
}

static void test_grpc_failures(void)
{
    struct grpc_call fail = {.path = STR("/x.Y/Fail"), .message = STR("m"), .done = call_done};
    struct grpc_call large = {.path = STR("/x.Y/Echo"), .done = call_done};
    struct grpc_call bomb = {.path = STR("/x.Y/Echo"), .compression = COMPRESS_GZIP, .done = call_done};
    char *big = mem_zalloc(2 << 20);
    struct client *c;

    start_server(NULL);
    c = new_client(CLIENT_HTTP2);
    large.message = bomb.message = (struct str){big, 2 << 20};
    eq_int(grpc_call_start(c, &fail), 0);
    eq_int(grpc_call_start(c, &large), 0);
    eq_int(grpc_call_start(c, &bomb), 0);
    run_until(3);
    eq_int(fail.status.code, GRPC_RESOURCE_EXHAUSTED);
    eq_str(str_from(fail.status.message), STR("zu voll: 100% \xc3\xa4"));
    ok(fail.status.has_retry);
    eq_int(fail.status.retry_ns, 1500 * NS_PER_MS);
    eq_int(large.status.code, GRPC_RESOURCE_EXHAUSTED);
    eq_int(bomb.status.code, GRPC_RESOURCE_EXHAUSTED);
    grpc_call_done(&fail);
    grpc_call_done(&large);
    grpc_call_done(&bomb);
    client_free(c);
    stop_server();
    mem_free(big);
}

static void test_grpc_parts(void)
{
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"};
    struct http_header t[] = {{STR("grpc-timeout"), STR("100m")}};
    struct http_headers h = {t, 1, 1};
    struct str body = STR("\0\0\0\0\2ab\1\0\0\0\1c"), m;
    bool compressed;

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++) { /* RFC 4648, 10 */
        _cleanup_(buf_done) struct buf a = BUF_INIT, b = BUF_INIT;

        grpc_base64_encode(&a, str_from(plain[i]));
        eq_str(buf_str(&a), str_from(coded[i]));
        eq_int(grpc_base64_decode(&b, str_from(coded[i])), 0);
        eq_str(buf_str(&b), str_from(plain[i]));
    }
    eq_int(grpc_timeout(&h), 100 * NS_PER_MS);
    t[0].value = STR("99999999H");
    ok(grpc_timeout(&h) > 0);
    t[0].value = STR("x");
    eq_int(grpc_timeout(&h), 0);
    eq_int(grpc_unframe(&body, 10, &m, &compressed), 0);
    eq_str(m, STR("ab"));
    eq_int(grpc_unframe(&body, 10, &m, &compressed), 0);
    ok(compressed && body.n == 0);
    eq_int(grpc_unframe(&body, 10, &m, &compressed), -ENODATA);
    body = STR("\2\0\0\0\0");
    eq_int(grpc_unframe(&body, 10, &m, &compressed), -EBADMSG);
    body = STR("\0\0\0\0\20");
    eq_int(grpc_unframe(&body, 10, &m, &compressed), -EMSGSIZE);
}

/* --- addresses --- */
static void test_addresses(void)
{
    struct address_parts p;
    struct address a;
    struct err e;
    char text[ADDRESS_TEXT_MAX];
    int fd, second;

    eq_int(address_split("[::1]:4317", NULL, &p, NULL), 0);
    ok(strcmp(p.host, "::1") == 0 && strcmp(p.port, "4317") == 0);
    eq_int(address_split(":80", NULL, &p, NULL), 0);
    ok(!p.host[0]);
    eq_int(address_split("4040", NULL, &p, NULL), 0);
    ok(!p.host[0] && strcmp(p.port, "4040") == 0);
    eq_int(address_split("host", "99", &p, NULL), 0);
    ok(strcmp(p.host, "host") == 0 && strcmp(p.port, "99") == 0);
    eq_int(address_split("host", NULL, &p, NULL), -EINVAL);
    eq_int(address_split("host:70000", NULL, &p, NULL), -EINVAL);
    eq_int(address_split("127.0.0.1:0", NULL, &p, NULL), 0);
    eq_int(address_numeric(&p, &a), 0);
    ok(address_is_loopback(&a));
    eq_int(address_listen(&a, &fd, &a, &e), 0);
    address_format(&a, text, sizeof text);
    ok(strncmp(text, "127.0.0.1:", 10) == 0);
    eq_int(address_listen(&a, &second, NULL, &e), -EADDRINUSE);
    ok(strstr(e.message, "test_net") && strstr(e.message, "process")); /* the holder is this very program */
    close(fd);
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

/* --- hostile peers, by hand --- */
static int raw(const char *bytes, size_t n)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t) port), .sin_addr.s_addr = htonl(0x7f000001)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ok(connect(fd, (struct sockaddr *) &a, sizeof a) == 0);
    ok(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t) n);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* Runs the server until the peer is closed or has sent `want`; what it sent is in out. True when it closed. */
static bool hear(int fd, char *out, size_t size, const char *want)
{
    int64_t until = clock_mono() + 5 * NS_PER_S;
    size_t n = 0;

    while (clock_mono() < until) {
        ssize_t r;

        loop_run_once(loop, 5 * NS_PER_MS);
        r = recv(fd, out + n, size - 1 - n, 0);
        if (r == 0 || (r < 0 && errno != EAGAIN))
            return true;
        n += r > 0 ? (size_t) r : 0;
        out[n] = 0;
        if (want && strstr(out, want))
            return false;
    }
    tap_fail("timed out; got: %s", out);
    return false;
}

static void test_bad_requests(void)
{
    static const struct {
        const char *request, *answer;
    } table[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "HTTP/1.1 400"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501"},
        {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", "HTTP/1.1 505"},
        {"\x16\x03\x01\x02\x01\x01\xfc\r\n\r\n", "HTTP/1.1 400"}, /* TLS to a plain port */
        {"GET noslash HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"},
        {"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n", "HTTP/1.1 413"},
    };

    start_server(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char out[2048] = "";
        int fd = raw(table[i].request, strlen(table[i].request));

        ok(hear(fd, out, sizeof out, NULL)); /* and the connection ends */
        if (strncmp(out, table[i].answer, strlen(table[i].answer)) != 0)
            tap_fail("%s answered with: %s", table[i].request, out);
        close(fd);
    }
    stop_server();
}

static void test_pipelining(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char *out = mem_alloc(1 << 20);
    unsigned answers = 0;
    int fd;

    for (int i = 0; i < 500; i++)
        buf_printf(&b, "GET /n%d HTTP/1.1\r\nHost: x\r\n%s\r\n", i, i == 499 ? "Connection: close\r\n" : "");
    start_server(NULL);
    fd = raw(b.p, b.n);
    ok(hear(fd, out, 1 << 20, NULL));
    for (const char *p = out; (p = strstr(p, "HTTP/1.1 200")); p++)
        answers++;
    eq_int(answers, 500);
    ok(strstr(out, "/n499"));
    close(fd);
    stop_server();
    mem_free(out);
}

static void test_slowloris(void)
{
    struct http_server_options o = {
        .head_timeout_ns = 60 * NS_PER_MS, .body_timeout_ns = 60 * NS_PER_MS, .idle_timeout_ns = 200 * NS_PER_MS};
    char head[1024] = "", body[1024] = "", idle[64] = "", h2[64] = "";
    struct http_server_stats st;
    int a, b, c, d;

    start_server(&o);
    a = raw("GET / HTTP/1.1\r\nHo", 18);
    b = raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", 49);
    c = raw("", 0);
    d = raw("PRI * HT", 8);
    ok(hear(a, head, sizeof head, NULL));
    ok(strncmp(head, "HTTP/1.1 408", 12) == 0);
    ok(hear(b, body, sizeof body, NULL));
    ok(strncmp(body, "HTTP/1.1 408", 12) == 0);
    ok(hear(c, idle, sizeof idle, NULL));
    ok(hear(d, h2, sizeof h2, NULL));
    http_server_stats(server, &st);
    ok(st.timeouts >= 2);
    close(a);
    close(b);
    close(c);
    close(d);
    stop_server();
}

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0"; /* and an empty SETTINGS */

/* Floods a fresh HTTP/2 connection with one frame, over and over; the server must end it. */
static void flood(const char *frame, size_t n, int count, bool counted)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int64_t until = clock_mono() + 5 * NS_PER_S;
    struct http_server_stats st;
    size_t sent = 0;
    bool closed = false;
    int fd;

    buf_put(&b, preface, sizeof preface);
    for (int i = 0; i < count; i++)
        buf_put(&b, frame, n);
    start_server(NULL);
    fd = raw("", 0);
    while (!closed && clock_mono() < until) {
        ssize_t r = sent < b.n ? send(fd, b.p + sent, b.n - sent, MSG_NOSIGNAL) : 0;
        char answer[4096];

        closed = r < 0 && errno != EAGAIN;
        sent += r > 0 ? (size_t) r : 0;
        loop_run_once(loop, NS_PER_MS);
        do
            r = recv(fd, answer, sizeof answer, 0);
        while (r > 0);
        closed = closed || r == 0 || errno != EAGAIN;
    }
    ok(closed);
    http_server_stats(server, &st);
    ok(!counted || st.floods == 1);
    close(fd);
    stop_server();
}

static void test_floods(void)
{
    flood("\0\0\10\6\0\0\0\0\0ABCDEFGH", 17, 20000, true);  /* PING */
    flood("\0\0\0\4\0\0\0\0\0", 9, 20000, false);           /* SETTINGS */
    flood("\0\0\5\2\0\0\0\0\1\0\0\0\0\0", 14, 20000, true); /* PRIORITY */
    flood("\0\0\1\11\0\0\0\0\1x", 10, 20000, false);        /* CONTINUATION without a head */
}

/* HEADERS and RST_STREAM at once, on ever new streams. */
static void test_rapid_reset(void)
{
    static const char head[] = {(char) 0x83, (char) 0x86, (char) 0x84, 0x41, 1, 'x'}; /* POST http / x */
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct http_server_stats st;
    char out[65536];
    int fd;

    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t id = 2 * i + 1;
        char h[9] = {0, 0, sizeof head, 1, 4, 0, (char) (id >> 16), (char) (id >> 8), (char) id};
        char r[13] = {0, 0, 4, 3, 0, 0, (char) (id >> 16), (char) (id >> 8), (char) id, 0, 0, 0, 8};

        buf_put(&b, h, sizeof h);
        buf_put(&b, head, sizeof head);
        buf_put(&b, r, sizeof r);
    }
    start_server(NULL);
    fd = raw(preface, sizeof preface);
    ok(send(fd, b.p, b.n, MSG_NOSIGNAL) > 0);
    ok(hear(fd, out, sizeof out, NULL));
    http_server_stats(server, &st);
    ok(st.requests < 1500);
    close(fd);
    stop_server();
}

/* A header of 4 KiB into the dynamic table, then thousands of one-byte references to it. */
static void test_hpack_bomb(void)
{
    _cleanup_(buf_done) struct buf block = BUF_INIT, b = BUF_INIT;
    struct client_request r = {0};
    struct client *c;
    char out[65536];
    int fd;

    buf_put(&block, "\x82\x86\x84\x41\1x", 6);
    buf_put(&block, "\x40\1a\x7f\xc1\x1e", 6); /* a: 4032 bytes */
    buf_pad(&block, 'v', 4032);
    buf_pad(&block, (char) (0x80 | 62), 12000);
    buf_put(&b, preface, sizeof preface);
    buf_printf(&b, "%c%c%c\1\5%c%c%c\1", 0, (int) (block.n >> 8), (int) (block.n & 255), 0, 0, 0);
    buf_put(&b, block.p, block.n);
    start_server(NULL);
    fd = raw(b.p, b.n);
    c = new_client(CLIENT_HTTP2);
    get(c, &r, "/x"); /* a neighbour is served */
    run_until(1);
    eq_int(r.status, 200);
    client_request_done(&r);
    client_free(c);
    recv(fd, out, sizeof out, 0);
    eq_int(n_released, 1); /* the bomb reached no handler */
    close(fd);
    stop_server();
}

/* A peer that asks for an answer and grants no window for it: the answer is given up, not kept for ever. */
static void test_zero_window(void)
{
    static const char request[] =
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0" /* INITIAL_WINDOW_SIZE 0 */
        "\0\0\6\1\5\0\0\0\1\x82\x86\x84\x41\1x";                         /* GET / */
    struct http_server_options o = {.write_timeout_ns = 50 * NS_PER_MS, .head_timeout_ns = 50 * NS_PER_MS};
    int64_t until = clock_mono() + 5 * NS_PER_S;
    struct http_server_stats st;
    int fd;

    start_server(&o);
    fd = raw(request, sizeof request - 1);
    while (n_released < 1 && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
    eq_int(n_released, 1);
    http_server_stats(server, &st);
    eq_int(st.timeouts, 1);
    eq_int(st.connections, 1); /* the stream went, not the connection */
    close(fd);
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
    ok(strstr(r.err.message, "does not answer pings"));
    ok(clock_mono() - start < 3 * NS_PER_S);
    eq_int(client_connections(c), 0);
    client_request_done(&r);
    client_free(c);
    loop_free(loop);
    close(fd);
}

static void test_request_limit(void)
{
    struct http_server_options o = {.max_requests = 1};
    struct client_request first = {0}, second = {0};
    int64_t until = clock_mono() + 5 * NS_PER_S;
    struct client *c;

    start_server(&o);
    c = new_client(CLIENT_HTTP2);
    get(c, &first, "/hold");
    while (!held && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
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

static void test_connection_limit(void)
{
    struct http_server_options o = {.max_connections = 3};
    int fd[5];
    struct http_server_stats st;

    start_server(&o);
    for (int i = 0; i < 5; i++)
        fd[i] = raw("", 0);
    for (int i = 0; i < 10; i++)
        loop_run_once(loop, NS_PER_MS);
    http_server_stats(server, &st);
    eq_int(st.connections, 3);
    eq_int(st.refused, 2);
    for (int i = 0; i < 5; i++)
        close(fd[i]);
    stop_server();
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
    tap_run(test_timers);
    tap_run(test_many_timers);
    tap_run(test_calls);
    tap_run(test_addresses);
    tap_run(test_plain);
    tap_run(test_streams);
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
    tap_run(test_grpc_calls);
    tap_run(test_grpc_failures);
    tap_run(test_grpc_parts);
    tap_run(test_bad_requests);
    tap_run(test_pipelining);
    tap_run(test_slowloris);
    tap_run(test_floods);
    tap_run(test_rapid_reset);
    tap_run(test_hpack_bomb);
    tap_run(test_zero_window);
    tap_run(test_keepalive);
    tap_run(test_request_limit);
    tap_run(test_connection_limit);
    tap_run(test_buffer_limit);
    tap_run(test_codings);
    tap_torture(one_request);
    return tap_done();
}
