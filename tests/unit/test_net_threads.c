/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What crosses threads in src/net: connections dealt over two loops, answers and streams from worker threads, clients on
 * loops of their own, names resolved on threads, disconnects in the middle. Run under ThreadSanitizer by tests/run.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "net/client.h"
#include "net/server.h"
#include "tap.h"

enum { LOOPS = 2, WORKERS = 2, CLIENTS = 2, REQUESTS = 400, IN_FLIGHT = 16 };

struct job {
    struct queue_item item;
    struct http_request *q;
};

static struct queue jobs[WORKERS]; /* a queue has one reader */
static atomic_uint next_worker;
static atomic_uint released, cancelled;

static void on_cancelled(struct http_request *q)
{
    atomic_fetch_add(&cancelled, 1);
}

static void on_released(struct http_request *q)
{
    atomic_fetch_add(&released, 1);
    mem_free(q->user);
}

static void handle(void *arg, struct http_request *q)
{
    struct job *j = mem_zalloc(sizeof *j);

    q->user = j;
    q->cancelled = on_cancelled;
    q->released = on_released;
    j->q = q;
    queue_push(&jobs[atomic_fetch_add(&next_worker, 1) % WORKERS], &j->item);
}

static void answer(struct http_request *q)
{
    if (!str_is(q->path, "/large")) {
        http_add_header(q, "x-by", STR("worker"));
        http_reply(q, 200, "text/plain", q->body);
        return;
    }
    for (int i = 0; i < 50000; i++)
        buf_putc(&q->answer, 'x');
    http_finish(q);
}

static void *work(void *arg)
{
    for (struct queue_item *list; (list = queue_wait(arg, -1));)
        while (list) {
            struct job *j = container_of(list, struct job, item);

            list = list->next;
            answer(j->q); /* j is gone with its request */
        }
    return NULL;
}

/* One thread with a loop and a client of its own. */
struct load {
    const char *url;
    enum client_protocol protocol;
    pthread_t thread;
    struct loop *loop;
    struct client *client;
    struct client_request requests[IN_FLIGHT];
    int started, done, good, cancelled;
};

static const char body[] = "a body that comes back";

static void launch(struct load *l, struct client_request *r);

static void on_done(struct client_request *r)
{
    struct load *l = r->user;
    bool large = str_is(r->target, "/large");

    l->done++;
    l->good += !r->error && r->status == 200 && r->answer.n == (large ? 50000 : sizeof body - 1);
    l->cancelled += r->error == -ECANCELED;
    client_request_done(r);
    if (l->started < REQUESTS)
        launch(l, r);
    else if (l->done == REQUESTS)
        loop_stop(l->loop);
}

static void launch(struct load *l, struct client_request *r)
{
    int n = l->started++;

    *r = (struct client_request){.method = "POST",
                                 .target = n % 5 == 0 ? STR("/large") : STR("/echo"),
                                 .body = {body, sizeof body - 1},
                                 .timeout_ns = 20 * NS_PER_S,
                                 .done = on_done,
                                 .user = l};
    client_start(l->client, r);
    if (n % 11 == 3)
        client_cancel(r);
}

static void *run_load(void *arg)
{
    struct load *l = arg;
    struct client_options o = {.url = l->url, .protocol = l->protocol};

    if (loop_new(&l->loop, NULL) < 0)
        return NULL;
    o.loop = l->loop;
    if (client_new(&o, &l->client, NULL) < 0)
        return NULL;
    for (int i = 0; i < IN_FLIGHT; i++)
        launch(l, &l->requests[i]);
    loop_run(l->loop);
    client_free(l->client);
    loop_free(l->loop);
    return NULL;
}

static void test_threads(void)
{
    static struct load load[CLIENTS];
    struct loop *loops[LOOPS];
    struct http_server_options o = {.loops = loops, .n_loops = LOOPS, .handle = handle};
    pthread_t workers[WORKERS];
    struct http_server_stats st;
    struct http_server *s;
    struct loop_group *g;
    char url[64];
    struct err e;
    int port;

    eq_int(loop_group_new(LOOPS, "net", &g, &e), 0);
    for (int i = 0; i < LOOPS; i++)
        loops[i] = loop_group_at(g, (unsigned) i);
    eq_int(http_server_new(&o, &s, &e), 0);
    eq_int(http_server_listen(s, "127.0.0.1:0", &port, &e), 0);
    for (int i = 0; i < WORKERS; i++) {
        eq_int(queue_init(&jobs[i], 0), 0);
        eq_int(thread_start(&workers[i], "worker", work, &jobs[i], &e), 0);
    }
    snprintf(url, sizeof url, "http://localhost:%d", port); /* a name: resolved on a thread */
    for (int i = 0; i < CLIENTS; i++) {
        load[i] = (struct load){.url = url, .protocol = i % 2 ? CLIENT_HTTP2 : CLIENT_HTTP1};
        eq_int(thread_start(&load[i].thread, "client", run_load, &load[i], &e), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(load[i].thread, NULL);
        eq_int(load[i].done, REQUESTS);
        eq_int(load[i].good + load[i].cancelled, REQUESTS);
        ok(load[i].cancelled > 0);
    }
    http_server_stop_wait(s, NS_PER_S);
    http_server_stats(s, &st);
    eq_int(st.connections, 0);
    eq_int(st.buffered, 0);
    eq_int(atomic_load(&released), st.requests);
    for (int i = 0; i < WORKERS; i++) {
        queue_close(&jobs[i]);
        pthread_join(workers[i], NULL);
        queue_done(&jobs[i]);
    }
    loop_group_free(g);
    http_server_free(s);
}

struct counter {
    struct loop_call call;
    atomic_int *n;
};

static void count(struct loop_call *c)
{
    struct counter *k = container_of(c, struct counter, call);

    atomic_fetch_add(k->n, 1);
    mem_free(k);
}

static void test_posts(void)
{
    struct loop_group *g;
    atomic_int n = 0;

    eq_int(loop_group_new(3, "post", &g, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        struct counter *k = mem_zalloc(sizeof *k);

        k->call.run = count;
        k->n = &n;
        eq_int(loop_post(loop_group_at(g, (unsigned) i % 3), &k->call), 0);
    }
    loop_group_free(g); /* what was posted runs, at the latest now */
    eq_int(atomic_load(&n), 3000);
}

int main(void)
{
    tap_run(test_posts);
    tap_run(test_threads);
    return tap_done();
}
