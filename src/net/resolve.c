/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves names on a thread of its own, see resolve.h. The thread may outlive the loop by many seconds (if a name
 * server does not answer), so it never touches the loop without the lock: cancelling clears `loop` under it, and the
 * last user frees the object.
 */
#include "net/resolve.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"

struct resolve {
    struct loop_call call;
    pthread_mutex_t lock; /* protects loop */
    struct loop *loop;    /* NULL once cancelled */
    struct address_parts parts;
    void (*done)(void *arg, int n, const struct address *list, const struct err *e);
    void *arg;
    struct address list[RESOLVE_MAX];
    int n;
    struct err e;
};

static void resolve_free(struct resolve *r)
{
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

static void come_home(struct loop_call *c)
{
    struct resolve *r = container_of(c, struct resolve, call);

    pthread_mutex_lock(&r->lock); /* wait until the thread has released the lock */
    pthread_mutex_unlock(&r->lock);
    if (r->loop)
        r->done(r->arg, r->n, r->list, &r->e);
    resolve_free(r);
}

static void *resolve_thread(void *arg)
{
    struct resolve *r = arg;
    bool posted = false;

    r->n = address_resolve(&r->parts, r->list, RESOLVE_MAX, &r->e);
    pthread_mutex_lock(&r->lock);
    if (r->loop)
        posted = loop_post(r->loop, &r->call) == 0;
    pthread_mutex_unlock(&r->lock);
    if (!posted)
        resolve_free(r);
    return NULL;
}

int resolve_start(struct loop *l, const struct address_parts *p,
                  void (*done)(void *arg, int n, const struct address *list, const struct err *e), void *arg,
                  struct resolve **ret)
{
    struct address a;
    struct resolve *r;
    pthread_t thread;
    struct err e = {0};
    int code;

    *ret = NULL;
    if (address_numeric(p, &a) == 0) {
        done(arg, 1, &a, NULL);
        return 0;
    }
    r = mem_zalloc(sizeof *r);
    if (!r)
        return -ENOMEM;
    r->call.run = come_home;
    pthread_mutex_init(&r->lock, NULL);
    r->loop = l;
    r->parts = *p;
    r->done = done;
    r->arg = arg;
    code = thread_start(&thread, "resolve", resolve_thread, r, &e);
    if (code < 0) {
        resolve_free(r);
        return code;
    }
    pthread_detach(thread);
    *ret = r;
    return 0;
}

void resolve_cancel(struct resolve *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->loop = NULL; /* if the call is posted already, come_home() sees this */
    pthread_mutex_unlock(&r->lock);
}
