/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options of the agent from the `agent` section of wick.yaml, and checks its rules (agent_config.h). */
#include "serve/agent_config.h"

#include <errno.h>

#include "agent/filter.h"
#include "agent/identity_read.h"
#include "host/agent_run.h"
#include "server/serve_config.h"

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

static int put_list(const char *name, const struct option_strings *from, struct arg_list *to, struct err *e)
{
    if (from->n > ARG_LIST_MAX)
        return err_set(e, -E2BIG, "agent.%s: %u rules; the maximum is %d", name, from->n, ARG_LIST_MAX);
    for (uint32_t i = 0; i < from->n; i++)
        to->v[to->n++] = from->v[i];
    return 0;
}

static void put_exports(const struct serve_agent *c, struct agent_run_options *o)
{
    o->export = c->export_to;
    o->interval = c->interval;
    o->upload_symbols = c->upload_symbols;
    o->server = c->server;
    o->k8s_api = c->k8s_api;
}

int agent_config_read(const struct serve_agent *c, bool exports, struct agent_run_options *ret, struct err *e)
{
    int r = check_rules(c, e);

    agent_run_defaults(ret);
    if (c->rate)
        ret->watch.rate = c->rate;
    ret->budget = c->budget;
    ret->memory = c->memory;
    ret->both = c->both;
    ret->watch.types = c->off_cpu ? "cpu,offcpu" : NULL;
    ret->watch.no_lines = !c->lines;
    if (exports)
        put_exports(c, ret);
    if (r == 0)
        r = put_list("exclude", &c->exclude, &ret->watch.exclude, e);
    if (r == 0)
        r = put_list("include", &c->include, &ret->watch.include, e);
    if (r == 0)
        r = put_list("rename", &c->rename, &ret->watch.rename, e);
    return r;
}

int agent_config_load(const struct arg_list *files, struct conf *conf, struct agent_run_options *ret, struct err *e)
{
    struct serve_config config;
    int r = 0;

    for (size_t i = 0; r == 0 && i < files->n; i++)
        r = conf_add(conf, str_from(files->v[i]), e);
    if (r == 0)
        r = conf_expand(conf, e);
    if (r == 0)
        r = serve_config_read(conf, &config, e);
    return r < 0 ? r : agent_config_read(&config.agent, true, ret, e);
}
