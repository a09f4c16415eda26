/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What receivers other than otlp do with a profile they decoded: give it resource attributes, a time, an id, and the form
 * that OTLP can carry.
 */
#ifndef PIPELINE_RECEIVED_H
#define PIPELINE_RECEIVED_H

#include "base/err.h"
#include "model/labels.h"

struct batch;

struct received {
    const struct label *labels; /* resource attributes to set */
    uint32_t n_labels;
    int64_t time_ns, duration_ns; /* for profiles that say none; 0: leave */
};

/* b is used up (its reference too), on failure as well. */
int received_finish(struct batch *b, const struct received *r, struct batch **ret, struct err *e);

#endif
