/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to src/alert: the running alerts and the threads that notify receivers. See alert.h. */
#ifndef ALERT_ALERT_SEND_H
#define ALERT_ALERT_SEND_H

#include <pthread.h>

#include "alert/alert.h"
#include "alert/alert_state.h"
#include "base/log.h"

enum { ALERT_ERROR_SIZE = 240 };

/* A receiver. Slots are never moved: bit i of alert.notified is slot i. */
struct alert_slot {
    struct alerts *owner;
    uint32_t index;
    bool used;
    char *url, *host; /* owned */
    pthread_t thread;
    atomic_bool stop;
    /* protected by the lock of the owner */
    int64_t retry_at, resend_at; /* monotonic */
    int64_t backoff;
    struct log_limit log;
    uint32_t sent_changes; /* Alertmanager: the changes that its last complete round began with */
    uint32_t round_changes;
    size_t cursor; /* Alertmanager: where its round goes on; 0: none is under way */
    uint64_t sent, failed, given_up;
    char error[ALERT_ERROR_SIZE];
    int64_t error_at; /* wall */
};

struct alerts {
    struct alerts_options o;
    char *url, *path;     /* of the server; of the directory, NULL: none */
    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t wake;  /* something changed; monotonic clock */
    bool stopping;
    struct alert_rules *rules;
    struct alert_states states;
    struct alert_target targets[ALERT_TARGETS_MAX]; /* by slot: kind and id */
    struct alert_slot slots[ALERT_TARGETS_MAX];
    struct alert_results *kept; /* per source: what recording rules found last */
    uint32_t n_kept;
    bool dirty; /* the file is out of date */
    uint64_t evaluations, failures, saves_failed;
    int64_t cpu_ns, lag_ns; /* of the evaluation; how late it is */
    /* the evaluating thread's own */
    pthread_t worker;
    bool has_worker;
    atomic_bool cancel;
    struct alert_cache cache;
};

/* Waits for a change, at most until this monotonic time (INT64_MAX: for ever). With the lock held. */
void alerts_wait(struct alerts *a, int64_t until);
int64_t alerts_now(const struct alerts *a); /* wall */
/* Starts a slot for each target of the rules that has none, stops the slots that are no longer used, and translates the
 * bits of the rules from targets to slots. Called without the lock, before the rules are published. */
int alert_slots_change(struct alerts *a, struct alert_rules *rules, struct err *e);
void alert_slots_stop(struct alerts *a);
/* Posts one message; a test passes its own cancel flag. Returns 0, -EAGAIN (worth another attempt) or another negative
 * errno, with an error message. */
struct alert_post {
    const struct alert_rules *rules;
    const char *url;
    struct str body;
    const atomic_bool *cancel;
    int64_t retry_after; /* set by the call: ns, 0 = not said */
};
int alert_post(struct alert_post *p, struct err *e);
/* How many alerts a receiver has still to be notified about. With the lock held. */
uint32_t alert_slot_waiting(const struct alerts *a, uint32_t slot);

#endif
