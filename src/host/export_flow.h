/* SPDX-License-Identifier: Apache-2.0 */
/* A sink that sends to an OTLP endpoint: the Collector's exporter with its queue and retries, without a configuration
 * file. */
#ifndef HOST_EXPORT_FLOW_H
#define HOST_EXPORT_FLOW_H

#include "base/err.h"

struct arg_list;
struct export_flow;
struct sink;

struct export_options {
    const char *url, *token, *k8s_api;
    const struct arg_list *scrape;
};

/* url: http(s)://HOST[:PORT] (gRPC, or HTTP where the port is 4318 or there is a path), grpc://HOST:PORT, HOST:PORT.
 * token may be NULL. k8s_api: a Kubernetes API server that is asked for the names of pods (`in-cluster`: the one of the
 * pod that this runs in), or NULL. scrape: URLs of programs whose /debug/pprof/ is scraped into the same pipeline. This call does not connect. An unreachable peer is not an error: batches wait, and
 * the oldest are dropped. */
int export_flow_new(const struct export_options *o, struct export_flow **ret, struct err *e);
struct sink *export_flow_sink(struct export_flow *f);
/* Sends the waiting batches, for a limited time, and frees the flow. */
void export_flow_free(struct export_flow *f);

#endif
