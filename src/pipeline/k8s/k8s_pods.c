/* SPDX-License-Identifier: Apache-2.0 */
/* Requests a PodList from a Kubernetes API server and parses it. See k8s_pods.h. */
#include "pipeline/k8s/k8s_pods.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/fetch.h"

enum { PODS_MAX_BYTES = 64 << 20 };

struct str k8s_label(const struct k8s_labels *l, const char *name)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (str_is(l->v[i].name, name))
            return l->v[i].value;
    return (struct str){0};
}

static void read_labels(struct json *j, struct k8s_labels *l)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        struct str value = json_str(j);

        if (l->n < K8S_LABELS_MAX)
            l->v[l->n++] = (struct label){key, value};
    }
}

static void read_owners(struct json *j, struct k8s_pod *p)
{
    struct str key;

    json_begin_array(j);
    while (json_next_item(j)) {
        struct str kind = {0}, name = {0};
        bool controller = false;

        json_begin_object(j);
        while (json_next_key(j, &key)) {
            if (str_is(key, "kind"))
                kind = json_str(j);
            else if (str_is(key, "name"))
                name = json_str(j);
            else if (str_is(key, "controller"))
                controller = json_bool(j);
            else
                json_skip(j);
        }
        if (controller || !p->owner_kind.n) {
            p->owner_kind = kind;
            p->owner_name = name;
        }
    }
}

static void read_metadata(struct json *j, struct k8s_pod *p)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "name"))
            p->name = json_str(j);
        else if (str_is(key, "namespace"))
            p->namespace_name = json_str(j);
        else if (str_is(key, "uid"))
            p->uid = json_str(j);
        else if (str_is(key, "annotations") && json_peek(j) == JSON_OBJECT)
            read_labels(j, &p->annotations);
        else if (str_is(key, "labels") && json_peek(j) == JSON_OBJECT)
            read_labels(j, &p->labels);
        else if (str_is(key, "ownerReferences") && json_peek(j) == JSON_ARRAY)
            read_owners(j, p);
        else
            json_skip(j);
    }
}

/* containerStatuses: [{name, image, containerID: "containerd://ID"}] */
static void read_containers(struct json *j, struct k8s_pod *p, bool ordinary)
{
    struct str key;

    json_begin_array(j);
    while (json_next_item(j)) {
        struct k8s_container c = {.ordinary = ordinary};
        ptrdiff_t at;

        json_begin_object(j);
        while (json_next_key(j, &key)) {
            if (str_is(key, "name"))
                c.name = json_str(j);
            else if (str_is(key, "image"))
                c.image = json_str(j);
            else if (str_is(key, "containerID"))
                c.id = json_str(j);
            else
                json_skip(j);
        }
        at = str_find(c.id, STR("://"));
        if (at >= 0)
            c.id = str_slice(c.id, (size_t) at + 3, c.id.n);
        if (p->n_containers < K8S_CONTAINERS_MAX)
            p->containers[p->n_containers++] = c;
    }
}

static void read_spec(struct json *j, struct k8s_pod *p)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "nodeName"))
            p->node = json_str(j);
        else if (str_is(key, "hostNetwork"))
            p->host_network = json_bool(j);
        else
            json_skip(j);
    }
}

static void read_status(struct json *j, struct k8s_pod *p)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        bool list = json_peek(j) == JSON_ARRAY;

        if (str_is(key, "podIP"))
            p->ip = json_str(j);
        else if (str_is(key, "phase"))
            p->phase = json_str(j);
        else if (str_is(key, "startTime"))
            p->start_time = json_str(j);
        else if (list && str_is(key, "containerStatuses"))
            read_containers(j, p, true);
        else if (list && (str_is(key, "initContainerStatuses") || str_is(key, "ephemeralContainerStatuses")))
            read_containers(j, p, false);
        else
            json_skip(j);
    }
}

static void read_pod(struct json *j, struct k8s_pod *p)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (json_peek(j) != JSON_OBJECT)
            json_skip(j);
        else if (str_is(key, "metadata"))
            read_metadata(j, p);
        else if (str_is(key, "spec"))
            read_spec(j, p);
        else if (str_is(key, "status"))
            read_status(j, p);
        else
            json_skip(j);
    }
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
            struct k8s_pod p = {0};

            read_pod(&j, &p);
            if (!j.err)
                r = on_pod(arg, &p);
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
