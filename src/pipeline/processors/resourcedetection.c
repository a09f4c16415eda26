/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `resourcedetection`: attributes of the environment that the collector runs in, detected once at the start: env
 * (OTEL_RESOURCE_ATTRIBUTES), system (host.name, os.type, and more if configured), container (container.id). Detectors
 * for clouds are refused with an error message that names them.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "base/fd.h"
#include "base/mem.h"
#include "model/sink.h"
#include "net/http.h"
#include "pipeline/graph/component.h"
#include "pipeline/processors/kvs_edit.h"

struct enabled_config {
    bool enabled;
};

struct system_attributes {
    struct enabled_config host_name, host_id, host_arch, os_type, os_description;
};

struct system_config {
    struct system_attributes attributes;
};

struct detection_config {
    struct option_strings detectors;
    bool override;
    struct system_config system;
};

struct detection {
    struct instance instance;
    struct sink sink;
    struct sink *next;
    struct arena arena;
    struct kvs found;
    struct kvs_edit edit; /* edits found, while detecting */
    bool override;
};

#define ENABLED(name, on)                           \
    static const struct option name##_options[] = { \
        {"enabled", OPT_BOOL, offsetof(struct enabled_config, enabled), on, "whether to set this attribute"}, {0}}
ENABLED(on, "true");
ENABLED(off, "false");

static const struct option attribute_options[] = {
    {"host.name", OPT_TABLE, offsetof(struct system_attributes, host_name), NULL, "name of the host",
     .table = on_options},
    {"os.type", OPT_TABLE, offsetof(struct system_attributes, os_type), NULL, "linux", .table = on_options},
    {"host.id", OPT_TABLE, offsetof(struct system_attributes, host_id), NULL, "/etc/machine-id", .table = off_options},
    {"host.arch", OPT_TABLE, offsetof(struct system_attributes, host_arch), NULL, "amd64, arm64", .table = off_options},
    {"os.description", OPT_TABLE, offsetof(struct system_attributes, os_description), NULL, "kernel name and version",
     .table = off_options},
    {0},
};

static const struct option system_options[] = {
    {"resource_attributes", OPT_TABLE, offsetof(struct system_config, attributes), NULL, "attributes to set",
     .table = attribute_options},
    {"hostname_sources", OPT_IGNORED, 0, NULL, "the kernel's host name is always used"},
    {0},
};

static const struct option options[] = {
    {"detectors", OPT_STRINGS, offsetof(struct detection_config, detectors), "[env]", "env, system, container"},
    {"override", OPT_BOOL, offsetof(struct detection_config, override), "true", "overwrite attributes set by senders"},
    {"system", OPT_TABLE, offsetof(struct detection_config, system), NULL, "detector system", .table = system_options},
    {"timeout", OPT_IGNORED, 0, NULL, "detection makes no network requests"},
    {"refresh_interval", OPT_IGNORED, 0, NULL, "attributes are detected once, at startup"},
    {0},
};

static void add(struct detection *d, struct str key, struct str value)
{
    struct str k, v;

    if (!key.n || !value.n || kvs_edit_find(&d->edit, key)) /* the first detector has precedence */
        return;
    k = arena_str(&d->arena, key);
    v = arena_str(&d->arena, value);
    if (k.p && v.p)
        kvs_edit_set(&d->edit, k, value_from_str(v));
}

static void detect_env(struct detection *d)
{
    struct str list = str_from(getenv("OTEL_RESOURCE_ATTRIBUTES"));

    while (list.n) {
        struct str pair = str_cut(&list, ','), key = str_trim(str_cut(&pair, '='));

        add(d, http_percent_decode(&d->arena, key, false), http_percent_decode(&d->arena, str_trim(pair), false));
    }
}

static void detect_system(struct detection *d, const struct system_attributes *c)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct utsname u;

    if (uname(&u) < 0)
        return;
    if (c->host_name.enabled)
        add(d, STR("host.name"), str_from(u.nodename));
    if (c->os_type.enabled)
        add(d, STR("os.type"), STR("linux"));
    if (c->host_id.enabled && fd_read_file("/etc/machine-id", 4096, &b, NULL) == 0)
        add(d, STR("host.id"), str_trim(buf_str(&b)));
    if (c->host_arch.enabled)
        add(d, STR("host.arch"),
            strcmp(u.machine, "x86_64") == 0    ? STR("amd64")
            : strcmp(u.machine, "aarch64") == 0 ? STR("arm64")
                                                : str_from(u.machine));
    buf_reset(&b);
    buf_printf(&b, "%s %s %s", u.sysname, u.release, u.version);
    if (c->os_description.enabled)
        add(d, STR("os.description"), buf_str(&b));
}

/* Finds 64 hex digits in a row, which container runtimes use in names of control groups and mounts. */
static struct str find_id(struct str text)
{
    uint32_t run = 0;

    for (uint32_t i = 0; i <= text.n; i++) {
        char c = i < text.n ? text.p[i] : 0;

        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
            run++;
            continue;
        }
        if (run == 64)
            return str_slice(text, i - 64, i);
        run = 0;
    }
    return (struct str){0};
}

static void detect_container(struct detection *d)
{
    static const char *const files[] = {"/proc/self/cgroup", "/proc/self/mountinfo"};
    struct str id = {0};

    for (size_t i = 0; i < ARRAY_SIZE(files) && !id.n; i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;

        if (fd_read_file(files[i], 1 << 20, &b, NULL) == 0) {
            id = find_id(buf_str(&b));
            add(d, STR("container.id"), id);
        }
    }
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct detection *d = container_of(s, struct detection, sink);
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    int r = batch_share(data.batch, &x);

    for (uint32_t i = 0; r == 0 && i < x->n_resources; i++) {
        struct kvs_edit edit;

        kvs_edit_init(&edit, &x->resources[i].attrs, &x->arena);
        for (uint32_t k = 0; k < d->found.n; k++)
            if (d->override || !kvs_edit_find(&edit, d->found.v[k].key))
                kvs_edit_set(&edit, d->found.v[k].key, d->found.v[k].value);
        r = edit.err;
    }
    if (r < 0)
        ack_fail(ack, SINK_UNAVAILABLE, 0, "out of memory");
    else
        sink_consume(d->next, x, ctx, ack);
}

static void free_instance(struct instance *i)
{
    struct detection *d = container_of(i, struct detection, instance);

    arena_done(&d->arena);
    mem_free(d);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    const struct detection_config *c = args->config;
    struct detection *d = mem_zalloc(sizeof *d);

    (void) e;
    if (!d)
        return -ENOMEM;
    arena_init(&d->arena, 4 << 20);
    kvs_edit_init(&d->edit, &d->found, &d->arena);
    for (uint32_t i = 0; i < c->detectors.n; i++) {
        if (strcmp(c->detectors.v[i], "env") == 0)
            detect_env(d);
        else if (strcmp(c->detectors.v[i], "container") == 0)
            detect_container(d);
        else
            detect_system(d, &c->system.attributes); /* system; docker sets the same two attributes */
    }
    d->override = c->override;
    d->next = args->next[SIGNAL_PROFILES];
    d->sink.consume = consume;
    d->instance = (struct instance){.id = args->id, .sink = &d->sink, .free = free_instance};
    *ret = &d->instance;
    return 0;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    static const char *const known[] = {"env", "system", "container", "docker", NULL};
    const struct detection_config *c = config;

    for (uint32_t i = 0; i < c->detectors.n; i++) {
        const char *best = option_closest(str_from(c->detectors.v[i]), known);

        if (!best || strcmp(best, c->detectors.v[i]) != 0)
            return conf_error(conf_get(node, "detectors"), -EOPNOTSUPP, e,
                              "unknown detector '%s'; supported: env, system, container", c->detectors.v[i]);
    }
    return 0;
}

static const char *const aliases[] = {"resource_detection", NULL};

const struct component component_resourcedetection_processor = {
    .kind = COMPONENT_PROCESSOR,
    .name = "resourcedetection",
    .aliases = aliases,
    .help = "adds attributes of the host that the collector runs on",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct detection_config),
    .check = check,
    .create = create,
};
