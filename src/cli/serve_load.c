/* SPDX-License-Identifier: Apache-2.0 */
/* See serve_load.h. */
#include "cli/serve_load.h"

#include <string.h>

static void override(const char **option, const char *arg)
{
    if (arg)
        *option = arg;
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
    if (c->store.dir && strcmp(c->store.dir, "memory") == 0) {
        c->store.engine = "memory";
        c->store.dir = NULL;
    }
    return 0;
}

void serve_load_done(struct serve_load *l)
{
    conf_done(&l->conf);
}

static void print_section(struct serve_load *l, const char *name, struct buf *out)
{
    const struct conf_node *n = conf_get(l->conf.root, name);

    if (n)
        conf_print(out, n, 0);
}

void serve_load_changes(struct serve_load *before, struct serve_load *after, struct buf *out)
{
    for (const struct option *o = serve_options; o->name; o++) {
        _cleanup_(buf_done) struct buf a = BUF_INIT, b = BUF_INIT;

        if (strcmp(o->name, "log") == 0 || strcmp(o->name, "limits") == 0)
            continue;
        print_section(before, o->name, &a);
        print_section(after, o->name, &b);
        if (!str_eq(buf_str(&a), buf_str(&b)))
            buf_printf(out, "%s%s", out->n ? ", " : "", o->name);
    }
}
