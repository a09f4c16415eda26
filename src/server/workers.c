/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of worker threads and its queue of flows. See workers.h. */
#include "server/workers.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

static const int64_t SHARED_NS = NS_PER_S; /* after a job of another flow */

struct workers {
    struct workers_options o;
    pthread_mutex_t lock;
    pthread_cond_t more; /* signalled under lock when a job may have become takeable */
    struct workers_flow *first _guarded_by_(lock),
        **last _guarded_by_(lock); /* those with waiting jobs; the first one's turn is next */
    struct workers_flow common _guarded_by_(lock);
    size_t waiting _guarded_by_(lock), n_flows _guarded_by_(lock);
    /* the flow that submitted last, when it did, and when another one last did */
    const struct workers_flow *latest _guarded_by_(lock);
    int64_t latest_ns _guarded_by_(lock), other_ns _guarded_by_(lock);
    bool stopping _guarded_by_(lock);
    unsigned n_threads;
    pthread_t threads[];
};

static void append_flow(struct workers *w, struct workers_flow *f) _locked_(w->lock)
{
    f->next = NULL;
    *w->last = f;
    w->last = &f->next;
}

/* A tenant that asks one question after the other waits for none of its own most of the time: that it will ask again is known
 * only from its last one. */
static unsigned may_run(const struct workers *w, const struct workers_flow *f) _locked_(w->lock)
{
    int64_t others = f == w->latest ? w->other_ns : w->latest_ns;
    bool shared = others && clock_mono() - others < SHARED_NS;

    return !w->o.flow_running ? UINT_MAX : shared ? MAX(w->o.n / 2, 1u) : w->o.flow_running;
}

/* Takes the oldest job of the first flow that may run one more; its next turn comes after the other flows'. */
static struct worker_job *take(struct workers *w, struct workers_flow **ret_flow) _locked_(w->lock)
{
    for (struct workers_flow **at = &w->first, *f; (f = *at); at = &f->next) {
        struct queue_item *i = f->head;

        if (f->running >= may_run(w, f))
            continue;
        *at = f->next;
        if (w->last == &f->next)
            w->last = at;
        f->head = i->next;
        f->waiting--;
        f->running++;
        w->waiting--;
        if (f->head)
            append_flow(w, f);
        else
            w->n_flows--;
        *ret_flow = f;
        return container_of(i, struct worker_job, item);
    }
    return NULL;
}

/* Waits for a job; NULL when stopping and none is left. Ends the one before it in its flow. */
static struct worker_job *next_job(struct workers *w, struct workers_flow **flow)
{
    struct worker_job *j;

    pthread_mutex_lock(&w->lock);
    if (*flow)
        (*flow)->running--;
    while (!(j = take(w, flow)) && !(w->stopping && !w->first))
        pthread_cond_wait(&w->more, &w->lock);
    if (!j || w->first) /* one that ended may have held back its own flow; at the end all threads wake each other */
        pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    return j;
}

static void *work(void *arg)
{
    struct workers *w = arg;
    struct workers_flow *flow = NULL;

    for (struct worker_job *j; (j = next_job(w, &flow));)
        j->run(j);
    return NULL;
}

_unshared_ int workers_new(const struct workers_options *o, struct workers **ret, struct err *e)
{
    _cleanup_(workers_freep) struct workers *w = mem_zalloc(sizeof *w + o->n * sizeof *w->threads);
    char name[24];
    int r;

    if (!w)
        return -ENOMEM;
    w->o = *o;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->last = &w->first;
    for (; w->n_threads < o->n; w->n_threads++) {
        snprintf(name, sizeof name, "query-%u", w->n_threads);
        r = thread_start(&w->threads[w->n_threads], name, work, w, e);
        if (r < 0)
            return r;
    }
    *ret = TAKE(w);
    return 0;
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

static bool is_full(const struct workers *w, const struct workers_flow *f) _locked_(w->lock)
{
    size_t flows = w->n_flows + !f->head;

    return w->waiting >= w->o.waiting && f->waiting >= MAX(w->o.waiting / flows, 1);
}

int workers_submit(struct workers *w, struct workers_flow *flow, struct worker_job *j)
{
    struct workers_flow *f = flow ? flow : &w->common;
    int r = 0;

    pthread_mutex_lock(&w->lock);
    if (w->stopping) {
        r = -ESHUTDOWN;
    } else if (is_full(w, f)) {
        r = -EAGAIN;
    } else {
        j->item.next = NULL;
        if (!f->head) {
            f->tail = &f->head;
            append_flow(w, f);
            w->n_flows++;
        }
        *f->tail = &j->item;
        f->tail = &j->item.next;
        if (f != w->latest)
            w->other_ns = w->latest_ns;
        w->latest = f;
        w->latest_ns = clock_mono();
        f->waiting++;
        w->waiting++;
        pthread_cond_signal(&w->more);
    }
    pthread_mutex_unlock(&w->lock);
    return r;
}

size_t workers_waiting(struct workers *w)
{
    size_t n;

    pthread_mutex_lock(&w->lock);
    n = w->waiting;
    pthread_mutex_unlock(&w->lock);
    return n;
}
