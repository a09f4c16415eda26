/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods that a Kubernetes API server knows: asked for with one GET of a PodList, and read without building a tree. One
 * answer is at most 64 MiB; of a pod the first 64 labels, annotations and containers are seen. Asking blocks: for a thread
 * of its own.
 */
#ifndef PIPELINE_K8S_PODS_H
#define PIPELINE_K8S_PODS_H

#include <stdatomic.h>

#include "base/err.h"
#include "model/labels.h"

enum { K8S_LABELS_MAX = 64, K8S_CONTAINERS_MAX = 64 };

struct k8s_api {
    const char *server, *token_file, *ca_file; /* the files may be NULL */
    const char *namespace_name, *node;         /* only these; NULL: all */
    int64_t timeout_ns;                        /* 0: 30 s */
    const atomic_bool *cancel;                 /* may be NULL */
};

struct k8s_labels {
    struct label v[K8S_LABELS_MAX];
    uint32_t n;
};

struct k8s_container {
    struct str name, id, image; /* id without its "containerd://" */
    bool ordinary;              /* neither an initial nor an ephemeral one */
};

struct k8s_pod {
    struct str name, namespace_name, uid, ip, phase, node, start_time;
    struct str owner_kind, owner_name; /* the controller's, else the first */
    bool host_network;
    struct k8s_labels labels, annotations;
    struct k8s_container containers[K8S_CONTAINERS_MAX]; /* that were started */
    uint32_t n_containers;
};

/* The pod and its strings live as long as the call. A negative return ends the reading with it. */
typedef int k8s_on_pod(void *arg, const struct k8s_pod *p);

int k8s_pods_fetch(const struct k8s_api *c, k8s_on_pod *on_pod, void *arg, struct err *e);
/* A PodList. */
int k8s_pods_parse(struct str json, k8s_on_pod *on_pod, void *arg, struct err *e);

/* The value of a label or annotation; empty when it is not there. */
struct str k8s_label(const struct k8s_labels *l, const char *name);

#endif
