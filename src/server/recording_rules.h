/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording rules that clients of Pyroscope's API add, beside those of the configuration. They are kept in one file per
 * tenant (tenant_files.h) and evaluated like those of the configuration (alert_rules.h): a rule records the cost of the
 * functions of one name, or of the whole selection, by service.
 *
 * Safe from any thread. One change is made at a time: the new list is first activated, then written, so that a rule
 * that cannot be compiled is refused and nothing is kept of it.
 */
#ifndef SERVER_RECORDING_RULES_H
#define SERVER_RECORDING_RULES_H

#include "base/arena.h"
#include "base/err.h"
#include "base/record.h"
#include "base/str.h"
#include "conf/option.h"

enum {
    RECORDING_RULES_MAX = 100, /* of a tenant */
    RECORDING_RULES_ALL = 2000,
    RECORDING_MATCHERS_MAX = 16,
    RECORDING_RULE_BYTES = 4096, /* matchers and function name of one rule; all rules then fit into memory */
};

struct tenant_files;

struct recording_rule {
    struct str tenant, id, metric, function; /* function: a whole name; empty: the whole selection */
    struct str selector;                     /* in wick's form, with its type */
    struct record_list matchers;             /* of struct str, as sent */
    bool by_service;                         /* whether it was sent with group_by: service_name */
    int64_t generation;
};

struct recording_list {
    struct arena arena;
    struct recording_rule *v;
    uint32_t n;
};
void recording_list_done(struct recording_list *l);

/* Activates the rules of a configuration (base) and these (struct alert_recording_config). */
typedef int (*recording_apply_fn)(void *ctx, const void *base, const struct option_tables *more, struct err *e);

struct recording_rules;

/* Reads the files; one that cannot be read is set aside. No rule is active before recording_rules_apply(); base is used until then. */
int recording_rules_new(struct tenant_files *files, recording_apply_fn apply, void *ctx, const void *base,
                        struct recording_rules **ret, struct err *e);
void recording_rules_free(struct recording_rules *r);
/* Activates the rules together with those of a configuration, which must live until the next call. */
int recording_rules_apply(struct recording_rules *r, const void *base, struct err *e);
/* The same at the start: rules of a tenant that cannot be activated are set aside, and those of the others are. */
int recording_rules_start(struct recording_rules *r, const void *base, struct err *e);

/* For the following, r may be NULL: there are no rules, and none can be added. */

/* A copy of the rules of a tenant, to be freed on success. */
int recording_rules_list(struct recording_rules *r, struct str tenant, struct recording_list *ret);
/* Adds a rule, or replaces the one with its id; sets its generation. -EEXIST when the generation is not that of the kept
 * rule, -EDQUOT over RECORDING_RULES_MAX or _ALL, -EINVAL for what cannot be compiled. */
int recording_rules_put(struct recording_rules *r, struct recording_rule *rule, struct err *e);
int recording_rules_remove(struct recording_rules *r, struct str tenant, struct str id, struct err *e); /* -ENOENT */

#endif
