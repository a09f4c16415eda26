/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receiver, processor, exporter or extension is: a struct of functions with a name, a line of help and an option
 * table, and one word in components.h. Everything that is passed between them is a batch on a sink (model/sink.h);
 * signals other than profiles are passed through as opaque requests (blob.h).
 *
 * Life cycle of an instance: create (config is parsed and checked; nothing outside is touched), start (ports open,
 * threads run), stop (accepts nothing new, passes on what it holds, returns when done; upstream is stopped before),
 * free. create, start, stop and free are called on the main thread. consume may be called from any thread.
 */
#ifndef PIPELINE_COMPONENT_H
#define PIPELINE_COMPONENT_H

#include "base/err.h"
#include "conf/option.h"
#include "pipeline/delivery/blob.h"

struct batch_settings;
struct host;
struct instance;
struct sink;

enum component_kind {
    COMPONENT_RECEIVER,
    COMPONENT_PROCESSOR,
    COMPONENT_EXPORTER,
    COMPONENT_EXTENSION,
    COMPONENT_KINDS
};

struct component_args {
    struct host *host;
    const struct component *type;
    const char *id;     /* "otlp/profiles", as in the configuration */
    const void *config; /* of type->config_size, parsed and checked */
    enum signal signal; /* processors and exporters have one instance per signal */
    const char *pipeline;
    struct sink *next[SIGNALS];         /* receivers, processors: where data of a signal goes; NULL: no such pipeline */
    const struct batch_settings *batch; /* exporters: batch here, in place of a `batch` before a persistent queue */
};

struct component {
    enum component_kind kind;
    const char *name;
    const char *const *aliases; /* alternative names, NULL-terminated, or NULL */
    const char *help;
    unsigned signals; /* 1 << SIGNAL_x */
    const struct option *options;
    size_t config_size;
    /* Checks what the option table cannot express. May be NULL. node is for conf_error(). */
    int (*check)(const void *config, const struct conf_node *node, struct err *e);
    /* Exporters: an acknowledgement means that the data is on disk. May be NULL. */
    bool (*is_persistent)(const void *config);
    int (*create)(const struct component_args *args, struct instance **ret, struct err *e);
};

struct instance {
    const struct component *type;
    const char *id;
    enum signal signal;
    struct sink *sink; /* processors, exporters: where their data comes in */
    const void *api;   /* extensions: their interface for other components (auth.h, storage.h) */
    int (*start)(struct instance *i, struct err *e); /* each except free may be NULL */
    void (*stop)(struct instance *i);
    void (*free)(struct instance *i);
};

#define ALL_SIGNALS ((1u << SIGNALS) - 1)
#define ONLY_PROFILES (1u << SIGNAL_PROFILES)

extern const char *const component_kind_names[COMPONENT_KINDS]; /* "receiver" ... */

/* Every component, NULL-terminated. */
extern const struct component *const components[];
/* Finds it by name or alias ("otlp_grpc"); NULL if there is none. */
const struct component *component_find(enum component_kind kind, struct str type);
/* The known name closest to `type`, or NULL. */
const char *component_closest(enum component_kind kind, struct str type);
/* Sets the common fields of a new instance. */
void instance_init(struct instance *i, const struct component_args *args);

#endif
