/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines in wick.yaml: if it has the Collector's `service` section, its receivers, processors and exporters run
 * inside `wick serve`; the exporter `sink` is the store, and for traces the span index.
 */
#ifndef SERVE_SERVE_PIPELINES_H
#define SERVE_SERVE_PIPELINES_H

#include "base/buf.h"
#include "base/err.h"

struct conf;
struct flow;
struct flow_inject;

/* *ret stays NULL if the configuration has no pipelines. sinks: of the exporter `sink`; NULL: the configuration is only
 * checked. */
int serve_pipelines_start(struct conf *c, const struct flow_inject *sinks, struct flow **ret, struct err *e);
void serve_pipelines_stop(struct flow *f);
void serve_pipelines_metrics(struct flow *f, struct buf *out);

#endif
