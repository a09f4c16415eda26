/* SPDX-License-Identifier: Apache-2.0 */
/* The option tables of the sections `alerts` and `recording` (alert_config.h). */
#include "alert/alert_config.h"

#define RULE(f) offsetof(struct alert_rule_config, f)
#define RECORDING(f) offsetof(struct alert_recording_config, f)
#define ALERTS(f) offsetof(struct alert_config, f)
#define ALERT_TLS(f) offsetof(struct alert_tls_config, f)

const char *const alert_type_names[] = {"drift", "verdict", "threshold", "spike", "lost", NULL};
static const char *const directions[] = {"up", "down", "both", NULL};
static const char *const parts[] = {"total", "self", NULL};

const struct option alert_rule_options[] = {
    {"name", OPT_STRING, RULE(name), NULL, "name of the rule, unique for its tenant", .required = true},
    {"type", OPT_ENUM, RULE(type), NULL, "drift, verdict, threshold, spike or lost: see docs/alerts.md",
     .words = alert_type_names, .required = true},
    {"tenant", OPT_STRING, RULE(tenant), NULL, "tenant whose profiles it watches (default: the default tenant)"},
    {"selector", OPT_STRING, RULE(selector), NULL,
     "profiles that it watches, as in cpu{service.name=\"checkout\"} (default: everything of type cpu; spike: alloc)"},
    {"function", OPT_STRING, RULE(function), NULL,
     "regular expression for whole names of functions: one alert for each; drift, threshold"},
    {"of", OPT_ENUM, RULE(of), "total", "threshold: total (with what it calls) or self", .words = parts},
    {"over", OPT_STRING, RULE(over), NULL,
     "threshold: limit, as in 20%, 1.5 cores, 100MiB/s or 2GiB; lost: share of refused profiles (5%)"},
    {"window", OPT_DURATION, RULE(window), "0s",
     "time that is looked at (default: 10m; threshold, spike: 5m; verdict: chosen by the data)"},
    {"baseline", OPT_DURATION, RULE(baseline), "1d",
     "drift: what it is compared with: 1d is the same hour a day ago, 1w a week ago, less than 12h the time just before the window; "
     "spike, lost: how far they look back"},
    {"min_points", OPT_DOUBLE, RULE(min_points), "2", "drift, verdict: smallest change, in percentage points"},
    {"factor", OPT_DOUBLE, RULE(factor), "3", "spike: how many times the median of the baseline"},
    {"direction", OPT_ENUM, RULE(direction), "up", "drift: functions that grow (up), shrink (down) or both",
     .words = directions},
    {"for", OPT_DURATION, RULE(hold), NULL,
     "how long the condition must hold before the alert fires (default: 10m; verdict, lost: 0s)",
     .present = RULE(has_hold)},
    {"keep", OPT_DURATION, RULE(keep), "5m", "how long the condition must be over before the alert is resolved"},
    {"each_service", OPT_BOOL, RULE(each), NULL,
     "one evaluation for each service that the selector matches (default: false; verdict, lost: true)",
     .present = RULE(has_each)},
    {"labels", OPT_MAP, RULE(labels), NULL, "labels of its alerts, such as severity: page"},
    {"webhooks", OPT_STRINGS, RULE(webhooks), NULL, "receivers of this rule's alerts instead of alerts.webhooks",
     .secret = true},
    {"alertmanagers", OPT_STRINGS, RULE(alertmanagers), NULL,
     "Alertmanagers of this rule's alerts instead of alerts.alertmanagers"},
    {0},
};

static const struct option alert_tls_options[] = {
    {"ca_file", OPT_STRING, ALERT_TLS(ca_file), NULL, "CAs of the receivers (default: those of the system)"},
    {"cert_file", OPT_STRING, ALERT_TLS(cert_file), NULL, "client certificate, PEM"},
    {"key_file", OPT_STRING, ALERT_TLS(key_file), NULL, "its private key, PEM"},
    {"insecure_skip_verify", OPT_BOOL, ALERT_TLS(insecure_skip_verify), "false",
     "do not verify the certificates of receivers"},
    {0},
};

const struct option alert_options[] = {
    {"webhooks", OPT_STRINGS, ALERTS(webhooks), NULL,
     "URLs that alerts are posted to, in the format of Alertmanager's webhooks (version 4)", .secret = true},
    {"alertmanagers", OPT_STRINGS, ALERTS(alertmanagers), NULL,
     "Alertmanagers, such as http://localhost:9093: alerts are posted to /api/v2/alerts"},
    {"headers", OPT_MAP, ALERTS(headers), NULL,
     "headers of these requests, as in authorization: \"Bearer ${file:/etc/wick/hook-token}\"", .secret = true},
    {"tls", OPT_TABLE, ALERTS(tls), NULL, "TLS settings for https receivers", .table = alert_tls_options},
    {"allow_link_local", OPT_BOOL, ALERTS(allow_link_local), "false",
     "also send to 169.254.0.0/16 and fe80::/10, where clouds serve credentials"},
    {"interval", OPT_DURATION, ALERTS(interval), "1m", "how often each rule is evaluated"},
    {"budget", OPT_DOUBLE, ALERTS(budget), "5",
     "CPU limit of the evaluation, in percent of a core; beyond it rules are evaluated less often; 0: no limit"},
    {"repeat", OPT_DURATION, ALERTS(repeat), "4h",
     "time between reminders to a webhook of an alert that is still firing; 0s: none"},
    {"timeout", OPT_DURATION, ALERTS(timeout), "10s", "time limit of one request to a receiver"},
    {"rules", OPT_TABLES, ALERTS(rules), NULL,
     "the rules (default: if there are receivers, a rule of type verdict for every service)",
     .table = alert_rule_options, .size = sizeof(struct alert_rule_config)},
    {0},
};

const struct option recording_options[] = {
    {"name", OPT_STRING, RECORDING(name), NULL, "value of the label rule", .required = true},
    {"tenant", OPT_STRING, RECORDING(tenant), NULL, "tenant (default: the default tenant)"},
    {"selector", OPT_STRING, RECORDING(selector), NULL,
     "profiles, as in cpu{service.name=\"checkout\"} (default: cpu)"},
    {"function", OPT_STRING, RECORDING(function), NULL,
     "regular expression for whole names of functions (default: the whole selection)"},
    {"of", OPT_ENUM, RECORDING(of), "total", "total (with what it calls) or self", .words = parts},
    {"each_service", OPT_BOOL, RECORDING(each), "false", "one evaluation for each service that the selector matches"},
    {"window", OPT_DURATION, RECORDING(window), "5m", "time over which the mean is taken"},
    {"limit", OPT_INT, RECORDING(limit), "20", "functions, largest first; at most 100"},
    {0},
};
