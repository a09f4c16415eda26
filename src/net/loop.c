/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: epoll, timers, calls from other threads, and groups of loops. See loop.h.
 *
 * A callback can free a source whose event is still in the batch that epoll returned: loop_io_remove() searches the
 * rest of the batch and clears it. Timers are an intrusive pairing heap: no allocation, O(1) set, amortised O(log n)
 * removal; a connection keeps one timer and moves it lazily, so the heap has at most one entry per connection.
 */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

enum { LOOP_BATCH = 64, LOOP_SCRATCH = 256 << 10 };

struct loop {
    int epoll_fd;
    struct queue queue;
    struct loop_io queue_io;
    struct loop_timer *timers; /* root of the heap */
    struct loop_call *deferred, **deferred_tail;
    struct loop_call *running; /* calls of this pass that have not run yet */
    struct epoll_event batch[LOOP_BATCH];
    int batch_n, batch_pos;
    int64_t now;
    char *scratch;
    _Atomic(pthread_t) thread;
    atomic_uint stops;
};

/* --- the watchdog: a diagnostic mode, for tests --- */
/* CPU time that a callback may take, or 0 if the watchdog is off. CPU time, because a busy machine may suspend a thread
 * for any time in the middle of the shortest callback. */
static _Atomic int64_t watch_limit;

static void watch_init(void)
{
    const char *text = getenv("WICK_LOOP_LIMIT_MS");

    atomic_store(&watch_limit, text ? atoll(text) * NS_PER_MS : 0);
}

static int64_t thread_cpu(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static inline int64_t watch_begin(void)
{
    return unlikely(atomic_load_explicit(&watch_limit, memory_order_relaxed)) ? thread_cpu() : 0;
}

static inline void watch_end(int64_t began, const char *kind)
{
    int64_t took;

    if (likely(!began))
        return;
    took = thread_cpu() - began;
    if (took > atomic_load(&watch_limit))
        log_error("event loop: a callback (%s) ran for %lld ms", kind, (long long) (took / NS_PER_MS));
}

/* --- descriptors --- */
int loop_io_add(struct loop *l, struct loop_io *io, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = io};

    assert(io->ready);
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return -errno;
    io->loop = l;
    io->fd = fd;
    io->events = events;
    return 0;
}

int loop_io_set(struct loop_io *io, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = io};

    if (!io->loop || io->events == events)
        return 0;
    if (epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev) < 0)
        return -errno;
    io->events = events;
    return 0;
}

void loop_io_remove(struct loop_io *io)
{
    struct loop *l = io->loop;

    if (!l)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    for (int i = l->batch_pos; i < l->batch_n; i++)
        if (l->batch[i].data.ptr == io)
            l->batch[i].data.ptr = NULL;
    io->loop = NULL;
}

/* --- timers --- */
static struct loop_timer *timer_meld(struct loop_timer *a, struct loop_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->at < a->at) {
        struct loop_timer *t = a;

        a = b;
        b = t;
    }
    b->prev = a;
    b->next = a->child;
    if (b->next)
        b->next->prev = b;
    a->child = b;
    return a;
}

/* Melds a list of siblings into one heap: pairs from left to right, then from right to left. */
static struct loop_timer *timer_merge_pairs(struct loop_timer *list)
{
    struct loop_timer *pairs = NULL, *root = NULL;

    while (list) {
        struct loop_timer *a = list, *b = a->next;

        list = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b)
            b->next = b->prev = NULL;
        a = timer_meld(a, b);
        a->next = pairs; /* the list of pairs, newest first, uses next */
        pairs = a;
    }
    while (pairs) {
        struct loop_timer *t = pairs;

        pairs = t->next;
        t->next = NULL;
        root = timer_meld(root, t);
    }
    return root;
}

void loop_timer_cancel(struct loop_timer *t)
{
    struct loop *l = t->loop;
    struct loop_timer *rest;

    if (!l)
        return;
    rest = timer_merge_pairs(t->child);
    if (l->timers == t) {
        l->timers = rest;
    } else {
        if (t->prev->child == t)
            t->prev->child = t->next;
        else
            t->prev->next = t->next;
        if (t->next)
            t->next->prev = t->prev;
        l->timers = timer_meld(l->timers, rest);
    }
    if (l->timers)
        l->timers->prev = l->timers->next = NULL;
    t->child = t->next = t->prev = NULL;
    t->loop = NULL;
    t->at = 0;
}

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at)
{
    loop_timer_cancel(t);
    t->at = at ? at : 1;
    t->loop = l;
    l->timers = timer_meld(l->timers, t);
}

static void run_timers(struct loop *l)
{
    /* Timers that a callback sets to a time already past wait for the next round, so that sockets get their turn. */
    int64_t until = l->now;

    while (l->timers && l->timers->at <= until) {
        struct loop_timer *t = l->timers;
        int64_t began = watch_begin();

        loop_timer_cancel(t);
        t->fire(t);
        watch_end(began, "timer");
    }
}

/* --- calls --- */
int loop_post(struct loop *l, struct loop_call *c)
{
    return queue_push(&l->queue, &c->item);
}

void loop_defer(struct loop *l, struct loop_call *c)
{
    if (c->back)
        return;
    c->next = NULL;
    c->back = l->deferred_tail;
    *l->deferred_tail = c;
    l->deferred_tail = &c->next;
}

void loop_defer_cancel(struct loop *l, struct loop_call *c)
{
    if (!c->back)
        return;
    *c->back = c->next;
    if (c->next)
        c->next->back = c->back;
    if (l->deferred_tail == &c->next)
        l->deferred_tail = c->back;
    c->back = NULL;
}

static void run_calls(struct queue_item *list)
{
    while (list) {
        struct loop_call *c = container_of(list, struct loop_call, item);
        int64_t began = watch_begin();

        list = list->next; /* the call may be freed while it runs */
        c->run(c);
        watch_end(began, "message");
    }
}

static void queue_ready(struct loop_io *io, uint32_t events)
{
    run_calls(queue_take_all(&io->loop->queue));
}

/* One pass: calls that are deferred again wait for the next round, so that no connection starves the others. */
static void run_deferred(struct loop *l)
{
    l->running = l->deferred;
    if (l->running)
        l->running->back = &l->running;
    l->deferred = NULL;
    l->deferred_tail = &l->deferred;
    while (l->running) {
        struct loop_call *c = l->running;
        int64_t began = watch_begin();

        loop_defer_cancel(l, c);
        c->run(c);
        watch_end(began, "deferred");
    }
}

/* --- the loop --- */
int loop_new(struct loop **ret, struct err *e)
{
    struct loop *l = mem_zalloc(sizeof *l);
    int r;

    watch_init();
    if (!l)
        return -ENOMEM;
    l->deferred_tail = &l->deferred;
    l->now = clock_mono();
    atomic_store(&l->thread, pthread_self());
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0) {
        r = err_set(e, -errno, "cannot create an event loop: %m");
        mem_free(l);
        return r;
    }
    r = queue_init(&l->queue, 0);
    if (r == 0) {
        l->queue_io.ready = queue_ready;
        r = loop_io_add(l, &l->queue_io, l->queue.event_fd, EPOLLIN);
    }
    if (r < 0) {
        loop_free(l);
        return err_set(e, r, "cannot create an event loop: %m");
    }
    *ret = l;
    return 0;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    if (l->queue_io.loop) {
        atomic_store(&l->thread, pthread_self());
        queue_close(&l->queue);
        run_calls(queue_take_all(&l->queue));
        while (l->deferred)
            run_deferred(l);
        loop_io_remove(&l->queue_io);
    }
    while (l->timers) /* their owners outlive the loop and may cancel them later */
        loop_timer_cancel(l->timers);
    queue_done(&l->queue);
    fd_close(l->epoll_fd);
    mem_free(l->scratch);
    mem_free(l);
}

static int wait_ms(const struct loop *l, int64_t timeout_ns)
{
    int64_t ns = timeout_ns;

    if (l->timers) {
        int64_t left = l->timers->at - clock_mono(); /* not inside MAX(), which would read the clock twice */

        left = MAX(left, 0);
        ns = ns < 0 ? left : MIN(ns, left);
    }
    if (l->deferred)
        ns = 0;
    if (ns < 0)
        return -1;
    return (int) MIN((ns + NS_PER_MS - 1) / NS_PER_MS, 3600 * 1000);
}

int loop_run_once(struct loop *l, int64_t timeout_ns)
{
    int n;

    atomic_store_explicit(&l->thread, pthread_self(), memory_order_relaxed);
    n = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, wait_ms(l, timeout_ns));
    l->now = clock_mono();
    if (n < 0 && errno != EINTR)
        return -errno;
    l->batch_n = MAX(n, 0);
    for (l->batch_pos = 0; l->batch_pos < l->batch_n;) {
        struct epoll_event *ev = &l->batch[l->batch_pos++];
        struct loop_io *io = ev->data.ptr;
        int64_t began = watch_begin();

        if (io)
            io->ready(io, ev->events);
        watch_end(began, "descriptor");
    }
    l->batch_n = 0;
    run_timers(l);
    run_deferred(l);
    return 0;
}

static int run_until_stopped(struct loop *l)
{
    for (;;) {
        unsigned stops = atomic_load(&l->stops);
        int r;

        if (stops) {
            atomic_fetch_sub(&l->stops, 1);
            return 0;
        }
        r = loop_run_once(l, -1);
        if (r < 0)
            return r;
    }
}

/* A write to a closed connection must be an error, not a signal. Plain sockets request that with a flag, TLS libraries
 * cannot. SIGPIPE is blocked on this thread while the loop runs; a pending one is discarded at the end. */
int loop_run(struct loop *l)
{
    struct timespec now = {0};
    sigset_t pipe_set, old, pending;
    int r;

    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    r = run_until_stopped(l);
    if (!sigismember(&old, SIGPIPE)) {
        sigpending(&pending);
        if (sigismember(&pending, SIGPIPE))
            sigtimedwait(&pipe_set, NULL, &now);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    return r;
}

void loop_stop(struct loop *l)
{
    uint64_t one = 1;

    atomic_fetch_add(&l->stops, 1);
    while (write(l->queue.event_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

int64_t loop_now(const struct loop *l)
{
    return l->now;
}

bool loop_is_own_thread(const struct loop *l)
{
    return pthread_equal(atomic_load_explicit(&l->thread, memory_order_relaxed), pthread_self());
}

char *loop_scratch(struct loop *l, size_t *ret_size)
{
    if (!l->scratch)
        l->scratch = mem_alloc(LOOP_SCRATCH);
    *ret_size = LOOP_SCRATCH;
    return l->scratch;
}

/* --- groups --- */
struct loop_group {
    unsigned n, started;
    struct loop **loops;
    pthread_t *threads;
};

static void *group_thread(void *arg)
{
    loop_run(arg);
    return NULL;
}

int loop_group_new(unsigned n, const char *name, struct loop_group **ret, struct err *e)
{
    _cleanup_(loop_group_freep) struct loop_group *g = mem_zalloc(sizeof *g);
    char thread_name[32];
    int r;

    if (!g)
        return -ENOMEM;
    g->loops = mem_zalloc_array(n, sizeof *g->loops);
    g->threads = mem_zalloc_array(n, sizeof *g->threads);
    if (!g->loops || !g->threads)
        return -ENOMEM;
    for (; g->n < n; g->n++) {
        r = loop_new(&g->loops[g->n], e);
        if (r < 0)
            return r;
    }
    for (; g->started < n; g->started++) {
        snprintf(thread_name, sizeof thread_name, "%s-%u", name, g->started);
        r = thread_start(&g->threads[g->started], thread_name, group_thread, g->loops[g->started], e);
        if (r < 0)
            return r;
    }
    *ret = TAKE(g);
    return 0;
}

void loop_group_free(struct loop_group *g)
{
    if (!g)
        return;
    for (unsigned i = 0; i < g->started; i++)
        loop_stop(g->loops[i]);
    for (unsigned i = 0; i < g->started; i++)
        pthread_join(g->threads[i], NULL);
    for (unsigned i = 0; i < g->n; i++)
        loop_free(g->loops[i]);
    mem_free(g->loops);
    mem_free(g->threads);
    mem_free(g);
}

unsigned loop_group_size(const struct loop_group *g)
{
    return g->n;
}

struct loop *loop_group_at(struct loop_group *g, unsigned i)
{
    return g->loops[i];
}
