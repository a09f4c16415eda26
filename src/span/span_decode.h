/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes requests of OTLP traces, protobuf or JSON, into spans. Only what the index keeps is read; attributes, events
 * and links of spans are skipped. A span without a trace ID or span ID of the right length, or with a start before 1970
 * is refused, and counted.
 */
#ifndef SPAN_SPAN_DECODE_H
#define SPAN_SPAN_DECODE_H

#include "base/err.h"
#include "span/span_block.h"

struct span_decoded {
    void (*span)(void *ctx, const struct span_row *s); /* its strings are valid during the call */
    void *ctx;
    uint64_t refused;
};

/* Calls d->span for each span. Returns 0, -EINVAL with an error message for a malformed request (spans before the
 * damage have been handed out by then), or -ENOMEM. */
int span_decode(struct str message, struct span_decoded *d, struct err *e);
int span_decode_json(struct str message, struct span_decoded *d, struct err *e);

/* Completes a span and hands it out, or refuses it. */
void span_decoded_add(struct span_decoded *d, struct span_row *s, uint64_t start, uint64_t end);

#endif
