/* SPDX-License-Identifier: Apache-2.0 */
/* What is available to a component: event loops, metrics, extensions, and what the program provides. */
#ifndef PIPELINE_HOST_H
#define PIPELINE_HOST_H

#include "base/err.h"
#include "base/metrics.h"

struct instance;
struct loop_group;
struct sink;
struct symbolizer;

struct host {
    struct metrics *metrics;
    struct loop_group *loops;      /* for components that listen */
    struct symbolizer *symbolizer; /* for `symbolize`; NULL if the program provides none */
    struct sink *sink;             /* for the exporter `sink`; NULL if the program provides none */
    struct sink *traces;           /* the same for traces */
    struct instance **extensions;
    uint32_t n_extensions;
};

/* Finds a running extension by its id; an error message if it is not in service::extensions. */
int host_extension(struct host *h, const char *id, const char *what, struct instance **ret, struct err *e);

#endif
