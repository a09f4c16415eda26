/* SPDX-License-Identifier: Apache-2.0 */
/* Requests a PodList from a Kubernetes API server and parses it. See k8s_pods.h. */
#include "pipeline/k8s/k8s_pods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/record.h"
#include "net/fetch.h"

enum { PODS_MAX_BYTES = 64 << 20 };

int k8s_api_complete(struct k8s_api *c, bool account, struct arena *a, struct err *e)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    bool six = host && strchr(host, ':');

    if (account && !c->token_file) {
        c->token_file = K8S_ACCOUNT "token";
        if (!c->ca_file)
            c->ca_file = K8S_ACCOUNT "ca.crt";
    }
    if (c->server)
        return 0;
    if (!host || !port)
        return err_set(
            e, -EINVAL,
            "'api_server' is not set, and neither are KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, as they would be in a pod");
    c->server = arena_printf(a, "https://%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port);
    return c->server ? 0 : -ENOMEM;
}

struct str k8s_label(const struct k8s_labels *l, const char *name)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (str_is(l->v[i].name, name))
            return l->v[i].value;
    return (struct str){0};
}

/* --- a pod as the API server writes it --- */

struct listed_owner {
    struct str kind, name;
    bool controller;
};

struct listed_containers {
    struct k8s_container *v;
    uint32_t n;
};

struct listed_pod {
    struct k8s_pod pod;
    struct labels annotations, labels;
    struct listed_owner *owners;
    uint32_t n_owners;
    struct listed_containers ordinary, others[2]; /* others: init and ephemeral ones */
};

static const struct record_field owner_fields[] = {
    {"kind", RECORD_STR, offsetof(struct listed_owner, kind)},
    {"name", RECORD_STR, offsetof(struct listed_owner, name)},
    {"controller", RECORD_BOOL, offsetof(struct listed_owner, controller)},
    {0},
};

static const struct record_field container_fields[] = {
    {"name", RECORD_STR, offsetof(struct k8s_container, name)},
    {"image", RECORD_STR, offsetof(struct k8s_container, image)},
    {"containerID", RECORD_STR, offsetof(struct k8s_container, id)}, /* containerd://ID */
    {0},
};

#define AT(member) offsetof(struct listed_pod, member)
#define CONTAINERS(member) RECORD_LIST, AT(member), .fields = container_fields, .size = sizeof(struct k8s_container)
static const struct record_field metadata_fields[] = {
    {"name", RECORD_STR, AT(pod.name)},
    {"namespace", RECORD_STR, AT(pod.namespace_name)},
    {"uid", RECORD_STR, AT(pod.uid)},
    {"annotations", RECORD_MAP, AT(annotations)},
    {"labels", RECORD_MAP, AT(labels)},
    {"ownerReferences", RECORD_LIST, AT(owners), .fields = owner_fields, .size = sizeof(struct listed_owner)},
    {0},
};

static const struct record_field spec_fields[] = {
    {"nodeName", RECORD_STR, AT(pod.node)}, {"hostNetwork", RECORD_BOOL, AT(pod.host_network)}, {0}};

static const struct record_field status_fields[] = {
    {"podIP", RECORD_STR, AT(pod.ip)},
    {"phase", RECORD_STR, AT(pod.phase)},
    {"startTime", RECORD_STR, AT(pod.start_time)},
    {"containerStatuses", CONTAINERS(ordinary)},
    {"initContainerStatuses", CONTAINERS(others[0])},
    {"ephemeralContainerStatuses", CONTAINERS(others[1])},
    {0},
};

static const struct record_field pod_fields[] = {
    {"metadata", RECORD_ONE, .fields = metadata_fields},
    {"spec", RECORD_ONE, .fields = spec_fields},
    {"status", RECORD_ONE, .fields = status_fields},
    {0},
};
#undef AT

static void take_labels(struct k8s_labels *to, const struct labels *from)
{
    to->n = MIN(from->n, (uint32_t) K8S_LABELS_MAX);
    if (to->n)
        memcpy(to->v, from->v, to->n * sizeof *to->v);
}

static void take_containers(struct k8s_pod *p, const struct listed_containers *from, bool ordinary)
{
    for (uint32_t i = 0; i < from->n && p->n_containers < K8S_CONTAINERS_MAX; i++) {
        struct k8s_container *c = &p->containers[p->n_containers++];
        ptrdiff_t at = str_find(from->v[i].id, STR("://"));

        *c = from->v[i];
        c->ordinary = ordinary;
        if (at >= 0)
            c->id = str_slice(c->id, (size_t) at + 3, c->id.n);
    }
}

static int read_pod(struct str json, struct arena *a, struct listed_pod *x, struct err *e)
{
    int r = record_read(json, pod_fields, RECORD_ANSWER, a, x, e);

    take_labels(&x->pod.annotations, &x->annotations);
    take_labels(&x->pod.labels, &x->labels);
    for (uint32_t i = 0; i < x->n_owners; i++)
        if (x->owners[i].controller || !x->pod.owner_kind.n) {
            x->pod.owner_kind = x->owners[i].kind;
            x->pod.owner_name = x->owners[i].name;
        }
    take_containers(&x->pod, &x->ordinary, true);
    take_containers(&x->pod, &x->others[0], false);
    take_containers(&x->pod, &x->others[1], false);
    return r;
}

int k8s_pods_parse(struct str json, k8s_on_pod *on_pod, void *arg, struct err *e)
{
    struct arena a;
    struct json j;
    struct str key;
    int r = 0;

    arena_init(&a, PODS_MAX_BYTES);
    json_init(&j, json, &a);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        if (!str_is(key, "items") || json_peek(&j) != JSON_ARRAY) {
            json_skip(&j);
            continue;
        }
        json_begin_array(&j);
        while (r == 0 && json_next_item(&j)) {
            struct listed_pod x = {.pod = {.n_containers = 0}};

            r = read_pod(json_raw(&j), &a, &x, e);
            if (r == 0)
                r = on_pod(arg, &x.pod);
        }
    }
    if (r == 0 && json_end(&j) < 0)
        r = json_error(&j, e);
    arena_done(&a);
    return r;
}

/* resourceVersion=0: served from the API server's cache, which a list that is requested repeatedly should not
 * bypass. */
static void write_url(struct buf *url, const struct k8s_api *c)
{
    buf_printf(url, "%s/api/v1/%s%s%spods?resourceVersion=0", c->server, c->namespace_name ? "namespaces/" : "",
               c->namespace_name ? c->namespace_name : "", c->namespace_name ? "/" : "");
    if (c->node)
        buf_printf(url, "&fieldSelector=spec.nodeName%%3D%s", c->node);
}

int k8s_pods_fetch(const struct k8s_api *c, k8s_on_pod *on_pod, void *arg, struct err *e)
{
    struct tls_options tls = {.ca_file = c->ca_file, .http1 = true};
    struct fetch_options o = {.timeout_ns = c->timeout_ns ? c->timeout_ns : 30 * NS_PER_S,
                              .max_answer = PODS_MAX_BYTES,
                              .tls = &tls_openssl,
                              .tls_options = &tls,
                              .cancel = c->cancel};
    _cleanup_(buf_done) struct buf token = BUF_INIT, url = BUF_INIT, auth = BUF_INIT;
    struct http_header header;
    struct fetch_result res;
    int r;

    write_url(&url, c);
    if (c->token_file) {
        r = fd_read_file(c->token_file, 1 << 16, &token, e);
        if (r < 0)
            return r;
        buf_printf(&auth, "Bearer %.*s", STR_FMT(str_trim(buf_str(&token))));
        header = (struct http_header){STR("authorization"), buf_str(&auth)};
        o.headers = &header;
        o.n_headers = 1;
    }
    o.url = buf_cstr(&url);
    if (!o.url || buf_error(&auth))
        return -ENOMEM;
    r = fetch_url(&o, &res, e);
    if (r == 0 && res.status != 200)
        r = err_set(e, -EIO, "%s: HTTP %d", o.url, res.status);
    if (r == 0)
        r = fetch_decode(&res, PODS_MAX_BYTES, e);
    if (r == 0)
        r = k8s_pods_parse(buf_str(&res.body), on_pod, arg, e);
    fetch_result_done(&res);
    return r;
}
