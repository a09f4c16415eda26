/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services that Profiles Drilldown and profilecli ask besides the querier, see pyroscope.h: settings, which are kept per
 * tenant while the server runs, recording rules and feature flags, of which there are none, and those that wick does not
 * have, which are refused with a sentence.
 */
#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/pyroscope.h"

enum { SETTINGS_MAX = 1000, SETTING_SIZE = 4096 };

struct py_setting {
    char *tenant, *name, *value;
    int64_t modified_ms;
};

static struct {
    pthread_mutex_t lock;
    struct py_setting v[SETTINGS_MAX];
    uint32_t n;
} settings = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void put_setting(struct pbjson *w, const struct py_setting *s)
{
    pbjson_str(w, 1, "name", str_from(s->name));
    pbjson_str(w, 2, "value", str_from(s->value));
    pbjson_i64(w, 3, "modifiedAt", s->modified_ms);
}

int py_settings_get(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    (void) r;
    (void) e;
    pbjson_list(w, "settings");
    pthread_mutex_lock(&settings.lock);
    for (uint32_t i = 0; i < settings.n; i++)
        if (strcmp(settings.v[i].tenant, c->who.tenant) == 0) {
            pbjson_begin(w, 1, NULL);
            put_setting(w, &settings.v[i]);
            pbjson_end(w);
        }
    pthread_mutex_unlock(&settings.lock);
    pbjson_list_end(w);
    return 0;
}

static uint32_t find_setting(const char *tenant, struct str name)
{
    for (uint32_t i = 0; i < settings.n; i++)
        if (strcmp(settings.v[i].tenant, tenant) == 0 && str_is(name, settings.v[i].name))
            return i;
    return UINT32_MAX;
}

static void setting_done(struct py_setting *s)
{
    mem_free(s->tenant);
    mem_free(s->name);
    mem_free(s->value);
}

/* With the lock held. */
static int set_locked(const char *tenant, const char *name, const char *value, int64_t now, struct err *e)
{
    struct py_setting s = {mem_strdup(tenant), mem_strdup(name), mem_strdup(value), now};
    uint32_t i = find_setting(tenant, str_from(name));

    if (!s.tenant || !s.name || !s.value || (i == UINT32_MAX && settings.n == SETTINGS_MAX)) {
        setting_done(&s);
        return err_set(e, -E2BIG, "there are %d settings already", SETTINGS_MAX);
    }
    if (i == UINT32_MAX)
        i = settings.n++;
    else
        setting_done(&settings.v[i]);
    settings.v[i] = s;
    return 0;
}

int py_settings_set(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    char *name = arena_cstr(&c->q->arena, r->name), *value = arena_cstr(&c->q->arena, r->value);
    int64_t now = clock_wall() / NS_PER_MS;
    int result;

    if (!name || !value)
        return -ENOMEM;
    if (!r->name.n || r->name.n > SETTING_SIZE || r->value.n > SETTING_SIZE)
        return err_set(e, -EINVAL, "a setting needs a name, and name and value have at most %d bytes", SETTING_SIZE);
    pthread_mutex_lock(&settings.lock);
    result = set_locked(c->who.tenant, name, value, now, e);
    pthread_mutex_unlock(&settings.lock);
    if (result < 0)
        return result;
    pbjson_begin(w, 1, "setting");
    pbjson_str(w, 1, "name", r->name);
    pbjson_str(w, 2, "value", r->value);
    pbjson_i64(w, 3, "modifiedAt", now);
    pbjson_end(w);
    return 0;
}

int py_settings_delete(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    uint32_t i;

    (void) w;
    pthread_mutex_lock(&settings.lock);
    i = find_setting(c->who.tenant, r->name);
    if (i != UINT32_MAX) {
        setting_done(&settings.v[i]);
        settings.v[i] = settings.v[--settings.n];
    }
    pthread_mutex_unlock(&settings.lock);
    return i == UINT32_MAX ? err_set(e, -ENOENT, "there is no setting '%.*s'", STR_FMT(r->name)) : 0;
}

int py_no_rules(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    (void) c;
    (void) r;
    (void) e;
    pbjson_list(w, "rules");
    pbjson_list_end(w);
    return 0;
}

int py_no_flags(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    (void) c;
    (void) r;
    (void) e;
    pbjson_list(w, "featureFlags");
    pbjson_list_end(w);
    return 0;
}

struct impact {
    const struct selector *selector;
    uint64_t series;
};

static int count_series(void *ctx, const struct type *t, const struct labels *l)
{
    struct impact *x = ctx;

    x->series +=
        (str_is(x->selector->type, "*") || str_eq(x->selector->type, t->name)) && selector_matches(x->selector, l);
    return 0;
}

int py_analyze_query(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct store *s = front_options(c->front)->store;
    struct store_stats stats = {0};
    struct impact x = {0};
    ptrdiff_t brace = str_find_char(r->query, '{');
    const struct store_column *k;
    int result;

    r->left.type_id = str_trim(brace < 0 ? r->query : str_slice(r->query, 0, (size_t) brace));
    if (brace >= 0)
        r->left.selector = str_slice(r->query, (size_t) brace, r->query.n);
    result = py_compile(c, r, false, NULL, &q, e);
    if (result == 0)
        result = s->ops->stats(s, &stats);
    if (result < 0)
        return result;
    k = &q->q.columns[0];
    x.selector = k->selector;
    result = s->ops->each_series(s, &(struct store_range){c->who.tenant, k->from, k->to, &c->notes}, count_series, &x);
    if (result < 0)
        return err_set(e, result, "cannot list series: %m");
    pbjson_list(w, "queryScopes");
    pbjson_begin(w, 1, NULL);
    pbjson_str(w, 1, "componentType", STR("store"));
    pbjson_i64(w, 2, "componentCount", 1);
    pbjson_i64(w, 3, "blockCount", (int64_t) stats.segments);
    pbjson_i64(w, 4, "seriesCount", (int64_t) x.series);
    pbjson_i64(w, 8, "profileBytes", (int64_t) stats.segment_bytes);
    pbjson_i64(w, 9, "symbolBytes", (int64_t) stats.symbol_bytes);
    pbjson_end(w);
    pbjson_list_end(w);
    pbjson_begin(w, 2, "queryImpact");
    pbjson_i64(w, 2, "totalBytesInTimeRange", (int64_t) stats.segment_bytes);
    pbjson_i64(w, 3, "totalQueriedSeries", (int64_t) x.series);
    pbjson_bool(w, 4, "deduplicationNeeded", false);
    pbjson_end(w);
    return 0;
}
