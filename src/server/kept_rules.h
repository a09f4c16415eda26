/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that people add while the server runs, beside those of the configuration: alert rules (alert_definition.h), and
 * recording rules of clients of Pyroscope's API. They are kept in a file per tenant and kind (tenant_files.h), and evaluated like
 * those of the configuration (alert_rules.h).
 *
 * Safe from any thread. One change is made at a time: the new list is first activated, then written, so that a rule
 * that cannot be compiled is refused and nothing is kept of it.
 */
#ifndef SERVER_KEPT_RULES_H
#define SERVER_KEPT_RULES_H

#include "alert/alert_definition.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/record.h"
#include "base/str.h"
#include "conf/option.h"

enum {
    KEPT_RULES_MAX = 100, /* of a tenant and kind */
    KEPT_RULES_ALL = 2000,
    KEPT_ALERTS_ALL = 1000,
    RECORDING_MATCHERS_MAX = 16,
    KEPT_RULE_BYTES = 4096, /* texts of one rule; all rules then fit into memory */
};

struct tenant_files;

struct recording_rule {
    struct str tenant, id, metric, function; /* function: a whole name; empty: the whole selection */
    struct str selector;                     /* in wick's form, with its type */
    struct record_list matchers;             /* of struct str, as sent */
    bool by_service;                         /* whether it was sent with group_by: service_name */
    int64_t generation;
};

/* Of recording rules or of alert_definitions. */
struct kept_list {
    struct arena arena;
    struct record_list rules;
};
void kept_list_done(struct kept_list *l);

/* Activates the rules of a configuration (base) and these: recording rules (struct alert_recording_config) and alert rules, whose
 * problems are noted in them. */
typedef int (*kept_apply_fn)(void *ctx, const void *base, const struct option_tables *recording,
                             struct alert_added_list *alerts, struct err *e);

struct kept_rules;

/* Reads the files; one that cannot be read is set aside. No rule is active before kept_rules_apply(); base is used until then. */
int kept_rules_new(struct tenant_files *files, kept_apply_fn apply, void *ctx, const void *base,
                   struct kept_rules **ret, struct err *e);
void kept_rules_free(struct kept_rules *r);
/* Activates the rules together with those of a configuration, which must live until the next call. */
int kept_rules_apply(struct kept_rules *r, const void *base, struct err *e);
/* The same at the start: recording rules of a tenant that cannot be activated are set aside, and those of the others are active. */
int kept_rules_start(struct kept_rules *r, const void *base, struct err *e);

/* For the following, r may be NULL: there are no rules, and none can be added. */

/* A copy of the rules of a tenant, to be freed on success: of struct recording_rule, and of struct alert_definition. */
int kept_recordings_list(struct kept_rules *r, struct str tenant, struct kept_list *ret);
int kept_alerts_list(struct kept_rules *r, struct str tenant, struct kept_list *ret);
/* Adds a rule, or replaces the one with its id; sets its generation. -EEXIST when the generation is not that of the kept
 * rule, -EDQUOT over KEPT_RULES_MAX or _ALL, -EINVAL for what cannot be compiled. */
int kept_recordings_put(struct kept_rules *r, struct recording_rule *rule, struct err *e);
int kept_recordings_remove(struct kept_rules *r, struct str tenant, struct str id, struct err *e); /* -ENOENT */
/* Adds a rule, or, if `replace`, replaces the one with its id. -ENOENT, -EDQUOT, -EINVAL, and -EEXIST when another rule has its
 * name. */
int kept_alerts_put(struct kept_rules *r, const struct alert_definition *rule, bool replace, struct err *e);
int kept_alerts_remove(struct kept_rules *r, struct str tenant, struct str id, struct err *e); /* -ENOENT */

#endif
