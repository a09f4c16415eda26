/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifies receivers. Each has a thread that compares what was sent to the receiver with the states and posts the difference;
 * there is no queue that could grow. After a failure it waits, twice as long each time up to a minute, and then sends
 * the state of that moment. Redirects are not followed. Only the status of a receiver's answer is shown, never its body.
 */
#include "alert/alert_send.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert_json.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/fetch.h"

enum { MESSAGE_MAX = 64, ROUND_MAX = 500, ANSWER_MAX = 1 << 16, HEADERS_MAX = 64 };
static const struct backoff backoff = {.first = NS_PER_S, .max = 60 * NS_PER_S, .factor = 2, .spread = 0.2};
#define RETRY_AFTER_MAX (300 * NS_PER_S)
#define RESEND_MIN (60 * NS_PER_S) /* Alertmanager forgets alerts that are not sent again */

/* A message, and the alerts in it as they were when it was made. */
struct alert_message {
    struct buf body;
    struct notified {
        uint64_t id;
        uint32_t change;
        bool firing;
    } v[ROUND_MAX];
    uint32_t n;
    bool ends_round;
};

/* --- one request --- */

static bool is_final(int status)
{
    return status >= 400 && status < 500 && status != 408 && status != 429;
}

static int64_t retry_after(const struct fetch_result *f)
{
    int64_t ns = 0;

    if (http_retry_after(http_headers_get(&f->headers, "retry-after"), clock_wall(), &ns) < 0)
        return 0;
    return MIN(ns, RETRY_AFTER_MAX);
}

static bool is_allowed(const char *address)
{
    return !address_is_link_local(address);
}

int alert_post(struct alert_post *p, struct err *e)
{
    _cleanup_(fetch_result_done) struct fetch_result res = {0};
    struct http_header headers[HEADERS_MAX + 1] = {{STR("content-type"), STR("application/json")}};
    struct fetch_options f = {.url = p->url,
                              .method = "POST",
                              .headers = headers,
                              .n_headers = 1,
                              .body = p->body,
                              .timeout_ns = p->rules->timeout,
                              .max_answer = ANSWER_MAX,
                              .tls = &tls_openssl,
                              .tls_options = &p->rules->tls,
                              .allow = p->rules->allow_link_local ? NULL : is_allowed,
                              .cancel = p->cancel};
    int r;

    for (uint32_t i = 0; i < p->rules->headers.n && f.n_headers <= HEADERS_MAX; i++)
        headers[f.n_headers++] = p->rules->headers.v[i];
    p->retry_after = 0;
    r = fetch_url(&f, &res, e);
    if (r == -ECANCELED)
        return r;
    if (r < 0)
        return e->message[0] ? -EAGAIN : err_set(e, -EAGAIN, "no response");
    if (res.status >= 200 && res.status < 300)
        return 0;
    p->retry_after = retry_after(&res);
    return err_set(e, is_final(res.status) ? -EPROTO : -EAGAIN, "it answers %d %s", res.status,
                   http_reason(res.status));
}

/* --- what is to be sent --- */

static bool is_wanted(const struct alerts *a, const struct alert *x, uint32_t bit)
{
    const struct alert_rule *r = x->at == ALERT_NO_RULE ? NULL : &a->rules->v[x->at];

    if (x->stage == ALERT_FIRING)
        return r && r->targets & bit && (!(x->notified & bit) || x->remind & bit);
    return x->stage == ALERT_RESOLVED && x->notified & bit;
}

uint32_t alert_slot_waiting(const struct alerts *a, uint32_t slot)
{
    uint32_t n = 0;

    for (size_t i = 0; i < a->states.n; i++)
        n += is_wanted(a, a->states.v[i], 1u << slot);
    return n;
}

static struct alert_view view_of(const struct alerts *a, const struct alert *x)
{
    return (struct alert_view){x, x->at == ALERT_NO_RULE ? NULL : &a->rules->v[x->at], a->url};
}

static void note(struct alert_message *m, const struct alert *x)
{
    m->v[m->n++] = (struct notified){x->id, x->change, x->stage == ALERT_FIRING};
}

/* A webhook's message has the alerts of one rule. */
static void make_webhook(const struct alerts *a, uint32_t bit, struct alert_message *m)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    const struct alert *first = NULL;
    bool firing = false;

    for (size_t i = 0; i < a->states.n && m->n < MESSAGE_MAX; i++) {
        const struct alert *x = a->states.v[i];
        struct alert_view v = view_of(a, x);

        if (!is_wanted(a, x, bit) ||
            (first && (strcmp(first->rule, x->rule) != 0 || strcmp(first->tenant, x->tenant) != 0)))
            continue;
        if (first)
            buf_putc(&list, ',');
        else
            first = x;
        alert_put_webhook(&list, &v);
        firing |= x->stage == ALERT_FIRING;
        note(m, x);
    }
    if (!first)
        return;
    alert_put_webhook_head(&m->body, &(struct alert_view){first, NULL, a->url}, firing);
    buf_put_buf(&m->body, &list);
    buf_puts(&m->body, "]}");
}

/* An Alertmanager gets everything that fires, again in each round. */
static void make_round(struct alerts *a, struct alert_slot *s, struct alert_message *m, int64_t now)
{
    uint32_t bit = 1u << s->index;
    int64_t ends = alerts_now(a) + 4 * MAX(a->rules->interval, RESEND_MIN);

    if (!s->cursor) {
        if (now < s->resend_at && s->sent_changes == a->states.changes)
            return;
        s->round_changes = a->states.changes;
    }
    buf_putc(&m->body, '[');
    for (; s->cursor < a->states.n && m->n < ROUND_MAX; s->cursor++) {
        const struct alert *x = a->states.v[s->cursor];
        struct alert_view v = view_of(a, x);

        if (x->stage == ALERT_PENDING || (x->stage == ALERT_RESOLVED && !(x->notified & bit)) ||
            (x->stage == ALERT_FIRING && !(v.rule && v.rule->targets & bit)))
            continue;
        if (m->n)
            buf_putc(&m->body, ',');
        alert_put_alertmanager(&m->body, &v, ends);
        note(m, x);
    }
    buf_putc(&m->body, ']');
    m->ends_round = s->cursor >= a->states.n;
    if (m->ends_round)
        s->cursor = 0;
    if (!m->n) { /* there is nothing to send */
        s->sent_changes = s->round_changes;
        s->resend_at = now + MAX(a->rules->interval, RESEND_MIN);
    }
}

/* --- what was sent --- */

static void settle_alert(struct alert *x, const struct notified *t, uint32_t bit, int64_t now, bool webhook)
{
    if (t->firing) {
        x->notified |= bit;
        x->remind &= ~bit;
        if (webhook)
            x->notified_at = MAX(x->notified_at, now);
    } else if (x->change == t->change) {
        x->notified &= ~bit;
    }
}

static void settle(struct alert_slot *s, const struct alert_message *m)
{
    struct alerts *a = s->owner;
    bool webhook = a->targets[s->index].kind == ALERT_WEBHOOK;
    int64_t now = alerts_now(a);

    for (size_t i = 0; i < a->states.n; i++)
        for (uint32_t k = 0; k < m->n; k++)
            if (m->v[k].id == a->states.v[i]->id) {
                settle_alert(a->states.v[i], &m->v[k], 1u << s->index, now, webhook);
                break;
            }
    if (m->ends_round) {
        s->sent_changes = s->round_changes;
        s->resend_at = clock_mono() + MAX(a->rules->interval, RESEND_MIN);
    }
    a->dirty = true;
}

static void failed(struct alert_slot *s, const struct err *e, int64_t retry)
{
    uint64_t held;

    s->failed++;
    s->cursor = 0;
    s->error_at = alerts_now(s->owner);
    snprintf(s->error, sizeof s->error, "%.*s", ALERT_ERROR_SIZE - 1, e->message);
    s->retry_at = clock_mono() + MAX(backoff_next(&backoff, &s->backoff), retry);
    if (log_limited(&s->log, 60 * NS_PER_S, &held))
        log_warn("alerts: cannot notify %s: %s; retrying in %lld s", s->host, e->message,
                 (long long) ((s->retry_at - clock_mono()) / NS_PER_S + 1));
}

/* --- the thread --- */

static void send_one(struct alert_slot *s, struct alert_message *m)
{
    struct alerts *a = s->owner;
    struct alert_rules *rules = alert_rules_ref(a->rules);
    struct alert_post p = {.rules = rules, .url = s->url, .body = buf_str(&m->body), .cancel = &s->stop};
    struct err e = {0};
    int r = buf_error(&m->body);

    pthread_mutex_unlock(&a->lock);
    if (r == 0)
        r = alert_post(&p, &e);
    alert_rules_unref(rules);
    pthread_mutex_lock(&a->lock);
    if (r == 0 || r == -EPROTO) {
        settle(s, m);
        s->backoff = s->retry_at = 0;
    }
    if (r == 0) {
        s->sent++;
        s->error[0] = 0;
    } else if (r == -EPROTO) { /* it would refuse the same message for ever */
        s->given_up++;
        failed(s, &e, 0);
        s->backoff = s->retry_at = 0;
    } else if (r != -ECANCELED) {
        failed(s, &e, p.retry_after);
    }
}

static void *run_slot(void *arg)
{
    struct alert_slot *s = arg;
    struct alerts *a = s->owner;
    struct alert_message *m = mem_zalloc(sizeof *m);

    pthread_mutex_lock(&a->lock);
    while (m && !atomic_load(&s->stop)) {
        int64_t now = clock_mono(), next = INT64_MAX;
        bool manager = a->targets[s->index].kind == ALERT_ALERTMANAGER;

        buf_reset(&m->body);
        m->n = 0;
        m->ends_round = false;
        if (!a->rules)
            ; /* the first ones are about to be set */
        else if (now < s->retry_at)
            next = s->retry_at;
        else if (manager)
            make_round(a, s, m, now);
        else
            make_webhook(a, 1u << s->index, m);
        if (m->n)
            send_one(s, m);
        else
            alerts_wait(a, manager && a->rules && next == INT64_MAX ? MAX(s->resend_at, now + NS_PER_S) : next);
    }
    pthread_mutex_unlock(&a->lock);
    if (m)
        buf_done(&m->body);
    mem_free(m);
    return NULL;
}

/* --- slots --- */

static void free_slot(struct alerts *a, struct alert_slot *s)
{
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->states.n; i++)
        a->states.v[i]->notified &= ~(1u << s->index);
    a->targets[s->index] = (struct alert_target){0};
    mem_free(s->url);
    mem_free(s->host);
    *s = (struct alert_slot){.owner = a, .index = s->index};
    pthread_mutex_unlock(&a->lock);
}

static void stop_slot(struct alerts *a, struct alert_slot *s)
{
    if (!s->used)
        return;
    atomic_store(&s->stop, true);
    pthread_mutex_lock(&a->lock);
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(s->thread, NULL);
    free_slot(a, s);
}

static int start_slot(struct alerts *a, struct alert_slot *s, const struct alert_target *t, struct err *e)
{
    char name[16];
    int r;

    snprintf(name, sizeof name, "alert-send-%u", s->index);
    pthread_mutex_lock(&a->lock);
    s->url = mem_strdup(t->url);
    s->host = mem_strdup(t->host);
    a->targets[s->index] = (struct alert_target){.kind = t->kind, .url = s->url, .host = s->host, .id = t->id};
    r = s->url && s->host ? thread_start(&s->thread, name, run_slot, s, e) : -ENOMEM;
    s->used = r == 0;
    pthread_mutex_unlock(&a->lock);
    if (r < 0)
        free_slot(a, s);
    return r;
}

void alert_slots_stop(struct alerts *a)
{
    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++)
        atomic_store(&a->slots[i].stop, true);
    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++)
        stop_slot(a, &a->slots[i]);
}

static bool has_target(const struct alert_rules *rules, uint64_t id)
{
    for (uint32_t i = 0; i < rules->n_targets; i++)
        if (rules->targets[i].id == id)
            return true;
    return false;
}

/* The slot of a target, or a free one. There are as many slots as there may be targets. */
static struct alert_slot *find_slot(struct alerts *a, uint64_t id)
{
    struct alert_slot *empty = NULL;

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++) {
        if (a->slots[i].used && a->targets[i].id == id)
            return &a->slots[i];
        if (!a->slots[i].used && !empty)
            empty = &a->slots[i];
    }
    return empty;
}

int alert_slots_change(struct alerts *a, struct alert_rules *rules, struct err *e)
{
    uint32_t bits[ALERT_TARGETS_MAX] = {0};

    for (uint32_t i = 0; i < ALERT_TARGETS_MAX; i++)
        if (a->slots[i].used && !has_target(rules, a->targets[i].id))
            stop_slot(a, &a->slots[i]);
    for (uint32_t i = 0; i < rules->n_targets; i++) {
        struct alert_slot *s = find_slot(a, rules->targets[i].id);
        int r = s->used ? 0 : start_slot(a, s, &rules->targets[i], e);

        if (r < 0)
            return r;
        bits[i] = 1u << s->index;
    }
    for (uint32_t i = 0; i < rules->n; i++) {
        uint32_t from = rules->v[i].targets, to = 0;

        for (uint32_t k = 0; k < rules->n_targets; k++)
            to |= from & 1u << k ? bits[k] : 0;
        rules->v[i].targets = to;
    }
    return 0;
}
