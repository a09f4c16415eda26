/* SPDX-License-Identifier: Apache-2.0 */
/* Traces in `wick serve`: the span index (span/span_index.h) of the configuration, and the sink by which the intake and
 * pipelines hand requests of traces to it. */
#ifndef SERVE_SERVE_TRACES_H
#define SERVE_SERVE_TRACES_H

#include "base/buf.h"
#include "base/err.h"
#include "base/quota.h"
#include "model/sink.h"

struct serve_config;
struct span_index;
struct store;

struct serve_traces {
    struct sink sink;         /* takes blobs of traces; the tenant is that of the context */
    struct span_index *index; /* NULL: traces are not kept */
    bool in_memory, read_only; /* read_only: set before the start */
    size_t memory; /* limits.memory, resolved */
    struct quota share;
};

struct serve_traces_place {
    const char *dir;     /* that of the store; NULL: spans are kept in memory */
    struct store *store; /* its retention knows how far the wall clock is ahead */
    size_t memory;
    struct quota share; /* of the disk */
};

/* The store must be closed after serve_traces_stop(). */
int serve_traces_start(struct serve_traces *t, const struct serve_config *c, const struct serve_traces_place *place,
                       struct err *e);
/* Completes every ack. */
void serve_traces_stop(struct serve_traces *t);
/* Where requests of traces go; NULL if they are not kept. */
struct sink *serve_traces_sink(struct serve_traces *t);
/* Applies the retention of a reloaded configuration. */
void serve_traces_reload(struct serve_traces *t, const struct serve_config *c);
/* Lines for /metrics. */
void serve_traces_metrics(const struct serve_traces *t, struct buf *out);

#endif
