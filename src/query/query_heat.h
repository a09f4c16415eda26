/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When samples were taken: columns of equal time, each divided into rows of equal time, so that what happens within a
 * second can be seen over minutes. A cell is the value of the samples that were taken in it.
 */
#ifndef QUERY_QUERY_HEAT_H
#define QUERY_QUERY_HEAT_H

#include "model/batch.h"
#include "query/query.h"

#define HEAT_STEP_MAX (366 * 86400 * NS_PER_S) /* times HEAT_ROWS_MAX, it fits */
enum { HEAT_COLUMNS = 300, HEAT_COLUMNS_MAX = 2000, HEAT_ROWS = 50, HEAT_ROWS_MAX = 200 };

struct query_heat {
    int64_t step;    /* of a column; 0 = a usual step that makes at most HEAT_COLUMNS columns */
    uint32_t n_rows; /* 0 = HEAT_ROWS */
    int64_t from;    /* of the first column: a multiple of step */
    uint32_t n_columns;
    int64_t *values;        /* n_columns x n_rows; in the arena */
    int64_t max;            /* the largest of them */
    int64_t timed, untimed; /* value of the samples in the range with a time of their own, and without */
    uint64_t samples;       /* number of those with a time */
    struct arena *arena;    /* set by the caller */
};

/* Sets all but the first two and the arena. */
int query_heat(struct store *s, const struct query *q, struct query_heat *h, struct err *e);

/* How long before the start of a range a profile with samples in it may start. */
#define QUERY_TAKEN_BEFORE (600 * NS_PER_S)

/* The value at timestamp i of the sample, of the profile's last type. 1 if the sample has only timestamps. */
static inline int64_t query_value_at(const struct batch *b, const struct profile *p, const struct sample *s, uint32_t i)
{
    uint32_t at = p->n_types > 1 ? p->n_types - 1 : i;

    return at < s->values.n ? b->values[s->values.off + at] : s->values.n ? 0 : 1;
}

#endif
