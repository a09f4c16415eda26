/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners, the distribution of connections over the workers' loops, and the shutdown. See server.h.
 *
 * Listeners live on the first loop; an accepted socket is passed to its worker in a message. Stopping: every worker
 * closes its idle connections, lets the others finish until the grace period is over, and stops when it has neither
 * connections nor requests held by handlers; the last one reports that the server has stopped.
 */
#include "net/server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/exchange.h"

enum { ACCEPT_BATCH = 64 };

struct arrival {
    struct loop_call call;
    struct server_worker *worker;
    int fd;
    struct peer *from;
    char peer[ADDRESS_TEXT_MAX];
};

/* --- new connections --- */
static void on_arrival(struct loop_call *call)
{
    struct arrival *a = container_of(call, struct arrival, call);

    conn_open(a->worker, a->fd, a->peer, a->from);
    mem_free(a);
}

static void deal(struct http_server *s, int fd, const struct address *from)
{
    struct server_worker *w = &s->workers[atomic_fetch_add(&s->next, 1) % s->o.n_loops];
    struct peer *peer_entry = NULL;
    struct arrival *a;
    char peer[ADDRESS_TEXT_MAX];

    if (atomic_fetch_add(&s->connections, 1) >= s->o.max_connections ||
        peers_connect(&s->peers, from, s->o.max_peer_connections, &peer_entry) < 0) {
        atomic_fetch_add(&s->refused, 1);
        goto refuse;
    }
    atomic_fetch_add(&s->accepted, 1);
    if (from->sa.ss_family != AF_UNIX)
        address_tune(fd);
    address_format(from, peer, sizeof peer);
    if (loop_is_own_thread(w->loop)) {
        conn_open(w, fd, peer, peer_entry);
        return;
    }
    a = mem_alloc(sizeof *a);
    if (!a)
        goto refuse;
    *a = (struct arrival){.call.run = on_arrival, .worker = w, .fd = fd, .from = peer_entry};
    memcpy(a->peer, peer, sizeof a->peer);
    if (loop_post(w->loop, &a->call) == 0)
        return;
    mem_free(a);
refuse:
    peers_disconnect(&s->peers, peer_entry);
    atomic_fetch_sub(&s->connections, 1);
    fd_close(fd);
}

static void listener_ready(struct loop_io *io, uint32_t events)
{
    struct listener *l = container_of(io, struct listener, io);

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct address from = {.len = sizeof from.sa};
        int fd = accept4(io->fd, (struct sockaddr *) &from.sa, &from.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            deal(l->server, fd, &from);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* No file descriptor is left: pause for a moment instead of spinning on a backlog that cannot be
             * accepted. */
            loop_io_set(io, 0);
            loop_timer_set(io->loop, &l->backoff, loop_now(io->loop) + 100 * NS_PER_MS);
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static void listener_again(struct loop_timer *t)
{
    struct listener *l = container_of(t, struct listener, backoff);

    loop_io_set(&l->io, EPOLLIN);
}

static void listener_start(struct loop_call *call)
{
    struct listener *l = container_of(call, struct listener, call);
    struct server_worker *w = &l->server->workers[0];

    if (w->state == WORKER_RUNNING && !l->io.loop)
        loop_io_add(w->loop, &l->io, l->io.fd, EPOLLIN);
}

static void listener_close(struct listener *l)
{
    loop_timer_cancel(&l->backoff);
    loop_io_remove(&l->io);
    fd_close(l->io.fd);
    l->io.fd = -1;
    if (l->unix_path[0])
        fd_unlink(AT_FDCWD, l->unix_path);
    l->unix_path[0] = 0;
}

static int listener_new(struct http_server *s, const struct address_parts *parts, const struct address *a,
                        int *ret_port, struct listener **ret, struct err *e)
{
    struct listener *l = mem_zalloc(sizeof *l);
    struct address bound;
    int r;

    if (!l)
        return -ENOMEM;
    r = address_listen(a, &l->io.fd, &bound, e);
    if (r < 0) {
        mem_free(l);
        return r;
    }
    l->server = s;
    l->io.ready = listener_ready;
    l->backoff.fire = listener_again;
    l->call.run = listener_start;
    if (parts->is_unix)
        snprintf(l->unix_path, sizeof l->unix_path, "%.107s", parts->host);
    *ret_port = address_port(&bound);
    *ret = l;
    return 0;
}

/* Listens on every address of a name, on one port: clients of "localhost" connect by IPv4 or IPv6. Addresses that this
 * machine does not have are skipped; *list holds the open sockets, on failure too. */
static int listen_all(struct http_server *s, const struct address_parts *parts, int *ret_port, struct listener **list,
                      struct err *e)
{
    struct address all[8];
    bool any_port = strcmp(parts->port, "0") == 0;
    int n = address_resolve(parts, all, ARRAY_SIZE(all), e), r = n, last = -EADDRNOTAVAIL;

    for (int i = 0; i < n; i++) {
        struct listener *l = NULL;
        bool again = false;

        for (int k = 0; k < i; k++)
            again |= all[k].len == all[i].len && memcmp(&all[k].sa, &all[i].sa, all[i].len) == 0;
        if (again)
            continue;
        if (*list && any_port)
            address_set_port(&all[i], *ret_port);
        r = listener_new(s, parts, &all[i], ret_port, &l, e);
        if (l) {
            l->next = *list;
            *list = l;
        } else if (r != -EADDRNOTAVAIL && r != -EAFNOSUPPORT && !(*list && any_port)) {
            return r;
        }
        last = r;
    }
    return *list ? 0 : MIN(r < 0 ? r : last, -1);
}

int http_server_listen(struct http_server *s, const char *text, int *ret_port, struct err *e)
{
    struct address_parts parts;
    struct listener *list = NULL, *l;
    int port = 0, r = address_split(text, NULL, &parts, e);

    if (r == 0)
        r = listen_all(s, &parts, &port, &list, e);
    while ((l = list)) {
        list = l->next;
        if (r == 0) {
            l->next = s->listeners;
            s->listeners = l;
            loop_post(s->workers[0].loop, &l->call);
        } else {
            listener_close(l);
            mem_free(l);
        }
    }
    if (r == 0 && ret_port)
        *ret_port = port;
    return r;
}

/* --- shutdown --- */
static void drain_conns(struct server_worker *w)
{
    for (struct conn *c = w->conns, *next; c; c = next) {
        next = c->next;
        if (!c->protocol)
            conn_close(c);
        else if (!c->draining)
            c->protocol->drain(c);
    }
}

static void grace_over(struct loop_timer *t)
{
    struct server_worker *w = container_of(t, struct server_worker, grace);

    while (w->conns)
        conn_close(w->conns);
    worker_maybe_stopped(w);
}

void worker_maybe_stopped(struct server_worker *w)
{
    struct http_server *s = w->server;

    if (w->state != WORKER_DRAINING || w->n_conns || w->n_handed)
        return;
    w->state = WORKER_STOPPED;
    loop_timer_cancel(&w->grace);
    loop_timer_cancel(&w->room);
    if (atomic_fetch_sub(&s->running, 1) == 1 && s->done)
        s->done(s->done_arg);
}

static void worker_stop(struct loop_call *call)
{
    struct server_worker *w = container_of(call, struct server_worker, stop_call);
    struct http_server *s = w->server;

    w->state = WORKER_DRAINING;
    if (w == &s->workers[0]) {
        for (struct listener *l = s->listeners; l; l = l->next)
            listener_close(l);
        /* Stop the others only now: connections passed to them are in their queues already, ahead of this call. */
        for (unsigned i = 1; i < s->o.n_loops; i++)
            loop_post(s->workers[i].loop, &s->workers[i].stop_call);
    }
    loop_timer_set(w->loop, &w->grace, loop_now(w->loop) + s->grace_ns);
    drain_conns(w);
    worker_maybe_stopped(w);
}

void http_server_stop(struct http_server *s, int64_t grace_ns, void (*done)(void *arg), void *arg)
{
    s->grace_ns = grace_ns;
    s->done = done;
    s->done_arg = arg;
    atomic_store(&s->running, s->o.n_loops);
    loop_post(s->workers[0].loop, &s->workers[0].stop_call);
}

struct stop_wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
};

static void stop_done(void *arg)
{
    struct stop_wait *w = arg;

    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

void http_server_stop_wait(struct http_server *s, int64_t grace_ns)
{
    struct stop_wait w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

    http_server_stop(s, grace_ns, stop_done, &w);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_cond_destroy(&w.cond);
    pthread_mutex_destroy(&w.lock);
}

/* --- creation --- */
static void fill_defaults(struct http_server_options *o)
{
#define DEFAULT(field, value)   \
    do {                        \
        if (!o->field)          \
            o->field = (value); \
    } while (0)
    DEFAULT(max_connections, 20000);
    DEFAULT(max_peer_connections, MAX(o->max_connections / 4, 16));
    DEFAULT(max_head, 64 << 10);
    DEFAULT(max_headers, 200);
    DEFAULT(max_body, 64 << 20);
    DEFAULT(max_buffered, 512 << 20);
    DEFAULT(max_peer_buffered, MAX(o->max_buffered / 4, 2 * o->max_body));
    DEFAULT(max_answers, o->max_buffered);
    DEFAULT(max_peer_answers, MAX(o->max_answers / 2, 1));
    DEFAULT(max_streams, 100);
    DEFAULT(max_requests, 10000);
    DEFAULT(handshake_timeout_ns, 10 * NS_PER_S);
    DEFAULT(head_timeout_ns, 10 * NS_PER_S);
    DEFAULT(body_timeout_ns, 30 * NS_PER_S);
    DEFAULT(body_deadline_ns, 300 * NS_PER_S);
    DEFAULT(min_rate, 16 << 10);
    DEFAULT(write_timeout_ns, 60 * NS_PER_S);
    DEFAULT(idle_timeout_ns, 600 * NS_PER_S);
#undef DEFAULT
}

int http_server_new(const struct http_server_options *o, struct http_server **ret, struct err *e)
{
    struct http_server *s = mem_zalloc(sizeof *s);

    assert(o->n_loops && o->handle);
    if (!s)
        return -ENOMEM;
    s->o = *o;
    fill_defaults(&s->o);
    s->workers = mem_zalloc_array(o->n_loops, sizeof *s->workers);
    if (!s->workers) {
        mem_free(s);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < o->n_loops; i++)
        s->workers[i] = (struct server_worker){.server = s,
                                               .loop = o->loops[i],
                                               .stop_call.run = worker_stop,
                                               .grace.fire = grace_over,
                                               .room.fire = exchange_make_room,
                                               .date_second = -1};
    peers_init(&s->peers);
    s->o.loops = NULL; /* the caller's array; each worker has its own loop */
    *ret = s;
    return 0;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    for (struct listener *l; (l = s->listeners);) {
        s->listeners = l->next;
        mem_free(l);
    }
    peers_done(&s->peers);
    mem_free(s->workers);
    mem_free(s);
}

void http_server_stats(struct http_server *s, struct http_server_stats *ret)
{
    *ret = (struct http_server_stats){
        .connections = atomic_load(&s->connections),
        .accepted = atomic_load(&s->accepted),
        .refused = atomic_load(&s->refused),
        .requests = atomic_load(&s->requests),
        .bad_requests = atomic_load(&s->bad_requests),
        .timeouts = atomic_load(&s->timeouts),
        .floods = atomic_load(&s->floods),
        .bytes_in = atomic_load(&s->bytes_in),
        .bytes_out = atomic_load(&s->bytes_out),
        .buffered = atomic_load(&s->buffered),
        .answers = atomic_load(&s->answers),
        .unread = atomic_load(&s->unread),
    };
}
