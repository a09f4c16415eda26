/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes a profile that a receiver other than otlp has decoded: adds resource attributes, a time and an id, and
 * converts it to a form that OTLP can represent.
 */
#ifndef PIPELINE_RECEIVED_H
#define PIPELINE_RECEIVED_H

#include "base/err.h"
#include "model/labels.h"

struct batch;

struct received {
    const struct label *labels; /* resource attributes to set */
    uint32_t n_labels;
    int64_t time_ns, duration_ns; /* for profiles without them; 0: leave unset */
    struct str name;              /* of the profile: "block", "mutex" or a name that does not follow from its types; may be empty */
};

/* Consumes b and its reference, on failure too. */
int received_finish(struct batch *b, const struct received *r, struct batch **ret, struct err *e);

/* --- parts of it (received_links.c) --- */
/* Samples whose labels span_id (or profile_id) and trace_id are IDs of a span and a trace get a link instead of them. */
int received_links(struct batch *b);
/* Sets the attribute pprof.profile.name of all profiles. */
int received_name(struct batch *b, struct str name);

#endif
