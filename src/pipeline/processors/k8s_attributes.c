/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `k8s_attributes`: adds the attributes of its pod to a resource, from a Kubernetes API server (k8s_watch.h). Existing
 * attributes are never replaced, but for the name of a service that an annotation gives (service_annotation). Data never waits for the server: if a pod is unknown, its data is passed on unchanged.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/semconv.h"
#include "model/sink.h"
#include "net/http.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"
#include "pipeline/k8s/k8s_watch.h"

enum { SOURCES_MAX = 16 };

enum { AUTH_ACCOUNT, AUTH_NONE };
static const char *const auth_words[] = {"serviceAccount", "none", NULL};
enum { FROM_ATTRIBUTE, FROM_CONNECTION };
static const char *const from_words[] = {"resource_attribute", "connection", NULL};
static const char *const pod_words[] = {"pod", NULL};

struct rule_config {
    const char *tag_name, *key;
    int from;
};

struct source_config {
    int from;
    const char *name;
};

struct association_config {
    struct option_tables sources; /* struct source_config */
};

struct k8s_config {
    int auth_type;
    const char *api_server, *token_file, *ca_file, *namespace_name, *node, *node_from_env_var, *service_annotation;
    bool passthrough, wait_for_metadata, otel_annotations;
    int64_t refresh_interval, min_refresh_interval, wait_timeout;
    struct option_strings metadata;
    struct option_tables labels, annotations; /* struct rule_config */
    struct option_tables associations;        /* struct association_config */
};

struct k8s {
    struct instance instance;
    const struct k8s_config *config;
    struct sink sink;
    struct sink *next;
    struct arena arena; /* owns the settings passed to the watch */
    struct k8s_watch watch;
    struct str sources[SOURCES_MAX]; /* attributes that identify the pod; empty: the connection */
    uint32_t n_sources;
};

static const struct option label_options[] = {
    {"tag_name", OPT_STRING, offsetof(struct rule_config, tag_name), NULL,
     "name of the attribute; default: k8s.pod.labels.KEY or k8s.pod.annotations.KEY"},
    {"key", OPT_STRING, offsetof(struct rule_config, key), NULL, "key of the label or annotation", .required = true},
    {"from", OPT_ENUM, offsetof(struct rule_config, from), "pod", "whose", .words = pod_words},
    {0},
};

#define AT(field) offsetof(struct k8s_config, field)
static const struct option extract_options[] = {
    {"metadata", OPT_STRINGS, AT(metadata),
     "[k8s.namespace.name, k8s.pod.name, k8s.pod.uid, k8s.pod.start_time, k8s.deployment.name, k8s.node.name]",
     "attributes to add; also k8s.pod.ip, k8s.{replicaset,statefulset,daemonset,job,cronjob}.name, k8s.container.name, container.id, "
     "container.image.{name,tag}"},
    {"labels", OPT_TABLES, AT(labels), NULL, "of the pod", .table = label_options, .size = sizeof(struct rule_config)},
    {"annotations", OPT_TABLES, AT(annotations), NULL, "of the pod", .table = label_options,
     .size = sizeof(struct rule_config)},
    {"service_annotation", OPT_STRING, AT(service_annotation), NULL,
     "annotation of a pod that names its service, instead of the name that is there"},
    {"otel_annotations", OPT_BOOL, AT(otel_annotations), "false", "resource.opentelemetry.io/X becomes X"},
    {"deployment_name_from_replicaset", OPT_IGNORED, 0, NULL, "replica set names are always resolved"},
    {0},
};

static const struct option filter_options[] = {
    {"node", OPT_STRING, AT(node), NULL, "only pods on this node"},
    {"node_from_env_var", OPT_STRING, AT(node_from_env_var), NULL, "environment variable with the name of the node"},
    {"namespace", OPT_STRING, AT(namespace_name), NULL, "only pods in this namespace"},
    {0},
};

static const struct option source_options[] = {
    {"from", OPT_ENUM, offsetof(struct source_config, from), NULL, "source of the association", .words = from_words,
     .required = true},
    {"name", OPT_STRING, offsetof(struct source_config, name), NULL, "k8s.pod.uid, container.id, k8s.pod.ip"},
    {0},
};

static const struct option association_options[] = {
    {"sources", OPT_TABLES, offsetof(struct association_config, sources), NULL, "one", .table = source_options,
     .size = sizeof(struct source_config), .required = true},
    {0},
};

static const struct option options[] = {
    {"auth_type", OPT_ENUM, AT(auth_type), "serviceAccount", "how to authenticate to the API server",
     .words = auth_words},
    {"api_server", OPT_STRING, AT(api_server), NULL, "URL of the API server; default: the cluster that wick runs in"},
    {"token_file", OPT_STRING, AT(token_file), NULL, "file with a bearer token; default: the service account's"},
    {"ca_file", OPT_STRING, AT(ca_file), NULL, "file with CA certificates; default: the service account's"},
    {"passthrough", OPT_BOOL, AT(passthrough), "false", "only false is supported"},
    {"extract", OPT_TABLE, 0, NULL, "attributes to add", .table = extract_options},
    {"filter", OPT_TABLE, 0, NULL, "which pods to list", .table = filter_options},
    {"pod_association", OPT_TABLES, AT(associations), NULL,
     "attributes that identify the pod; the first match is used; default: container.id, k8s.pod.uid",
     .table = association_options, .size = sizeof(struct association_config)},
    {"refresh_interval", OPT_DURATION, AT(refresh_interval), "30s", "interval for listing pods"},
    {"min_refresh_interval", OPT_DURATION, AT(min_refresh_interval), "5s",
     "minimum interval when an unknown pod is seen"},
    {"wait_for_metadata", OPT_BOOL, AT(wait_for_metadata), "false", "wait for the pods at startup"},
    {"wait_for_metadata_timeout", OPT_DURATION, AT(wait_timeout), "10s", "fail after waiting this long"},
    {0},
};

/* --- adding attributes --- */

/* The address without port, brackets and the prefix of an IPv4-mapped IPv6 address. */
static struct str peer_address(const char *peer)
{
    struct str s = str_from(peer);
    uint32_t n = s.n;

    while (n && s.p[n - 1] != ':')
        n--;
    s = str_slice(s, 0, n ? n - 1 : s.n);
    if (str_starts(s, STR("[")) && str_ends(s, STR("]")))
        s = str_slice(s, 1, s.n - 1);
    return str_starts(s, STR("::ffff:")) ? str_slice(s, 7, s.n) : s;
}

static struct str attribute(const struct kvs *attrs, struct str name)
{
    const struct value *v = kvs_get(attrs, name);

    return v ? value_str(v) : (struct str){0};
}

/* The connection is used only if no attribute identifies the pod: otherwise data sent by an agent would get the agent's
 * pod. */
static void give(struct k8s *k, struct kvs_edit *x, const struct sink_context *ctx)
{
    struct str container = attribute(x->kvs, STR(SEMCONV_CONTAINER_ID)), unknown = {0};

    for (uint32_t i = 0; i < k->n_sources; i++) {
        struct str key = {0};

        if (k->sources[i].n)
            key = attribute(x->kvs, k->sources[i]);
        else if (!unknown.n && ctx->peer)
            key = peer_address(ctx->peer);
        if (!key.n)
            continue;
        if (k8s_watch_apply(&k->watch, key, container, x))
            return;
        unknown = key;
    }
    if (unknown.n)
        k8s_watch_miss(&k->watch, unknown);
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct k8s *k = container_of(s, struct k8s, sink);
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    int r = batch_share(data.batch, &x);

    for (uint32_t i = 0; r == 0 && i < x->n_resources; i++) {
        struct kvs_edit edit;

        kvs_edit_init(&edit, &x->resources[i].attrs, &x->arena);
        give(k, &edit, ctx);
        r = edit.err;
    }
    if (r < 0)
        ack_fail(ack, SINK_UNAVAILABLE, 0, "out of memory");
    else
        sink_consume(k->next, x, ctx, ack);
}

/* --- life --- */

static const char *non_empty(const char *s)
{
    return s && *s ? s : NULL;
}

/* Sets up the access to the API server from the options and the environment of the pod. */
static int find_api(struct k8s *k, struct err *e)
{
    const struct k8s_config *c = k->config;

    k->watch.api = (struct k8s_api){
        .server = c->api_server,
        .token_file = c->token_file,
        .ca_file = c->ca_file,
        .namespace_name = non_empty(c->namespace_name),
        .node = non_empty(c->node_from_env_var ? getenv(c->node_from_env_var) : c->node),
    };
    return k8s_api_complete(&k->watch.api, c->auth_type == AUTH_ACCOUNT, &k->arena, e);
}

static int start(struct instance *i, struct err *e)
{
    struct k8s *k = container_of(i, struct k8s, instance);
    int r = find_api(k, e);

    return r < 0 ? r : k8s_watch_start(&k->watch, k->config->wait_for_metadata ? k->config->wait_timeout : 0, e);
}

static void stop(struct instance *i)
{
    k8s_watch_stop(&container_of(i, struct k8s, instance)->watch);
}

static void free_instance(struct instance *i)
{
    struct k8s *k = container_of(i, struct k8s, instance);

    k8s_watch_done(&k->watch);
    arena_done(&k->arena);
    mem_free(k);
}

static int add_rules(struct k8s *k, const struct option_tables *rules, bool annotations)
{
    const struct rule_config *c = rules->v;

    for (uint32_t i = 0; i < rules->n; i++) {
        const char *tag = c[i].tag_name, *what = annotations ? "annotations" : "labels";

        if (!tag)
            tag = arena_printf(&k->arena, "k8s.pod.%s.%s", what, c[i].key);
        if (!tag)
            return -ENOMEM;
        k->watch.extract.rules[k->watch.extract.n_rules++] = (struct k8s_rule){c[i].key, tag, annotations};
    }
    return 0;
}

static int field_index(const char *name)
{
    for (int i = 0; i < K8S_FIELDS; i++)
        if (strcmp(name, k8s_field_names[i]) == 0)
            return i;
    return -1;
}

static int prepare(struct k8s *k)
{
    const struct k8s_config *c = k->config;
    const struct association_config *a = c->associations.v;
    int r;

    k->watch.extract.rules = arena_zalloc_array(&k->arena, c->labels.n + c->annotations.n + 1, sizeof(struct k8s_rule));
    if (!k->watch.extract.rules)
        return -ENOMEM;
    r = add_rules(k, &c->labels, false);
    if (r == 0)
        r = add_rules(k, &c->annotations, true);
    k->watch.extract.otel_annotations = c->otel_annotations;
    k->watch.extract.service_annotation = c->service_annotation;
    for (uint32_t i = 0; i < c->metadata.n; i++)
        k->watch.extract.fields |= 1u << field_index(c->metadata.v[i]);
    for (uint32_t i = 0; i < c->associations.n; i++) {
        const struct source_config *source = a[i].sources.v;

        k->sources[k->n_sources++] = source->from == FROM_CONNECTION ? STR("") : str_from(source->name);
    }
    if (!k->n_sources) {
        k->sources[k->n_sources++] = STR(SEMCONV_CONTAINER_ID);
        k->sources[k->n_sources++] = STR("k8s.pod.uid");
    }
    return r;
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct k8s *k = mem_zalloc(sizeof *k);
    int r;

    (void) e;
    if (!k)
        return -ENOMEM;
    arena_init(&k->arena, 4 << 20);
    k8s_watch_init(&k->watch);
    k->config = args->config;
    k->watch.id = args->id;
    k->watch.refresh_interval = k->config->refresh_interval;
    k->watch.min_refresh_interval = k->config->min_refresh_interval;
    k->sink.consume = consume;
    k->next = args->next[SIGNAL_PROFILES];
    k->watch.pods = metrics_add(args->host->metrics, METRIC_GAUGE, "otelcol_otelsvc_k8s_pod_table_size", "Known pods",
                                "processor=\"%s\"", args->id);
    k->instance =
        (struct instance){.id = args->id, .sink = &k->sink, .start = start, .stop = stop, .free = free_instance};
    r = prepare(k);
    if (r < 0) {
        free_instance(&k->instance);
        return r;
    }
    *ret = &k->instance;
    return 0;
}

static int check_association(const struct association_config *a, const struct conf_node *node, struct err *e)
{
    static const char *const known[] = {"k8s.pod.uid", SEMCONV_CONTAINER_ID, "k8s.pod.ip"};
    const struct source_config *s = a->sources.v;

    if (a->sources.n != 1)
        return conf_error(node, -EOPNOTSUPP, e, "an association must have exactly one source");
    if (s->from == FROM_CONNECTION)
        return s->name ? conf_error(node, -EINVAL, e, "'from: connection' must not have a name") : 0;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (s->name && strcmp(s->name, known[i]) == 0)
            return 0;
    return conf_error(node, -EOPNOTSUPP, e,
                      "pods cannot be associated by '%s'; supported: k8s.pod.uid, container.id, k8s.pod.ip",
                      s->name ? s->name : "");
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    const struct k8s_config *c = config;
    const struct conf_node *list = conf_get(node, "pod_association");
    struct http_url url;
    int r = 0;

    if (c->passthrough)
        return conf_error(conf_get(node, "passthrough"), -EOPNOTSUPP, e, "'passthrough: true' is not supported");
    if (c->api_server && http_url_parse(c->api_server, &url, NULL) < 0)
        return conf_error(conf_get(node, "api_server"), -EINVAL, e, "'%s' is not a URL", c->api_server);
    if (c->refresh_interval <= 0 || c->min_refresh_interval <= 0)
        return conf_error(node, -EINVAL, e, "intervals must be greater than zero");
    for (uint32_t i = 0; i < c->metadata.n; i++)
        if (field_index(c->metadata.v[i]) < 0)
            return conf_error(conf_get(conf_get(node, "extract"), "metadata"), -EOPNOTSUPP, e,
                              "pod metadata '%s' is not supported", c->metadata.v[i]);
    if (c->associations.n > SOURCES_MAX)
        return conf_error(list, -E2BIG, e, "more than %d associations", SOURCES_MAX);
    for (uint32_t i = 0; r == 0 && i < c->associations.n; i++)
        r = check_association((const struct association_config *) c->associations.v + i, list->items[i], e);
    return r;
}

static const char *const aliases[] = {"k8sattributes", NULL};

const struct component component_k8s_attributes_processor = {
    .kind = COMPONENT_PROCESSOR,
    .name = "k8s_attributes",
    .aliases = aliases,
    .help = "adds attributes of pods and their owners from a Kubernetes API server",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct k8s_config),
    .check = check,
    .create = create,
};
