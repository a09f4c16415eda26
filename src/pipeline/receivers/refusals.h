/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that receivers refuse: each is counted by receiver and reason, and logged once a minute for each peer, with the
 * number of those in between. A sender that is not understood must be visible on the server, since its own log is often
 * nowhere. Safe from any thread.
 */
#ifndef PIPELINE_REFUSALS_H
#define PIPELINE_REFUSALS_H

#include "base/buf.h"

struct ack_result;

enum refusal {
    REFUSED_MALFORMED,   /* it cannot be decoded */
    REFUSED_GENERATION,  /* OTLP of another generation */
    REFUSED_UNSUPPORTED, /* an unknown path, content type or format */
    REFUSED_TOO_LARGE,
    REFUSED_CREDENTIALS,
    REFUSED_LIMIT,       /* a limit of the tenant or the server; the sender may retry */
    REFUSED_UNAVAILABLE, /* memory, disk, shutdown; the sender may retry */
    REFUSALS
};

/* The reason of a result that is not SINK_OK and came from beyond the receiver. */
enum refusal refusals_reason(const struct ack_result *r);
/* receiver: "otlp" or "pyroscope". peer: address with or without a port. */
void refusals_note(const char *receiver, const char *peer, enum refusal why, const char *message);
/* Appends wick_receiver_refused_requests_total. */
void refusals_print(struct buf *out);

#endif
