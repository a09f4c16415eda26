/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan, running: one receiver instance per id (shared by all its pipelines and signals), one processor per pipeline,
 * one exporter per id and signal (shared by its pipelines), joined by sinks. A pipeline with several exporters, or a
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
    struct symbolizer *symbolizer; /* stays the caller's; NULL: none */
    struct sink *sink;             /* what the exporter `sink` hands to; NULL: none */
    unsigned n_loops;              /* threads that listen; 0: by the number of CPUs, at most 4 */
};

/* Makes every instance; nothing runs. The plan must outlive the flow. */
int flow_new(struct plan *p, const struct flow_inject *inject, struct flow **ret, struct err *e);
/* Exporters, then processors, receivers, extensions first. On failure what ran is stopped again. */
int flow_start(struct flow *g, struct err *e);
/* Receivers first; returns when everything is handed on or given up. */
void flow_stop(struct flow *g);
void flow_free(struct flow *g);
DEFINE_CLEANUP(struct flow *, flow_free)
struct metrics *flow_metrics(struct flow *g);
/* Where pipeline number i of the plan takes profiles in: for programs that make batches themselves. */
struct sink *flow_head(struct flow *g, uint32_t i);

#endif
