/* SPDX-License-Identifier: Apache-2.0 */
/* Explains an empty answer: what the store has that is nearest to what was asked for. */
#ifndef CLIENT_QUERY_NEAREST_H
#define CLIENT_QUERY_NEAREST_H

#include "client/ask.h"

/* Appends one sentence without a full stop, as in: no data for cpu{service.name="chekout"}; nearest service: checkout.
 * param and ctx are those of the question that had no answer; answer is its JSON. */
void query_nearest(const struct ask_target *t, const struct question *what, ask_param_fn param, void *ctx,
                   struct str answer, struct buf *out);

#endif
