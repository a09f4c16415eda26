/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording rules that clients of Pyroscope's API add, beside those of the configuration. They are kept in one file for all
 * tenants (tenant_files.h) and evaluated like those of the configuration (alert_rules.h): a rule records the cost of the
 * functions of one name, or of the whole selection, by service.
 *
 * Safe from any thread. One change is made at a time: the new list is first activated, then written, so that a rule
 * that cannot be compiled is refused and nothing is kept of it.
 */
#ifndef SERVER_RECORDING_RULES_H
#define SERVER_RECORDING_RULES_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "conf/option.h"

enum { RECORDING_RULES_MAX = 100, RECORDING_RULES_ALL = 2000, RECORDING_MATCHERS_MAX = 16 };

struct tenant_files;

struct recording_rule {
    struct str tenant, id, metric, function;               /* function: a whole name; empty: the whole selection */
    struct str matchers[RECORDING_MATCHERS_MAX], selector; /* as sent; and in wick's form, with its type */
    uint32_t n_matchers;
    bool by_service; /* whether it was sent with group_by: service_name */
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

/* Reads the file. No rule is active before recording_rules_apply(); base is used until then. */
int recording_rules_new(struct tenant_files *files, recording_apply_fn apply, void *ctx, const void *base,
                        struct recording_rules **ret, struct err *e);
void recording_rules_free(struct recording_rules *r);
/* Activates the rules together with those of a configuration, which must live until the next call. */
int recording_rules_apply(struct recording_rules *r, const void *base, struct err *e);

/* For the following, r may be NULL: there are no rules, and none can be added. */

/* A copy of the rules of a tenant, to be freed on success. */
int recording_rules_list(struct recording_rules *r, struct str tenant, struct recording_list *ret);
/* Adds a rule, or replaces the one with its id; sets its generation. -EEXIST when the generation is not that of the kept
 * rule, -EDQUOT over RECORDING_RULES_MAX, -EINVAL for what cannot be compiled. */
int recording_rules_put(struct recording_rules *r, struct recording_rule *rule, struct err *e);
int recording_rules_remove(struct recording_rules *r, struct str tenant, struct str id, struct err *e); /* -ENOENT */

#endif
