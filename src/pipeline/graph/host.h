/* SPDX-License-Identifier: Apache-2.0 */
/* What a component finds around it: event loops, metrics, extensions, and what the program injected. */
#ifndef PIPELINE_HOST_H
#define PIPELINE_HOST_H

#include "base/err.h"
#include "pipeline/graph/metrics.h"

struct instance;
struct loop_group;
struct sink;
struct symbolizer;

struct host {
    struct metrics *metrics;
    struct loop_group *loops;      /* for whoever listens */
    struct symbolizer *symbolizer; /* for `symbolize`; NULL when the program brought none */
    struct sink *sink;             /* for the exporter `sink`; NULL when the program brought none */
    struct instance **extensions;
    uint32_t n_extensions;
};

/* A running extension by its id; words when it is not in service::extensions. */
int host_extension(struct host *h, const char *id, const char *what, struct instance **ret, struct err *e);

#endif
