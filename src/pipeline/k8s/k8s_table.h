/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods as the attributes that their resources get, found by the pod's uid or address or a container's id. Only the
 * attributes to be extracted are kept. At most K8S_TABLE_PODS pods and K8S_TABLE_BYTES bytes: the rest is left out, and
 * `full` is set. Built by one thread, then only read.
 */
#ifndef PIPELINE_K8S_TABLE_H
#define PIPELINE_K8S_TABLE_H

#include "base/map.h"
#include "pipeline/k8s/k8s_pods.h"
#include "pipeline/processors/kvs_edit.h"

enum { K8S_TABLE_PODS = 100000, K8S_TABLE_BYTES = 128 << 20 };

enum k8s_field {
    K8S_NAMESPACE,
    K8S_POD_NAME,
    K8S_POD_UID,
    K8S_POD_IP,
    K8S_POD_START,
    K8S_NODE,
    K8S_DEPLOYMENT,
    K8S_REPLICASET,
    K8S_STATEFULSET,
    K8S_DAEMONSET,
    K8S_JOB,
    K8S_CRONJOB,
    K8S_CONTAINER_NAME, /* from here on: attributes of a container */
    K8S_CONTAINER_ID,
    K8S_IMAGE_NAME,
    K8S_IMAGE_TAG,
    K8S_FIELDS
};

extern const char *const k8s_field_names[K8S_FIELDS + 1]; /* the names of the attributes, NULL-terminated */

struct k8s_rule {
    const char *key, *tag; /* name of a label or annotation, and the attribute it becomes */
    bool annotation;
};

struct k8s_extract {
    uint32_t fields; /* 1 << K8S_x */
    struct k8s_rule *rules;
    uint32_t n_rules;
    const char *service_annotation; /* its value replaces service.name; NULL: none */
    bool otel_annotations;          /* resource.opentelemetry.io/X becomes X */
};

struct k8s_table {
    struct arena arena;
    const struct k8s_extract *extract;
    struct kvs *pods;
    struct k8s_entry *entries;
    struct map map; /* of entries, by key */
    uint32_t n_pods, n_entries;
    size_t cap_pods, cap_entries;
    bool full;
};

struct k8s_table *k8s_table_new(const struct k8s_extract *x); /* x must outlive the table */
void k8s_table_free(struct k8s_table *t);
DEFINE_CLEANUP(struct k8s_table *, k8s_table_free)
int k8s_table_add(struct k8s_table *t, const struct k8s_pod *p);

/* Adds what is known about the pod with this uid, address or container id, without replacing existing attributes, but for
 * service.name if an annotation names the service. If
 * container is empty, a pod's only container is used. False: there is no such pod. */
bool k8s_table_apply(const struct k8s_table *t, struct str key, struct str container, struct kvs_edit *x);

#endif
