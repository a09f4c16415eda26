/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes engine `clickhouse`, and its table of functions; see click.h. */
#include "store/engines/clickhouse/click.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "store/engines/clickhouse/click_schema.h"
#include "store/store_callers.h"

enum { CACHE_DEFAULT = 256 << 20 };

struct click_cache *click_take_cache(struct click *c)
{
    struct click_cache *fresh = NULL, *ret;

    pthread_mutex_lock(&c->lock);
    if (click_cache_bytes(c->cache) > c->cache_max && click_cache_new(&fresh) == 0) {
        click_cache_unref(c->cache);
        c->cache = fresh;
    }
    ret = c->cache;
    atomic_fetch_add(&ret->refs, 1);
    pthread_mutex_unlock(&c->lock);
    return ret;
}

static void click_close(struct store *s)
{
    struct click *c = to_click(s);

    click_writer_free(c->writer);
    click_cache_unref(c->cache);
    click_http_done(&c->http);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

static void click_interrupt(struct store *s)
{
    click_http_stop(&to_click(s)->http);
}

static int click_check_config(const struct store_config *c, struct err *e)
{
    struct click_url u;
    int r = click_url_parse(c->dir, &u, e);

    click_url_done(&u);
    return r;
}

/* Whether ClickHouse could not be reached, rather than that it refused something. */
static bool is_away(int r)
{
    return r < 0 && r != -EREMOTEIO && r != -EACCES && r != -EINVAL && r != -EPROTO && r != -EPROTONOSUPPORT &&
           r != -ENOMEM && r != -ECANCELED;
}

static int click_open(const struct store_config *config, struct store **ret, struct err *e)
{
    struct click *c = mem_zalloc(sizeof *c);
    char problem[240];
    bool ready = true;
    int r;

    if (!c)
        return err_set(e, -ENOMEM, "out of memory");
    c->config = *config;
    pthread_mutex_init(&c->lock, NULL);
    intake_limits_init(&c->limits, config);
    c->cache_max = config->cache ? config->cache : CACHE_DEFAULT;
    r = click_http_init(&c->http, config->dir ? config->dir : "", e);
    c->http.ending = config->ending;
    if (r == 0)
        r = click_cache_new(&c->cache);
    if (r == 0)
        r = click_schema_ensure(&c->http, !config->read_only, e);
    c->http.ending = NULL;                                   /* from here on, closing stops requests */
    if (is_away(r) && config->later) { /* what is sent meanwhile is kept in the spool, or refused */
        ready = false;
        snprintf(problem, sizeof problem, "%.200s", e ? e->message : "ClickHouse does not answer");
        r = 0;
    }
    if (r == 0 && !config->read_only)
        r = click_writer_new(c, ready ? NULL : problem, &c->writer, e);
    else if (r == 0 && !ready && config->report)
        config->report(config->report_ctx, problem);
    if (r < 0) {
        click_close(&c->store);
        return r;
    }
    *ret = &c->store;
    return 0;
}

struct migrating {
    struct click_http *http;
    bool dry_run;
    store_statement_fn fn;
    void *ctx;
};

static int migrate_step(void *ctx, struct str sql, struct err *e)
{
    struct migrating *m = ctx;
    struct click_call call = {.no_database = true};
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    buf_put_str(&text, sql);
    if (!buf_cstr(&text))
        return -ENOMEM;
    m->fn(m->ctx, buf_cstr(&text));
    return m->dry_run ? 0 : click_send(m->http, sql, &call, NULL, e);
}

static int click_migrate(const struct store_config *c, bool dry_run, store_statement_fn fn, void *ctx, struct err *e)
{
    struct click_http http;
    struct migrating m = {&http, dry_run, fn, ctx};
    uint32_t server, version;
    int r = click_http_init(&http, c->dir ? c->dir : "", e);

    if (r == 0)
        r = click_server_version(&http, &server, e);
    if (r == 0)
        r = click_schema_version(&http, &version, e);
    if (r == 0)
        r = click_schema_plan(&http.url, server, version, migrate_step, &m, e);
    click_http_done(&http);
    return r;
}

static void click_append(struct store *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    struct click *c = to_click(s);

    if (!c->writer)
        ack_fail(ack, SINK_UNAVAILABLE, 0, "this server only answers queries (--role query)");
    else
        click_writer_append(c->writer, b, ctx, ack);
}

/* Sizes and counts of the tables, on the server that is asked. */
static void ask_stats(struct click *c, struct store_stats *ret)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
    struct click_call call = {.max_answer = 4096, .uncounted = true};
    struct cursor in;

    buf_printf(&sql,
               "SELECT toUInt64(sum(bytes)), toUInt64(sumIf(rows, table LIKE 'samples%%')), toUInt64(sumIf(rows, table "
               "LIKE 'profiles%%')), toUInt64(sumIf(rows, table LIKE 'series%%')), toUInt64(sumIf(rows, table LIKE "
               "'stacks%%')), toUInt64(sumIf(rows, table LIKE 'locations%%')), toUInt64(sumIf(bytes, table LIKE "
               "'samples%%' OR table LIKE 'links%%' OR table LIKE 'profiles%%')) FROM system.parts WHERE active AND "
               "database = '%s' FORMAT RowBinary",
               c->http.url.database);
    if (click_send(&c->http, buf_str(&sql), &call, &answer, NULL) < 0)
        return;
    in = cursor_of(answer.p, answer.n);
    ret->disk_bytes = get_u64(&in);
    ret->stored_samples = get_u64(&in);
    ret->stored_profiles = get_u64(&in);
    ret->series = get_u64(&in);
    ret->stacks = get_u64(&in);
    ret->locations = get_u64(&in);
    ret->segment_bytes = get_u64(&in);
    ret->symbol_bytes = ret->disk_bytes - ret->segment_bytes;
}

static void ask_times(struct click *c, struct store_stats *ret)
{
    _cleanup_(buf_done) struct buf answer = BUF_INIT;
    struct click_call call = {.max_answer = 4096, .uncounted = true};
    struct cursor in;

    if (click_send(&c->http, STR("SELECT min(time), max(time) FROM profiles FORMAT RowBinary"), &call, &answer, NULL) <
        0)
        return;
    in = cursor_of(answer.p, answer.n);
    ret->oldest_ns = (int64_t) get_u64(&in);
    ret->newest_ns = (int64_t) get_u64(&in);
}

static int click_stats(struct store *s, struct store_stats *ret)
{
    struct click *c = to_click(s);

    *ret = (struct store_stats){0};
    pthread_mutex_lock(&c->lock);
    ret->cache_bytes = click_cache_bytes(c->cache);
    pthread_mutex_unlock(&c->lock);
    ret->memory_bytes = ret->cache_bytes;
    ret->remote_requests = atomic_load(&c->http.requests);
    ret->remote_ns = atomic_load(&c->http.waited_ns);
    if (c->writer)
        click_writer_stats(c->writer, ret);
    ask_stats(c, ret);
    ask_times(c, ret);
    return 0;
}

static void click_set_retention(struct store *s, const struct store_config *from)
{
    struct click *c = to_click(s);

    pthread_mutex_lock(&c->lock);
    c->config.keep = from->keep;
    memcpy(c->config.services, from->services, sizeof c->config.services);
    c->config.n_services = from->n_services;
    pthread_mutex_unlock(&c->lock);
}

const struct store_ops store_clickhouse = {
    .name = "clickhouse",
    .help = "tables of a ClickHouse server or cluster, which any number of servers share",
    .takes_spool = true,
    .open = click_open,
    .check_config = click_check_config,
    .migrate = click_migrate,
    .interrupt = click_interrupt,
    .close = click_close,
    .append = click_append,
    .select = click_select,
    .table = click_table_of,
    .spans = click_spans,
    .callers = callers_by_select,
    .series = click_series,
    .each_series = click_each_series,
    .attributes = click_attributes,
    .profiles = click_profiles,
    .export = click_export,
    .name_later = click_name_later,
    .delete = click_delete,
    .retain = click_retain,
    .set_retention = click_set_retention,
    .stats = click_stats,
};
