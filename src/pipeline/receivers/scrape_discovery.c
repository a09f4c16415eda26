/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the targets to scrape in the configuration, in files and in Kubernetes. See scrape_discovery.h. */
#include "pipeline/receivers/scrape_discovery.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "net/address.h"
#include "net/http.h"

enum { LABELS_MAX = 64, FILES_MAX = 1000 };

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

/* endpoint is host:port or a URL. service.name and service.instance.id are set if the labels do not contain them. */
static int add_target(struct scrape_list *l, struct str endpoint, const struct label *labels, uint32_t n,
                      unsigned types)
{
    struct label *v = arena_zalloc_array(&l->arena, n + 2, sizeof *v);
    bool url = str_find(endpoint, STR("://")) >= 0;
    struct http_url parts;
    bool named = has_label(labels, n, SEMCONV_SERVICE_NAME) || has_label(labels, n, "service_name");
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
    if (!has_label(v, n, SEMCONV_SERVICE_NAME))
        v[n++] = (struct label){STR(SEMCONV_SERVICE_NAME), arena_str(&l->arena, str_from(parts.host))};
    if (!has_label(v, n, SEMCONV_SERVICE_INSTANCE_ID))
        v[n++] = (struct label){STR(SEMCONV_SERVICE_INSTANCE_ID), arena_str(&l->arena, str_from(parts.authority))};
    l->v[l->n++] = (struct scrape_spec){text, types, v, n, named};
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
        r = err_set(e, -EINVAL, "%s: expected a list of {targets, labels}", name);
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
            r = conf_error(root->items[i], r, e, "a target is not a host:port or URL");
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

static struct str annotation(const struct k8s_pod *p, const char *prefix, const char *type, const char *key)
{
    char name[256];

    snprintf(name, sizeof name, *type ? "%s/%s.%s" : "%s/%s%s", prefix, type, key);
    return k8s_label(&p->annotations, name);
}

/* The application's name, from the annotations or labels of the pod, else the pod's name. */
static struct str app_name(const struct k8s_pod *p, const char *prefix)
{
    struct str name = annotation(p, prefix, "", "service");

    if (!name.n)
        name = k8s_label(&p->labels, "app.kubernetes.io/name");
    if (!name.n)
        name = k8s_label(&p->labels, "app");
    return name.n ? name : p->name;
}

static int add_pod_by(struct scrape_list *l, const struct k8s_pod *p, const char *prefix)
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
    struct label labels[] = {{STR(SEMCONV_SERVICE_NAME), app_name(p, prefix)},
                             {STR("k8s.namespace.name"), p->namespace_name},
                             {STR("k8s.pod.name"), p->name},
                             {STR("k8s.node.name"), p->node},
                             {STR("k8s.pod.uid"), p->uid}};
    uint32_t n = 3;
    int r = 0;

    for (size_t i = n; i < ARRAY_SIZE(labels); i++)
        if (labels[i].value.n)
            labels[n++] = labels[i];

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
            r = 0; /* a bad annotation affects only that pod */
    }
    return r;
}

static int add_pod(struct scrape_list *l, const struct k8s_pod *p, const char *prefix)
{
    uint32_t before = l->n;
    int r = add_pod_by(l, p, prefix ? prefix : "wick.dev");

    return r < 0 || prefix || l->n > before ? r : add_pod_by(l, p, "profiles.grafana.com");
}

struct adding {
    struct scrape_list *list;
    const char *prefix;
};

static int on_pod(void *arg, const struct k8s_pod *p)
{
    struct adding *a = arg;

    return add_pod(a->list, p, a->prefix);
}

int scrape_parse_pods(struct scrape_list *l, struct str json, const char *prefix, struct err *e)
{
    return k8s_pods_parse(json, on_pod, &(struct adding){l, prefix}, e);
}

static int read_kubernetes(struct scrape_list *l, const struct kubernetes_config *c, struct err *e)
{
    const char *node = c->node_from_env_var ? getenv(c->node_from_env_var) : NULL;
    struct k8s_api api = c->api;
    int r;

    if (strcmp(api.server, "in-cluster") == 0)
        api.server = NULL;
    api.node = node && *node ? node : NULL;
    r = k8s_api_complete(&api, !api.server, &l->arena, e);
    return r < 0 ? r : k8s_pods_fetch(&api, on_pod, &(struct adding){l, c->annotation_prefix}, e);
}

/* --- all of them --- */

/* Resolves names and removes targets whose name leads to a link-local address. */
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
            bad |= address_is_link_local(text);
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
        warn(arg, "remote: the endpoint is not a URL");
    for (uint32_t i = 0; i < c->targets.n; i++) {
        struct label labels[LABELS_MAX];
        uint32_t n = 0;

        for (; n < targets[i].labels.n && n < LABELS_MAX; n++)
            labels[n] = (struct label){str_from(targets[i].labels.v[n].name), str_from(targets[i].labels.v[n].value)};
        if (add_target(l, str_from(targets[i].endpoint), labels, n, 0) < 0)
            warn(arg, "the endpoint of a target is not a host:port or URL");
    }
    read_files(l, &c->files, warn, arg);
    if (c->has_kubernetes && read_kubernetes(l, &c->kubernetes, &e) < 0)
        warn(arg, e.message);
    if (!c->allow_link_local)
        drop_link_local(l, warn, arg);
    *ret = l;
    return 0;
}
