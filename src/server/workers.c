/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of worker threads and its bounded queue. See workers.h. */
#include "server/workers.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/thread.h"

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t more; /* signalled under lock when head or stopping changes */
    struct queue_item *head, **tail;
    size_t n, limit;
    bool stopping;
    unsigned n_threads;
    pthread_t threads[];
};

static struct worker_job *next_job(struct workers *w)
{
    struct queue_item *i;

    pthread_mutex_lock(&w->lock);
    while (!w->head && !w->stopping)
        pthread_cond_wait(&w->more, &w->lock);
    i = w->head;
    if (i) {
        w->head = i->next;
        if (!w->head)
            w->tail = &w->head;
        w->n--;
    }
    pthread_mutex_unlock(&w->lock);
    return i ? container_of(i, struct worker_job, item) : NULL;
}

static void *work(void *arg)
{
    struct workers *w = arg;

    for (struct worker_job *j; (j = next_job(w));)
        j->run(j);
    return NULL;
}

int workers_new(unsigned n, size_t limit, struct workers **ret, struct err *e)
{
    _cleanup_(workers_freep) struct workers *w = mem_zalloc(sizeof *w + n * sizeof *w->threads);
    char name[24];
    int r;

    if (!w)
        return -ENOMEM;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->tail = &w->head;
    w->limit = limit;
    for (; w->n_threads < n; w->n_threads++) {
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

int workers_submit(struct workers *w, struct worker_job *j)
{
    int r = 0;

    pthread_mutex_lock(&w->lock);
    if (w->stopping) {
        r = -ESHUTDOWN;
    } else if (w->n >= w->limit) {
        r = -EAGAIN;
    } else {
        j->item.next = NULL;
        *w->tail = &j->item;
        w->tail = &j->item.next;
        w->n++;
        pthread_cond_signal(&w->more);
    }
    pthread_mutex_unlock(&w->lock);
    return r;
}

size_t workers_waiting(struct workers *w)
{
    size_t n;

    pthread_mutex_lock(&w->lock);
    n = w->n;
    pthread_mutex_unlock(&w->lock);
    return n;
}
