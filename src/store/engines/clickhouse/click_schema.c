/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and checks the schema of a ClickHouse store; see click_schema.h. */
#include "store/engines/clickhouse/click_schema.h"

#include <errno.h>
#include <string.h>

#include "store/engines/clickhouse/click_tables.h"

enum {
    MODERN = 2001, /* the first version whose codecs are used */
    NEWEST = 2310, /* the first version whose codec GCD is used */
};

int click_server_version(struct click_http *h, uint32_t *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf answer = BUF_INIT;
    struct click_call call = {.no_database = true, .max_answer = 4096};
    struct str text, part;
    uint64_t major, minor;
    int r = click_send(h, STR("SELECT version()"), &call, &answer, e);

    if (r < 0)
        return r;
    text = str_trim(buf_str(&answer));
    part = str_cut(&text, '.');
    r = str_to_u64(part, 10, &major);
    part = str_cut(&text, '.');
    if (r < 0 || str_to_u64(part, 10, &minor) < 0 || major > 10000)
        return err_set(e, -EPROTO, "the server does not answer like ClickHouse: its version is '%.*s'",
                       (int) MIN(answer.n, 40), answer.p);
    *ret = (uint32_t) (major * 100 + MIN(minor, 99u));
    return 0;
}

int click_schema_version(struct click_http *h, uint32_t *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf answer = BUF_INIT, sql = BUF_INIT;
    struct click_call call = {.no_database = true, .max_answer = 4096};
    uint64_t version;
    int r;

    *ret = 0;
    buf_printf(&sql, "SELECT count() FROM system.tables WHERE database = '%s' AND name = 'schema'", h->url.database);
    r = click_send(h, buf_str(&sql), &call, &answer, e);
    if (r < 0 || str_is(str_trim(buf_str(&answer)), "0"))
        return r;
    buf_reset(&sql);
    buf_reset(&answer);
    buf_printf(&sql, "SELECT max(version) FROM %s.schema", h->url.database);
    r = click_send(h, buf_str(&sql), &call, &answer, e);
    if (r == 0 && str_to_u64(str_trim(buf_str(&answer)), 10, &version) == 0)
        *ret = (uint32_t) version;
    return r;
}

struct schema_plan {
    const struct click_url *u;
    uint32_t server;
    struct buf sql;
    click_statement_fn fn;
    void *ctx;
    struct err *e;
};

static int report(struct schema_plan *p)
{
    int r = buf_error(&p->sql);

    if (r == 0)
        r = p->fn(p->ctx, buf_str(&p->sql), p->e);
    buf_reset(&p->sql);
    return r;
}

static void put_on_cluster(struct schema_plan *p)
{
    if (*p->u->cluster)
        buf_printf(&p->sql, " ON CLUSTER '%s'", p->u->cluster);
}

static void put_engine(struct schema_plan *p, const char *name, const char *engine, const char *arguments)
{
    if (*p->u->cluster)
        buf_printf(&p->sql, " ENGINE = Replicated%s('/clickhouse/tables/{shard}/%s/%s', '{replica}'%s%s)", engine,
                   p->u->database, name, *arguments ? ", " : "", arguments);
    else
        buf_printf(&p->sql, " ENGINE = %s(%s)", engine, arguments);
}

static const char *type_of(const struct schema_plan *p, const struct click_column *c)
{
    if (p->server >= NEWEST && c->newest)
        return c->newest;
    return p->server >= MODERN && c->modern ? c->modern : c->type;
}

static bool has_ttl(const struct schema_plan *p, const struct click_column *c)
{
    return strstr(type_of(p, c), " TTL ") != NULL;
}

/* Whether this server stores the column as a dictionary of numbers, which it allows only with a setting. */
static bool is_repeated(const struct schema_plan *p, const struct click_column *c)
{
    return p->server >= NEWEST && c->newest && strncmp(c->newest, "LowCardinality(", 15) == 0;
}

/* A table that only distributes rows has the plain types: the servers convert them. */
static void put_columns(struct schema_plan *p, const struct click_table_def *t, bool distributes)
{
    buf_puts(&p->sql, " (");
    for (const struct click_column *c = t->columns; c->name; c++)
        buf_printf(&p->sql, "%s%s %s", c == t->columns ? "" : ", ", c->name,
                   distributes && (is_repeated(p, c) || has_ttl(p, c)) ? c->type : type_of(p, c));
    buf_putc(&p->sql, ')');
}

static void put_settings(struct schema_plan *p, const struct click_table_def *t)
{
    const char *before = " SETTINGS ";

    if (p->server >= MODERN + 200 && !*p->u->cluster) { /* 22.1 and later: identical blocks are stored once here, too */
        buf_printf(&p->sql, "%snon_replicated_deduplication_window = 1000", before);
        before = ", ";
    }
    for (const struct click_column *c = t->columns; c->name; c++)
        if (is_repeated(p, c)) {
            buf_printf(&p->sql, "%sallow_suspicious_low_cardinality_types = 1", before);
            return;
        }
}

static int plan_table(struct schema_plan *p, const struct click_table_def *t)
{
    const char *db = p->u->database, *suffix = *p->u->cluster ? "_local" : "";
    int r;

    buf_printf(&p->sql, "CREATE TABLE IF NOT EXISTS %s.%s%s", db, t->name, suffix);
    put_on_cluster(p);
    put_columns(p, t, false);
    put_engine(p, t->name, t->engine, t->arguments);
    buf_printf(&p->sql, " PARTITION BY %s ORDER BY (%s)", t->partition, t->order);
    put_settings(p, t);
    r = report(p);
    if (r < 0 || !*p->u->cluster)
        return r;
    buf_printf(&p->sql, "CREATE TABLE IF NOT EXISTS %s.%s", db, t->name);
    put_on_cluster(p);
    put_columns(p, t, true);
    buf_printf(&p->sql, " ENGINE = Distributed('%s', '%s', '%s_local', %s)", p->u->cluster, db, t->name, t->shard);
    return report(p);
}

/* The table of versions is the last: a schema that was created halfway has no version and is completed. */
static int plan_version(struct schema_plan *p)
{
    int r;

    buf_printf(&p->sql, "CREATE TABLE IF NOT EXISTS %s.schema", p->u->database);
    put_on_cluster(p);
    buf_puts(&p->sql, " (version UInt32, made DateTime DEFAULT now())");
    if (*p->u->cluster) /* one set of replicas over all shards */
        buf_printf(&p->sql, " ENGINE = ReplicatedMergeTree('/clickhouse/tables/all/%s/schema', '{shard}-{replica}')",
                   p->u->database);
    else
        put_engine(p, "schema", "MergeTree", "");
    buf_puts(&p->sql, " PARTITION BY tuple() ORDER BY version");
    r = report(p);
    if (r < 0)
        return r;
    buf_printf(&p->sql, "INSERT INTO %s.schema (version) VALUES (%d)", p->u->database, CLICK_SCHEMA_VERSION);
    return report(p);
}

static void put_alter(struct schema_plan *p, const char *table)
{
    buf_printf(&p->sql, "ALTER TABLE %s.%s%s", p->u->database, table, *p->u->cluster ? "_local" : "");
    put_on_cluster(p);
}

/* From version 1 to 2. Rows that are there keep their columns, of which `linked` is computed when it is read. */
static int plan_linked(struct schema_plan *p)
{
    for (int local = *p->u->cluster != 0; local >= 0; local--) {
        int r;

        buf_printf(&p->sql, "ALTER TABLE %s.samples%s", p->u->database, local ? "_local" : "");
        put_on_cluster(p);
        buf_puts(&p->sql,
                 " ADD COLUMN linked UInt8 DEFAULT hex(trace) != '00000000000000000000000000000000' AFTER attrs");
        r = report(p);
        if (r < 0)
            return r;
    }
    buf_printf(&p->sql, "INSERT INTO %s.schema (version) VALUES (2)", p->u->database);
    return report(p);
}

struct changed_column {
    enum click_table table;
    const char *column;
};

/* Gives columns the codecs and the TTL that they have now. Codecs apply to parts that are written from then on. */
static int plan_changed(struct schema_plan *p, const struct changed_column *changed, size_t n, int version)
{
    int r = 0;

    for (size_t i = 0; r == 0 && p->server >= MODERN && i < n; i++) {
        const struct click_table_def *t = &click_tables[changed[i].table];
        const struct click_column *c = t->columns;

        while (strcmp(c->name, changed[i].column) != 0)
            c++;
        put_alter(p, t->name);
        buf_printf(&p->sql, " MODIFY COLUMN %s %s", c->name, type_of(p, c));
        r = report(p);
    }
    if (r < 0)
        return r;
    buf_printf(&p->sql, "INSERT INTO %s.schema (version) VALUES (%d)", p->u->database, version);
    return report(p);
}

/* From version 2 to 3. */
static int plan_codecs(struct schema_plan *p)
{
    static const struct changed_column changed[] = {
        {CLICK_SAMPLES, "ts"},  {CLICK_SAMPLES, "value"}, {CLICK_LINKS, "ts"},
        {CLICK_LINKS, "value"}, {CLICK_LINKS, "stack"},
    };

    return plan_changed(p, changed, ARRAY_SIZE(changed), 3);
}

/* From version 3 to 4. `time` and `attrs` of samples keep their types: the first is part of the order, which cannot be changed, and the second
 * would be rewritten in all parts. */
static int plan_keys(struct schema_plan *p)
{
    static const struct changed_column changed[] = {
        {CLICK_PROFILES, "samples"},
        {CLICK_PROFILES, "key_start"},
        {CLICK_PROFILES, "key"},
    };

    return plan_changed(p, changed, ARRAY_SIZE(changed), 4);
}

static int plan_all(struct schema_plan *p)
{
    int r;

    buf_printf(&p->sql, "CREATE DATABASE IF NOT EXISTS %s", p->u->database);
    put_on_cluster(p);
    r = report(p);
    for (int i = 0; r == 0 && i < CLICK_TABLES; i++)
        r = plan_table(p, &click_tables[i]);
    return r == 0 ? plan_version(p) : r;
}

int click_schema_plan(const struct click_url *u, uint32_t server, uint32_t from, click_statement_fn fn, void *ctx,
                      struct err *e)
{
    struct schema_plan p = {.u = u, .server = server, .fn = fn, .ctx = ctx, .e = e};
    int r = 0;

    if (from > CLICK_SCHEMA_VERSION)
        return err_set(e, -EPROTO,
                       "the schema of database '%s' has version %u; this version of wick supports %d: use a later one",
                       u->database, from, CLICK_SCHEMA_VERSION);
    if (!from)
        r = plan_all(&p);
    if (r == 0 && from == 1)
        r = plan_linked(&p);
    if (r == 0 && (from == 1 || from == 2))
        r = plan_codecs(&p);
    if (r == 0 && from >= 1 && from <= 3)
        r = plan_keys(&p);
    buf_done(&p.sql);
    return r;
}

static int execute(void *ctx, struct str sql, struct err *e)
{
    struct click_call call = {.no_database = true};

    return click_send(ctx, sql, &call, NULL, e);
}

int click_schema_ensure(struct click_http *h, bool create, struct err *e)
{
    uint32_t version, server;
    int r = click_server_version(h, &server, e);

    if (r == 0)
        r = click_schema_version(h, &version, e);
    if (r < 0 || version == CLICK_SCHEMA_VERSION)
        return r;
    if (version && version < CLICK_SCHEMA_VERSION)
        return err_set(e, -EPROTO,
                       "the schema of database '%s' has version %u; run 'wick store migrate' to upgrade it to %d",
                       h->url.database, version, CLICK_SCHEMA_VERSION);
    if (!version && !create)
        return err_set(e, -ENOENT, "database '%s' has no tables of wick; run 'wick store migrate' first",
                       h->url.database);
    return click_schema_plan(&h->url, server, version, execute, h, e);
}
