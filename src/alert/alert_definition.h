/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alert rules that people add while the server runs, as they are sent and kept. What the members mean, their defaults and their
 * checks are those of alerts.rules in wick.yaml (alert_config.h): a definition is read by the same option table. It has neither
 * receivers nor a tenant of its own: messages go where the configuration sends them.
 */
#ifndef ALERT_ALERT_DEFINITION_H
#define ALERT_ALERT_DEFINITION_H

#include "alert/alert_rules.h"
#include "base/record.h"

struct alert_definition {
    struct str tenant, id; /* set by the program */
    struct str name, type, selector, function, of, over, window, baseline, direction, hold, keep;
    struct record_list labels; /* of struct record_entry */
    double min_points, factor;
    bool has_min_points, has_factor, has_each, each;
};
extern const struct record_field alert_definition_fields[];

/* A definition as alert_rules_new() takes it; what it points to lives as long as c. An invalid one succeeds, and gets its problem.
 * -ENOMEM. */
int alert_definition_read(const struct alert_definition *d, struct conf *c, struct alert_added *ret);

#endif
