/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the mix of requests differs between the two sides of a drift (drift.h): more requests of a kind that spends
 * its time elsewhere change the shares of functions although no function changed.
 */
#ifndef QUERY_DRIFT_TRAFFIC_H
#define QUERY_DRIFT_TRAFFIC_H

#include "query/query.h"

struct span_index;

/* How many points of all requests have moved from some names of spans to others, by number or by duration, whichever is
 * more; only names whose share changed significantly count. 0 without an index, without spans, or if the selectors do
 * not name one service. */
int drift_traffic(struct span_index *x, const struct query *q, double *ret_points, struct err *e);

#endif
