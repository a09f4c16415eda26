/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines in wick.yaml: if it has the Collector's `service` section, its receivers, processors and exporters run
 * inside `wick serve`; the exporter `sink` is the store.
 */
#ifndef SERVE_SERVE_PIPELINES_H
#define SERVE_SERVE_PIPELINES_H

#include "base/buf.h"
#include "base/err.h"

struct conf;
struct flow;
struct sink;

/* *ret stays NULL if the configuration has no pipelines. check_only: nothing is started. */
int serve_pipelines_start(struct conf *c, struct sink *sink, bool check_only, struct flow **ret, struct err *e);
void serve_pipelines_stop(struct flow *f);
void serve_pipelines_metrics(struct flow *f, struct buf *out);

#endif
