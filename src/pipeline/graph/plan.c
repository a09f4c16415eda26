/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a configuration into a plan and checks it, see plan.h. Messages use the Collector's wording where users search
 * for it ("references receiver \"x\" which is not configured"), preceded by file:line.
 */
#include "pipeline/graph/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const char *const section_names[COMPONENT_KINDS] = {"receivers", "processors", "exporters", "extensions"};

void plan_warn(struct plan *p, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!p->warn)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->warn(p->warn_arg, text);
}

/* Warns about each option that is given but has no effect. */
static void warn_ignored(struct plan *p, const char *id, const struct option *table, const struct conf_node *node)
{
    for (uint32_t i = 0; node && node->kind == CONF_MAP && i < node->n; i++)
        for (const struct option *o = table; o->name; o++) {
            if (!str_is(node->keys[i], o->name))
                continue;
            if (o->kind == OPT_IGNORED)
                plan_warn(p, "%s:%u: %s: '%s' has no effect: %s", node->items[i]->file, node->items[i]->line, id,
                          o->name, o->help);
            else if (o->kind == OPT_TABLE)
                warn_ignored(p, id, o->table, node->items[i]);
        }
}

static struct plan_component *find(struct plan *p, enum component_kind kind, struct str id)
{
    for (uint32_t i = 0; i < p->n_components; i++)
        if (p->components[i].type->kind == kind && str_is(id, p->components[i].id))
            return &p->components[i];
    return NULL;
}

static int unknown_type(struct plan *p, enum component_kind kind, struct str id, struct str type,
                        const struct conf_node *node, struct err *e)
{
    const char *best = component_closest(kind, type);

    if (p->lenient) {
        plan_warn(p, "%s:%u: skipping %s '%.*s': wick does not support this %s", node->file, node->line,
                  component_kind_names[kind], STR_FMT(id), component_kind_names[kind]);
        return 0;
    }
    return conf_error(node, -ENOENT, e, "wick has no %s '%.*s'%s%s%s (--lenient skips it)", component_kind_names[kind],
                      STR_FMT(type), best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
}

static int read_component(struct plan *p, enum component_kind kind, struct str id, const struct conf_node *node,
                          struct err *e)
{
    struct str rest = id, type = str_cut(&rest, '/');
    const struct component *c = component_find(kind, type);
    struct plan_component *pc;
    int r;

    if (!type.n || (rest.p && !rest.n))
        return conf_error(node, -EINVAL, e, "'%.*s' is not a component id; expected type or type/name", STR_FMT(id));
    if (!c)
        return unknown_type(p, kind, id, type, node, e);
    if (p->n_components == PLAN_COMPONENTS_MAX)
        return conf_error(node, -E2BIG, e, "more than %d components", PLAN_COMPONENTS_MAX);
    pc = &p->components[p->n_components];
    *pc = (struct plan_component){.type = c, .id = arena_cstr(&p->conf->arena, id), .node = node};
    pc->config = arena_zalloc(&p->conf->arena, c->config_size + 1);
    if (!pc->id || !pc->config)
        return -ENOMEM;
    r = option_parse(p->conf, c->options, node, pc->config, e);
    if (r == 0 && c->check)
        r = c->check(pc->config, node, e);
    if (r < 0)
        return err_prefix(e, r, "%s::%s: ", section_names[kind], pc->id);
    warn_ignored(p, pc->id, c->options, node);
    p->n_components++;
    return 0;
}

static int read_section(struct plan *p, enum component_kind kind, const struct conf_node *section, struct err *e)
{
    if (!section || section->kind == CONF_NULL)
        return 0;
    if (section->kind != CONF_MAP)
        return conf_error(section, -EINVAL, e, "'%s' must be a map", section_names[kind]);
    for (uint32_t i = 0; i < section->n; i++) {
        int r = read_component(p, kind, section->keys[i], section->items[i], e);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Connectors are not supported. */
static int read_connectors(struct plan *p, const struct conf_node *section, struct err *e)
{
    for (uint32_t i = 0; section && i < section->n; i++) {
        const struct conf_node *n = section->items[i];

        if (!p->lenient)
            return conf_error(n, -ENOENT, e, "wick does not support connectors, such as '%.*s' (--lenient skips it)",
                              STR_FMT(section->keys[i]));
        plan_warn(p, "%s:%u: skipping connector '%.*s': wick does not support connectors", n->file, n->line,
                  STR_FMT(section->keys[i]));
    }
    return 0;
}

/* --- pipelines --- */

/* True if an id that is not among the components was configured (and skipped under --lenient). */
static bool was_skipped(struct plan *p, enum component_kind kind, struct str id)
{
    const struct conf_node *root = p->conf->root;

    return p->lenient &&
           (conf_get_str(conf_get(root, section_names[kind]), id) || conf_get_str(conf_get(root, "connectors"), id));
}

/* The component that an item names; NULL if it is skipped. */
static int resolve(struct plan *p, struct plan_pipeline *pl, enum component_kind kind, const struct conf_node *item,
                   struct plan_component **ret, struct err *e)
{
    struct plan_component *c;

    *ret = NULL;
    if (item->kind != CONF_SCALAR)
        return conf_error(item, -EINVAL, e, "service::pipelines::%s: expected a list of %s ids", pl->id,
                          component_kind_names[kind]);
    c = find(p, kind, item->text);
    if (!c && was_skipped(p, kind, item->text))
        return 0;
    if (!c)
        return conf_error(item, -EINVAL, e, "service::pipelines::%s: references %s \"%.*s\" which is not configured",
                          pl->id, component_kind_names[kind], STR_FMT(item->text));
    if (!(c->type->signals & 1u << pl->signal)) {
        if (!p->lenient)
            return conf_error(item, -EOPNOTSUPP, e,
                              "service::pipelines::%s: wick's %s '%s' does not support %s (--lenient skips it)", pl->id,
                              component_kind_names[kind], c->id, signal_names[pl->signal]);
        plan_warn(p, "%s:%u: skipping %s '%s' in pipeline %s: it does not support %s", item->file, item->line,
                  component_kind_names[kind], c->id, pl->id, signal_names[pl->signal]);
        return 0;
    }
    *ret = c;
    return 0;
}

static int resolve_list(struct plan *p, struct plan_pipeline *pl, enum component_kind kind, struct plan_component **out,
                        uint32_t *n, struct err *e)
{
    const struct conf_node *list = conf_get(pl->node, section_names[kind]);
    int r = 0;

    if (!list || list->kind == CONF_NULL)
        return 0;
    if (list->kind != CONF_LIST)
        return conf_error(list, -EINVAL, e, "service::pipelines::%s: '%s' must be a list", pl->id, section_names[kind]);
    for (uint32_t i = 0; r == 0 && i < list->n; i++) {
        struct plan_component *c;

        r = resolve(p, pl, kind, list->items[i], &c, e);
        if (r < 0 || !c)
            continue;
        for (uint32_t k = 0; k < *n; k++)
            if (out[k] == c)
                return conf_error(list->items[i], -EINVAL, e,
                                  "service::pipelines::%s: references %s \"%s\" multiple times", pl->id,
                                  component_kind_names[kind], c->id);
        if (*n == PIPELINE_COMPONENTS_MAX)
            return conf_error(list->items[i], -E2BIG, e, "service::pipelines::%s: too many components", pl->id);
        c->used = true;
        out[(*n)++] = c;
    }
    return r;
}

static int signal_of(struct str id, enum signal *ret)
{
    struct str rest = id, type = str_cut(&rest, '/');

    for (int i = 0; i < SIGNALS; i++) {
        if (str_is(type, signal_names[i])) {
            *ret = (enum signal) i;
            return 0;
        }
    }
    return -EINVAL;
}

static int check_pipeline_keys(const struct conf_node *node, const char *id, struct err *e)
{
    for (uint32_t i = 0; i < node->n; i++) {
        struct str k = node->keys[i];

        if (!str_is(k, "receivers") && !str_is(k, "processors") && !str_is(k, "exporters"))
            return conf_error(node->items[i], -EINVAL, e, "service::pipelines::%s: unknown key '%.*s'", id, STR_FMT(k));
    }
    return 0;
}

static int read_pipeline(struct plan *p, struct str id, const struct conf_node *node, struct err *e)
{
    struct plan_pipeline *pl = &p->pipelines[p->n_pipelines];
    int r;

    if (p->n_pipelines == PLAN_PIPELINES_MAX)
        return conf_error(node, -E2BIG, e, "more than %d pipelines", PLAN_PIPELINES_MAX);
    *pl = (struct plan_pipeline){.id = arena_cstr(&p->conf->arena, id), .node = node};
    if (!pl->id)
        return -ENOMEM;
    if (signal_of(id, &pl->signal) < 0)
        return conf_error(node, -EINVAL, e, "pipeline '%s': expected profiles, traces, metrics or logs", pl->id);
    if (node->kind != CONF_MAP)
        return conf_error(node, -EINVAL, e, "pipeline '%s' is empty", pl->id);
    r = check_pipeline_keys(node, pl->id, e);
    if (r == 0)
        r = resolve_list(p, pl, COMPONENT_RECEIVER, pl->receivers, &pl->n_receivers, e);
    if (r == 0)
        r = resolve_list(p, pl, COMPONENT_PROCESSOR, pl->processors, &pl->n_processors, e);
    if (r == 0)
        r = resolve_list(p, pl, COMPONENT_EXPORTER, pl->exporters, &pl->n_exporters, e);
    if (r < 0)
        return r;
    if (!pl->n_receivers || !pl->n_exporters) {
        if (!p->lenient)
            return conf_error(node, -EINVAL, e, "service::pipelines::%s: must have at least one %s", pl->id,
                              pl->n_receivers ? "exporter" : "receiver");
        plan_warn(p, "%s:%u: skipping pipeline %s: no %s is left", node->file, node->line, pl->id,
                  pl->n_receivers ? "exporter" : "receiver");
        return 0;
    }
    p->n_pipelines++;
    return 0;
}

static int read_extensions(struct plan *p, const struct conf_node *list, struct err *e)
{
    if (!list || list->kind == CONF_NULL)
        return 0;
    if (list->kind != CONF_LIST)
        return conf_error(list, -EINVAL, e, "service::extensions must be a list");
    p->extensions = arena_zalloc_array(&p->conf->arena, list->n + 1, sizeof *p->extensions);
    if (!p->extensions)
        return -ENOMEM;
    for (uint32_t i = 0; i < list->n; i++) {
        struct plan_component *c = find(p, COMPONENT_EXTENSION, list->items[i]->text);

        if (!c && was_skipped(p, COMPONENT_EXTENSION, list->items[i]->text))
            continue;
        if (!c)
            return conf_error(list->items[i], -EINVAL, e,
                              "service::extensions: references extension \"%.*s\" which is not configured",
                              STR_FMT(list->items[i]->text));
        c->used = true;
        p->extensions[p->n_extensions++] = c;
    }
    return 0;
}

static int read_service(struct plan *p, const struct conf_node *service, struct err *e)
{
    const struct conf_node *pipelines = conf_get(service, "pipelines");
    int r;

    if (!service || service->kind != CONF_MAP)
        return conf_error(service ? service : p->conf->root, -EINVAL, e, "'service' with 'pipelines' is required");
    for (uint32_t i = 0; i < service->n; i++) {
        struct str k = service->keys[i];

        if (!str_is(k, "pipelines") && !str_is(k, "extensions") && !str_is(k, "telemetry"))
            return conf_error(service->items[i], -EINVAL, e, "service: unknown key '%.*s'", STR_FMT(k));
    }
    r = plan_read_telemetry(p->conf, conf_get(service, "telemetry"), &p->telemetry, e);
    if (r == 0)
        r = read_extensions(p, conf_get(service, "extensions"), e);
    if (r < 0)
        return r;
    if (!pipelines || pipelines->kind != CONF_MAP || !pipelines->n)
        return conf_error(service, -EINVAL, e, "service::pipelines: must have at least one pipeline");
    for (uint32_t i = 0; i < pipelines->n; i++) {
        r = read_pipeline(p, pipelines->keys[i], pipelines->items[i], e);
        if (r < 0)
            return r;
    }
    if (!p->n_pipelines)
        return conf_error(pipelines, -EINVAL, e, "service::pipelines: no pipeline is left to run");
    return 0;
}

static int check_top(const struct conf_node *root, struct err *e)
{
    static const char *const names[] = {"receivers",  "processors", "exporters", "extensions",
                                        "connectors", "service",    NULL};

    for (uint32_t i = 0; i < root->n; i++) {
        const char *best = option_closest(root->keys[i], names);

        if (best && str_is(root->keys[i], best))
            continue;
        return conf_error(root->items[i], -EINVAL, e, "unknown key '%.*s'%s%s%s", STR_FMT(root->keys[i]),
                          best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
    }
    return 0;
}

static int read_plan(struct conf *c, const struct plan *how, bool part, struct plan **ret, struct err *e)
{
    struct plan *p = arena_zalloc(&c->arena, sizeof *p);
    int r;

    if (!c->root)
        return err_set(e, -EINVAL, "the configuration is empty");
    if (!p)
        return -ENOMEM;
    *p = *how;
    p->conf = c;
    p->components = arena_zalloc_array(&c->arena, PLAN_COMPONENTS_MAX, sizeof *p->components);
    p->pipelines = arena_zalloc_array(&c->arena, PLAN_PIPELINES_MAX + 1, sizeof *p->pipelines);
    if (!p->components || !p->pipelines)
        return -ENOMEM;
    r = part ? 0 : check_top(c->root, e);
    for (int k = 0; r == 0 && k < COMPONENT_KINDS; k++)
        r = read_section(p, (enum component_kind) k, conf_get(c->root, section_names[k]), e);
    if (r == 0)
        r = read_connectors(p, conf_get(c->root, "connectors"), e);
    if (r == 0)
        r = read_service(p, conf_get(c->root, "service"), e);
    if (r == 0)
        *ret = p;
    return r;
}

int plan_read(struct conf *c, bool lenient, void (*warn)(void *, const char *), void *warn_arg, struct plan **ret,
              struct err *e)
{
    return read_plan(c, &(struct plan){.lenient = lenient, .warn = warn, .warn_arg = warn_arg}, false, ret, e);
}

int plan_read_part(struct conf *c, void (*warn)(void *, const char *), void *warn_arg, struct plan **ret, struct err *e)
{
    return read_plan(c, &(struct plan){.warn = warn, .warn_arg = warn_arg}, true, ret, e);
}

static struct conf_node *effective_section(struct plan *p, enum component_kind kind, bool show)
{
    struct conf_node *map = conf_new(p->conf, CONF_MAP, NULL, 0);

    for (uint32_t i = 0; map && i < p->n_components; i++) {
        struct plan_component *c = &p->components[i];
        struct conf_node *n;

        if (c->type->kind != kind)
            continue;
        n = option_effective(p->conf, c->type->options, c->node, show);
        if (!n || conf_append(p->conf, map, str_from(c->id), n) < 0)
            return NULL;
    }
    return map;
}

struct conf_node *plan_effective(struct plan *p, bool show)
{
    struct conf_node *root = conf_new(p->conf, CONF_MAP, NULL, 0), *service = conf_get(p->conf->root, "service");

    for (int k = 0; root && k < COMPONENT_KINDS; k++) {
        struct conf_node *n = effective_section(p, (enum component_kind) k, show);

        if (!n || (n->n && conf_append(p->conf, root, str_from(section_names[k]), n) < 0))
            return NULL;
    }
    if (!root || conf_append(p->conf, root, STR("service"), service) < 0)
        return NULL;
    return root;
}
