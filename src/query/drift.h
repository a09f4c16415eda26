/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drift: which functions take a larger or a smaller share now than in a baseline, and whether that is more than noise.
 * The selection is cut into windows of time and instances (store_cube.h), and drift_stats.h tests each function over
 * these cells. docs/drift.md describes the method and what was measured with it.
 *
 * Shares do not depend on the sampling rate, on the load, or on how much of the time was covered. Frames without a name
 * are not tested, and a function that grows by no more than what was without a name before (or the reverse) is not
 * significant: the arrival of symbols is not a drift. Where spans are known and the mix of requests has changed, a drift must
 * exceed by min_points / 2 what that could explain: half as many points again as requests have moved.
 */
#ifndef QUERY_DRIFT_H
#define QUERY_DRIFT_H

#include "query/drift_stats.h"
#include "query/query.h"

struct span_index;

struct drift_ask {
    double min_points;        /* the smallest drift to report, in percentage points; 0 = DRIFT_MIN_POINTS */
    double alpha;             /* of the corrected p; 0 = DRIFT_ALPHA */
    bool self;                /* shares of self values instead of totals */
    uint32_t limit;           /* rows of the answer; 0 = 100 */
    struct span_index *spans; /* of the requests, whose mix may have changed; may be NULL */
};

struct drift_row {
    struct str function;
    double before, now; /* shares, 0 to 1 */
    double points;      /* 100 * (now - before) */
    double cores;       /* change per covered second: cores for a type in nanoseconds, else units */
    double p;           /* corrected for the number of functions */
    double low, high;   /* 99 % interval of points */
    bool significant;
    struct str label, value; /* samples with this label have most of the drift; empty if it is everywhere */
    double explains;         /* their part of it, 0 to 1 */
    bool is_labelled;        /* label is not empty */
};

struct drift_answer {
    struct arena arena;
    struct drift_row *rows;       /* largest effect first */
    uint32_t n, n_all, n_columns; /* n_columns: 2, the sides that covered_ns has */
    double minimum_detectable_points;
    uint32_t instances; /* with data on either side */
    uint32_t windows;   /* with data, of both sides */
    uint32_t significant;
    int64_t covered_ns[2];
    double whole[2];            /* value of everything */
    double cores[2];            /* whole per covered second, as in drift_row */
    double traffic_points;      /* requests that moved to spans of other names; 0 if that was not looked at */
    double cost_change;         /* estimated change of the cost of the same work: +0.1 = 10 % more (drift.c) */
    double cost_low, cost_high; /* its 99 % interval */
    bool cost_known;            /* else these are 0 */
    struct str type, unit;
    const char *empty; /* "baseline", "range" or "both": has no data; NULL: each has some */
};

/* q must be compiled with a base (its column 0 is the baseline, column 1 is now) and with notes. -ENODATA with an error message, and
 * ret->empty, if one of them has no data. Too little data to test is not an error: then nothing is significant and
 * minimum_detectable_points is 100. */
int query_drift(struct store *s, struct query *q, const struct drift_ask *ask, struct drift_answer *ret, struct err *e);
void drift_answer_done(struct drift_answer *a);

#endif
