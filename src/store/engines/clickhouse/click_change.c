/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deleting, retention and names that are found later, in engine `clickhouse`.
 *
 * A deletion is a mutation: the server rewrites the parts that exist when it arrives, so that data which arrives later is
 * not affected. The call returns when every host of the location has finished it. Retention drops whole days (weeks in the
 * dictionary tables) and deletes rows of services that are kept for a shorter time.
 */
#include <errno.h>
#include <time.h>

#include "base/mem.h"
#include "model/symbolizer.h"
#include "store/engines/clickhouse/click_block.h"
#include "store/engines/clickhouse/click_load.h"

enum { WAIT_MAX_S = 600, ADDRESSES_PER_QUERY = 5000 };

static const enum click_table dated[] = {CLICK_SAMPLES, CLICK_LINKS, CLICK_PROFILES};

/* Appends the name of the table that holds the rows, and the cluster. */
static void put_table(struct buf *sql, const struct click *c, enum click_table t)
{
    const char *cluster = c->http.url.cluster;

    buf_printf(sql, "ALTER TABLE %s.%s%s", c->http.url.database, click_tables[t].name, *cluster ? "_local" : "");
    if (*cluster)
        buf_printf(sql, " ON CLUSTER '%s'", cluster);
}

static int count_unfinished(struct click *c, const char *host, uint64_t *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
    struct click_call call = {.host = host, .max_answer = 4096};
    int r;

    buf_printf(&sql, "SELECT count() FROM system.mutations WHERE database = '%s' AND NOT is_done",
               c->http.url.database);
    r = click_send(&c->http, buf_str(&sql), &call, &answer, e);
    return r < 0 ? r : str_to_u64(str_trim(buf_str(&answer)), 10, ret);
}

static int wait_for_mutations(struct click *c, struct err *e)
{
    struct timespec pause = {0, 20 * NS_PER_MS};
    int64_t begin = clock_mono();

    for (uint32_t i = 0; i < c->http.url.n_hosts;) {
        uint64_t n = 0;
        int r = count_unfinished(c, c->http.url.hosts[i], &n, e);

        if (r < 0)
            return err_prefix(e, r, "the deletion was sent, but it is not known whether it has finished: ");
        if (!n) {
            i++;
            continue;
        }
        if (clock_mono() - begin > WAIT_MAX_S * NS_PER_S)
            return err_set(e, -ETIMEDOUT, "the deletion was sent and is still running after %d s", WAIT_MAX_S);
        nanosleep(&pause, NULL);
    }
    return 0;
}

int click_delete(struct store *s, const char *tenant, const struct store_column *what, struct err *e)
{
    struct click *c = to_click(s);
    struct store_query q = {.tenant = tenant, .columns = {*what}, .n_columns = 1};
    _cleanup_(click_load_done) struct click_load l;
    int r;

    r = click_load_begin(&l, c, &q, false, e);
    if (r == 0 && l.columns[0].match.n_detail)
        r = err_set(e, -EINVAL, "delete selects by series labels, and '%.*s' is not one",
                    STR_FMT(l.columns[0].match.detail[0]->name));
    if (r < 0 || !l.columns[0].n_series)
        return r;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dated); i++) {
        _cleanup_(buf_done) struct buf sql = BUF_INIT;

        put_table(&sql, c, dated[i]);
        buf_puts(&sql, " DELETE");
        click_put_where(&sql, &l, 0);
        r = buf_error(&sql) ? buf_error(&sql) : click_exec(&c->http, buf_str(&sql), e);
    }
    return r < 0 ? r : wait_for_mutations(c, e);
}

/* --- retention --- */

/* Drops the partitions of a table whose number is below `before`. */
static int drop_partitions(struct click *c, enum click_table t, int64_t before, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
    struct click_call call = {0};
    struct str rest;
    int r;

    buf_printf(&sql, "SELECT DISTINCT partition FROM system.parts WHERE active AND database = '%s' AND table = '%s%s'",
               c->http.url.database, click_tables[t].name, *c->http.url.cluster ? "_local" : "");
    r = click_send(&c->http, buf_str(&sql), &call, &answer, e);
    rest = buf_str(&answer);
    while (r == 0 && rest.n) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        int64_t number;

        if (str_to_i64(line, 10, &number) < 0 || number >= before)
            continue;
        buf_reset(&sql);
        put_table(&sql, c, t);
        buf_printf(&sql, " DROP PARTITION %lld", (long long) number);
        r = click_exec(&c->http, buf_str(&sql), e);
    }
    return r;
}

static int delete_service(struct click *c, const char *service, int64_t before, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dated); i++) {
        _cleanup_(buf_done) struct buf sql = BUF_INIT;

        put_table(&sql, c, dated[i]);
        buf_puts(&sql, " DELETE WHERE service = ");
        click_put_text(&sql, str_from(service));
        buf_printf(&sql, " AND time < toInt64(%lld)", (long long) before);
        r = buf_error(&sql) ? buf_error(&sql) : click_exec(&c->http, buf_str(&sql), e);
    }
    return r;
}

int click_retain_now(struct click *c, bool wait, struct err *e)
{
    struct store_config config;
    int64_t now = click_now(c), keep;
    int r = 0;

    pthread_mutex_lock(&c->lock);
    config = c->config;
    pthread_mutex_unlock(&c->lock);
    keep = config.keep ? config.keep : 30 * CLICK_DAY_NS;
    for (size_t i = 0; r == 0 && keep > 0 && i < ARRAY_SIZE(dated); i++)
        r = drop_partitions(c, dated[i], (now - keep) / CLICK_DAY_NS, e);
    /* entries are inserted in the week of their arrival, and profiles may arrive some minutes early */
    for (int t = 0; r == 0 && keep > 0 && t < CLICK_SAMPLES; t++)
        r = drop_partitions(c, t, ((now - keep) / CLICK_DAY_NS - 1) / 7, e);
    for (uint32_t i = 0; r == 0 && i < config.n_services; i++)
        if (keep < 0 || config.services[i].keep < keep)
            r = delete_service(c, config.services[i].service, now - config.services[i].keep, e);
    return r == 0 && wait && config.n_services ? wait_for_mutations(c, e) : r;
}

int click_retain(struct store *s, bool compact_all, struct err *e)
{
    (void) compact_all;
    return click_retain_now(to_click(s), true, e);
}

/* --- names --- */

struct click_naming {
    struct click *c;
    const char *tenant;
    const uint64_t *addresses;
    const struct symbol_answer *names;
    struct click_rows rows;
};

static void put_names(struct click_naming *x, uint32_t i, struct buf *lines)
{
    const struct symbol_answer *a = x->names;
    struct buf *names = click_begin_array(&x->rows);
    uint32_t n = 0;

    for (uint32_t k = a->first[i]; k < a->first[i + 1]; k++, n++) {
        const struct symbol_frame *f = &a->frames[k];
        struct str strings[3] = {f->function, f->system_name, f->file};

        click_put_line(lines, strings, f->start_line, f->line, f->column);
        put_bytes(names, f->function.p, f->function.n);
    }
    click_end_array(&x->rows, n);
}

static uint32_t find_address(const struct click_naming *x, uint64_t address)
{
    for (uint32_t i = 0; i < x->names->n_addresses; i++)
        if (x->addresses[i] == address)
            return i;
    return UINT32_MAX;
}

/* Makes a newer version of each location of the answer. */
static int rename_rows(struct click_naming *x, struct str build_id, struct str answer, struct click_cache *cache)
{
    struct cursor in = cursor_of(answer.p, answer.n);
    uint32_t week = (uint32_t) (click_now(x->c) / CLICK_DAY_NS / 7);
    int r = 0;

    while (r == 0 && in.p < in.end) {
        _cleanup_(buf_done) struct buf lines = BUF_INIT, bytes = BUF_INIT;
        const unsigned char *id = get_raw(&in, 16);
        uint64_t address = get_u64(&in), version = get_u64(&in) + 2;
        struct str head = get_bytes(&in);
        uint32_t i = in.bad ? UINT32_MAX : find_address(x, address);

        if (in.bad)
            return -EPROTO;
        if (i == UINT32_MAX || x->names->first[i] == x->names->first[i + 1])
            continue;
        click_put_str(&x->rows, str_from(x->tenant));
        click_put_u32(&x->rows, week);
        click_put_raw(&x->rows, id, 16);
        click_put_u64(&x->rows, version);
        click_put_str(&x->rows, build_id);
        click_put_u64(&x->rows, address);
        put_names(x, i, &lines);
        click_put_str(&x->rows, head);
        click_put_str(&x->rows, buf_str(&lines));
        click_end_row(&x->rows);
        put_bytes(&bytes, head.p, head.n);
        put_bytes(&bytes, lines.p, lines.n);
        r = buf_error(&bytes);
        if (r == 0)
            r = click_cache_add(
                cache, CLICK_LOCATIONS,
                &(struct click_entry){click_cache_key(x->tenant, (struct id128){load_u64(id), load_u64(id + 8)}),
                                      buf_str(&bytes), version + 1, 0});
    }
    return r;
}

static int insert_names(struct click_naming *x, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT, settings = BUF_INIT;
    const struct click_url *u = &x->c->http.url;
    struct click_call call = {0};
    int r = click_rows_encode(&x->rows, &out);

    if (*u->cluster)
        buf_printf(&settings, "insert_distributed_sync=1&insert_quorum=%u", u->quorum > 1 ? u->quorum : 0);
    call.data = buf_str(&out);
    call.settings = buf_cstr(&settings);
    return r < 0 ? r : click_send(&x->c->http, STR("INSERT INTO locations FORMAT Native"), &call, NULL, e);
}

static int name_some(struct click_naming *x, struct str build_id, uint32_t from, uint32_t to, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
    _cleanup_(click_cache_unrefp) struct click_cache *cache = click_take_cache(x->c);
    struct click_call call = {0};
    int r;

    buf_puts(&sql, "SELECT id, address, version, head FROM locations WHERE tenant = ");
    click_put_text(&sql, str_from(x->tenant));
    buf_puts(&sql, " AND build_id = ");
    click_put_text(&sql, build_id);
    buf_puts(&sql, " AND address IN (");
    for (uint32_t i = from; i < to; i++)
        buf_printf(&sql, "%s%llu", i == from ? "" : ",", (unsigned long long) x->addresses[i]);
    buf_puts(&sql, ") ORDER BY version DESC LIMIT 1 BY id FORMAT RowBinary");
    r = buf_error(&sql) ? buf_error(&sql) : click_send(&x->c->http, buf_str(&sql), &call, &answer, e);
    if (r < 0)
        return r;
    pthread_mutex_lock(&cache->lock);
    r = rename_rows(x, build_id, buf_str(&answer), cache);
    pthread_mutex_unlock(&cache->lock);
    if (r < 0)
        return err_set(e, r, "cannot store names in ClickHouse: %m");
    return x->rows.n ? insert_names(x, e) : 0;
}

int click_name_later(struct store *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                     const struct symbol_answer *names, struct err *e)
{
    struct click_naming x = {.c = to_click(s), .tenant = tenant, .addresses = addresses, .names = names};
    int r = 0;

    click_rows_init(&x.rows, CLICK_LOCATIONS);
    for (uint32_t i = 0; r == 0 && i < names->n_addresses; i += ADDRESSES_PER_QUERY) {
        click_rows_reset(&x.rows);
        r = name_some(&x, build_id, i, MIN(i + ADDRESSES_PER_QUERY, names->n_addresses), e);
    }
    click_rows_done(&x.rows);
    return r;
}
