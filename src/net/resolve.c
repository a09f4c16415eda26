/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the whole process, see resolve.h. There is one entry per name: what is known of it, and who waits for it. An
 * entry that is waited for is in the queue or with a thread; threads are started while there are fewer than THREADS_MAX,
 * and end when the queue is empty. A lookup may outlive a loop by many seconds (if a name server does not answer), so
 * threads reach loops only through the waiting requests, under the lock: cancelling removes a request from its entry.
 */
#include "net/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

enum { THREADS_MAX = 4, NAMES_MAX = 512 };
#define FRESH_NS (10 * NS_PER_S)
#define ERROR_NS (2 * NS_PER_S)

/* One question of a loop, in the list of its name until it is answered. */
struct resolve {
    struct loop_call call;
    struct loop *loop; /* NULL once cancelled */
    struct name *name; /* NULL once answered */
    struct resolve *next;
    int port;
    void (*done)(void *arg, int n, const struct address *list, const struct err *e);
    void *arg;
    struct address list[RESOLVE_MAX];
    int n;
    struct err e;
};

struct name {
    struct name *next;
    char host[sizeof((struct address_parts *) 0)->host];
    int64_t until; /* monotonic: the answer may be used until then */
    struct address list[RESOLVE_MAX];
    int n; /* addresses, or a negative errno */
    struct err e;
    struct resolve *waiting;
    struct name *next_job;
    bool busy; /* in the queue or with a thread */
};

static struct {
    pthread_mutex_t lock;
    struct name *names;
    unsigned n_names, n_threads;
    struct name *jobs, **last_job;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .last_job = &all.jobs};

/* --- on the loop's thread --- */

static void come_home(struct loop_call *c)
{
    struct resolve *r = container_of(c, struct resolve, call);
    bool wanted;

    pthread_mutex_lock(&all.lock);
    wanted = r->loop != NULL;
    pthread_mutex_unlock(&all.lock);
    for (int i = 0; i < r->n; i++)
        address_set_port(&r->list[i], r->port);
    if (wanted)
        r->done(r->arg, r->n, r->list, &r->e);
    mem_free(r);
}

/* --- under the lock --- */

static void give_answer(struct resolve *r, const struct name *x)
{
    r->name = NULL;
    r->n = x->n;
    r->e = x->e;
    memcpy(r->list, x->list, sizeof r->list);
}

static struct name *find(const char *host)
{
    for (struct name *x = all.names; x; x = x->next)
        if (strcmp(x->host, host) == 0)
            return x;
    return NULL;
}

/* Makes room by forgetting the answer that ends first. */
static void forget_one(void)
{
    struct name **oldest = NULL, *x;

    for (struct name **p = &all.names; *p; p = &(*p)->next)
        if (!(*p)->busy && (!oldest || (*p)->until < (*oldest)->until))
            oldest = p;
    if (!oldest)
        return;
    x = *oldest;
    *oldest = x->next;
    all.n_names--;
    mem_free(x);
}

static struct name *find_or_add(const char *host)
{
    struct name *x = find(host);

    if (x)
        return x;
    if (all.n_names >= NAMES_MAX)
        forget_one();
    x = mem_zalloc(sizeof *x);
    if (!x)
        return NULL;
    snprintf(x->host, sizeof x->host, "%s", host);
    x->next = all.names;
    all.names = x;
    all.n_names++;
    return x;
}

static void answer(struct name *x)
{
    struct resolve *next;

    x->busy = false;
    x->until = clock_mono() + (x->n < 0 ? ERROR_NS : FRESH_NS);
    for (struct resolve *r = TAKE(x->waiting); r; r = next) {
        next = r->next;
        give_answer(r, x);
        if (loop_post(r->loop, &r->call) < 0)
            mem_free(r);
    }
}

/* --- the threads --- */

static void *resolve_thread(void *arg)
{
    (void) arg;
    pthread_mutex_lock(&all.lock);
    while (all.jobs) {
        struct name *x = all.jobs;
        struct address_parts parts = {.port = "0"};
        struct address list[RESOLVE_MAX];
        struct err e = {0};
        int n;

        all.jobs = x->next_job;
        if (!all.jobs)
            all.last_job = &all.jobs;
        memcpy(parts.host, x->host, sizeof parts.host);
        pthread_mutex_unlock(&all.lock);
        n = address_resolve(&parts, list, RESOLVE_MAX, &e);
        pthread_mutex_lock(&all.lock);
        x->n = n;
        x->e = e;
        if (n > 0)
            memcpy(x->list, list, (size_t) n * sizeof *list);
        answer(x);
    }
    all.n_threads--;
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

/* Under the lock. */
static int look_up(struct name *x)
{
    struct err e = {0};
    pthread_t thread;
    int r = 0;

    if (all.n_threads < THREADS_MAX) {
        r = thread_start(&thread, "resolve", resolve_thread, NULL, &e);
        if (r == 0) {
            pthread_detach(thread);
            all.n_threads++;
        }
    }
    if (!all.n_threads)
        return r;
    x->busy = true;
    x->next_job = NULL;
    *all.last_job = x;
    all.last_job = &x->next_job;
    return 0;
}

/* --- public interface --- */

/* 1 if the answer is known, 0 if it will be posted. */
static int ask(struct resolve *r, const char *host)
{
    struct name *x = find_or_add(host);
    int code;

    if (!x)
        return -ENOMEM;
    if (!x->busy && clock_mono() < x->until) {
        give_answer(r, x);
        return 1;
    }
    code = x->busy ? 0 : look_up(x);
    if (code < 0)
        return code;
    r->name = x;
    r->next = x->waiting;
    x->waiting = r;
    return 0;
}

int resolve_start(struct loop *l, const struct address_parts *p,
                  void (*done)(void *arg, int n, const struct address *list, const struct err *e), void *arg,
                  struct resolve **ret)
{
    struct address a;
    struct resolve *r;
    uint64_t port;
    int code;

    *ret = NULL;
    if (address_numeric(p, &a) == 0) {
        done(arg, 1, &a, NULL);
        return 0;
    }
    if (str_to_u64(str_from(p->port), 10, &port) < 0)
        return -EINVAL;
    r = mem_zalloc(sizeof *r);
    if (!r)
        return -ENOMEM;
    r->call.run = come_home;
    r->loop = l;
    r->done = done;
    r->arg = arg;
    r->port = (int) port;
    pthread_mutex_lock(&all.lock);
    code = ask(r, p->host);
    pthread_mutex_unlock(&all.lock);
    if (code < 0)
        mem_free(r);
    else if (code == 1)
        come_home(&r->call);
    else
        *ret = r;
    return MIN(code, 0);
}

void resolve_cancel(struct resolve *r)
{
    bool waits = false;

    if (!r)
        return;
    pthread_mutex_lock(&all.lock);
    for (struct resolve **p = r->name ? &r->name->waiting : NULL; p && *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            waits = true;
            break;
        }
    r->loop = NULL; /* if the call is posted already, come_home() sees this */
    pthread_mutex_unlock(&all.lock);
    if (waits)
        mem_free(r);
}
