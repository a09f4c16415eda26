/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of dictionary rows; see click_cache.h. */
#include "store/engines/clickhouse/click_cache.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/fingerprints.h"

enum { IDS_PER_QUERY = 20000, ENTRIES_MAX = 1 << 28 };

int click_cache_new(struct click_cache **ret)
{
    struct click_cache *c = mem_zalloc(sizeof *c);

    if (!c)
        return -ENOMEM;
    atomic_store(&c->refs, 1);
    pthread_mutex_init(&c->lock, NULL);
    arena_init(&c->arena, 0);
    *ret = c;
    return 0;
}

void click_cache_unref(struct click_cache *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    for (size_t k = 0; k < ARRAY_SIZE(c->kinds); k++) {
        mem_free(c->kinds[k].v);
        map_done(&c->kinds[k].map);
    }
    arena_done(&c->arena);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

size_t click_cache_bytes(struct click_cache *c)
{
    size_t n;

    pthread_mutex_lock(&c->lock);
    n = sizeof *c + c->arena.used;
    for (size_t k = 0; k < ARRAY_SIZE(c->kinds); k++)
        n += c->kinds[k].cap * sizeof *c->kinds[k].v +
             (c->kinds[k].map.slots ? (c->kinds[k].map.mask + (size_t) 1) * sizeof *c->kinds[k].map.slots : 0);
    pthread_mutex_unlock(&c->lock);
    return n;
}

struct id128 click_cache_key(const char *tenant, struct id128 id)
{
    return *tenant ? print_add_id(hash128(tenant, strlen(tenant)), id) : id;
}

uint32_t click_cache_find(const struct click_cache *c, enum click_table kind, struct id128 key)
{
    const struct map *m = &c->kinds[kind].map;

    for (struct map_pos p = map_find(m, hash64_id(key)); p.index != MAP_NONE; p = map_next(m, p))
        if (id128_eq(c->kinds[kind].v[p.index].key, key))
            return p.index;
    return MAP_NONE;
}

int click_cache_add(struct click_cache *c, enum click_table kind, const struct click_entry *e)
{
    uint32_t at = click_cache_find(c, kind, e->key);
    struct click_entry *to;
    struct str bytes;
    int r = 0;

    if (at != MAP_NONE && c->kinds[kind].v[at].version >= e->version) {
        c->kinds[kind].v[at].asked_ns = e->asked_ns;
        return 0;
    }
    bytes = arena_str(&c->arena, e->bytes);
    if (e->bytes.n && !bytes.p)
        return -ENOMEM;
    if (at == MAP_NONE) {
        r = array_reserve(c->kinds[kind].v, c->kinds[kind].cap, (size_t) c->kinds[kind].n + 1, ENTRIES_MAX);
        if (r == 0)
            r = map_insert(&c->kinds[kind].map, hash64_id(e->key), c->kinds[kind].n);
        if (r < 0)
            return r;
        at = c->kinds[kind].n++;
    }
    to = &c->kinds[kind].v[at];
    *to = *e;
    to->bytes = bytes;
    return 0;
}

/* --- reading --- */

static const char *const columns[] = {
    [CLICK_SERIES] = "id, names, label_values",
    [CLICK_STACKS] = "id, locations",
    [CLICK_LOCATIONS] = "id, version, head, lines",
    [CLICK_METAS] = "id, body",
    [CLICK_ATTRS] = "id, body",
};

static struct id128 get_id(struct cursor *r)
{
    const unsigned char *p = get_raw(r, 16);

    return p ? (struct id128){load_u64(p), load_u64(p + 8)} : (struct id128){0, 0};
}

/* Two arrays of strings, as pairs. */
static void parse_labels(struct cursor *r, struct buf *out)
{
    struct cursor names, values;
    uint64_t n = get_varint(r), m;

    names = *r;
    for (uint64_t i = 0; i < n && !r->bad; i++)
        get_bytes(r);
    m = get_varint(r);
    values = *r;
    for (uint64_t i = 0; i < m && !r->bad; i++)
        get_bytes(r);
    if (r->bad || n != m) {
        cursor_fail(r);
        return;
    }
    put_varint(out, n);
    for (uint64_t i = 0; i < n; i++) {
        struct str name = get_bytes(&names), value = get_bytes(&values);

        put_bytes(out, name.p, name.n);
        put_bytes(out, value.p, value.n);
    }
}

/* One row; the bytes of the entry are in the answer or in scratch. */
static void parse_row(struct cursor *r, enum click_table kind, struct buf *scratch, struct click_entry *e)
{
    struct str head, lines;
    uint64_t n;

    buf_reset(scratch);
    e->version = 1;
    switch (kind) {
    case CLICK_STACKS:
        e->key = get_id(r);
        n = get_varint(r);
        e->bytes.p = n > UINT32_MAX / 16 ? NULL : (const char *) get_raw(r, n * 16);
        e->bytes.n = e->bytes.p ? (uint32_t) n * 16 : 0;
        if (!e->bytes.p)
            cursor_fail(r);
        return;
    case CLICK_LOCATIONS:
        e->key = get_id(r);
        e->version += get_u64(r);
        head = get_bytes(r);
        lines = get_bytes(r);
        put_bytes(scratch, head.p, head.n);
        put_bytes(scratch, lines.p, lines.n);
        e->asked_ns = lines.n ? 0 : clock_mono();
        break;
    case CLICK_SERIES:
        e->key = click_id64(get_u64(r));
        parse_labels(r, scratch);
        break;
    default:
        e->key = click_id64(get_u64(r));
        e->bytes = get_bytes(r);
        return;
    }
    e->bytes = buf_str(scratch);
}

int click_cache_parse(struct click_cache *c, const char *tenant, enum click_table kind, struct str answer)
{
    _cleanup_(buf_done) struct buf scratch = BUF_INIT;
    struct cursor r = cursor_of(answer.p, answer.n);
    int rc = 0;

    while (rc == 0 && r.p < r.end) {
        struct click_entry e = {0};

        parse_row(&r, kind, &scratch, &e);
        if (r.bad)
            return -EPROTO;
        e.key = click_cache_key(tenant, e.key);
        rc = buf_error(&scratch);
        if (rc == 0)
            rc = click_cache_add(c, kind, &e);
    }
    return rc;
}

static bool is_needed(struct click_cache *c, enum click_table kind, struct id128 key, int64_t now)
{
    uint32_t at = click_cache_find(c, kind, key);

    return at == MAP_NONE || (c->kinds[kind].v[at].asked_ns && now - c->kinds[kind].v[at].asked_ns > CLICK_NAMELESS_NS);
}

static void put_id(struct buf *sql, enum click_table kind, struct id128 id)
{
    if (kind == CLICK_STACKS || kind == CLICK_LOCATIONS) {
        char bytes[16];

        store_u64(bytes, id.hi);
        store_u64(bytes + 8, id.lo);
        click_put_text(sql, (struct str){bytes, 16});
    } else {
        buf_printf(sql, "%llu", (unsigned long long) id.lo);
    }
}

/* Appends the IDs from *i on that are missing to the SQL; returns how many. */
static uint32_t put_missing(struct click_cache *c, const struct click_ids *ids, uint32_t *i, struct buf *sql)
{
    int64_t now = clock_mono();
    uint32_t k = 0;

    pthread_mutex_lock(&c->lock);
    for (; *i < ids->n && k < IDS_PER_QUERY; ++*i) {
        if (!is_needed(c, ids->kind, click_cache_key(ids->tenant, ids->v[*i]), now))
            continue;
        buf_puts(sql, k++ ? "," : "");
        put_id(sql, ids->kind, ids->v[*i]);
    }
    pthread_mutex_unlock(&c->lock);
    return k;
}

int click_cache_fetch(struct click_cache *c, struct click_http *h, const struct click_ids *ids, struct err *e)
{
    const char *table = click_tables[ids->kind].name;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < ids->n;) {
        _cleanup_(buf_done) struct buf sql = BUF_INIT, answer = BUF_INIT;
        struct click_call call = {0};

        buf_printf(&sql, "SELECT %s FROM %s WHERE tenant = ", columns[ids->kind], table);
        click_put_text(&sql, str_from(ids->tenant));
        buf_puts(&sql, " AND id IN (");
        if (!put_missing(c, ids, &i, &sql))
            break;
        buf_puts(&sql, ids->kind == CLICK_LOCATIONS ? ")" : ") LIMIT 1 BY id");
        buf_puts(&sql, " FORMAT RowBinary");
        r = buf_error(&sql) ? buf_error(&sql) : click_send(h, buf_str(&sql), &call, &answer, e);
        if (r < 0)
            return r;
        pthread_mutex_lock(&c->lock);
        r = click_cache_parse(c, ids->tenant, ids->kind, buf_str(&answer));
        pthread_mutex_unlock(&c->lock);
        if (r == -EPROTO)
            err_set(e, r, "ClickHouse's answer about %s is damaged", table);
    }
    return r;
}
