/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server and its clients on one loop, for tests: nothing happens but in run_until() and its like. The server echoes; /hold
 * keeps the request, /large?N sends N bytes and a trailer, /small takes ten, /early is refused by its head, /404 is missing; gRPC is
 * echoed too, but for /x.Y/Fail.
 */
#ifndef TESTS_NET_PAIR_H
#define TESTS_NET_PAIR_H

#include "base/clock.h"
#include "base/mem.h"
#include "net/client.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/server.h"
#include "tap.h"

static struct loop *loop;
static struct http_server *server;
static char url[64];
static int port, n_done;
static struct http_request *held; /* /hold keeps it */
static int n_cancelled, n_released;

static inline void on_cancelled(struct http_request *q)
{
    n_cancelled++;
    held = NULL;
    http_reply(q, 499, NULL, STR(""));
}

static inline void on_released(struct http_request *q)
{
    n_released++;
}

static inline void large(struct http_request *q)
{
    uint64_t n = 0;
    char *p;

    str_to_u64(q->query, 10, &n);
    p = buf_reserve(&q->answer, n);
    if (p)
        memset(p, 'x', n);
    q->answer.n = p ? n : 0;
    http_add_trailer(q, "x-end", STR("1"));
    http_finish(q);
}

static inline bool begin(void *arg, struct http_request *q)
{
    if (str_is(q->path, "/early")) {
        http_reply_text(q, 403, "no\n");
        return true;
    }
    if (str_is(q->path, "/small"))
        q->max_body = 10;
    return false;
}

static inline void handle(void *arg, struct http_request *q)
{
    q->released = on_released;
    if (grpc_is_request(q)) {
        _cleanup_(buf_done) struct buf inflated = BUF_INIT;
        struct grpc_status st = {0};
        struct str m = {0};

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
    } else if (str_is(q->path, "/large")) {
        large(q);
    } else {
        http_add_header(q, "x-version", q->version == 20 ? STR("2") : STR("1"));
        http_reply(q, str_is(q->path, "/404") ? 404 : 200, "text/plain", q->body.n ? q->body : q->target);
    }
}

static inline void server_gone(void *arg)
{
    *(bool *) arg = true;
}

static inline void start_server(const struct http_server_options *more)
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

static inline void stop_server(void)
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

static inline void on_done(struct client_request *r)
{
    n_done++;
}

static inline void run_until(int want)
{
    int64_t until = clock_mono() + 10 * NS_PER_S;

    while (n_done < want && clock_mono() < until)
        loop_run_once(loop, 100 * NS_PER_MS);
    eq_int(n_done, want);
}

static inline struct client *new_client(enum client_protocol p)
{
    struct client_options o = {.loop = loop, .url = url, .protocol = p};
    struct client *c = NULL;

    eq_int(client_new(&o, &c, NULL), 0);
    return c;
}

static inline void get(struct client *c, struct client_request *r, const char *target)
{
    r->method = r->body.n ? "POST" : "GET";
    r->target = str_from(target);
    r->done = on_done;
    eq_int(client_start(c, r), 0);
}

static inline void check_both(void (*f)(enum client_protocol p, const char *version))
{
    f(CLIENT_HTTP1, "1");
    f(CLIENT_HTTP2, "2");
}

/* Runs until a request to /hold has come. */
static inline void wait_held(void)
{
    int64_t until = clock_mono() + 5 * NS_PER_S;

    while (!held && clock_mono() < until)
        loop_run_once(loop, 10 * NS_PER_MS);
    ok(held != NULL);
}

#endif
