/* SPDX-License-Identifier: Apache-2.0 */
/* Asks ClickHouse for a selection: its series, its profiles, its samples, and the dictionary entries that they refer to;
 * see click_load.h. */
#include "store/engines/clickhouse/click_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/builder.h"
#include "model/semconv.h"
#include "store/engines/segment/format/blobs.h"

enum { SERVICES_MAX = 1000, ROWS_MAX = 1 << 28 };

/* --- conditions --- */

static void put_ids(struct buf *sql, const uint64_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        buf_printf(sql, "%s%llu", i ? "," : "", (unsigned long long) ids[i]);
}

static void put_range(struct buf *sql, const struct click_load *l, uint32_t i)
{
    const struct store_column *c = &l->q->columns[i];

    buf_puts(sql, " WHERE tenant = ");
    click_put_text(sql, str_from(l->q->tenant));
    if (!l->columns[i].match.any_type) {
        buf_puts(sql, " AND type = ");
        click_put_text(sql, l->columns[i].match.type.name);
    }
    buf_printf(sql, " AND time >= toInt64(%lld) AND time < toInt64(%lld)", (long long) c->from, (long long) c->to);
}

void click_put_where(struct buf *sql, const struct click_load *l, uint32_t i)
{
    const struct click_column_of *c = &l->columns[i];

    put_range(sql, l, i);
    if (c->services.n)
        buf_printf(sql, " AND service IN (%.*s)", (int) c->services.n, c->services.p);
    if (!c->all) {
        buf_puts(sql, " AND series IN (");
        put_ids(sql, c->series, c->n_series);
        buf_putc(sql, ')');
    }
}

/* Whether only samples of spans are selected. */
static bool is_linked(const struct store_query *q, uint32_t i)
{
    return q->has_trace || q->has_span || q->columns[i].spans;
}

/* Only samples that were taken when the column says; ts is relative to the start of the profile. */
static void put_taken(struct buf *sql, const struct store_column *c)
{
    if (c->taken_to)
        buf_printf(sql,
                   " AND time + if(ts > toInt64(-4611686018427387904), ts, 0) BETWEEN toInt64(%lld) AND toInt64(%lld)",
                   (long long) c->taken_from, (long long) c->taken_to - 1);
}

static void put_links(struct buf *sql, const struct store_query *q)
{
    if (q->has_trace) {
        buf_puts(sql, " AND trace = ");
        click_put_text(sql, (struct str){(const char *) q->trace_id, 16});
    }
    if (q->has_span) {
        buf_puts(sql, " AND span = ");
        click_put_text(sql, (struct str){(const char *) q->span_id, 8});
    }
}

/* --- series --- */

void click_make_type(struct str name, struct str unit, struct type *ret)
{
    if (!type_by_name(name, ret) || !str_eq(ret->name, name))
        *ret = (struct type){
            .name = name, .unit = unit, .rule = TYPE_DELTA, .pprof_type = name, .pprof_unit = unit, .title = name};
}

struct found_series {
    struct id128 id;
    uint64_t profiles;
};

static int ask(struct click_load *l, const struct buf *sql, struct buf *answer, struct err *e)
{
    struct click_call call = {.max_answer = l->q->memory_limit, .cancel = l->q->cancel};
    int r = buf_error(sql);

    return r < 0 ? err_set(e, r, "out of memory") : click_send(&l->c->http, buf_str(sql), &call, answer, e);
}

int click_labels_of(struct click_cache *cache, const char *tenant, uint64_t series, struct arena *a, struct labels *ret)
{
    uint32_t at = click_cache_find(cache, CLICK_SERIES, click_cache_key(tenant, click_id64(series)));
    struct str bytes = at == MAP_NONE ? (struct str){0} : cache->kinds[CLICK_SERIES].v[at].bytes;
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint32_t n = at == MAP_NONE ? 0 : get_below(&r, bytes.n + 1);

    *ret = (struct labels){.v = arena_zalloc_array(a, n + 1, sizeof *ret->v)};
    if (!ret->v)
        return -ENOMEM;
    for (; ret->n < n && !r.bad; ret->n++) {
        struct str name = get_bytes(&r), value = get_bytes(&r);

        ret->v[ret->n].name = arena_str(a, name);
        ret->v[ret->n].value = arena_str(a, value);
    }
    return a->failed ? -ENOMEM : at == MAP_NONE ? 1 : 0;
}

static int cmp_text(const void *a, const void *b)
{
    return str_cmp(*(const struct str *) a, *(const struct str *) b);
}

/* The services of the series that match: the tables are ordered by them. */
static void put_services(struct click_column_of *c, struct str *services, uint32_t n)
{
    uint32_t k = 0;

    if (n)
        qsort(services, n, sizeof *services, cmp_text);
    for (uint32_t i = 0; i < n; i++)
        if (!i || !str_eq(services[i], services[i - 1]))
            services[k++] = services[i];
    for (uint32_t i = 0; i < k && k <= SERVICES_MAX; i++) {
        buf_puts(&c->services, i ? "," : "");
        click_put_text(&c->services, services[i]);
    }
}

static int match_found(struct click_load *l, uint32_t i, const struct found_series *found, uint32_t n)
{
    struct click_column_of *c = &l->columns[i];
    struct str *services = arena_zalloc_array(&l->arena, n + 1, sizeof *services);
    int r = 0;

    c->series = arena_zalloc_array(&l->arena, n + 1, sizeof *c->series);
    if (!services || !c->series)
        return -ENOMEM;
    pthread_mutex_lock(&l->cache->lock);
    for (uint32_t k = 0; r >= 0 && k < n; k++) {
        struct labels labels;

        r = click_labels_of(l->cache, l->q->tenant, found[k].id.lo, &l->arena, &labels);
        if (r == 1)
            l->lost++;
        if (r < 0 || !match_series(&c->match, c->match.type.name, &labels))
            continue;
        services[c->n_series] = labels_get(&labels, STR(SEMCONV_SERVICE_NAME));
        c->series[c->n_series++] = found[k].id.lo;
        c->profiles += found[k].profiles;
    }
    pthread_mutex_unlock(&l->cache->lock);
    c->all = c->n_series == n;
    if (!c->all || !c->match.selector->n || n < 32) /* with all of many services, the condition selects nothing */
        put_services(c, services, c->n_series);
    return r < 0 ? r : buf_error(&c->services);
}

static int find_series(struct click_load *l, uint32_t i, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
    struct found_series *found;
    struct id128 *ids;
    struct cursor in;
    uint32_t n = 0, max;
    struct str unit = {0};
    int r;

    buf_puts(&sql, "SELECT series, count(), any(unit) FROM profiles");
    put_range(&sql, l, i);
    buf_puts(&sql, " GROUP BY series FORMAT RowBinary");
    r = ask(l, &sql, &answer, e);
    if (r < 0)
        return r;
    max = (uint32_t) (answer.n / 17);
    found = arena_zalloc_array(&l->arena, max + 1, sizeof *found);
    ids = arena_zalloc_array(&l->arena, max + 1, sizeof *ids);
    if (!found || !ids)
        return -ENOMEM;
    for (in = cursor_of(answer.p, answer.n); n < max && in.p < in.end; n++) {
        found[n].id = ids[n] = click_id64(get_u64(&in));
        found[n].profiles = get_u64(&in);
        unit = get_bytes(&in);
    }
    if (in.bad)
        return err_set(e, -EPROTO, "ClickHouse's answer about series is damaged");
    click_make_type(l->columns[i].match.type.name, arena_str(&l->arena, unit), &l->columns[i].type);
    r = click_cache_fetch(l->cache, &l->c->http, &(struct click_ids){l->q->tenant, CLICK_SERIES, ids, n}, e);
    return r < 0 ? r : match_found(l, i, found, n);
}

/* --- beginning and end --- */

/* What is left to select for `memory`: matchers on attributes. */
static void make_rest(struct click_load *l, uint32_t i)
{
    const struct match *m = &l->columns[i].match;

    for (uint32_t k = 0; k < m->n_detail; k++)
        l->details[i][k] = *m->detail[k];
    l->selectors[i] = (struct selector){.type = l->q->columns[i].selector->type, .v = l->details[i], .n = m->n_detail};
    l->rest.columns[i].selector = &l->selectors[i];
    l->rest.columns[i].taken_to = 0; /* the server selects by it */
}

int click_load_begin(struct click_load *l, struct click *c, const struct store_query *q, bool need_type, struct err *e)
{
    struct store_config config = c->config;
    struct store *memory = NULL;
    int r;

    *l = (struct click_load){.c = c, .q = q, .rest = *q};
    arena_init(&l->arena, q->memory_limit);
    l->rest.has_profile = false;
    l->rest.notes = NULL; /* click_load_note() notes what was loaded */
    l->cache = click_take_cache(c);
    r = l->cache ? store_open(&store_memory, &config, &memory, e) : -ENOMEM;
    if (r == 0) {
        l->memory = container_of(memory, struct memory_store, store);
        r = builder_new(&(struct builder_limits){.memory = q->memory_limit}, &l->builder);
    }
    for (uint32_t i = 0; r == 0 && i < q->n_columns; i++) {
        r = match_init(&l->columns[i].match, q->columns[i].selector, c->limits.allow, need_type, e);
        if (r < 0)
            break;
        make_rest(l, i);
        r = find_series(l, i, e);
    }
    if (r == -ENOMEM && e && !e->code)
        err_set(e, r, "out of memory");
    return r;
}

void click_load_done(struct click_load *l)
{
    if (l->memory)
        store_close(&l->memory->store);
    builder_free(l->builder);
    click_cache_unref(l->cache);
    buf_done(&l->columns[0].services);
    buf_done(&l->columns[1].services);
    mem_free(l->counts);
    mem_free(l->stacks);
    mem_free(l->locations);
    arena_done(&l->arena);
}

void click_load_note(const struct click_load *l)
{
    struct store_notes *notes = l->q->notes;

    if (!notes)
        return;
    for (uint32_t i = 0; i < l->q->n_columns; i++)
        notes->profiles += l->columns[i].profiles;
    notes->samples += l->samples;
    if (l->c->writer)
        click_spool_stats(l->c->writer, &notes->spool);
    if (l->lost) {
        notes->damaged += l->lost;
        if (!notes->damage[0])
            snprintf(notes->damage, sizeof notes->damage,
                     "%u stacks, names or attributes are missing in ClickHouse's dictionary tables", l->lost);
    }
}

/* --- rows --- */

struct row_list {
    struct click_row *v;
    size_t cap, n;
    struct buf answers[3]; /* that strings point into */
};

static void row_list_done(struct row_list *v)
{
    mem_free(v->v);
    for (size_t i = 0; i < ARRAY_SIZE(v->answers); i++)
        buf_done(&v->answers[i]);
}

static int read_rows(struct row_list *v, const struct buf *answer, const struct click_want *want, bool typed,
                     bool profiles, struct err *e)
{
    struct cursor in = cursor_of(answer->p, answer->n);

    while (in.p < in.end) {
        int r = array_reserve(v->v, v->cap, v->n + 1, ROWS_MAX);

        if (r < 0)
            return err_set(e, r, "the selection has too many rows");
        if (profiles)
            click_read_profile(&in, want, typed, &v->v[v->n]);
        else
            click_read_sample(&in, want, typed, &v->v[v->n]);
        if (in.bad)
            return err_set(e, -EPROTO, "ClickHouse's answer is damaged");
        v->n += profiles || v->v[v->n].count != 0;
    }
    return 0;
}

static void cut_comma(struct buf *sql)
{
    if (sql->n >= 2 && sql->p[sql->n - 2] == ',')
        sql->n -= 2;
}

static int ask_profiles(struct click_load *l, uint32_t i, const struct click_want *want, struct row_list *v,
                        struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT;
    bool typed = !l->columns[i].match.any_type;
    int r;

    if (typed && !want->time && !want->series && !want->meta && !want->step)
        return 0; /* nothing would distinguish them */
    buf_puts(&sql, "SELECT ");
    click_put_profile_columns(&sql, want, typed, &l->q->columns[i]);
    cut_comma(&sql);
    buf_puts(&sql, " FROM profiles");
    click_put_where(&sql, l, i);
    if (!want->time) {
        buf_puts(&sql, " GROUP BY ");
        click_put_profile_columns(&sql, want, typed, NULL);
        cut_comma(&sql);
    }
    buf_puts(&sql, " FORMAT RowBinary");
    r = ask(l, &sql, &v->answers[0], e);
    return r < 0 ? r : read_rows(v, &v->answers[0], want, typed, true, e);
}

/* Which rows of samples are asked for, and where. */
struct sample_rows {
    const char *table;
    const char *unlinked; /* a condition, or "" */
    const struct buf *more;
    struct click_want want;
    struct buf *answer;
};

static int ask_rows(struct click_load *l, uint32_t i, const struct sample_rows *x, struct row_list *v, struct err *e)
{
    _cleanup_(buf_done) struct buf sql = BUF_INIT, group = BUF_INIT;
    bool typed = !l->columns[i].match.any_type;
    int r;

    buf_puts(&sql, "SELECT ");
    click_put_sample_columns(&sql, &x->want, typed, &l->q->columns[i]);
    buf_printf(&sql, "sum(value), count() FROM %s", x->table);
    click_put_where(&sql, l, i);
    buf_puts(&sql, x->unlinked);
    put_links(&sql, l->q);
    put_taken(&sql, &l->q->columns[i]);
    buf_put_buf(&sql, x->more);
    click_put_sample_columns(&group, &x->want, typed, NULL);
    cut_comma(&group);
    if (group.n) {
        buf_puts(&sql, " GROUP BY ");
        buf_put_buf(&sql, &group);
    }
    buf_puts(&sql, " FORMAT RowBinary");
    r = ask(l, &sql, x->answer, e);
    return r < 0 ? r : read_rows(v, x->answer, &x->want, typed, false, e);
}

/* The IDs of spans are in `links` only: where they are wanted, the samples without a span come from `samples` and the others from `links`. */
static int ask_samples(struct click_load *l, uint32_t i, const struct click_want *want, const struct buf *more,
                       struct row_list *v, struct err *e)
{
    bool linked = is_linked(l->q, i);
    struct sample_rows x = {linked ? "links" : "samples", "", more, *want, &v->answers[1]};
    int r;

    if (!linked && want->link) {
        x.unlinked = " AND linked = 0";
        x.want.link = false;
    }
    r = ask_rows(l, i, &x, v, e);
    if (r == 0 && !linked && want->link) {
        x = (struct sample_rows){"links", "", more, *want, &v->answers[2]};
        r = ask_rows(l, i, &x, v, e);
    }
    return r;
}

/* --- dictionary entries of the rows --- */

static int cmp_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct id128));
}

struct id_list {
    struct id128 *v;
    size_t cap;
    uint32_t n;
};

static int id_list_add(struct id_list *v, struct id128 id)
{
    if (v->n && id128_eq(v->v[v->n - 1], id))
        return 0;
    return array_push(v->v, v->n, v->cap, ROWS_MAX, id);
}

static int fetch_ids(struct click_load *l, enum click_table kind, struct id_list *v, struct err *e)
{
    uint32_t k = 0;
    int r;

    if (v->n)
        qsort(v->v, v->n, sizeof *v->v, cmp_id);
    for (uint32_t i = 0; i < v->n; i++)
        if (!i || !id128_eq(v->v[i], v->v[i - 1]))
            v->v[k++] = v->v[i];
    r = click_cache_fetch(l->cache, &l->c->http, &(struct click_ids){l->q->tenant, kind, v->v, k}, e);
    mem_free(v->v);
    *v = (struct id_list){0};
    return r;
}

static int fetch_of_rows(struct click_load *l, const struct row_list *rows, enum click_table kind, struct err *e)
{
    struct id_list ids = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < rows->n; i++) {
        const struct click_row *row = &rows->v[i];

        if (kind == CLICK_STACKS && !row->is_profile)
            r = id_list_add(&ids, row->stack);
        else if (kind == CLICK_METAS)
            r = id_list_add(&ids, click_id64(row->meta));
        else if (kind == CLICK_ATTRS && row->attrs)
            r = id_list_add(&ids, click_id64(row->attrs));
    }
    if (r < 0) {
        mem_free(ids.v);
        return r;
    }
    return fetch_ids(l, kind, &ids, e);
}

/* The locations of the rows' stacks that are not cached, or were without names. */
static int fetch_locations(struct click_load *l, const struct row_list *rows, struct err *e)
{
    struct click_cache *c = l->cache;
    int64_t now = clock_mono();
    struct id_list ids = {0};
    int r = 0;

    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; r == 0 && i < rows->n; i++) {
        uint32_t at = rows->v[i].is_profile
                          ? MAP_NONE
                          : click_cache_find(c, CLICK_STACKS, click_cache_key(l->q->tenant, rows->v[i].stack));
        struct str bytes = at == MAP_NONE ? (struct str){0} : c->kinds[CLICK_STACKS].v[at].bytes;

        for (uint32_t k = 0; r == 0 && k + 16 <= bytes.n; k += 16) {
            struct id128 id = {load_u64(bytes.p + k), load_u64(bytes.p + k + 8)};
            uint32_t has = click_cache_find(c, CLICK_LOCATIONS, click_cache_key(l->q->tenant, id));
            int64_t asked = has == MAP_NONE ? INT64_MIN / 2 : c->kinds[CLICK_LOCATIONS].v[has].asked_ns;

            if (asked && now - asked > CLICK_NAMELESS_NS)
                r = id_list_add(&ids, id);
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (r < 0) {
        mem_free(ids.v);
        return r;
    }
    return fetch_ids(l, CLICK_LOCATIONS, &ids, e);
}

static int fetch_entries(struct click_load *l, const struct row_list *rows, const struct click_want *want,
                         struct err *e)
{
    int r = 0;

    if (want->meta || want->time)
        r = fetch_of_rows(l, rows, CLICK_METAS, e);
    if (r == 0 && want->attrs)
        r = fetch_of_rows(l, rows, CLICK_ATTRS, e);
    if (r == 0 && want->stack)
        r = fetch_of_rows(l, rows, CLICK_STACKS, e);
    if (r == 0 && want->stack)
        r = fetch_locations(l, rows, e);
    return r;
}

/* --- one profile --- */

static struct id128 instance_of(struct click_load *l, uint64_t meta)
{
    uint32_t at = click_cache_find(l->cache, CLICK_METAS, click_cache_key(l->q->tenant, click_id64(meta)));
    struct id128 id = {0};
    struct blob_header h;
    struct blobs b;

    if (at == MAP_NONE || blobs_init(&b) < 0)
        return id;
    if (blobs_decode(&b, l->cache->kinds[CLICK_METAS].v[at].bytes.p, l->cache->kinds[CLICK_METAS].v[at].bytes.n) == 0 &&
        blobs_read_header(&b, 1, &h))
        id = blobs_instance(&b, h.resource);
    blobs_done(&b);
    return id;
}

/* Keeps the rows of the profile that the query is about, and puts the condition that selects its samples. */
static int keep_profile(struct click_load *l, uint32_t i, struct row_list *v, struct buf *more, struct err *e)
{
    int r = fetch_of_rows(l, v, CLICK_METAS, e);
    size_t n = 0;

    if (r < 0)
        return r;
    buf_puts(more, " AND (0");
    pthread_mutex_lock(&l->cache->lock);
    for (size_t k = 0; r >= 0 && k < v->n; k++) {
        struct click_row *row = &v->v[k];
        struct str type = row->type.n ? row->type : l->columns[i].match.type.name;
        struct labels labels;

        r = click_labels_of(l->cache, l->q->tenant, row->series, &l->arena, &labels);
        if (r < 0 || !id128_eq(l->q->profile, match_profile_handle(labels_id(&labels), instance_of(l, row->meta), type,
                                                                   row->time, row->duration, row->value)))
            continue;
        buf_printf(more, " OR (series = %llu AND meta = %llu AND time = %lld AND seq = %u)",
                   (unsigned long long) row->series, (unsigned long long) row->meta, (long long) row->time, row->seq);
        v->v[n++] = *row;
    }
    pthread_mutex_unlock(&l->cache->lock);
    buf_putc(more, ')');
    v->n = n;
    return r < 0 ? r : buf_error(more);
}

/* Profiles of which the query selects no sample are not part of an answer about a trace. */
static void drop_unlinked(struct row_list *v)
{
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        bool has = !v->v[i].is_profile ||
                   (i + 1 < v->n && !v->v[i + 1].is_profile && click_row_same_profile(&v->v[i], &v->v[i + 1]));

        if (has)
            v->v[n++] = v->v[i];
    }
    v->n = n;
}

int click_load_column(struct click_load *l, uint32_t i, const struct click_want *want, bool shift, struct err *e)
{
    _cleanup_(row_list_done) struct row_list rows = {0};
    _cleanup_(buf_done) struct buf more = BUF_INIT;
    struct click_want w = *want;
    int r = 0;

    if (shift) {
        l->rest.columns[i].from = i;
        l->rest.columns[i].to = i + 1;
    }
    if (!l->columns[i].n_series)
        return 0;
    w.time |= l->q->has_profile;
    w.link |= l->q->columns[i].spans != NULL; /* engine `memory` selects by them */
    if (w.profiles || w.time)
        r = ask_profiles(l, i, &w, &rows, e);
    if (r == 0 && l->q->has_profile)
        r = keep_profile(l, i, &rows, &more, e);
    if (r == 0 && w.samples)
        r = ask_samples(l, i, &w, &more, &rows, e);
    if (r == 0)
        r = fetch_entries(l, &rows, &w, e);
    if (r < 0)
        return r;
    for (size_t k = 0; k < rows.n; k++)
        l->samples += rows.v[k].is_profile ? 0 : rows.v[k].count;
    if (rows.n)
        qsort(rows.v, rows.n, sizeof *rows.v, click_row_cmp);
    if (w.samples && is_linked(l->q, i))
        drop_unlinked(&rows);
    pthread_mutex_lock(&l->cache->lock);
    r = click_emit_rows(l, rows.v, rows.n, &w, i, shift ? (int64_t) i : -1);
    pthread_mutex_unlock(&l->cache->lock);
    if (r < 0)
        err_set(e, r, r == -ENOMEM ? "the answer needs too much memory; choose a shorter time range" : "%m");
    return r == -ENOMEM ? -E2BIG : r;
}
