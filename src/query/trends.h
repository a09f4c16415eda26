/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trends: what a selection costs over time, one series per combination of labels, with its direction and its spikes.
 * Values come from the sums that the store keeps (of five minutes, an hour, a day) where steps are that long.
 *
 * Rates are per covered second. A spike is a point whose rate exceeds the median of its series by half and by eight
 * times the median distance from it: an allocation spike, for alloc.
 */
#ifndef QUERY_TRENDS_H
#define QUERY_TRENDS_H

#include "query/query.h"

struct trend {
    uint32_t points;  /* with data */
    double rate;      /* mean per covered second: cores for nanoseconds, else units */
    double per_hour;  /* slope of a straight line through the rates, relative to their mean: +0.1 = 10 % an hour */
    double fit;       /* r squared of that line */
    double usual;     /* median rate */
    uint32_t *spikes; /* numbers of points */
    uint32_t n_spikes;
};

struct trends {
    struct store_points points; /* the values */
    int64_t *covered, *each;    /* as of query_step_coverage() */
    struct trend *v;            /* one per series of points */
    struct arena arena;
};

int query_trends(struct store *s, struct query *q, const struct query_series_params *p, struct trends *ret,
                 struct err *e);
void trends_done(struct trends *t);
/* The rate of a point of a series; negative if nothing covers it. */
double trends_rate(const struct trends *t, uint32_t series, uint32_t point);

#endif
