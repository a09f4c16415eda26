/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of alerts. Each evaluation of a rule gives findings: what is wrong now. A finding becomes an alert:
 *
 *     (none) ── found ──▶ pending ── found for `for` ──▶ firing ── not found for `keep` ──▶ resolved ── notified ──▶ (none)
 *                            └── not found ──▶ (none)                          ▲──── found again: pending or firing
 *
 * Delivery is by state, not by a queue of messages: an alert keeps one bit for each receiver that was notified that it
 * fires. A receiver that was away learns the present state, never a list of old ones, and nothing grows while it is away.
 *
 * Not thread-safe: struct alerts (alert.h) protects it with its lock. Time is an argument, for tests.
 */
#ifndef ALERT_ALERT_STATE_H
#define ALERT_ALERT_STATE_H

#include "alert/alert_rules.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* One tenant may have half of all alerts, so that another one finds room. */
enum { ALERTS_MAX = 20000, ALERTS_OF_TENANT_MAX = ALERTS_MAX / 2, ALERT_TEXT_MAX = 2000 };

enum alert_stage { ALERT_PENDING, ALERT_FIRING, ALERT_RESOLVED };
extern const char *const alert_stage_names[]; /* by enum alert_stage, NULL-terminated */
extern const char *const alert_unit_names[];  /* by enum alert_unit, NULL-terminated */

/* Something that is wrong now. Strings belong to the maker's arena. */
struct alert_finding {
    struct str service, function, version; /* identify it; empty where they do not apply */
    double value, limit;
    enum alert_unit unit;
    struct str summary; /* one sentence */
    struct str link;    /* path and query of the page that shows it, without a slash before it */
    bool as_before;     /* not known at present: an alert stays what it is, and none begins */
    bool of_service;    /* with as_before: about every alert of the service */
};

struct alert {
    char *tenant, *rule;
    char *service, *function, *version, *summary, *link;
    enum alert_type type;
    enum alert_stage stage;
    int64_t active, since, seen; /* found for the first time without a break; the stage began; found last: wall, ns */
    double value, limit;
    enum alert_unit unit;
    uint64_t id;         /* of tenant, rule, service, function and version: the same in every process */
    uint32_t notified;   /* bits: slots of receivers that were notified that it fires */
    uint32_t change;     /* number of the last change of stage, for those who work on a copy */
    uint32_t remind;     /* bits: webhooks to be notified again */
    int64_t notified_at; /* the last time that webhooks were notified or reminded; wall, ns */
    uint32_t at;         /* index of its rule in the rules that the states are bound to; ALERT_NO_RULE: it has none */
};
#define ALERT_NO_RULE UINT32_MAX

struct alert_states {
    struct alert **v;
    size_t n, cap;
    uint32_t changes; /* counts changes of stages */
    uint64_t dropped; /* findings over ALERTS_MAX or ALERTS_OF_TENANT_MAX */
};

void alert_states_done(struct alert_states *s);
void alert_free(struct alert *a); /* accepts NULL */
DEFINE_CLEANUP(struct alert *, alert_free)
/* Finds the rule of each alert by tenant and name. To be called when the rules were replaced, before all else; alerts
 * without a rule are resolved by the next sweep. */
int alert_states_bind(struct alert_states *s, const struct alert_rules *rules);
/* Takes the findings of one evaluation of the rule at this index; n may be 0. Returns the number of alerts whose stage
 * changed, or -ENOMEM, in which case the alerts that were handled so far have their new state. */
int alert_states_apply(struct alert_states *s, const struct alert_rules *rules, uint32_t index,
                       const struct alert_finding *v, uint32_t n, int64_t now);
/* Resolves alerts without a rule, forgets resolved ones of which every receiver is notified, and marks those that webhooks are to
 * be reminded of. used: slots that have a receiver; webhooks: those of them that are webhooks. */
struct alert_sweep {
    uint32_t used, webhooks;
    int64_t repeat, now;
};
void alert_states_sweep(struct alert_states *s, const struct alert_sweep *w);

/* --- the file ---
 *
 * JSON: {"version":1,"alerts":[{"tenant":…,"rule":…,"stage":…,"notified":["id of a receiver"],…}]}. The bits of receivers are
 * written as their ids, since slots differ between processes. */
void alert_states_print(const struct alert_states *s, const struct alert_target *targets, struct buf *out);
/* Adds what the text has; unknown keys are ignored. -EINVAL with an error message. */
int alert_states_read(struct alert_states *s, struct str text, const struct alert_target *targets, struct err *e);

#endif
