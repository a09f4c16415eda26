/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods that a Kubernetes API server knows: requested with one GET of a PodList, and parsed without building a tree.
 * A response may have at most 64 MiB; of a pod the first 64 labels, annotations and containers are read. Requests
 * block, so they are made on a thread of their own.
 */
#ifndef PIPELINE_K8S_PODS_H
#define PIPELINE_K8S_PODS_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/labels.h"

#define K8S_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/" /* of the service account, in every pod */

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
    bool ordinary;              /* neither an init container nor an ephemeral one */
};

struct k8s_pod {
    struct str name, namespace_name, uid, ip, phase, node, start_time;
    struct str owner_kind, owner_name; /* of the controller, else of the first owner */
    bool host_network;
    struct k8s_labels labels, annotations;
    struct k8s_container containers[K8S_CONTAINERS_MAX]; /* those that were started */
    uint32_t n_containers;
};

/* Fills in what is NULL: server, by the environment of a pod; without a token file, that and the CA of the service account, if account.
 * -EINVAL outside of a cluster. */
int k8s_api_complete(struct k8s_api *c, bool account, struct arena *a, struct err *e);

/* The pod and its strings are valid during the call. A negative result stops the parsing and is returned. */
typedef int k8s_on_pod(void *arg, const struct k8s_pod *p);

int k8s_pods_fetch(const struct k8s_api *c, k8s_on_pod *on_pod, void *arg, struct err *e);
/* Parses a PodList. */
int k8s_pods_parse(struct str json, k8s_on_pod *on_pod, void *arg, struct err *e);

/* The value of a label or annotation; empty if it is absent. */
struct str k8s_label(const struct k8s_labels *l, const char *name);

#endif
