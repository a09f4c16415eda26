/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a request in both versions of a verdict (verdict.h): CPU time per window over the requests that the span
 * index (span/span_index.h) counted in it. */
#ifndef QUERY_VERDICT_REQUESTS_H
#define QUERY_VERDICT_REQUESTS_H

#include "query/verdict.h"

/* Sets per_request, requests, cost_change and cost_p of v if the index has requests of both sides; v->from to
 * v->base_to say which times. */
int verdict_requests(struct store *s, const struct verdict_ask *ask, struct verdict_answer *v, struct err *e);

#endif
