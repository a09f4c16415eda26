/* SPDX-License-Identifier: Apache-2.0 */
/* The store of the configuration: what it is opened with, and opening it. See serve_state.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "model/labels.h"
#include "serve/disk_shares.h"
#include "serve/serve_end.h"
#include "serve/serve_state.h"
#include "store/match.h"
#include "store/store.h"

void serve_store_retention(const struct serve_retention *r, struct store_config *ret)
{
    const struct serve_retention_service *services = r->services.v;

    ret->keep = r->keep;
    ret->keep_detail = r->detail;
    ret->keep_bytes = (uint64_t) r->size;
    for (uint32_t i = 0; i < r->services.n && ret->n_services < STORE_SERVICE_RULES_MAX; i++) {
        ret->services[ret->n_services].service = services[i].service;
        ret->services[ret->n_services++].keep = services[i].keep;
    }
}

static void log_store(void *ctx, const char *line)
{
    (void) ctx;
    log_warn("store: %s", line);
}

enum { MORE_LABELS_MAX = 48, LABEL_VALUES_MAX = 10000 };

/* The labels of series: the default ones and those of the configuration, where "auto", or none, leaves the choice to the
 * store. */
static int make_labels(struct serve *s, const char *const **ret, uint32_t *ret_values, struct err *e)
{
    const struct option_strings *more = &s->config.store.labels;
    int64_t values = s->config.store.label_values;
    bool chosen = !more->n;
    const char **v;
    uint32_t n = 0;

    while (labels_default_allow[n])
        n++;
    if (more->n > MORE_LABELS_MAX)
        return err_set(e, -EINVAL, "store.labels: %u names; the maximum is %d", more->n, MORE_LABELS_MAX);
    if (values < 0 || values > LABEL_VALUES_MAX)
        return err_set(e, -EINVAL, "store.label_values: %lld is not between 0 and %d", (long long) values,
                       LABEL_VALUES_MAX);
    v = arena_zalloc_array(&s->paths, (size_t) n + more->n + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    memcpy(v, labels_default_allow, n * sizeof *v);
    for (uint32_t i = 0; i < more->n; i++) {
        if (strcmp(more->v[i], "auto") == 0)
            chosen = true;
        if (strcmp(more->v[i], "auto") == 0 || match_is_label(v, str_from(more->v[i])))
            continue;
        v[n] = arena_cstr(&s->paths, str_from(more->v[i]));
        if (!v[n++])
            return -ENOMEM;
    }
    *ret = v;
    *ret_values = chosen ? (uint32_t) values : 0;
    return 0;
}

int serve_store_settings(struct serve *s, struct store_config *ret, const struct store_ops **ret_engine, struct err *e)
{
    const struct serve_config *c = &s->config;
    int r;

    *ret = (struct store_config){
        .dir = c->store.place ? c->store.place : s->reached_store,
        .read_only = c->role == ROLE_QUERY,
        .async = c->store.async,
        .timestamps = (enum store_timestamps) c->store.timestamps,
        .cold = c->store.cold,
        .spool = c->store.ack != SERVE_ACK_SPOOL ? NULL
                 : s->spool_dir                  ? s->spool_dir
                                                 : "spool",
        .spool_bytes = (uint64_t) c->store.spool_size,
        .memory = (size_t) c->store.memory,
        .cache = (size_t) c->store.cache,
        .report = log_store,
        .ending = serve_end_is_asked,
    };
    *ret_engine = serve_engine(c);
    r = make_labels(s, &ret->allow, &ret->label_values, e);
    if (r < 0)
        return r;
    serve_store_retention(&c->retention, ret);
    return store_check_config(*ret_engine, ret, e);
}

int serve_store_open(struct serve *s, struct err *e)
{
    const struct store_ops *engine;
    struct store_config sc;
    int r = serve_store_settings(s, &sc, &engine, e);

    if (r < 0)
        return r;
    sc.memory = MIN(sc.memory, s->memory_limit / 16); /* several of them may be waiting to be written */
    sc.cache = MIN(sc.cache, s->memory_limit / 4);
    sc.dictionary = sc.answers = s->memory_limit / 2;
    sc.later = true;
    sc.tenant_limit = disk_shares_limit;
    sc.tenant_beside = disk_shares_beside;
    sc.tenant_ctx = s->disk;
    r = store_open(engine, &sc, &s->store, e);
    if (r != -EROFS)
        return r;
    log_warn("%s: what there is can be queried, and nothing is accepted", err_message(e, r));
    *e = (struct err){0};
    sc.read_only = s->traces.read_only = true;
    return store_open(engine, &sc, &s->store, e);
}
