/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that refreshes the table of pods, and lookups in it. See k8s_watch.h. */
#include "pipeline/k8s/k8s_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/thread.h"

static const int64_t keep_old = 60 * NS_PER_S, warn_period = 60 * NS_PER_S;

void k8s_watch_init(struct k8s_watch *w)
{
    pthread_mutex_init(&w->lock, NULL);
    w->wake_fd = -1;
}

void k8s_watch_done(struct k8s_watch *w)
{
    k8s_watch_stop(w);
    fd_close(w->wake_fd);
    k8s_table_free(w->table);
    k8s_table_free(w->old);
    pthread_mutex_destroy(&w->lock);
}

/* --- the thread --- */

/* Replaces the current table with the new one. The previous one is kept as the old table, if the old table is old
 * enough to be dropped. */
static void take_table(struct k8s_watch *w, struct k8s_table *t)
{
    struct k8s_table *gone;

    pthread_mutex_lock(&w->lock);
    if (!w->old || w->table_made - w->old_made > keep_old) {
        gone = w->old;
        w->old = w->table;
        w->old_made = w->table_made;
    } else {
        gone = w->table;
    }
    w->table = t;
    w->table_made = clock_mono();
    pthread_mutex_unlock(&w->lock);
    k8s_table_free(gone);
}

static int on_pod(void *arg, const struct k8s_pod *p)
{
    return k8s_table_add(arg, p);
}

static int refresh(struct k8s_watch *w, int64_t timeout, struct err *e)
{
    _cleanup_(k8s_table_freep) struct k8s_table *t = k8s_table_new(&w->extract);
    struct k8s_api api = w->api;
    uint64_t held;
    int r;

    if (!t)
        return err_set(e, -ENOMEM, "out of memory");
    api.timeout_ns = timeout;
    api.cancel = &w->stopping;
    r = k8s_pods_fetch(&api, on_pod, t, e);
    if (r < 0)
        return r;
    if (t->full && log_limited(&w->fulls, warn_period, &held))
        log_warn("%s: too many pods (limit %u); restrict them with filter.node or filter.namespace", w->id, t->n_pods);
    metric_set(w->pods, t->n_pods);
    take_table(w, TAKE(t));
    return 0;
}

/* False: stopping. */
static bool wait_for_turn(struct k8s_watch *w, int64_t last)
{
    struct pollfd pfd = {.fd = w->wake_fd, .events = POLLIN};

    while (!atomic_load(&w->stopping)) {
        int64_t gap = atomic_load(&w->asked) ? MIN(w->min_refresh_interval, w->refresh_interval) : w->refresh_interval;
        int64_t left = last + gap - clock_mono();
        uint64_t n;

        if (left <= 0)
            return true;
        if (poll(&pfd, 1, (int) MIN(left / NS_PER_MS + 1, 3600000)) > 0 && read(w->wake_fd, &n, sizeof n) < 0)
            return false;
    }
    return false;
}

static void *run(void *arg)
{
    struct k8s_watch *w = arg;
    int64_t last = w->table ? w->table_made : clock_mono() - w->refresh_interval;

    while (wait_for_turn(w, last)) {
        struct err e = {0};
        uint64_t held;
        int r;

        last = clock_mono();
        atomic_store(&w->asked, false);
        r = refresh(w, 0, &e);
        if (r < 0 && !atomic_load(&w->stopping) && log_limited(&w->failures, warn_period, &held))
            log_warn("%s: cannot list pods; profiles are passed on without pod attributes: %s", w->id,
                     err_message(&e, r));
    }
    return NULL;
}

static void wake(struct k8s_watch *w)
{
    uint64_t one = 1;

    if (write(w->wake_fd, &one, sizeof one) < 0)
        log_warn("%s: cannot wake the thread: %m", w->id);
}

int k8s_watch_start(struct k8s_watch *w, int64_t wait, struct err *e)
{
    int r = 0;

    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake_fd < 0)
        return err_set(e, -errno, "cannot create an eventfd: %m");
    if (wait > 0)
        r = refresh(w, wait, e);
    if (r == 0)
        r = thread_start(&w->thread, "k8s-pods", run, w, e);
    w->running = r == 0;
    return r;
}

void k8s_watch_stop(struct k8s_watch *w)
{
    if (!w->running)
        return;
    atomic_store(&w->stopping, true);
    wake(w);
    pthread_join(w->thread, NULL);
    w->running = false;
}

/* --- any thread --- */

bool k8s_watch_apply(struct k8s_watch *w, struct str key, struct str container, struct kvs_edit *x)
{
    bool known;

    pthread_mutex_lock(&w->lock);
    known = (w->table && k8s_table_apply(w->table, key, container, x)) ||
            (w->old && k8s_table_apply(w->old, key, container, x));
    pthread_mutex_unlock(&w->lock);
    return known;
}

/* An unknown key triggers an early refresh only once; after that it waits for the regular refresh. */
void k8s_watch_miss(struct k8s_watch *w, struct str key)
{
    uint64_t h = hash64_str(key), *slot = &w->missed[h % K8S_MISSED_MAX];
    bool news;

    pthread_mutex_lock(&w->lock);
    news = *slot != h;
    *slot = h;
    pthread_mutex_unlock(&w->lock);
    if (news && !atomic_exchange(&w->asked, true))
        wake(w);
}
