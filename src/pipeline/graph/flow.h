/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running plan: one receiver instance per id (shared by all its pipelines and signals), one processor per pipeline,
 * one exporter per id and signal (shared by its pipelines), connected by sinks. A pipeline with several exporters, or a
 * receiver in several pipelines, fans out; its acknowledgement is the worst of all.
 *
 * A `batch` before an exporter whose queue is on disk does not hold data back: what it acknowledged would be lost with
 * the process. Such a pipeline writes first and batches when reading its log (sender.h), with the settings of `batch`.
 */
#ifndef PIPELINE_FLOW_H
#define PIPELINE_FLOW_H

#include "pipeline/graph/plan.h"

struct flow;

struct flow_inject {
    struct symbolizer *symbolizer; /* owned by the caller; NULL: none */
    struct sink *sink;             /* where the exporter `sink` delivers profiles to; NULL: none */
    struct sink *traces;           /* the same for traces */
    unsigned n_loops;              /* number of threads that listen; 0: by the number of CPUs, at most 4 */
};

/* Creates every instance and starts nothing. The plan must outlive the flow. */
int flow_new(struct plan *p, const struct flow_inject *inject, struct flow **ret, struct err *e);
/* Starts extensions first, then exporters and processors, then receivers. On failure everything already started is
 * stopped again. */
int flow_start(struct flow *g, struct err *e);
/* Stops receivers first; returns when everything is passed on or given up. */
void flow_stop(struct flow *g);
void flow_free(struct flow *g);
DEFINE_CLEANUP(struct flow *, flow_free)
struct metrics *flow_metrics(struct flow *g);
/* The entry for profiles of pipeline number i of the plan: for programs that make batches themselves. */
struct sink *flow_head(struct flow *g, uint32_t i);

#endif
