/* SPDX-License-Identifier: Apache-2.0 */
/* The sections `alerts` and `recording` of wick.yaml, as they are written. alert_rules.h checks and compiles them. */
#ifndef ALERT_ALERT_CONFIG_H
#define ALERT_ALERT_CONFIG_H

#include <stdbool.h>

#include "conf/option.h"

enum alert_type { ALERT_DRIFT, ALERT_VERDICT, ALERT_THRESHOLD, ALERT_SPIKE, ALERT_LOST };
enum alert_direction { ALERT_UP, ALERT_DOWN, ALERT_BOTH };
enum alert_of { ALERT_OF_TOTAL, ALERT_OF_SELF };

struct alert_rule_config {
    const char *name, *tenant, *selector, *function, *over;
    int type, of, direction;              /* enum alert_type, alert_of, alert_direction */
    int64_t window, baseline, hold, keep; /* ns; window 0: the type's default */
    bool has_hold, has_each, each;        /* has_*: given in the file */
    double min_points, factor;
    struct option_map labels;
    struct option_strings webhooks, alertmanagers;
};

struct alert_recording_config {
    const char *name, *tenant, *selector, *function;
    int of;
    bool each;
    int64_t window, limit;
};

struct alert_tls_config {
    const char *ca_file, *cert_file, *key_file;
    bool insecure_skip_verify;
};

struct alert_config {
    struct option_strings webhooks, alertmanagers;
    struct option_map headers;
    struct alert_tls_config tls;
    bool allow_link_local;
    int64_t interval, repeat, timeout; /* ns */
    double budget;                     /* percent of a core */
    struct option_tables rules;        /* of struct alert_rule_config */
};

extern const struct option alert_options[];      /* of struct alert_config */
extern const struct option alert_rule_options[]; /* of struct alert_rule_config */
extern const struct option recording_options[];  /* of struct alert_recording_config */
extern const char *const alert_type_names[];     /* by enum alert_type, NULL-terminated */

#endif
