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

/* An alert with its rule (NULL: it has none any more) and the public URL of the server, without a slash at its end. */
struct alert_view {
    const struct alert *alert;
    const struct alert_rule *rule;
    const char *url;
};

/* One alert of the API's list. error: of its delivery, may be empty. */
void alert_put_api(struct buf *out, const struct alert_view *v, const char *error);
/* The head of a webhook's message, to which alerts are added with alert_put_webhook() and commas; then "]}". */
void alert_put_webhook_head(struct buf *out, const struct alert_view *first, bool firing);
void alert_put_webhook(struct buf *out, const struct alert_view *v);
/* One alert for an Alertmanager. ends: when a firing one is over unless it is sent again. */
void alert_put_alertmanager(struct buf *out, const struct alert_view *v, int64_t ends);
/* "2026-11-16T05:00:00Z" in quotes, or null for 0. */
void alert_put_time(struct buf *out, int64_t ns);
/* A temporary alert of a finding, for messages about what would be sent. Its strings are the finding's, which must have a
 * NUL at their end. */
struct alert alert_of_finding(const struct alert_rule *r, const struct alert_finding *f, int64_t now);

#endif
