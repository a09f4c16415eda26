/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the targets to scrape: a fixed list, Prometheus' file discovery ([{targets: [...], labels: {...}}] in JSON or
 * YAML), and the pods of a Kubernetes API server that have annotations:
 *
 *   PREFIX/scrape: "true", PREFIX/port, PREFIX/scheme, PREFIX/path      every enabled type
 *   PREFIX/TYPE.scrape: "true", PREFIX/TYPE.port ...                    one type: cpu, memory (heap), mutex, block, goroutine
 *
 * and PREFIX/service, the name of the service, with PREFIX wick.dev and profiles.grafana.com unless configured otherwise; of a pod
 * that has annotations of both, those of wick.dev count. Blocks on files and the network, so it needs a thread
 * of its own.
 */
#ifndef PIPELINE_SCRAPE_DISCOVERY_H
#define PIPELINE_SCRAPE_DISCOVERY_H

#include "conf/option.h"
#include "pipeline/k8s/k8s_pods.h"
#include "pipeline/receivers/scrape_target.h"

enum { SCRAPE_TARGETS_MAX = 10000 };

struct static_target_config {
    const char *endpoint;
    struct option_map labels;
};

struct kubernetes_config {
    struct k8s_api api;
    const char *annotation_prefix; /* NULL: the two above */
    const char *node_from_env_var;
};

struct discovery_config {
    struct option_tables targets; /* struct static_target_config */
    struct option_strings files;
    struct kubernetes_config kubernetes;
    bool has_kubernetes;
    bool allow_link_local;
};

struct scrape_list {
    struct arena arena;
    struct scrape_spec v[SCRAPE_TARGETS_MAX];
    uint32_t n;
};

/* Finds all current targets. A source that fails does not affect the others: its error message is passed to warn. */
int scrape_discover(const struct discovery_config *c, const char *remote, struct scrape_list **ret,
                    void (*warn)(void *arg, const char *message), void *arg);
void scrape_list_free(struct scrape_list *l);

/* Parses the text of one file; also for tests and fuzzing. */
int scrape_parse_file(struct scrape_list *l, struct str text, const char *name, struct err *e);
/* Adds the targets of a PodList, as scrape_discover() does with what it fetches; for tests and fuzzing. prefix may be NULL. */
int scrape_parse_pods(struct scrape_list *l, struct str json, const char *prefix, struct err *e);
struct scrape_list *scrape_list_new(void);

#endif
