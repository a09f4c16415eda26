/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the configuration of `wick serve` from files and options, and compares two versions of it. See serve_load.h. */
#include "serve/serve_load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/scrape_config.h"
#include "store/store.h"

static void override(const char **option, const char *arg)
{
    if (arg)
        *option = arg;
}

/* A port alone is one of loopback: "21000" is 127.0.0.1:21000. */
static int complete_address(struct serve_load *l, const char **address)
{
    uint64_t port;
    char *text;

    if (!*address || str_to_u64(str_from(*address), 10, &port) < 0)
        return 0;
    text = arena_printf(&l->conf.arena, "127.0.0.1:%s", *address);
    if (text)
        *address = text;
    return text ? 0 : -ENOMEM;
}

/* `store.dir: memory`, `store.dir: memory:` and `store.dir: clickhouse://...` name an engine instead of a directory. */
static void choose_engine(struct serve_config *c)
{
    const char *dir = c->store.dir;
    const struct store_ops *named = dir ? store_engine(str_from(dir)) : NULL;

    if (!named && dir)
        named = store_engine_of(str_from(dir));
    if (!named || named->in_dir)
        return;
    c->store.engine_of_place = named->name;
    c->store.place = dir;
    c->store.dir = NULL;
}

/* A server with the role ingest or query shares its store with others. The query half has no OTLP and no agent. */
static int apply_role(struct serve_config *c, struct err *e)
{
    if (c->role != ROLE_ALL && (!c->store.place || !strstr(c->store.place, "://")))
        return err_set(e, -EINVAL,
                       "role: 'ingest' and 'query' need a store that servers share: store.dir: clickhouse://...");
    if (c->role == ROLE_QUERY) {
        c->listen.otlp_grpc = c->listen.otlp_http = "off";
        c->agent.enabled = false;
    }
    return 0;
}

const struct store_ops *serve_engine(const struct serve_config *c)
{
    return c->store.engine_of_place                 ? store_engine(str_from(c->store.engine_of_place))
           : c->store.engine == SERVE_ENGINE_MEMORY ? &store_memory
                                                    : &store_segment;
}

bool serve_store_in_dir(const struct serve_config *c)
{
    return serve_engine(c)->in_dir;
}

int serve_load(const struct serve_args *a, struct serve_load *l, struct err *e)
{
    struct serve_config *c = &l->config;
    int r = 0;

    conf_init(&l->conf);
    for (size_t i = 0; r == 0 && i < a->config.n; i++)
        r = conf_add(&l->conf, str_from(a->config.v[i]), e);
    for (size_t i = 0; r == 0 && i < a->set.n; i++)
        r = conf_set(&l->conf, str_from(a->set.v[i]), e);
    if (r == 0 && a->role) {
        char text[64];

        snprintf(text, sizeof text, "role=%s", a->role);
        r = conf_set(&l->conf, str_from(text), e);
    }
    if (r == 0)
        r = scrape_config_add(&l->conf, &a->scrape, "sink", e);
    if (r == 0)
        r = conf_expand(&l->conf, e);
    if (r == 0)
        r = serve_config_read(&l->conf, c, e);
    if (r < 0)
        return r;
    override(&c->store.dir, a->store);
    override(&c->listen.http, a->http);
    override(&c->listen.otlp_grpc, a->otlp_grpc);
    override(&c->listen.otlp_http, a->otlp_http);
    c->listen.insecure |= a->insecure;
    r = complete_address(l, &c->listen.http);
    if (r == 0)
        r = complete_address(l, &c->listen.otlp_grpc);
    if (r == 0)
        r = complete_address(l, &c->listen.otlp_http);
    if (r < 0)
        return r;
    choose_engine(c);
    r = apply_role(c, e);
    if (r < 0)
        return r;
    return alert_rules_new(&(struct alert_sections){&c->alerts, &c->recording, conf_get(l->conf.root, "alerts"),
                                                    conf_get(l->conf.root, "recording")},
                           &l->alerts, e);
}

void serve_load_done(struct serve_load *l)
{
    alert_rules_unref(l->alerts);
    l->alerts = NULL;
    conf_done(&l->conf);
}

/* --- differences --- */

/* True for sections and options that can change while the server runs. */
static bool is_live(const char *name)
{
    static const char *const live[] = {
        "log",
        "retention",
        "source",
        "ui",
        "alerts",
        "recording",
        "limits.query_time",
        "limits.samples_per_second",
        "limits.series",
        "limits.tenant_queries",
        "limits.tenant_size",
        "limits.tenants",
    };

    for (size_t i = 0; i < ARRAY_SIZE(live); i++) {
        size_t n = strlen(live[i]);

        if (strncmp(name, live[i], n) == 0 && (!name[n] || name[n] == '.'))
            return true;
    }
    return false;
}

static bool is_same(struct conf_node *a, struct conf_node *b, const char *name)
{
    _cleanup_(buf_done) struct buf x = BUF_INIT, y = BUF_INIT;
    const struct conf_node *m = a ? conf_get(a, name) : NULL, *n = b ? conf_get(b, name) : NULL;

    if (m)
        conf_print(&x, m, 0);
    if (n)
        conf_print(&y, n, 0);
    return str_eq(buf_str(&x), buf_str(&y));
}

static void compare(const struct option *options, struct conf_node *before, struct conf_node *after,
                    const char *section, struct buf *now, struct buf *later)
{
    for (const struct option *o = options; o->name; o++) {
        char name[160];
        struct buf *out;

        if (is_same(before, after, o->name))
            continue;
        if (!section && o->kind == OPT_TABLE) {
            compare(o->table, before ? conf_get(before, o->name) : NULL, after ? conf_get(after, o->name) : NULL,
                    o->name, now, later);
            continue;
        }
        snprintf(name, sizeof name, "%s%s%s", section ? section : "", section ? "." : "", o->name);
        out = is_live(name) ? now : later;
        if (out)
            buf_printf(out, "%s%s", out->n ? ", " : "", name);
    }
}

void serve_load_changes(struct serve_load *before, struct serve_load *after, struct buf *ret_now, struct buf *ret_later)
{
    compare(serve_options, before->conf.root, after->conf.root, NULL, ret_now, ret_later);
}
