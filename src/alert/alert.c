/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that evaluates the rules, the file of states, and replacing the rules. See alert.h.
 *
 * Sources are evaluated one after the other, evenly spread over the interval. The CPU time of each is measured: if all
 * of it is more than the budget allows, the next one waits, so that rules are evaluated less often rather than the server
 * being slowed down (wick_alert_lag_seconds shows it).
 */
#include "alert/alert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "alert/alert_send.h"
#include "base/aside.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/thread.h"

enum { FILE_MAX = 256 << 20 };
#define SAVE_EVERY (2 * NS_PER_S)
static const char file_name[] = "alerts.json";

int64_t alerts_now(const struct alerts *a)
{
    return a->o.now ? a->o.now() : clock_wall();
}

void alerts_wait(struct alerts *a, int64_t until)
{
    thread_wait(&a->wake, &a->lock, until);
}

static int64_t thread_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* --- the file --- */

static void save(struct alerts *a)
{
    static const struct fd_owner owner = {0600, (uid_t) -1, (gid_t) -1};
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(fd_closep) int dir = -1;
    struct err e = {0};
    int r;

    if (!a->path)
        return;
    pthread_mutex_lock(&a->lock);
    alert_states_print(&a->states, a->targets, &b);
    a->dirty = false;
    pthread_mutex_unlock(&a->lock);
    r = buf_error(&b);
    if (r == 0) {
        dir = fd_open(AT_FDCWD, a->path, O_RDONLY | O_DIRECTORY, 0);
        r = dir < 0 ? dir : fd_replace(dir, file_name, &owner, b.p, b.n, &e);
    }
    pthread_mutex_lock(&a->lock);
    a->dirty |= r < 0; /* it is tried again */
    if (r == 0)
        a->saves_failed = 0;
    else if (!a->saves_failed++)
        log_warn("alerts: cannot write the states to '%s/%s': %s", a->path, file_name, err_message(&e, r));
    pthread_mutex_unlock(&a->lock);
}

/* A file that cannot be read does not keep the server from starting: alerts begin anew. */
static int load(struct alerts *a)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[4200];
    struct err e = {0};
    int r;

    if (!a->path || snprintf(path, sizeof path, "%s/%s", a->path, file_name) >= (int) sizeof path)
        return 0;
    r = fd_read_file(path, FILE_MAX, &b, &e);
    if (r == -ENOENT)
        return 0;
    pthread_mutex_lock(&a->lock);
    if (r == 0)
        r = alert_states_read(&a->states, buf_str(&b), a->targets, &e);
    if (r < 0) {
        _cleanup_(fd_closep) int dir = fd_open(AT_FDCWD, a->path, O_RDONLY | O_DIRECTORY, 0);

        aside_put(dir, file_name, NULL, err_message(&e, r));
        alert_states_done(&a->states);
    }
    r = alert_states_bind(&a->states, a->rules);
    pthread_mutex_unlock(&a->lock);
    return r;
}

/* --- evaluation --- */

static void log_change(const struct alerts *a, uint32_t since)
{
    for (size_t i = 0; i < a->states.n; i++) {
        const struct alert *x = a->states.v[i];
        _cleanup_(buf_done) struct buf b = BUF_INIT;

        if (x->change <= since || x->stage == ALERT_PENDING)
            continue;
        printable_put(&b, str_from(x->summary), false); /* it has names from profiles */
        log_info("alert %s: %s: %.*s", x->rule, alert_stage_names[x->stage], STR_FMT(buf_str(&b)));
    }
}

static void keep_results(struct alerts *a, uint32_t source, struct alert_results *res)
{
    if (!a->rules->sources[source].n_recordings || source >= a->n_kept)
        return;
    alert_results_done(&a->kept[source]);
    a->kept[source] = *res;
    *res = (struct alert_results){0};
}

/* How one evaluation went. */
struct alert_round {
    struct alert_results res;
    int64_t now, took_ns, cpu_ns;
    struct err e;
    int r;
};

static struct alert_sweep sweep_of(const struct alerts *a)
{
    struct alert_sweep w = {.repeat = a->rules->repeat, .now = alerts_now(a)};

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        w.used |= a->slots[i].used ? 1u << i : 0;
        w.webhooks |= a->slots[i].used && a->targets[i].kind == ALERT_WEBHOOK ? 1u << i : 0;
    }
    return w;
}

/* Takes the results, with the lock held. */
static void take_results(struct alerts *a, uint32_t source, struct alert_round *x)
{
    const struct alert_source *s = &a->rules->sources[source];
    uint32_t before = a->states.changes;
    struct alert_sweep w = sweep_of(a);

    a->evaluations++;
    a->failures += x->r < 0;
    for (uint32_t i = 0; i < s->n_rules; i++) {
        struct alert_rule *r = &a->rules->v[s->rules[i]];
        const struct alert_found *f = x->r < 0 ? NULL : &x->res.rules[i];

        r->last.at = x->now;
        r->last.took_ns = x->took_ns / MAX(s->n_rules, 1u);
        snprintf(r->last.error, sizeof r->last.error, "%s", x->r < 0 ? err_message(&x->e, x->r) : x->res.problem);
        if (f && !f->unknown)
            alert_states_apply(&a->states, a->rules, s->rules[i], f->v, (uint32_t) f->n, x->now);
    }
    alert_states_sweep(&a->states, &w);
    if (x->r == 0)
        keep_results(a, source, &x->res);
    if (a->states.changes != before) {
        log_change(a, before);
        a->dirty = true;
    }
    pthread_cond_broadcast(&a->wake); /* there may be something to send */
}

static void evaluate(struct alerts *a, uint32_t source)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *rules = alert_rules_ref(a->rules);
    struct alert_eval eval = {.store = a->o.store,
                              .names = a->o.names,
                              .spans = a->o.spans,
                              .now = alerts_now(a),
                              .memory_limit = a->o.memory_limit,
                              .cancel = &a->cancel,
                              .cache = &a->cache,
                              .losses = a->o.losses,
                              .losses_ctx = a->o.losses_ctx};
    struct alert_round x = {.now = eval.now, .took_ns = -clock_mono(), .cpu_ns = -thread_cpu()};

    pthread_mutex_unlock(&a->lock);
    x.r = alert_evaluate(&eval, rules, source, &x.res, &x.e);
    x.took_ns += clock_mono();
    x.cpu_ns += thread_cpu();
    pthread_mutex_lock(&a->lock);
    a->cpu_ns += x.cpu_ns;
    if (a->rules == rules && !a->stopping) /* else the rules were replaced meanwhile */
        take_results(a, source, &x);
    alert_results_done(&x.res);
}

static void *run_worker(void *arg)
{
    struct alerts *a = arg;
    const struct alert_rules *seen = NULL;
    int64_t next = 0, paid = clock_mono(), saved = 0; /* paid: until then the budget covers what was used */
    uint32_t source = 0;

    pthread_mutex_lock(&a->lock);
    while (!a->stopping) {
        int64_t now = clock_mono(), used = a->cpu_ns, due;
        uint32_t n = a->rules->n_sources;

        if (seen != a->rules || source >= n) {
            seen = a->rules;
            source = 0;
            next = now;
        }
        due = n ? MAX(next, paid - a->rules->interval) : INT64_MAX;
        if (a->dirty && now - saved >= SAVE_EVERY) {
            pthread_mutex_unlock(&a->lock);
            save(a);
            saved = clock_mono();
            pthread_mutex_lock(&a->lock);
        } else if (now < due) {
            alerts_wait(a, a->dirty ? MIN(due, saved + SAVE_EVERY) : due);
        } else {
            int64_t step = a->rules->interval / n;
            double budget = a->rules->budget;

            a->lag_ns = now - next;
            evaluate(a, source);
            source = source + 1 < n ? source + 1 : 0;
            next = MAX(next + step, now - a->rules->interval);
            paid = MAX(paid, now) + (budget > 0 ? (int64_t) ((double) (a->cpu_ns - used) / budget) : 0);
        }
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* --- start, change, stop --- */

static void free_kept(struct alerts *a)
{
    for (uint32_t i = 0; i < a->n_kept; i++)
        alert_results_done(&a->kept[i]);
    mem_free(a->kept);
    a->kept = NULL;
    a->n_kept = 0;
}

static char *copy_url(const char *url)
{
    char *copy = mem_strdup(url ? url : "");
    size_t n = copy ? strlen(copy) : 0;

    while (n && copy[n - 1] == '/')
        copy[--n] = 0;
    return copy;
}

int alerts_set_url(struct alerts *a, const char *url)
{
    char *copy = copy_url(url);

    if (!copy)
        return -ENOMEM;
    pthread_mutex_lock(&a->lock);
    mem_free(a->url);
    a->url = copy;
    pthread_mutex_unlock(&a->lock);
    return 0;
}

int alerts_change(struct alerts *a, struct alert_rules *rules, const char *url, struct err *e)
{
    struct alert_results *kept = mem_zalloc_array((size_t) rules->n_sources + 1, sizeof *kept);
    char *new_url = url ? copy_url(url) : NULL;
    int r = kept && (new_url || !url) ? alert_slots_change(a, rules, e) : -ENOMEM;

    if (r < 0) {
        mem_free(kept);
        mem_free(new_url);
        return r;
    }
    pthread_mutex_lock(&a->lock);
    if (new_url) {
        mem_free(a->url);
        a->url = new_url;
    }
    free_kept(a);
    a->kept = kept;
    a->n_kept = rules->n_sources;
    alert_rules_unref(a->rules);
    a->rules = alert_rules_ref(rules);
    r = alert_states_bind(&a->states, rules);
    alert_states_sweep(&a->states, &(struct alert_sweep){UINT32_MAX, UINT32_MAX, 0, alerts_now(a)});
    a->dirty = true;
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    return r;
}

static int init(struct alerts *a, const struct alerts_options *o)
{

    a->o = *o;
    a->o.url = a->o.dir = NULL;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->wake, NULL);
    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        a->slots[i].owner = a;
        a->slots[i].index = i;
    }
    a->url = copy_url(o->url);
    a->path = o->dir ? mem_strdup(o->dir) : NULL;
    return a->url && (a->path || !o->dir) ? 0 : -ENOMEM;
}

int alerts_new(const struct alerts_options *o, struct alert_rules *rules, struct alerts **ret, struct err *e)
{
    struct alerts *a = mem_zalloc(sizeof *a);
    int r = a ? init(a, o) : -ENOMEM;

    if (r == 0)
        r = alerts_change(a, rules, NULL, e);
    if (r == 0)
        r = load(a);
    if (r == 0)
        r = thread_start(&a->worker, "alerts", run_worker, a, e);
    if (r < 0) {
        alerts_free(a);
        return r;
    }
    a->has_worker = true;
    *ret = a;
    return 0;
}

void alerts_free(struct alerts *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    atomic_store(&a->cancel, true);
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    if (a->has_worker) {
        pthread_join(a->worker, NULL);
        if (a->rules->n || a->states.n)
            save(a);
    }
    alert_slots_stop(a);
    free_kept(a);
    alert_states_done(&a->states);
    alert_cache_done(&a->cache);
    alert_rules_unref(a->rules);
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    mem_free(a->url);
    mem_free(a->path);
    mem_free(a);
}
