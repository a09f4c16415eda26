/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small server for tests of src/net, driven by real clients (curl, grpcio, nghttp, openssl).
 *
 *   net_echo [--listen ADDR]... [--loops N] [--cert F --key F [--client-ca F]] [--max-body N] [--max-message N]
 *            [--timeouts MS] [--max-connections N] [--idle MS]
 *
 * Prints "port N" for each listener, then serves until its standard input ends; then stops with a grace of a second and
 * prints statistics. SIGHUP reloads certificates.
 *
 *   /hello            text                     /echo      the body back (inflated; compressed if accepted)
 *   /thread           answered by another thread           /large?n=  n bytes and a trailer, from another thread
 *   /info             method, version, path, query, headers as text
 *   /hang             never answered until the peer goes away; counted in /hung and /cancelled
 *   gRPC: /echo.Echo/Unary echoes; metadata x-code, x-message, x-retry-ms ask for a failure, x-delay-ms for a wait;
 *         /echo.Echo/Discard answers with nothing in it
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/encoding.h"
#include "net/grpc.h"
#include "net/server.h"

struct job {
    struct queue_item item;
    struct http_request *q;
    uint64_t size, delay_ms;
};

static struct queue jobs;
static atomic_uint_least64_t cancelled, hung;
static size_t max_message = 4 << 20;
static struct tls_context *tls;

static void give(struct http_request *q, uint64_t size, uint64_t delay_ms)
{
    struct job *j = mem_zalloc(sizeof *j);

    j->q = q;
    j->size = size;
    j->delay_ms = delay_ms;
    queue_push(&jobs, &j->item);
}

static void send_large(struct http_request *q, uint64_t size)
{
    http_add_header(q, "content-type", STR("application/octet-stream"));
    http_add_trailer(q, "x-done", STR("yes"));
    for (uint64_t i = 0; i < size; i++)
        buf_putc(&q->answer, (char) (i * 31 >> 3));
    http_finish(q);
}

static void grpc_do(struct http_request *q, bool discard)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct grpc_status st = {0};
    struct str message, code = http_headers_get(&q->headers, "x-code"),
                        retry = http_headers_get(&q->headers, "x-retry-ms");
    uint64_t v;

    if (grpc_request_message(q, max_message, &inflated, &message, &st) == 0 && str_to_u64(code, 10, &v) == 0) {
        struct str words = http_headers_get(&q->headers, "x-message");
        _cleanup_(buf_done) struct buf decoded = BUF_INIT;
        struct str text = http_percent_decode(&q->arena, words, false);

        grpc_status_set(&st, (enum grpc_code) v, "%.*s", STR_FMT(text));
        if (str_to_u64(retry, 10, &v) == 0) {
            st.has_retry = true;
            st.retry_ns = (int64_t) v * NS_PER_MS;
        }
    }
    grpc_reply(q, &st, discard ? (struct str){0} : message);
}

static void *work(void *arg)
{
    for (struct queue_item *list; (list = queue_wait(&jobs, -1));)
        while (list) {
            struct job *j = container_of(list, struct job, item);

            list = list->next;
            usleep((useconds_t) (j->delay_ms * 1000));
            if (grpc_is_request(j->q))
                grpc_do(j->q, false);
            else if (j->size)
                send_large(j->q, j->size);
            else
                http_reply(j->q, 200, "text/plain", STR("from a thread\n"));
            mem_free(j);
        }
    return NULL;
}

static void info(struct http_request *q)
{
    struct buf *b = &q->answer;

    buf_printf(b, "method %.*s\nversion %d\npath %.*s\nquery %.*s\nauthority %.*s\npeer %s\nsubject %s\ntls %d\n",
               STR_FMT(q->method), q->version, STR_FMT(q->path), STR_FMT(q->query), STR_FMT(q->authority), q->peer,
               q->peer_subject, q->tls);
    for (uint32_t i = 0; i < q->headers.n; i++)
        buf_printf(b, "%.*s: %.*s\n", STR_FMT(q->headers.v[i].name), STR_FMT(q->headers.v[i].value));
    buf_printf(b, "cookie %.*s\n", STR_FMT(http_cookie(&q->headers, "session")));
    http_add_header(q, "content-type", STR("text/plain"));
    http_finish(q);
}

static void on_cancelled(struct http_request *q)
{
    atomic_fetch_add(&cancelled, 1);
    if (str_is(q->path, "/hang"))
        http_reply(q, 499, NULL, STR(""));
}

static void echo(struct http_request *q)
{
    struct str body;
    struct err e;
    struct buf inflated = BUF_INIT;
    int r = http_decode_body(q, 1 << 20, &inflated, &body, &e);

    if (r < 0) {
        http_reply_text(q, r == -EFBIG ? 413 : 400, "%s\n", e.message);
    } else {
        buf_put_str(&q->answer, body);
        http_encode_answer(q);
        http_finish(q);
    }
    buf_done(&inflated);
}

static void handle(void *arg, struct http_request *q)
{
    uint64_t v = 0;

    if (grpc_is_request(q)) {
        if (str_to_u64(http_headers_get(&q->headers, "x-delay-ms"), 10, &v) == 0) {
            q->cancelled = on_cancelled;
            give(q, 0, v);
        } else if (str_is(q->path, "/echo.Echo/Unary")) {
            grpc_do(q, false);
        } else if (str_is(q->path, "/echo.Echo/Discard")) {
            grpc_do(q, true);
        } else {
            struct grpc_status st;

            grpc_status_set(&st, GRPC_UNIMPLEMENTED, "unknown service %.*s", STR_FMT(q->path));
            grpc_reply(q, &st, (struct str){0});
        }
    } else if (str_is(q->path, "/hello")) {
        http_reply(q, 200, "text/plain", STR("hello\n"));
    } else if (str_is(q->path, "/echo")) {
        echo(q);
    } else if (str_is(q->path, "/thread")) {
        give(q, 0, 0);
    } else if (str_is(q->path, "/large")) {
        str_to_u64(http_query_get(q->query, &q->arena, "n"), 10, &v);
        give(q, v, 0);
    } else if (str_is(q->path, "/info")) {
        info(q);
    } else if (str_is(q->path, "/hang")) {
        q->cancelled = on_cancelled;
        atomic_fetch_add(&hung, 1);
    } else if (str_is(q->path, "/hung")) {
        http_reply_text(q, 200, "%llu\n", (unsigned long long) atomic_load(&hung));
    } else if (str_is(q->path, "/cancelled")) {
        http_reply_text(q, 200, "%llu\n", (unsigned long long) atomic_load(&cancelled));
    } else {
        http_reply(q, 404, "text/plain", STR("not here\n"));
    }
}

static void reload(int sig)
{
    struct err e;

    if (tls && tls->ops->context_reload(tls, &e) < 0)
        fprintf(stderr, "%s\n", e.message);
}

static void wait_for_end(void)
{
    char c;

    for (ssize_t n; (n = read(STDIN_FILENO, &c, 1)) != 0;)
        if (n < 0 && errno != EINTR)
            break;
}

static void print_stats(struct http_server *s)
{
    struct http_server_stats st;

    http_server_stats(s, &st);
    printf("accepted %llu refused %llu requests %llu bad %llu timeouts %llu floods %llu buffered %llu left %llu\n",
           (unsigned long long) st.accepted, (unsigned long long) st.refused, (unsigned long long) st.requests,
           (unsigned long long) st.bad_requests, (unsigned long long) st.timeouts, (unsigned long long) st.floods,
           (unsigned long long) st.buffered, (unsigned long long) st.connections);
}

int main(int argc, char **argv)
{
    struct http_server_options o = {.handle = handle, .max_body = 16 << 20, .max_peer_connections = 1 << 20};
    struct tls_options t = {.http2 = true, .http1 = true};
    const char *listen[8];
    struct loop *loops[16];
    struct loop_group *g;
    struct http_server *s;
    unsigned n_listen = 0, n_loops = 2;
    pthread_t thread;
    struct err e = {0};

    for (int i = 1; i + 1 < argc; i += 2) {
        const char *k = argv[i], *v = argv[i + 1];

        if (strcmp(k, "--listen") == 0)
            listen[n_listen++] = v;
        else if (strcmp(k, "--loops") == 0)
            n_loops = (unsigned) strtoul(v, NULL, 10);
        else if (strcmp(k, "--cert") == 0)
            t.cert_file = v;
        else if (strcmp(k, "--key") == 0)
            t.key_file = v;
        else if (strcmp(k, "--client-ca") == 0)
            t.ca_file = v, t.require_client_cert = true;
        else if (strcmp(k, "--max-body") == 0)
            o.max_body = strtoul(v, NULL, 10);
        else if (strcmp(k, "--max-message") == 0)
            max_message = strtoul(v, NULL, 10);
        else if (strcmp(k, "--max-connections") == 0)
            o.max_connections = (unsigned) strtoul(v, NULL, 10);
        else if (strcmp(k, "--idle") == 0)
            o.idle_timeout_ns = strtol(v, NULL, 10) * NS_PER_MS;
        else if (strcmp(k, "--timeouts") == 0)
            o.head_timeout_ns = o.body_timeout_ns = o.handshake_timeout_ns = o.write_timeout_ns =
                strtol(v, NULL, 10) * NS_PER_MS;
    }
    if (t.cert_file && tls_openssl.context_new(&t, true, &tls, &e) < 0)
        goto fail;
    o.tls = tls;
    signal(SIGHUP, reload);
    if (queue_init(&jobs, 0) < 0 || thread_start(&thread, "work", work, NULL, &e) < 0 ||
        loop_group_new(n_loops, "net", &g, &e) < 0)
        goto fail;
    for (unsigned i = 0; i < n_loops; i++)
        loops[i] = loop_group_at(g, i);
    o.loops = loops;
    o.n_loops = n_loops;
    if (http_server_new(&o, &s, &e) < 0)
        goto fail;
    for (unsigned i = 0; i < n_listen; i++) {
        int port;

        if (http_server_listen(s, listen[i], &port, &e) < 0)
            goto fail;
        printf("port %d\n", port);
    }
    fflush(stdout);
    wait_for_end();
    http_server_stop_wait(s, NS_PER_S);
    print_stats(s);
    queue_close(&jobs);
    pthread_join(thread, NULL);
    loop_group_free(g);
    http_server_free(s);
    queue_done(&jobs);
    tls_context_free(tls);
    return 0;
fail:
    fprintf(stderr, "net_echo: %s\n", err_message(&e, -EIO));
    return 1;
}
