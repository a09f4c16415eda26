/* SPDX-License-Identifier: Apache-2.0 */
/* Derives the attributes of pods and containers and looks them up by key. See k8s_table.h. */
#include "pipeline/k8s/k8s_table.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "model/semconv.h"

enum { ENTRIES_MAX = 8 * K8S_TABLE_PODS };

struct k8s_entry {
    struct str key;
    uint32_t pod;
    struct kvs container; /* the attributes of the container that the key selects, if it selects one */
};

const char *const k8s_field_names[K8S_FIELDS + 1] = {
    [K8S_NAMESPACE] = "k8s.namespace.name",
    [K8S_POD_NAME] = "k8s.pod.name",
    [K8S_POD_UID] = "k8s.pod.uid",
    [K8S_POD_IP] = "k8s.pod.ip",
    [K8S_POD_START] = "k8s.pod.start_time",
    [K8S_NODE] = "k8s.node.name",
    [K8S_DEPLOYMENT] = "k8s.deployment.name",
    [K8S_REPLICASET] = "k8s.replicaset.name",
    [K8S_STATEFULSET] = "k8s.statefulset.name",
    [K8S_DAEMONSET] = "k8s.daemonset.name",
    [K8S_JOB] = "k8s.job.name",
    [K8S_CRONJOB] = "k8s.cronjob.name",
    [K8S_CONTAINER_NAME] = "k8s.container.name",
    [K8S_CONTAINER_ID] = "container.id",
    [K8S_IMAGE_NAME] = "container.image.name",
    [K8S_IMAGE_TAG] = "container.image.tag",
};

struct k8s_table *k8s_table_new(const struct k8s_extract *x)
{
    struct k8s_table *t = mem_zalloc(sizeof *t);

    if (t) {
        arena_init(&t->arena, K8S_TABLE_BYTES);
        t->extract = x;
    }
    return t;
}

void k8s_table_free(struct k8s_table *t)
{
    if (!t)
        return;
    map_done(&t->map);
    mem_free(t->pods);
    mem_free(t->entries);
    arena_done(&t->arena);
    mem_free(t);
}

/* --- attributes of a pod --- */

/* A Deployment's ReplicaSets are named NAME-HASH, and their pods are labelled with the hash; pods of a ReplicaSet
 * without a Deployment have no such label. */
static struct str deployment_of(const struct k8s_pod *p)
{
    struct str hash = k8s_label(&p->labels, "pod-template-hash"), name = p->owner_name;

    if (!str_is(p->owner_kind, "ReplicaSet") || !hash.n || !str_ends(name, hash) || name.n < hash.n + 2 ||
        name.p[name.n - hash.n - 1] != '-')
        return (struct str){0};
    return str_slice(name, 0, name.n - hash.n - 1);
}

/* A CronJob's Jobs are named NAME-MINUTES. */
static struct str cronjob_of(const struct k8s_pod *p)
{
    struct str name = p->owner_name;
    uint32_t n = name.n;

    if (!str_is(p->owner_kind, "Job"))
        return (struct str){0};
    while (n && name.p[n - 1] >= '0' && name.p[n - 1] <= '9')
        n--;
    return n > 1 && n < name.n && name.p[n - 1] == '-' ? str_slice(name, 0, n - 1) : (struct str){0};
}

static struct str owner_of_kind(const struct k8s_pod *p, const char *kind)
{
    return str_is(p->owner_kind, kind) ? p->owner_name : (struct str){0};
}

/* HOST:PORT/NAME:TAG@DIGEST */
static void split_image(struct str image, struct str *ret_name, struct str *ret_tag)
{
    struct str rest = image;

    rest = str_cut(&rest, '@');
    *ret_name = rest;
    *ret_tag = (struct str){0};
    for (uint32_t i = rest.n; i > 0 && rest.p[i - 1] != '/'; i--) {
        if (rest.p[i - 1] == ':') {
            *ret_name = str_slice(rest, 0, i - 1);
            *ret_tag = str_slice(rest, i, rest.n);
            return;
        }
    }
}

/* --- creation --- */

static void put(struct k8s_table *t, struct kvs_edit *x, struct str key, struct str value)
{
    struct str k, v;

    if (!key.n || !value.n || kvs_edit_find(x, key))
        return;
    k = arena_str(&t->arena, key);
    v = arena_str(&t->arena, value);
    if (k.p && v.p)
        kvs_edit_set(x, k, value_from_str(v));
    else
        x->err = -ENOMEM;
}

static void put_fields(struct k8s_table *t, struct kvs_edit *x, const struct str *values, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (t->extract->fields & 1u << i)
            put(t, x, str_from(k8s_field_names[i]), values[i]);
}

static int add_container(struct k8s_table *t, const struct k8s_container *c, struct kvs *ret)
{
    struct str values[K8S_FIELDS] = {[K8S_CONTAINER_NAME] = c->name, [K8S_CONTAINER_ID] = c->id};
    struct kvs_edit x;

    *ret = (struct kvs){0};
    split_image(c->image, &values[K8S_IMAGE_NAME], &values[K8S_IMAGE_TAG]);
    kvs_edit_init(&x, ret, &t->arena);
    put_fields(t, &x, values, K8S_CONTAINER_NAME, K8S_FIELDS);
    return x.err;
}

static int add_attributes(struct k8s_table *t, const struct k8s_pod *p, struct kvs *ret)
{
    static const struct str prefix = {"resource.opentelemetry.io/", 26};
    const struct k8s_extract *o = t->extract;
    struct str values[K8S_FIELDS] = {
        [K8S_NAMESPACE] = p->namespace_name,
        [K8S_POD_NAME] = p->name,
        [K8S_POD_UID] = p->uid,
        [K8S_POD_IP] = p->ip,
        [K8S_POD_START] = p->start_time,
        [K8S_NODE] = p->node,
        [K8S_DEPLOYMENT] = deployment_of(p),
        [K8S_REPLICASET] = owner_of_kind(p, "ReplicaSet"),
        [K8S_STATEFULSET] = owner_of_kind(p, "StatefulSet"),
        [K8S_DAEMONSET] = owner_of_kind(p, "DaemonSet"),
        [K8S_JOB] = owner_of_kind(p, "Job"),
        [K8S_CRONJOB] = cronjob_of(p),
    };
    struct kvs_edit x;

    kvs_edit_init(&x, ret, &t->arena);
    if (o->service_annotation)
        put(t, &x, STR(SEMCONV_SERVICE_NAME), k8s_label(&p->annotations, o->service_annotation));
    put_fields(t, &x, values, 0, K8S_CONTAINER_NAME);
    for (uint32_t i = 0; i < o->n_rules; i++)
        put(t, &x, str_from(o->rules[i].tag),
            k8s_label(o->rules[i].annotation ? &p->annotations : &p->labels, o->rules[i].key));
    for (uint32_t i = 0; o->otel_annotations && i < p->annotations.n; i++)
        if (str_starts(p->annotations.v[i].name, prefix))
            put(t, &x, str_slice(p->annotations.v[i].name, prefix.n, p->annotations.v[i].name.n),
                p->annotations.v[i].value);
    return x.err;
}

static int add_entry(struct k8s_table *t, struct str key, struct kvs container)
{
    struct str k = arena_str(&t->arena, key);
    int r = array_reserve(t->entries, t->cap_entries, t->n_entries + 1, ENTRIES_MAX);

    if (!key.n)
        return 0;
    if (r < 0 || !k.p)
        return -ENOMEM;
    t->entries[t->n_entries] = (struct k8s_entry){k, t->n_pods, container};
    return map_insert(&t->map, hash64_str(key), t->n_entries++);
}

/* False with the host's network, because then the address is the node's. A pod that has ended stays in the list, and
 * another pod may have its address by now. */
static bool has_address(const struct k8s_pod *p)
{
    return !p->host_network && !str_is(p->phase, "Succeeded") && !str_is(p->phase, "Failed");
}

static int add_pod(struct k8s_table *t, const struct k8s_pod *p)
{
    int r = array_reserve(t->pods, t->cap_pods, t->n_pods + 1, K8S_TABLE_PODS);
    struct kvs only = {0};
    uint32_t ordinary = 0;

    if (r < 0)
        return r;
    t->pods[t->n_pods] = (struct kvs){0};
    r = add_attributes(t, p, &t->pods[t->n_pods]);
    for (uint32_t i = 0; r == 0 && i < p->n_containers; i++) {
        struct kvs one;

        r = add_container(t, &p->containers[i], &one);
        if (r == 0)
            r = add_entry(t, p->containers[i].id, one);
        if (p->containers[i].ordinary)
            only = ordinary++ ? (struct kvs){0} : one;
    }
    if (r == 0)
        r = add_entry(t, p->uid, only);
    if (r == 0 && has_address(p))
        r = add_entry(t, p->ip, only);
    t->n_pods++; /* also on failure: entries may refer to it */
    return r;
}

int k8s_table_add(struct k8s_table *t, const struct k8s_pod *p)
{
    if (t->full || t->n_pods == K8S_TABLE_PODS || add_pod(t, p) < 0)
        t->full = true;
    return 0;
}

/* --- lookup --- */

static const struct k8s_entry *find(const struct k8s_table *t, struct str key)
{
    for (struct map_pos p = map_find(&t->map, hash64_str(key)); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (str_eq(t->entries[p.index].key, key))
            return &t->entries[p.index];
    return NULL;
}

/* Copies, because the table may be freed before the batch. */
static void add_missing(struct kvs_edit *x, const struct kvs *from, bool rename)
{
    for (uint32_t i = 0; i < from->n && !x->err; i++) {
        struct str key, value;

        if (kvs_edit_find(x, from->v[i].key) && !(rename && str_is(from->v[i].key, SEMCONV_SERVICE_NAME)))
            continue;
        key = arena_str(x->arena, from->v[i].key);
        value = arena_str(x->arena, value_str(&from->v[i].value));
        if (key.p && value.p)
            kvs_edit_set(x, key, value_from_str(value));
        else
            x->err = -ENOMEM;
    }
}

bool k8s_table_apply(const struct k8s_table *t, struct str key, struct str container, struct kvs_edit *x)
{
    const struct k8s_entry *e = key.n ? find(t, key) : NULL, *c = container.n ? find(t, container) : NULL;

    if (!e)
        return false;
    add_missing(x, &t->pods[e->pod], t->extract->service_annotation);
    if (c && c->pod == e->pod)
        add_missing(x, &c->container, false);
    else if (!c && !container.n)
        add_missing(x, &e->container, false);
    return true;
}
