/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alerts as JSON: for the API, and for receivers. A webhook gets what Alertmanager's webhook_config sends (version 4), so
 * that existing receivers understand it:
 *
 *     {"version":"4","groupKey":…,"status":"firing","receiver":"wick","groupLabels":{"alertname":…},"commonLabels":{…},
 *      "commonAnnotations":{},"externalURL":…,"truncatedAlerts":0,"alerts":[ALERT,…]}
 *
 * and an Alertmanager the list that POST /api/v2/alerts takes.
 */
#ifndef ALERT_ALERT_JSON_H
#define ALERT_ALERT_JSON_H

#include "alert/alert_state.h"
#include "base/record.h"

/* An alert with its rule (NULL: it has none any more) and the public URL of the server, without a slash at its end. */
struct alert_view {
    const struct alert *alert;
    const struct alert_rule *rule;
    const char *url;
};

/* The API's answers, and what `wick alerts` reads of them. */
struct alert_row {
    const char *rule, *service, *function, *version, *summary, *url, *delivery_error;
    enum alert_type type;
    enum alert_stage stage;
    enum alert_unit unit;
    int64_t since, active;
    double value, limit;
    uint64_t fingerprint;
};

struct alert_rule_row {
    const char *name, *id, *selector, *function, *over, *window, *baseline, *hold, *error;
    enum alert_type type;
    int state; /* inactive, pending, firing */
    double min_points, milliseconds;
    int64_t evaluated;
};

struct alert_target_row {
    enum alert_target_kind kind;
    const char *host, *error;
    uint64_t sent, failed, waiting;
    int64_t error_at;
};

struct alerts_answer {
    int64_t now;
    double interval; /* seconds */
    const char *url;
    struct record_list rules, alerts, targets; /* targets: of the default tenant only */
};
extern const struct record_field alert_row_fields[], alert_rule_row_fields[], alerts_answer_fields[];
extern const char *const alert_rule_states[]; /* NULL-terminated */

/* What the rules find now, and where test messages went. */
struct alert_tested_row {
    const char *name, *error;
    struct record_list alerts; /* of struct alert_row */
};

struct alerts_tested {
    struct record_list rules, sent; /* of struct alert_target_row, with host and error only */
};
extern const struct record_field alerts_tested_fields[];

/* The row of an alert; its URL is in the arena. delivery_error may be empty. */
struct alert_row alert_row_of(const struct alert_view *v, const char *delivery_error, struct arena *a);
/* The head of a webhook's message, to which alerts are added with alert_put_webhook() and commas; then "]}". */
void alert_put_webhook_head(struct buf *out, const struct alert_view *first, bool firing);
void alert_put_webhook(struct buf *out, const struct alert_view *v);
/* One alert for an Alertmanager. ends: when a firing one is over unless it is sent again. */
void alert_put_alertmanager(struct buf *out, const struct alert_view *v, int64_t ends);
/* A temporary alert of a finding, for messages about what would be sent. Its strings are the finding's, which must have a
 * NUL at their end. */
struct alert alert_of_finding(const struct alert_rule *r, const struct alert_finding *f, int64_t now);

#endif
