/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `resource`: modifies resource attributes, with the Collector's actions insert, update, upsert, delete, hash, extract
 * and convert. Everything else of a batch is shared with the original, so the cost depends on the attributes only.
 * Values from the configuration are shared too: it outlives every batch.
 */
#include <errno.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/regex.h"
#include "base/sha256.h"
#include "model/sink.h"
#include "pipeline/graph/component.h"
#include "pipeline/processors/kvs_edit.h"

enum action_kind {
    ACTION_INSERT,
    ACTION_UPDATE,
    ACTION_UPSERT,
    ACTION_DELETE,
    ACTION_HASH,
    ACTION_EXTRACT,
    ACTION_CONVERT
};
enum { GROUPS_MAX = 16 };

struct action_config {
    const char *key, *from_attribute, *from_context, *pattern;
    const struct conf_node *value, *default_value;
    int action, converted_type;
};

struct resource_config {
    struct option_tables attributes;
};

struct action {
    enum action_kind kind;
    struct str key, from_attribute, from_context;
    struct value value, default_value; /* VALUE_EMPTY: not given */
    struct regex *pattern;
    int converted_type;
    struct str groups[GROUPS_MAX]; /* capture group names, for extract */
    int n_groups;
};

struct resource_processor {
    struct instance instance;
    struct sink sink;
    struct sink *next;
    struct arena arena; /* owns the strings of the actions */
    struct action *actions;
    uint32_t n;
};

static const char *const action_names[] = {"insert", "update", "upsert", "delete", "hash", "extract", "convert", NULL};
static const char *const converted_types[] = {"", "int", "double", "string", NULL};

static const struct option action_options[] = {
    {"key", OPT_STRING, offsetof(struct action_config, key), NULL, "name of the attribute"},
    {"action", OPT_ENUM, offsetof(struct action_config, action), NULL, "action", .words = action_names,
     .required = true},
    {"value", OPT_CUSTOM, offsetof(struct action_config, value), NULL, "value to set, with its YAML type"},
    {"default_value", OPT_CUSTOM, offsetof(struct action_config, default_value), NULL,
     "value to set if from_attribute or from_context yields none"},
    {"from_attribute", OPT_STRING, offsetof(struct action_config, from_attribute), NULL,
     "use the value of this attribute"},
    {"from_context", OPT_STRING, offsetof(struct action_config, from_context), NULL,
     "use metadata.NAME (a request header), auth.NAME or client.address"},
    {"pattern", OPT_STRING, offsetof(struct action_config, pattern), NULL,
     "extract: regular expression with named groups; delete, hash: attributes whose names match"},
    {"converted_type", OPT_ENUM, offsetof(struct action_config, converted_type), "''", "convert: the new type",
     .words = converted_types},
    {0},
};

static const struct option options[] = {
    {"attributes", OPT_TABLES, offsetof(struct resource_config, attributes), NULL, "actions, in order",
     .table = action_options, .size = sizeof(struct action_config)},
    {0},
};

/* --- applying actions --- */

static void hash_value(struct kvs_edit *x, struct kv *kv)
{
    const struct value *v = &kv->value;
    uint8_t out[SHA256_SIZE], bytes[8];
    const void *p = v->str;
    size_t n = v->n;
    char *hex = arena_alloc_aligned(x->arena, 64, 1);

    if (!hex) {
        x->err = -ENOMEM;
        return;
    }
    if (v->kind == VALUE_BOOL) {
        bytes[0] = v->boolean;
        p = bytes;
        n = 1;
    } else if (v->kind == VALUE_INT || v->kind == VALUE_DOUBLE) {
        store_u64(bytes, (uint64_t) v->integer); /* like the Collector; DOUBLE as its bits */
        p = bytes;
        n = 8;
    } else if (v->kind != VALUE_STR && v->kind != VALUE_BYTES) {
        p = "";
        n = 0;
    }
    sha256_of(p, n, out);
    hex_write(hex, out, sizeof out);
    kv->value = (struct value){.kind = VALUE_STR, .n = 64, .str = hex};
}

static bool matched_by(const struct action *a, struct str key)
{
    return (a->key.n && str_eq(key, a->key)) || (a->pattern && regex_search(a->pattern, key));
}

static bool not_matched(void *arg, const struct kv *kv)
{
    return !matched_by(arg, kv->key);
}

static void do_hash(const struct action *a, struct kvs_edit *x)
{
    bool any = false;

    for (uint32_t i = 0; i < x->kvs->n && !any; i++)
        any = matched_by(a, x->kvs->v[i].key);
    if (!any)
        return;
    kvs_edit_set(x, x->kvs->v[0].key, x->kvs->v[0].value); /* makes the list our own copy */
    for (uint32_t i = 0; i < x->kvs->n && !x->err; i++)
        if (matched_by(a, x->kvs->v[i].key))
            hash_value(x, &x->kvs->v[i]);
}

static void do_extract(const struct action *a, struct kvs_edit *x)
{
    struct value *v = kvs_edit_find(x, a->key);
    struct str groups[GROUPS_MAX] = {0};
    size_t start, end;

    if (!v || v->kind != VALUE_STR ||
        !regex_find(a->pattern, value_str(v), 0, &start, &end, groups, MIN(a->n_groups, GROUPS_MAX)))
        return;
    for (int i = 0; i < a->n_groups; i++)
        if (a->groups[i].n)
            kvs_edit_set(x, a->groups[i], value_from_str(groups[i]));
}

static void to_text(struct kvs_edit *x, struct value *v)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str s;

    value_print(&b, v);
    s = arena_str(x->arena, buf_str(&b));
    if (s.p)
        *v = value_from_str(s);
    else
        x->err = -ENOMEM;
}

static void do_convert(const struct action *a, struct kvs_edit *x)
{
    struct value *old = kvs_edit_find(x, a->key), v;
    struct str s;

    if (!old)
        return;
    v = *old;
    s = str_trim(value_str(&v));
    if (a->converted_type == 1) {
        if (v.kind == VALUE_STR && str_to_i64(s, 10, &v.integer) == 0)
            v.kind = VALUE_INT;
        else if (v.kind == VALUE_DOUBLE)
            v = (struct value){.kind = VALUE_INT, .integer = (int64_t) v.number};
        else if (v.kind == VALUE_BOOL)
            v = (struct value){.kind = VALUE_INT, .integer = v.boolean};
    } else if (a->converted_type == 2) {
        if (v.kind == VALUE_STR && str_to_double(s, &v.number) == 0)
            v.kind = VALUE_DOUBLE;
        else if (v.kind == VALUE_INT)
            v = (struct value){.kind = VALUE_DOUBLE, .number = (double) v.integer};
        else if (v.kind == VALUE_BOOL)
            v = (struct value){.kind = VALUE_DOUBLE, .number = v.boolean};
    } else if (v.kind != VALUE_STR) {
        to_text(x, &v);
    }
    kvs_edit_set(x, a->key, v);
}

static bool from_context(const struct action *a, const struct sink_context *ctx, struct kvs_edit *x, struct value *ret)
{
    struct str name = a->from_context;
    const struct value *v;
    uint32_t n = 0;

    if (str_is(name, "client.address") && ctx->peer) {
        struct str s = arena_str(x->arena, str_from(ctx->peer));

        for (uint32_t i = 0; i < s.n; i++) /* remove the port */
            if (s.p[i] == ':')
                n = i;
        *ret = value_from_str(n ? str_slice(s, 0, n) : s);
        return true;
    }
    if (!ctx->metadata || !(str_starts(name, STR("metadata.")) || str_starts(name, STR("auth."))))
        return false;
    if (str_starts(name, STR("metadata.")))
        name = str_slice(name, 9, name.n);
    v = kvs_get(ctx->metadata, name);
    if (!v)
        return false;
    *ret = value_from_str(arena_str(x->arena, value_str(v)));
    return ret->str != NULL;
}

static void do_set(const struct action *a, struct kvs_edit *x, const struct sink_context *ctx)
{
    struct value *old = kvs_edit_find(x, a->key), v = a->value;

    if ((a->kind == ACTION_INSERT && old) || (a->kind == ACTION_UPDATE && !old))
        return;
    if (a->from_attribute.n) {
        const struct value *from = kvs_edit_find(x, a->from_attribute);

        v = from ? *from : a->default_value;
    } else if (a->from_context.n && !from_context(a, ctx, x, &v)) {
        v = a->default_value;
    }
    if (v.kind != VALUE_EMPTY)
        kvs_edit_set(x, a->key, v);
}

static void apply(struct resource_processor *p, struct kvs_edit *x, const struct sink_context *ctx)
{
    for (uint32_t i = 0; i < p->n && !x->err; i++) {
        struct action *a = &p->actions[i];

        switch (a->kind) {
        case ACTION_DELETE:
            if (a->pattern)
                kvs_edit_filter(x, not_matched, a);
            else
                kvs_edit_remove(x, a->key);
            break;
        case ACTION_HASH:
            do_hash(a, x);
            break;
        case ACTION_EXTRACT:
            do_extract(a, x);
            break;
        case ACTION_CONVERT:
            do_convert(a, x);
            break;
        default:
            do_set(a, x, ctx);
        }
    }
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct resource_processor *p = container_of(s, struct resource_processor, sink);
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    int r = batch_share(data.batch, &x);

    for (uint32_t i = 0; r == 0 && i < x->n_resources; i++) {
        struct kvs_edit edit;

        kvs_edit_init(&edit, &x->resources[i].attrs, &x->arena);
        apply(p, &edit, ctx);
        r = edit.err;
    }
    if (r < 0) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "out of memory");
        return;
    }
    sink_consume(p->next, x, ctx, ack);
}

/* --- creation --- */

static void free_instance(struct instance *i)
{
    struct resource_processor *p = container_of(i, struct resource_processor, instance);

    for (uint32_t k = 0; k < p->n; k++)
        regex_free(p->actions[k].pattern);
    arena_done(&p->arena);
    mem_free(p);
}

static int make_action(struct resource_processor *p, const struct action_config *c, struct action *a, struct err *e)
{
    int r = 0;

    *a = (struct action){
        .kind = (enum action_kind) c->action,
        .key = str_from(c->key),
        .from_attribute = str_from(c->from_attribute),
        .from_context = str_from(c->from_context),
        .converted_type = c->converted_type,
    };
    if (c->value)
        a->value = value_from_conf(c->value, &p->arena);
    if (c->default_value)
        a->default_value = value_from_conf(c->default_value, &p->arena);
    if (c->pattern)
        r = regex_new(str_from(c->pattern), &a->pattern, e);
    if (r < 0)
        return r;
    a->n_groups = a->pattern ? MIN(regex_group_count(a->pattern), (int) GROUPS_MAX) : 0;
    for (int i = 0; i < a->n_groups; i++)
        a->groups[i] = str_from(regex_group_name(a->pattern, i + 1));
    return 0;
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    const struct resource_config *c = args->config;
    const struct action_config *actions = c->attributes.v;
    struct resource_processor *p = mem_zalloc(sizeof *p);
    int r = 0;

    if (!p)
        return -ENOMEM;
    arena_init(&p->arena, 16 << 20);
    p->actions = arena_zalloc_array(&p->arena, c->attributes.n + 1, sizeof *p->actions);
    if (!p->actions)
        r = -ENOMEM;
    while (r == 0 && p->n < c->attributes.n) {
        r = make_action(p, &actions[p->n], &p->actions[p->n], e);
        p->n++;
    }
    p->sink.consume = consume;
    p->next = args->next[SIGNAL_PROFILES];
    p->instance = (struct instance){.id = args->id, .sink = &p->sink, .free = free_instance};
    if (r < 0) {
        free_instance(&p->instance);
        return r;
    }
    *ret = &p->instance;
    return 0;
}

static int check_action(const struct action_config *a, const struct conf_node *node, struct err *e)
{
    const char *name = action_names[a->action];
    int sources = (a->value != NULL) + (a->from_attribute != NULL) + (a->from_context != NULL);

    if (a->action <= ACTION_UPSERT) {
        if (!a->key)
            return conf_error(node, -EINVAL, e, "action %s requires 'key'", name);
        if (sources != 1)
            return conf_error(node, -EINVAL, e, "action %s of '%s' requires one of value, from_attribute, from_context",
                              name, a->key);
        if (a->pattern || a->converted_type)
            return conf_error(node, -EINVAL, e, "action %s does not use 'pattern' or 'converted_type'", name);
    } else if (sources) {
        return conf_error(node, -EINVAL, e, "action %s does not use a value", name);
    }
    if ((a->action == ACTION_DELETE || a->action == ACTION_HASH) && !a->key && !a->pattern)
        return conf_error(node, -EINVAL, e, "action %s requires 'key' or 'pattern'", name);
    if (a->action == ACTION_EXTRACT && (!a->key || !a->pattern))
        return conf_error(node, -EINVAL, e, "action extract requires 'key' and 'pattern'");
    if (a->action == ACTION_CONVERT && (!a->key || !a->converted_type))
        return conf_error(node, -EINVAL, e, "action convert requires 'key' and 'converted_type'");
    return 0;
}

static int check_pattern(const struct action_config *a, const struct conf_node *node, struct err *e)
{
    struct regex *re = NULL;
    struct err sub = {0};
    int r = 0;

    if (!a->pattern)
        return 0;
    if (regex_new(str_from(a->pattern), &re, &sub) < 0)
        return conf_error(node, -EINVAL, e, "%s", sub.message);
    if (a->action == ACTION_EXTRACT && !regex_group_count(re))
        r = conf_error(node, -EINVAL, e, "action extract: '%s' has no named groups", a->pattern);
    for (int i = 1; r == 0 && a->action == ACTION_EXTRACT && i <= regex_group_count(re); i++)
        if (!*regex_group_name(re, i))
            r = conf_error(node, -EINVAL, e, "action extract: every group of '%s' must have a name", a->pattern);
    regex_free(re);
    return r;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    const struct resource_config *c = config;
    const struct action_config *a = c->attributes.v;
    const struct conf_node *list = conf_get(node, "attributes");

    if (!c->attributes.n)
        return conf_error(node, -EINVAL, e, "'attributes' with at least one action is required");
    for (uint32_t i = 0; i < c->attributes.n; i++) {
        int r = check_action(&a[i], list->items[i], e);

        if (r == 0)
            r = check_pattern(&a[i], list->items[i], e);
        if (r < 0)
            return r;
    }
    return 0;
}

const struct component component_resource_processor = {
    .kind = COMPONENT_PROCESSOR,
    .name = "resource",
    .help = "modifies resource attributes",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct resource_config),
    .check = check,
    .create = create,
};
