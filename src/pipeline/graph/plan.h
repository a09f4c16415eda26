/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checked configuration: which components with which options, and which pipelines connect them. Nothing runs yet;
 * this is all that `validate` and `print-config` need, and what flow.h starts.
 */
#ifndef PIPELINE_PLAN_H
#define PIPELINE_PLAN_H

#include "base/log.h"
#include "pipeline/graph/component.h"

enum { PIPELINE_COMPONENTS_MAX = 64, PLAN_COMPONENTS_MAX = 512, PLAN_PIPELINES_MAX = 128 };

struct plan_component {
    const struct component *type;
    const char *id;
    const struct conf_node *node;
    void *config;
    bool used;
};

struct plan_pipeline {
    const char *id;
    enum signal signal;
    const struct conf_node *node;
    struct plan_component *receivers[PIPELINE_COMPONENTS_MAX], *processors[PIPELINE_COMPONENTS_MAX],
        *exporters[PIPELINE_COMPONENTS_MAX];
    uint32_t n_receivers, n_processors, n_exporters;
};

struct telemetry_config {
    enum log_level level;
    enum log_format format;
    const char *metrics_address; /* NULL: off */
};

struct plan {
    struct conf *conf;
    struct plan_component *components;
    uint32_t n_components;
    struct plan_pipeline *pipelines;
    uint32_t n_pipelines;
    struct plan_component **extensions; /* of service::extensions, in order */
    uint32_t n_extensions;
    struct telemetry_config telemetry;
    bool lenient;
    void (*warn)(void *arg, const char *message); /* lenient: called for each component that is skipped */
    void *warn_arg;
};

/* Reads c->root (expanded). The plan lives in c's arena and is freed with it. */
int plan_read(struct conf *c, bool lenient, void (*warn)(void *, const char *), void *warn_arg, struct plan **ret,
              struct err *e);
/* The same for sections that are part of a larger configuration, whose other keys are read elsewhere. */
int plan_read_part(struct conf *c, void (*warn)(void *, const char *), void *warn_arg, struct plan **ret,
                   struct err *e);
/* The whole configuration with defaults, as a tree. */
struct conf_node *plan_effective(struct plan *p, bool show_secrets);
void plan_warn(struct plan *p, const char *fmt, ...) _printf_(2, 3);

/* service_config.c: service::telemetry. */
int plan_read_telemetry(struct conf *c, const struct conf_node *node, struct telemetry_config *ret, struct err *e);

#endif
