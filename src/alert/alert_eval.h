/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates rules: reads the data of a source once and lets each of its rules look at it. Has no state but the cache
 * that the caller passes, and changes nothing: a rule can be evaluated at any time to see what it would find.
 */
#ifndef ALERT_ALERT_EVAL_H
#define ALERT_ALERT_EVAL_H

#include "alert/alert_rules.h"
#include "alert/alert_state.h"
#include "store/store.h"

struct names;
struct query;
struct query_params;
struct span_index;

/* Profiles of a service that arrived, and those of them that were refused, since the server started. */
struct alert_losses {
    uint64_t received, refused;
};

/* What is remembered between evaluations. A cache belongs to one thread. */
enum { ALERT_CACHE_MAX = 5000 };
struct alert_cache {
    struct alert_cached {
        uint64_t key;
        int64_t until; /* wall, ns */
        double usual, spread;
        uint32_t windows;
        int64_t at; /* when the losses were read */
        struct alert_losses losses;
    } * v;
    size_t n, cap;
};
void alert_cache_done(struct alert_cache *c);

struct alert_eval {
    struct store *store;
    struct names *names;      /* of frames that lack one; may be NULL */
    struct span_index *spans; /* verdicts per request; may be NULL */
    int64_t now;
    size_t memory_limit;
    const atomic_bool *cancel;
    struct alert_cache *cache; /* NULL: none */
    /* May be NULL. */
    void (*losses)(void *ctx, const char *tenant, struct str service, struct alert_losses *ret);
    void *losses_ctx;
};

struct alert_recorded {
    uint32_t recording; /* index in alert_rules.recordings */
    struct str service, function;
    double rate, share; /* rate: cores, or the type's unit per second; a gauge's value */
    const struct type *type;
};

struct alert_found {
    struct alert_finding *v;
    size_t n, cap;
    bool unknown; /* there is too little data to decide: alerts stay as they are */
};

struct alert_results {
    struct arena arena;        /* owns the strings */
    struct alert_found *rules; /* parallel to alert_source.rules */
    uint32_t n_rules;
    struct alert_recorded *recorded;
    size_t n_recorded, cap_recorded;
    char problem[200]; /* why some services could not be evaluated; empty otherwise */
};

/* *ret must be freed with alert_results_done(), on failure too. */
int alert_evaluate(struct alert_eval *x, const struct alert_rules *rules, uint32_t source, struct alert_results *ret,
                   struct err *e);
void alert_results_done(struct alert_results *r);

/* --- shared by the files that implement it --- */

/* One evaluation of a source, for all it selects or for one service of it. */
struct alert_look {
    struct alert_eval *eval;
    const struct alert_rules *rules;
    const struct alert_source *source;
    struct alert_results *out;
    struct str service;   /* empty: not known */
    const char *selector; /* with the service */
    int64_t from, to;     /* the window */
};

/* alert_checks.c */
int alert_look_drift(struct alert_look *l, struct err *e);
int alert_look_verdict(struct alert_look *l, struct err *e);
int alert_look_spike(struct alert_look *l, struct err *e);
int alert_look_presence(struct alert_look *l, struct err *e);

/* alert_eval.c */
/* The range that a drift is measured against. */
void alert_baseline(int64_t from, int64_t baseline, int64_t *ret_from, int64_t *ret_to);
/* The parameters of a question about the selection in [from, to), and the compiled question. */
struct query_params alert_params(const struct alert_look *l, int64_t from, int64_t to);
int alert_compile(const struct alert_look *l, int64_t from, int64_t to, struct query **ret, struct err *e);
struct str alert_printf(struct alert_look *l, const char *fmt, ...) _printf_(2, 3);
/* A link to the page that compares the window with the selector base in [base_from, base_to). function may be empty. */
struct str alert_link(struct alert_look *l, const char *base, int64_t base_from, int64_t base_to, struct str function);
/* The source's selector with matchers for the service and, unless it is empty, the version; NULL without memory. */
const char *alert_selector(struct alert_look *l, struct str version);
int alert_add_finding(struct alert_look *l, uint32_t rule, const struct alert_finding *f);
struct alert_cached *alert_cache_at(struct alert_look *l, const char *what);

#endif
