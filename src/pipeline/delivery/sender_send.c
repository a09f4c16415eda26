/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending stage of a sender: parcels from their first attempt to their end. The pieces of a parcel are sent one
 * after the other; a retry repeats one piece. A piece that the peer refuses permanently does not stop the ones after
 * it, and the parcel ends with the worst result of all of them.
 */
#include <errno.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "pipeline/delivery/sender_state.h"

#define DROP_LOG_NS (10 * NS_PER_S)

/* --- ends --- */

static void link_active(struct sender *s, struct parcel *p)
{
    p->next = s->active;
    p->prev = &s->active;
    if (p->next)
        p->next->prev = &p->next;
    s->active = p;
    s->n_active++;
}

void sender_end(struct sender *s, struct parcel *p, const struct ack_result *r)
{
    if (p->prev) {
        *p->prev = p->next;
        if (p->next)
            p->next->prev = p->prev;
        s->n_active--;
    }
    loop_timer_cancel(&p->timer);
    ack_complete(p->work.ack, r);
    parcel_free(p);
}

/* The items of the pieces that are not sent yet. */
static uint32_t items_left(const struct parcel *p)
{
    uint32_t n = 0;

    if (!p->pieces)
        return p->items;
    for (size_t i = p->at; i < p->n_pieces; i++)
        n += p->pieces[i].items;
    return n;
}

/* What was dropped since the last line is in the next one, which comes within DROP_LOG_NS: no loss goes unsaid. */
static void say_dropped(struct sender *s)
{
    if (!s->dropped)
        return;
    log_error("%s: dropped %s: %llu %s: %s", s->id, signal_names[s->signal], (unsigned long long) s->dropped,
              signal_items[s->signal], s->drop_reason);
    s->dropped = 0;
    s->dropped_at = clock_mono();
}

void sender_drop_fire(struct loop_timer *t)
{
    say_dropped(container_of(t, struct sender, drop_timer));
}

static void note_dropped(struct sender *s, uint32_t items, const char *message, const char *why)
{
    int64_t next = s->dropped_at ? s->dropped_at + DROP_LOG_NS : 0;

    metric_add(s->failed, items);
    s->dropped += items;
    snprintf(s->drop_reason, sizeof s->drop_reason, "%.400s%s%s", message, *why ? "; " : "", why);
    if (!s->loop || clock_mono() >= next)
        say_dropped(s);
    else if (!s->drop_timer.at)
        loop_timer_set(s->loop, &s->drop_timer, next);
}

/* Ends the parcel and counts what was not sent as dropped. */
static void drop(struct sender *s, struct parcel *p, const struct ack_result *r, const char *why)
{
    struct ack_result worst = p->worst;

    note_dropped(s, items_left(p), r->message, why);
    ack_result_join(&worst, r);
    sender_end(s, p, &worst);
}

void sender_give_back(struct sender *s, struct parcel *p, const char *why)
{
    struct ack_result r = {.status = SINK_UNAVAILABLE}, worst = p->worst;

    snprintf(r.message, sizeof r.message, "%.200s", why);
    if (!s->queue->persistent) {
        drop(s, p, &r, "");
        return;
    }
    ack_result_join(&worst, &r);
    sender_end(s, p, &worst); /* the queue keeps it */
}

/* --- attempts --- */

static void attempt(struct sender *s, struct parcel *p);

static void retry_fire(struct loop_timer *t)
{
    struct parcel *p = container_of(t, struct parcel, timer);
    struct sender *s = p->sender;

    attempt(s, p);
    sender_pump(s);
}

static int64_t next_pause(struct sender *s, struct parcel *p, int64_t retry_after)
{
    const struct retry_config *c = s->a.retry;
    const struct backoff b = {c->initial_interval, c->max_interval, c->multiplier, c->randomization_factor};

    return MAX(backoff_next(&b, &p->pause), retry_after);
}

/* After a retryable failure: pauses, or ends the parcel if it must not be tried again. */
static void retry(struct sender *s, struct parcel *p, const struct ack_result *r)
{
    int64_t now = clock_mono(), pause = next_pause(s, p, r->retry_ns);
    uint64_t held;

    if (s->draining && s->queue->persistent) {
        sender_give_back(s, p, r->message);
        return;
    }
    if (s->draining || !s->a.retry->enabled) {
        drop(s, p, r, s->draining ? "shutting down" : "retry_on_failure is off");
        return;
    }
    if (s->max_elapsed_time && now + pause - p->started > s->max_elapsed_time) {
        drop(s, p, r, "no more retries left");
        return;
    }
    if (log_limited(&s->log_failed, 10 * NS_PER_S, &held))
        log_warn("%s: exporting failed, trying again in %.1fs: %s", s->id, (double) pause / 1e9, r->message);
    p->state = PARCEL_PAUSED;
    p->timer.fire = retry_fire;
    loop_timer_set(s->loop, &p->timer, now + pause);
}

/* Records the result of a piece. Returns whether the next one is to be sent. */
static bool piece_done(struct sender *s, struct parcel *p, const struct ack_result *r)
{
    struct parcel_piece *x = &p->pieces[p->at];

    if (r->status == SINK_OK) {
        if (r->rejected || *r->message)
            log_warn("%s: the peer rejected %llu profiles: %s", s->id, (unsigned long long) r->rejected, r->message);
        metric_add(s->sent, x->items);
    } else if (sink_status_retryable(r)) {
        retry(s, p, r);
        return false;
    } else {
        note_dropped(s, x->items, r->message, "");
    }
    ack_result_join(&p->worst, r);
    buf_done(&x->own);
    p->pause = 0;
    p->started = clock_mono();
    if (++p->at < p->n_pieces)
        return true;
    sender_end(s, p, &p->worst);
    return false;
}

/* Sends pieces for as long as their results are available at once. */
static void send_pieces(struct sender *s, struct parcel *p)
{
    for (bool more = true; more;) {
        struct parcel_piece *x = &p->pieces[p->at];

        p->rq.body = x->bytes;
        p->rq.json = p->json;
        p->rq.items = x->items;
        p->rq.timeout = s->a.timeout;
        p->state = PARCEL_SENDING;
        p->starting = true;
        p->answered = false;
        metric_add(s->in_flight, 1);
        s->a.ops->send(s->a.arg, &p->rq);
        p->starting = false;
        if (!p->answered)
            return;
        p->state = PARCEL_PAUSED;
        more = piece_done(s, p, &p->answer);
    }
}

static void attempt(struct sender *s, struct parcel *p)
{
    struct ack_result res = {.status = SINK_INTERNAL};
    struct err e = {0};
    int r = p->pieces ? 0 : parcel_encode(p, &s->encoding, &e);

    if (r == 0) {
        send_pieces(s, p);
        return;
    }
    snprintf(res.message, sizeof res.message, "cannot encode: %.200s", err_message(&e, r));
    if (r == -ENOMEM) {
        res.status = SINK_UNAVAILABLE;
        retry(s, p, &res);
    } else {
        drop(s, p, &res, "");
    }
}

void sender_sent(struct send_request *rq, const struct ack_result *r)
{
    struct parcel *p = container_of(rq, struct parcel, rq);
    struct sender *s = p->sender;

    metric_add(s->in_flight, -1);
    if (p->starting) {
        p->answered = true;
        p->answer = *r;
        return;
    }
    p->state = PARCEL_PAUSED;
    if (piece_done(s, p, r))
        send_pieces(s, p);
    sender_pump(s);
}

void sender_retry_now(struct sender *s)
{
    struct parcel *next;

    for (struct parcel *p = s->active; p; p = next) {
        next = p->next;
        if (p->state == PARCEL_SENDING)
            continue;
        loop_timer_cancel(&p->timer);
        attempt(s, p);
    }
}

void sender_ship(struct sender *s, struct parcel *p)
{
    p->sender = s;
    p->started = clock_mono();
    link_active(s, p);
    attempt(s, p);
}
