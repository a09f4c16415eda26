/* SPDX-License-Identifier: Apache-2.0 */
/* See sender_state.h: jobs from their first attempt to their end, with retries in between. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pipeline/delivery/job.h"
#include "pipeline/graph/metrics.h"
#include "pipeline/delivery/qlog.h"
#include "pipeline/delivery/sender_state.h"

/* --- ends of jobs --- */

/* The log may forget everything below the oldest that is still needed. */
static void release_log(struct sender *s)
{
    uint64_t low = qlog_read_seq(s->log);

    for (struct job *j = s->jobs; j; j = j->next)
        low = MIN(low, j->first_seq ? j->first_seq : low);
    if (s->collecting && s->collecting->first_seq)
        low = MIN(low, s->collecting->first_seq);
    if (s->keep_seq)
        low = MIN(low, s->keep_seq);
    qlog_release(s->log, low);
}

void sender_end_job(struct sender *s, struct job *j, const struct ack_result *r, bool keep_in_log)
{
    job_unlink(&s->jobs, j);
    s->n_jobs--;
    loop_timer_cancel(&j->timer);
    job_ack(j, r);
    if (keep_in_log && j->first_seq)
        s->keep_seq = s->keep_seq ? MIN(s->keep_seq, j->first_seq) : j->first_seq;
    if (s->log && !keep_in_log)
        release_log(s);
    job_free(j);
}

static void job_fail(struct sender *s, struct job *j, const struct ack_result *r, const char *why)
{
    uint64_t held;

    metric_add(s->failed, j->items_left);
    if (log_limited(&s->log_failed, 10 * NS_PER_S, &held))
        log_error("%s: %s are dropped: %u %s: %s%s%s", s->id, signal_names[s->signal], j->items_left,
                  signal_items[s->signal], r->message, *why ? "; " : "", why);
    sender_end_job(s, j, r, false);
}

/* --- sending --- */

static void start_piece(struct sender *s, struct job *j)
{
    struct job_piece *p = &j->pieces[j->at];

    j->rq.body = buf_str(&p->body);
    j->rq.json = j->json;
    j->rq.items = p->items;
    j->rq.timeout = s->a.timeout;
    j->sending = true;
    metric_add(s->in_flight, 1);
    s->a.ops->send(s->a.arg, &j->rq);
}

static void retry_fire(struct loop_timer *t)
{
    struct job *j = container_of(t, struct job, timer);

    start_piece(j->sender, j);
}

static int64_t next_pause(const struct retry_config *c, struct job *j, int64_t told)
{
    double pause, spread;

    if (!j->pause)
        j->pause = (double) c->initial_interval;
    spread = j->pause * c->randomization_factor;
    pause = j->pause - spread + 2 * spread * drand48();
    j->pause = MIN(j->pause * (c->multiplier > 0 ? c->multiplier : 1), (double) c->max_interval);
    return MAX((int64_t) pause, told);
}

static void retry(struct sender *s, struct job *j, const struct ack_result *r)
{
    const struct retry_config *c = s->a.retry;
    int64_t now = clock_mono(), pause = next_pause(c, j, r->retry_ns);
    uint64_t held;

    if (s->draining) {
        if (s->log)
            sender_end_job(s, j, r, true); /* sent again after the next start */
        else
            job_fail(s, j, r, "shutting down");
        return;
    }
    if (!c->enabled) {
        job_fail(s, j, r, "retry_on_failure is off");
        return;
    }
    if (c->max_elapsed_time && now + pause - j->started > c->max_elapsed_time) {
        job_fail(s, j, r, "no more retries left");
        return;
    }
    if (log_limited(&s->log_failed, 10 * NS_PER_S, &held))
        log_warn("%s: exporting failed, trying again in %.1fs: %s", s->id, (double) pause / 1e9, r->message);
    j->timer.fire = retry_fire;
    loop_timer_set(s->loop, &j->timer, now + pause);
}

static void piece_done(struct sender *s, struct job *j, const struct ack_result *r)
{
    struct job_piece *p = &j->pieces[j->at];

    if (r->rejected || *r->message)
        log_warn("%s: the peer rejected %llu profiles: %s", s->id, (unsigned long long) r->rejected, r->message);
    metric_add(s->sent, p->items);
    j->items_left -= MIN(p->items, j->items_left);
    j->rejected += r->rejected;
    buf_done(&p->body);
    j->pause = 0;
    j->started = clock_mono();
    if (++j->at < j->n_pieces)
        start_piece(s, j);
    else
        sender_end_job(s, j, &(struct ack_result){.status = SINK_OK, .rejected = j->rejected}, false);
}

void sender_sent(struct send_request *rq, const struct ack_result *r)
{
    struct job *j = container_of(rq, struct job, rq);
    struct sender *s = j->sender;

    j->sending = false;
    metric_add(s->in_flight, -1);
    if (r->status == SINK_OK)
        piece_done(s, j, r);
    else if (sink_status_retryable(r))
        retry(s, j, r);
    else
        job_fail(s, j, r, "");
    sender_pump(s);
}

void sender_retry_now(struct sender *s)
{
    struct job *next;

    for (struct job *j = s->jobs; j; j = next) {
        next = j->next;
        if (j->sending)
            continue;
        loop_timer_cancel(&j->timer);
        start_piece(s, j);
    }
}

void sender_run_job(struct sender *s, struct job *j)
{
    struct err e = {0};
    int r;

    j->sender = s;
    j->started = clock_mono();
    job_link(&s->jobs, j);
    s->n_jobs++;
    r = job_encode(j, s->a.ops, s->a.arg, s->a.max_body, s->a.json, &e);
    if (r < 0) {
        struct ack_result res = {.status = SINK_INTERNAL};

        snprintf(res.message, sizeof res.message, "cannot encode: %.200s", err_message(&e, r));
        job_fail(s, j, &res, "");
        return;
    }
    start_piece(s, j);
}
