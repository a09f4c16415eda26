/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules, checked and compiled: what the evaluation and the delivery work with. Immutable after it was published except
 * for the fields marked so, and shared by threads through a reference count; it has its own copies of all strings, so
 * that the configuration it was made from may be freed.
 *
 * Rules that look at the same data share a source: the data is read once, and each rule looks at the answer.
 */
#ifndef ALERT_ALERT_RULES_H
#define ALERT_ALERT_RULES_H

#include <stdatomic.h>

#include "alert/alert_config.h"
#include "base/hash.h"
#include "model/labels.h"
#include "model/types.h"
#include "net/http.h"
#include "net/tls.h"

enum {
    ALERT_RULES_MAX = 10000,
    ALERT_TARGETS_MAX = 32,    /* receivers in total: one bit each */
    ALERT_FUNCTIONS_MAX = 50,  /* alerts of one rule and service */
    ALERT_RECORDED_MAX = 5000, /* time series of all recording rules */
};

/* What a limit is measured in. */
enum alert_unit { ALERT_SHARE, ALERT_RATE, ALERT_POINTS, ALERT_RATIO, ALERT_SECONDS };

struct alert_rule {
    const char *name, *tenant;
    const char *id;       /* of an added rule; "": of the configuration */
    const char *selector; /* as text, with its type */
    enum alert_type type;
    const char *function, *over; /* as written; NULL: not given */
    struct regex *regex;         /* of function; NULL: none */
    bool self, each;
    enum alert_unit unit;
    double limit, min_points, factor;
    enum alert_direction direction;
    int64_t window, baseline, hold, keep; /* ns */
    const struct label *labels;
    uint32_t n_labels;
    uint32_t source;
    uint32_t targets; /* bits: index in alert_rules.targets; set before it is published: slots of the delivery */
    /* How the last evaluation went. Protected by the lock of struct alerts. */
    struct {
        int64_t at, took_ns; /* at: wall; 0 = never */
        char error[256];
    } last;
};

struct alert_recording {
    const char *name, *tenant, *function;
    struct regex *regex; /* NULL: the whole selection */
    bool self;
    uint32_t limit, source;
    bool added; /* not from the configuration */
};

enum alert_source_kind { ALERT_TABLE, ALERT_DRIFTS, ALERT_VERDICTS, ALERT_RATES, ALERT_PRESENCE };

struct alert_source {
    enum alert_source_kind kind;
    const char *tenant, *selector;
    struct selector parsed;
    struct type value; /* of the selector; its name is empty when no type is known by that name */
    bool each;
    int64_t window, baseline;
    double min_points;            /* drifts and verdicts: smaller changes are not looked for */
    uint32_t *rules, *recordings; /* indices */
    uint32_t n_rules, n_recordings;
};

enum alert_target_kind { ALERT_WEBHOOK, ALERT_ALERTMANAGER };

struct alert_target {
    enum alert_target_kind kind;
    const char *url;  /* what is posted to */
    const char *host; /* what may be shown */
    uint64_t id;      /* of kind and URL, the same in every process */
};

struct alert_rules {
    atomic_uint refs;
    struct arena arena;
    struct alert_rule *v;
    struct alert_recording *recordings;
    struct alert_source *sources;
    struct alert_target targets[ALERT_TARGETS_MAX];
    uint32_t n, n_recordings, n_sources, n_targets;
    struct alert_invalid {
        const char *name, *tenant, *id, *problem;
    } * invalid; /* added rules that are not evaluated */
    uint32_t n_invalid;
    int64_t interval, repeat, timeout;
    bool allow_link_local;
    double budget; /* share of a core; 0: no limit */
    struct http_headers headers;
    struct tls_options tls;
};

/* A rule that is not of the configuration. One that cannot be compiled is left out and gets its problem: a change of the
 * configuration must not fail, nor a server not start, because of it. */
struct alert_added {
    struct alert_rule_config config;
    const struct conf_node *node; /* what it was read from: without a file */
    const char *id;
    bool invalid;
    struct err problem;
};

struct alert_added_list {
    struct alert_added *v;
    uint32_t n;
};

/* The two sections and their nodes, which error messages name with file, line and column. The nodes may be NULL. */
struct alert_sections {
    const struct alert_config *alerts;
    const struct option_tables *recording; /* of struct alert_recording_config */
    const struct conf_node *alerts_node, *recording_node;
    const struct option_tables *added;    /* recording rules from elsewhere; may be NULL */
    struct alert_added_list *added_rules; /* alert rules from elsewhere; may be NULL */
};

int alert_rules_new(const struct alert_sections *s, struct alert_rules **ret, struct err *e);
struct alert_rules *alert_rules_ref(struct alert_rules *r);
void alert_rules_unref(struct alert_rules *r);
DEFINE_CLEANUP(struct alert_rules *, alert_rules_unref)

/* Parses a limit for values of this type: "20%" is a share; "1.5 cores", "100MiB/s", "12/s", "2GiB" and plain numbers
 * are what the type allows, per covered second unless it is a gauge. The error message does not name the file. */
int alert_limit_parse(struct str text, const struct type *t, enum alert_unit *ret_unit, double *ret, struct err *e);
/* The service that a selector names, if it names exactly one; else empty. (alert_eval.c) */
struct str alert_service_of(const struct selector *s);
/* "5m", "1h30m": as wick.yaml has it. */
void alert_put_duration(struct buf *out, int64_t ns);

#endif
