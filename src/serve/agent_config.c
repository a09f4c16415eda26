/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the `agent` section of wick.yaml into options of `wick agent`, and checks its rules. */
#include "serve/agent_config.h"

#include <errno.h>

#include "agent/filter.h"
#include "agent/identity_read.h"
#include "base/clock.h"
#include "server/serve_config.h"

struct args_maker {
    struct arena *a;
    char **v;
    size_t n;
};

static void put(struct args_maker *m, char *arg)
{
    if (m->n < AGENT_CONFIG_ARGS_MAX)
        m->v[m->n++] = arg; /* NULL when memory is exhausted; the caller checks the list at the end */
}

static void put_list(struct args_maker *m, const char *name, const struct option_strings *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        put(m, arena_printf(m->a, "--%s=%s", name, l->v[i]));
}

static int check_rules(const struct serve_agent *c, struct err *e)
{
    _cleanup_(filter_freep) struct filter *f = NULL;
    struct identity_rules *rules = NULL;
    int r = filter_new(&f);

    for (uint32_t i = 0; r == 0 && i < c->include.n; i++)
        r = filter_add(f, true, str_from(c->include.v[i]), e);
    for (uint32_t i = 0; r == 0 && i < c->exclude.n; i++)
        r = filter_add(f, false, str_from(c->exclude.v[i]), e);
    if (r == 0)
        r = identity_rules_new(&rules);
    for (uint32_t i = 0; r == 0 && i < c->rename.n; i++)
        r = identity_rules_add(rules, str_from(c->rename.v[i]), e);
    identity_rules_free(rules);
    return r < 0 ? err_prefix(e, r, "agent: ") : 0;
}

static void put_exports(struct args_maker *m, const struct serve_agent *c)
{
    if (c->export_to)
        put(m, arena_printf(m->a, "--export=%s", c->export_to));
    if (c->interval)
        put(m, arena_printf(m->a, "--interval=%lldms", (long long) (c->interval / NS_PER_MS)));
    if (c->upload_symbols)
        put(m, arena_printf(m->a, "--upload-symbols"));
    if (c->server)
        put(m, arena_printf(m->a, "--server=%s", c->server));
    if (c->k8s_api)
        put(m, arena_printf(m->a, "--k8s-api=%s", c->k8s_api));
}

int agent_config_args(const struct serve_agent *c, bool exports, struct arena *a, char ***ret, struct err *e)
{
    struct args_maker m = {.a = a, .v = arena_zalloc_array(a, AGENT_CONFIG_ARGS_MAX + 1, sizeof *m.v)};
    int r = m.v ? check_rules(c, e) : -ENOMEM;

    if (r < 0)
        return r;
    if (c->rate)
        put(&m, arena_printf(a, "--rate=%lld", (long long) c->rate));
    put(&m, arena_printf(a, "--budget=%g", c->budget));
    put(&m, arena_printf(a, "--memory=%lld", (long long) c->memory));
    if (c->both)
        put(&m, arena_printf(a, "--both"));
    if (c->off_cpu)
        put(&m, arena_printf(a, "--type=cpu,offcpu"));
    if (!c->lines)
        put(&m, arena_printf(a, "--no-lines"));
    if (exports)
        put_exports(&m, c);
    put_list(&m, "exclude", &c->exclude);
    put_list(&m, "include", &c->include);
    put_list(&m, "rename", &c->rename);
    for (size_t i = 0; i < m.n; i++)
        if (!m.v[i])
            return -ENOMEM;
    *ret = m.v;
    return 0;
}

int agent_config_load(const struct arg_list *files, struct arena *a, char ***ret, struct err *e)
{
    struct serve_config config;
    struct conf conf;
    int r = 0;

    conf_init(&conf);
    for (size_t i = 0; r == 0 && i < files->n; i++)
        r = conf_add(&conf, str_from(files->v[i]), e);
    if (r == 0)
        r = conf_expand(&conf, e);
    if (r == 0)
        r = serve_config_read(&conf, &config, e);
    if (r == 0)
        r = agent_config_args(&config.agent, true, a, ret, e);
    conf_done(&conf);
    return r;
}
