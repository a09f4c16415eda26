/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deploy verdict: a new service.version appears, and its profiles are compared with those of the version before.
 *
 * Which versions
 *   A run is a time during which a version sends profiles without a long gap. The new version is the one whose run began
 *   last (or the one asked for), the previous one is the other version of the same program (program_of.h) that was active
 *   last before that. If the new version has run before the previous one, the deploy is a rollback.
 *
 * Which times
 *   If both versions run side by side for some minutes, these minutes of both are compared ("overlap"). Otherwise the
 *   first hour of the new version is compared with as much time of the previous one before the deploy ("before"). The
 *   first minute after a start is left out.
 *
 * The verdict
 *   Per request where the index of spans has requests of both versions: the cost of a request is tested over windows.
 *   Otherwise per CPU-second: the functions that drift_stats.h finds, and the estimated cost of the same work
 *   (drift_answer.cost_change), which decides where it is known: shares alone cannot, since what one function gains
 *   others lose. The sentence always says by what it is normalised, and why if the total says otherwise.
 *   "Worse" and "better" need a change whose 99 % interval does not contain zero, "same" one that lies within 5 % (or, without
 *   an estimate of the cost, functions that all lie within 5 points). Anything else, and less than a minute of profiles on one
 *   side, is "not enough data". Headline, interval and verdict come from this one test.
 */
#ifndef QUERY_VERDICT_H
#define QUERY_VERDICT_H

#include "query/drift.h"

struct span_index;

struct verdict_ask {
    const char *tenant;
    struct str service;
    struct str version;         /* empty: the version whose run began last */
    struct str type;            /* empty: cpu */
    struct query_time from, to; /* where runs are looked for; empty: the last 24 hours */
    double min_points;          /* as in drift_ask */
    bool self;
    uint32_t limit;
    struct names *names;
    struct span_index *spans; /* may be NULL */
    int64_t now;
    size_t memory_limit;
    const atomic_bool *cancel;
    struct store_notes *notes; /* what the reader should know of all that was looked at; never NULL */
};

enum verdict { VERDICT_UNKNOWN, VERDICT_SAME, VERDICT_WORSE, VERDICT_BETTER };
/* "not enough data", "same", "worse", "better". */
extern const char *const verdict_names[]; /* NULL at the end */

struct verdict_answer {
    enum verdict verdict;
    struct str service, version, previous; /* previous: empty when there is none */
    int64_t deployed_ns;
    bool rollback, overlap;
    bool per_request;           /* else per CPU-second */
    bool cost_known;            /* a request, or the same work, has a cost; else a function decides */
    double cost_change;         /* +0.12: a request, or the same work, costs 12 % more */
    double cost_low, cost_high; /* its 99 % interval */
    double cost_p;              /* per request: p of that change; 1 otherwise */
    double total_change;        /* of everything per second, +0.1 = 10 % more: it depends on the load and on how many
                                      instances have which version */
    bool is_card, is_named, is_compared; /* headline and cause are set; from to base_to are */
    const struct drift_row *cause;       /* the function to name; NULL: none */
    struct drift_row named;              /* a copy of it */
    struct str file;                     /* of the cause, and the line with most of it; empty: not known */
    int64_t line;
    uint64_t requests[2];
    int64_t from, to, base_from, base_to; /* what was compared; 0 when nothing was */
    char sentence[600];                   /* the verdict in one line */
    char headline[200];                   /* "costs 25 % more CPU per request"; empty unless worse or better */
    char interval[80];                    /* "+18 % to +32 %": the change of the headline */
    char note[160];                       /* why the total says otherwise; empty unless it does */
    double cores_change;                  /* what the change costs, in cores; 0 unless worse or better */
    const char *reason;                   /* why nothing could be compared; NULL: it was */
    struct drift_answer drift;
    struct arena arena;
};

/* A service without profiles is -ENODATA with an error message. */
int query_verdict(struct store *s, const struct verdict_ask *ask, struct verdict_answer *ret, struct err *e);
void verdict_answer_done(struct verdict_answer *a);
/* The change of everything per second, +0.1 = 10 % more. It depends on the load, and on how many instances have which
 * version. */
double verdict_total_change(const struct verdict_answer *v);
/* The selector of one version of a service: cpu{service.name="x",service.version="y"}. NULL when memory runs out. */
char *verdict_selector(struct arena *a, struct str type, struct str service, struct str version);

#endif
