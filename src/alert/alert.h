/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alerts of a running server. One thread evaluates the rules, spread over the interval, and never waits for a receiver;
 * each receiver has a thread of its own, so that one that does not answer delays neither the evaluation nor the others.
 * States are kept in the file alerts.json of the store's directory and survive a restart.
 *
 * Lock order: there is one lock, and no file or network call is made while it is held. Functions may be called from any
 * thread, except alerts_change() and alerts_free(), which one thread calls.
 */
#ifndef ALERT_ALERT_H
#define ALERT_ALERT_H

#include "alert/alert_eval.h"

struct alert_definition;
struct alerts;

struct alerts_options {
    struct store *store;
    struct names *names;      /* may be NULL */
    struct span_index *spans; /* of traces; may be NULL */
    const char *dir;          /* directory of the file; NULL: states are not kept */
    const char *url;          /* public URL of the server, for links */
    size_t memory_limit;      /* of one evaluation */
    void (*losses)(void *ctx, const char *tenant, struct str service, struct alert_losses *ret);
    void *losses_ctx;
    int64_t (*now)(void); /* NULL = clock_wall; tests replace it */
};

/* Takes a reference to the rules. The strings of o are copied. */
int alerts_new(const struct alerts_options *o, struct alert_rules *rules, struct alerts **ret, struct err *e);
void alerts_free(struct alerts *a);
DEFINE_CLEANUP(struct alerts *, alerts_free)
/* The public URL, when it becomes known only later. */
int alerts_set_url(struct alerts *a, const char *url);
/* Replaces the rules, and the public URL unless it is NULL. Alerts of rules that have the same name and tenant go on. On
 * failure the old rules stay in force. */
int alerts_change(struct alerts *a, struct alert_rules *rules, const char *url, struct err *e);

/* {"rules":[…],"alerts":[…],…} of one tenant (docs/alerts.md). */
int alerts_json(struct alerts *a, const char *tenant, struct buf *out);
/* Evaluates the rule of this name, or all if it is empty, and prints what it finds; no state changes. send: posts one
 * test message to each receiver. -ENOENT when the tenant has no such rule. */
struct alerts_test {
    const char *tenant;
    struct str rule;
    bool send;
    const atomic_bool *cancel;
};
int alerts_test(struct alerts *a, const struct alerts_test *t, struct buf *out, struct err *e);
/* The same of a rule that is only tried: of the tenant of the definition. -EINVAL when it is no valid rule. */
int alerts_try(struct alerts *a, const struct alert_definition *d, const atomic_bool *cancel, struct buf *out,
               struct err *e);
/* Calls fn for each recording rule of the configuration that a tenant has, with what it selects; a result other than 0 ends
 * it. fn must not call back. */
typedef int (*alerts_recording_fn)(void *ctx, const struct alert_recording *r, const struct alert_source *s);
int alerts_each_recording(struct alerts *a, const char *tenant, alerts_recording_fn fn, void *ctx);
/* Lines for /metrics: about the evaluation, and what the recording rules found. */
void alerts_metrics(struct alerts *a, struct buf *out);

/* A rule for this selection and function, as YAML to be pasted into wick.yaml. type may be empty. (alert_yaml.c) */
int alert_rule_yaml(struct str query, struct str function, struct str type, struct buf *out, struct err *e);

#endif
