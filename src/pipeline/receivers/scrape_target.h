/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrapes /debug/pprof of one target: one request per type and interval on the scraper's loop, whose response is
 * decoded, converted to deltas, given the target's labels and passed on. Redirects are not followed. Everything belongs
 * to the loop's thread.
 */
#ifndef PIPELINE_SCRAPE_TARGET_H
#define PIPELINE_SCRAPE_TARGET_H

#include "base/err.h"
#include "base/metrics.h"
#include "model/labels.h"

struct loop;
struct sink;
struct tls_context;

enum scrape_type {
    SCRAPE_CPU,
    SCRAPE_HEAP,
    SCRAPE_ALLOCS,
    SCRAPE_MUTEX,
    SCRAPE_BLOCK,
    SCRAPE_GOROUTINE,
    SCRAPE_ONE,
    SCRAPE_PROGRAM, /* not a profile: the command line, for the name of the service */
    SCRAPE_TYPES
};

struct scrape_type_config {
    bool enabled;
    const char *path;
    int64_t seconds, interval; /* seconds: ns to sample for, 0: a snapshot; interval 0: the common one */
};

struct scrape_config {
    struct scrape_type_config types[SCRAPE_TYPES];
    int64_t interval, initial_delay, timeout;
    size_t max_inflated;
    bool allow_link_local;
    bool
        name_from_program; /* service.name is the program's unless the target's labels have one; profiles that it does not
                               have are not errors */
    const char *token;     /* NULL: none */
};

/* A target found by discovery, which owns the strings. */
struct scrape_spec {
    const char *url;      /* http://host:port, optionally with a path */
    unsigned types;       /* 1 << SCRAPE_x; 0: all enabled types */
    struct label *labels; /* resource attributes */
    uint32_t n_labels;
    bool named; /* service.name was given, not derived from the URL */
};

struct scrape_env {
    const struct scrape_config *config;
    struct loop *loop;
    struct sink *sink;
    struct tls_context *tls;
    const char *id;
    struct metric *scraped, *failed;
};

struct scrape_target;

/* Copies the spec. Scraping begins after initial_delay, at a time spread over the interval. */
int scrape_target_new(const struct scrape_env *env, const struct scrape_spec *spec, struct scrape_target **ret,
                      struct err *e);
/* Cancels requests in progress. */
void scrape_target_free(struct scrape_target *t);
bool scrape_target_is(const struct scrape_target *t, const struct scrape_spec *spec);

#endif
