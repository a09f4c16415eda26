/* SPDX-License-Identifier: Apache-2.0 */
/* See scrape_discovery.h. */
#include "pipeline/receivers/scrape_discovery.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/fetch.h"

enum { LABELS_MAX = 64, PODS_MAX_BYTES = 64 << 20, FILES_MAX = 1000, ANNOTATIONS_MAX = 64 };

struct scrape_list *scrape_list_new(void)
{
    struct scrape_list *l = mem_zalloc(sizeof *l);

    if (l)
        arena_init(&l->arena, 256 << 20);
    return l;
}

void scrape_list_free(struct scrape_list *l)
{
    if (!l)
        return;
    arena_done(&l->arena);
    mem_free(l);
}

static bool has_label(const struct label *v, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (str_is(v[i].name, name))
            return true;
    return false;
}

/* endpoint is host:port or a URL. service.name and service.instance.id are filled in when labels do not say them. */
static int add_target(struct scrape_list *l, struct str endpoint, const struct label *labels, uint32_t n,
                      unsigned types)
{
    struct label *v = arena_zalloc_array(&l->arena, n + 2, sizeof *v);
    bool url = str_find(endpoint, STR("://")) >= 0;
    struct http_url parts;
    char *text;

    if (l->n == SCRAPE_TARGETS_MAX)
        return -E2BIG;
    text = arena_printf(&l->arena, "%s%.*s", url ? "" : "http://", STR_FMT(endpoint));
    if (!v || !text)
        return -ENOMEM;
    if (http_url_parse(text, &parts, NULL) < 0)
        return -EINVAL;
    for (uint32_t i = 0; i < n; i++)
        v[i] = (struct label){arena_str(&l->arena, label_canonical_name(labels[i].name)),
                              arena_str(&l->arena, labels[i].value)};
    if (!has_label(v, n, "service.name"))
        v[n++] = (struct label){STR("service.name"), arena_str(&l->arena, str_from(parts.host))};
    if (!has_label(v, n, "service.instance.id"))
        v[n++] = (struct label){STR("service.instance.id"), arena_str(&l->arena, str_from(parts.authority))};
    l->v[l->n++] = (struct scrape_spec){text, types, v, n};
    return 0;
}

/* --- files --- */

int scrape_parse_file(struct scrape_list *l, struct str text, const char *name, struct err *e)
{
    struct conf_node *root = NULL;
    struct conf c;
    int r;

    conf_init(&c);
    r = conf_parse(&c, text, name, &root, e);
    if (r == 0 && root->kind != CONF_LIST)
        r = err_set(e, -EINVAL, "%s: a list of {targets, labels} is expected", name);
    for (uint32_t i = 0; r == 0 && i < root->n; i++) {
        const struct conf_node *targets = conf_get(root->items[i], "targets"),
                               *map = conf_get(root->items[i], "labels");
        struct label labels[LABELS_MAX];
        uint32_t n = 0;

        for (uint32_t k = 0; map && map->kind == CONF_MAP && k < map->n && n < LABELS_MAX; k++)
            if (map->items[k]->kind == CONF_SCALAR && !str_starts(map->keys[k], STR("__")))
                labels[n++] = (struct label){map->keys[k], map->items[k]->text};
        for (uint32_t k = 0; r == 0 && targets && targets->kind == CONF_LIST && k < targets->n; k++)
            if (targets->items[k]->kind == CONF_SCALAR)
                r = add_target(l, targets->items[k]->text, labels, n, 0);
        if (r == -EINVAL)
            r = conf_error(root->items[i], r, e, "a target is no host:port or URL");
    }
    conf_done(&c);
    return r;
}

static void read_files(struct scrape_list *l, const struct option_strings *files, void (*warn)(void *, const char *),
                       void *arg)
{
    for (uint32_t i = 0; i < files->n; i++) {
        glob_t g = {0};

        if (glob(files->v[i], 0, NULL, &g) == 0) {
            for (size_t k = 0; k < g.gl_pathc && k < FILES_MAX; k++) {
                _cleanup_(buf_done) struct buf b = BUF_INIT;
                struct err e = {0};
                int r = fd_read_file(g.gl_pathv[k], CONF_SIZE_MAX, &b, &e);

                if (r == 0)
                    r = scrape_parse_file(l, buf_str(&b), g.gl_pathv[k], &e);
                if (r < 0)
                    warn(arg, err_message(&e, r));
            }
        }
        globfree(&g);
    }
}

/* --- Kubernetes --- */

struct pod {
    struct str name, namespace_name, ip, phase, app, node;
    struct label annotations[ANNOTATIONS_MAX];
    uint32_t n;
};

static struct str annotation(const struct pod *p, const char *prefix, const char *type, const char *key)
{
    char name[256];

    snprintf(name, sizeof name, *type ? "%s/%s.%s" : "%s/%s%s", prefix, type, key);
    for (uint32_t i = 0; i < p->n; i++)
        if (str_is(p->annotations[i].name, name))
            return p->annotations[i].value;
    return (struct str){0};
}

static int add_pod(struct scrape_list *l, const struct pod *p, const char *prefix)
{
    static const struct {
        const char *word;
        unsigned types;
    } kinds[] = {{"", 0},
                 {"cpu", 1u << SCRAPE_CPU},
                 {"memory", 1u << SCRAPE_HEAP},
                 {"mutex", 1u << SCRAPE_MUTEX},
                 {"block", 1u << SCRAPE_BLOCK},
                 {"goroutine", 1u << SCRAPE_GOROUTINE}};
    struct label labels[] = {{STR("service.name"), p->app.n ? p->app : p->name},
                             {STR("k8s.namespace.name"), p->namespace_name},
                             {STR("k8s.pod.name"), p->name},
                             {STR("k8s.node.name"), p->node}};
    uint32_t n = p->node.n ? 4 : 3;
    int r = 0;

    if (!p->ip.n || !str_is(p->phase, "Running"))
        return 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kinds); i++) {
        struct str port = annotation(p, prefix, kinds[i].word, "port"),
                   scheme = annotation(p, prefix, kinds[i].word, "scheme");
        struct str path = annotation(p, prefix, kinds[i].word, "path");
        bool six = str_find_char(p->ip, ':') >= 0;
        char *url;

        if (!str_is(annotation(p, prefix, kinds[i].word, "scrape"), "true") || !port.n)
            continue;
        url = arena_printf(&l->arena, "%s://%s%.*s%s:%.*s%.*s", str_is(scheme, "https") ? "https" : "http",
                           six ? "[" : "", STR_FMT(p->ip), six ? "]" : "", STR_FMT(port), STR_FMT(path));
        r = url ? add_target(l, str_from(url), labels, n, kinds[i].types) : -ENOMEM;
        if (r == -EINVAL)
            r = 0; /* a bad annotation is that pod's own matter */
    }
    return r;
}

static void read_strings(struct json *j, struct pod *p, bool annotations)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        struct str value = json_str(j);

        if (annotations && p->n < ANNOTATIONS_MAX)
            p->annotations[p->n++] = (struct label){key, value};
        else if (!annotations && (str_is(key, "app.kubernetes.io/name") || (str_is(key, "app") && !p->app.n)))
            p->app = value;
    }
}

static void read_metadata(struct json *j, struct pod *p)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "name"))
            p->name = json_str(j);
        else if (str_is(key, "namespace"))
            p->namespace_name = json_str(j);
        else if (str_is(key, "annotations") && json_peek(j) == JSON_OBJECT)
            read_strings(j, p, true);
        else if (str_is(key, "labels") && json_peek(j) == JSON_OBJECT)
            read_strings(j, p, false);
        else
            json_skip(j);
    }
}

static void read_pod(struct json *j, struct pod *p)
{
    struct str key, inner;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "metadata")) {
            read_metadata(j, p);
        } else if ((str_is(key, "status") || str_is(key, "spec")) && json_peek(j) == JSON_OBJECT) {
            json_begin_object(j);
            while (json_next_key(j, &inner)) {
                if (str_is(inner, "podIP"))
                    p->ip = json_str(j);
                else if (str_is(inner, "phase"))
                    p->phase = json_str(j);
                else if (str_is(inner, "nodeName"))
                    p->node = json_str(j);
                else
                    json_skip(j);
            }
        } else {
            json_skip(j);
        }
    }
}

int scrape_parse_pods(struct scrape_list *l, struct str json, const char *prefix, struct err *e)
{
    struct arena a;
    struct json j;
    struct str key;
    int r = 0;

    arena_init(&a, 64 << 20);
    json_init(&j, json, &a);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        if (!str_is(key, "items") || json_peek(&j) != JSON_ARRAY) {
            json_skip(&j);
            continue;
        }
        json_begin_array(&j);
        while (r == 0 && json_next_item(&j)) {
            struct pod p = {0};

            read_pod(&j, &p);
            if (!j.err)
                r = add_pod(l, &p, prefix);
        }
    }
    if (r == 0 && json_end(&j) < 0)
        r = json_error(&j, e);
    arena_done(&a);
    return r;
}

static int read_kubernetes(struct scrape_list *l, const struct kubernetes_config *c, struct err *e)
{
    struct tls_options tls = {.ca_file = c->ca_file, .http1 = true};
    struct fetch_options o = {
        .timeout_ns = 30 * NS_PER_S, .max_answer = PODS_MAX_BYTES, .tls = &tls_openssl, .tls_options = &tls};
    _cleanup_(buf_done) struct buf token = BUF_INIT, url = BUF_INIT, auth = BUF_INIT;
    struct http_header header;
    struct fetch_result res;
    int r;

    buf_printf(&url, "%s/api/v1/%s%s%spods", c->api_server, c->namespace_name ? "namespaces/" : "",
               c->namespace_name ? c->namespace_name : "", c->namespace_name ? "/" : "");
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
        r = scrape_parse_pods(l, buf_str(&res.body), c->annotation_prefix, e);
    fetch_result_done(&res);
    return r;
}

/* --- all of them --- */

/* Names are looked up here: one that leads to a link-local address is taken off the list. */
static void drop_link_local(struct scrape_list *l, void (*warn)(void *, const char *), void *arg)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        struct address found[8];
        struct http_url url;
        struct address_parts parts = {0};
        bool bad = false;
        int n;

        if (http_url_parse(l->v[i].url, &url, NULL) < 0)
            continue;
        snprintf(parts.host, sizeof parts.host, "%s", url.host);
        snprintf(parts.port, sizeof parts.port, "%s", url.port);
        n = address_resolve(&parts, found, ARRAY_SIZE(found), NULL);
        for (int k = 0; k < n; k++) {
            char text[ADDRESS_TEXT_MAX];

            address_format(&found[k], text, sizeof text);
            bad |= scrape_is_link_local(text);
        }
        if (bad) {
            char message[400];

            snprintf(message, sizeof message, "%.250s is not scraped: a link-local address (allow_link_local is off)",
                     l->v[i].url);
            warn(arg, message);
            continue;
        }
        l->v[kept++] = l->v[i];
    }
    l->n = kept;
}

int scrape_discover(const struct discovery_config *c, const char *remote, struct scrape_list **ret,
                    void (*warn)(void *arg, const char *message), void *arg)
{
    const struct static_target_config *targets = c->targets.v;
    struct scrape_list *l = scrape_list_new();
    struct err e = {0};

    if (!l)
        return -ENOMEM;
    if (remote && add_target(l, str_from(remote), NULL, 0, 1u << SCRAPE_ONE) < 0)
        warn(arg, "remote: endpoint is no URL");
    for (uint32_t i = 0; i < c->targets.n; i++) {
        struct label labels[LABELS_MAX];
        uint32_t n = 0;

        for (; n < targets[i].labels.n && n < LABELS_MAX; n++)
            labels[n] = (struct label){str_from(targets[i].labels.v[n].name), str_from(targets[i].labels.v[n].value)};
        if (add_target(l, str_from(targets[i].endpoint), labels, n, 0) < 0)
            warn(arg, "a target's endpoint is no host:port or URL");
    }
    read_files(l, &c->files, warn, arg);
    if (c->has_kubernetes && read_kubernetes(l, &c->kubernetes, &e) < 0)
        warn(arg, e.message);
    if (!c->allow_link_local)
        drop_link_local(l, warn, arg);
    *ret = l;
    return 0;
}
