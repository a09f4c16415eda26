/* SPDX-License-Identifier: Apache-2.0 */
/* The SQLite database of catalog.h: its schema, its transactions and its queries. */
#include "store/engines/segment/write/catalog.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "store/dedup.h"
#include "store/engines/segment/format/radix.h"
#include "store/engines/segment/format/vfs.h"
#include "store/engines/segment/format/vfs_sum.h"

enum { FORMAT = 1 };

struct catalog {
    sqlite3 *db;
    pthread_mutex_t lock;
};

static int sql_error(struct catalog *c, const char *what, struct err *e)
{
    int full = sqlite3_extended_errcode(c->db), code = full & 0xff;
    bool sum = full == SQLITE_IOERR_DATA;
    int r = code == SQLITE_NOMEM                                     ? -ENOMEM
            : code == SQLITE_FULL                                    ? -ENOSPC
            : code == SQLITE_CORRUPT || code == SQLITE_NOTADB || sum ? -EBADMSG
                                                                     : -EIO;

    return err_set(e, r, "catalogue: cannot %s: %s", what,
                   sum ? "a page has an invalid checksum" : sqlite3_errmsg(c->db));
}

static int run(struct catalog *c, const char *sql, const char *what, struct err *e)
{
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : sql_error(c, what, e);
}

/* Runs a statement to completion, with integers bound in order. */
static int run_with(struct catalog *c, const char *sql, const int64_t *v, int n, const char *what, struct err *e)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return sql_error(c, what, e);
    for (int i = 0; i < n; i++)
        sqlite3_bind_int64(s, i + 1, v[i]);
    if (sqlite3_step(s) != SQLITE_DONE)
        r = sql_error(c, what, e);
    sqlite3_finalize(s);
    return r;
}

static int check_sound(struct catalog *c, struct err *e)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "PRAGMA quick_check(1)", -1, &s, NULL) != SQLITE_OK)
        return sql_error(c, "check it", e);
    if (sqlite3_step(s) != SQLITE_ROW)
        r = sql_error(c, "check it", e);
    else if (strcmp((const char *) sqlite3_column_text(s, 0), "ok") != 0)
        r = err_set(e, -EBADMSG, "catalogue: the database is damaged");
    sqlite3_finalize(s);
    return r;
}

static int create(struct catalog *c, struct err *e)
{
    return run(
        c,
        "BEGIN;"
        "CREATE TABLE IF NOT EXISTS meta(k TEXT PRIMARY KEY, v INTEGER) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS tenants(no INTEGER PRIMARY KEY, name TEXT NOT NULL);"
        "CREATE TABLE IF NOT EXISTS epochs(tenant INTEGER, epoch INTEGER, bytes INTEGER, born INTEGER,"
        " PRIMARY KEY(tenant, epoch)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS segments(no INTEGER PRIMARY KEY, tenant INTEGER, epoch INTEGER, level INTEGER,"
        " log INTEGER, t0 INTEGER, t1 INTEGER, bytes INTEGER, rows INTEGER, profiles INTEGER, detail INTEGER);"
        "CREATE TABLE IF NOT EXISTS dedup(id INTEGER PRIMARY KEY, newest INTEGER, n INTEGER, keys BLOB);"
        "CREATE TABLE IF NOT EXISTS removed(no INTEGER PRIMARY KEY);"
        "CREATE TABLE IF NOT EXISTS deletions(id INTEGER PRIMARY KEY, tenant INTEGER, log INTEGER, t0 INTEGER,"
        " t1 INTEGER, selector BLOB);"
        "INSERT OR IGNORE INTO meta VALUES('format', 1);"
        "INSERT OR IGNORE INTO meta VALUES('log', 0);"
        "INSERT OR IGNORE INTO meta VALUES('next', 1);"
        "COMMIT;",
        "create its tables", e);
}

/* Whether all tables of this version exist, so that nothing has to be written, which would fail on a full disk. */
static bool has_tables(struct catalog *c)
{
    sqlite3_stmt *s;
    bool there = sqlite3_prepare_v2(c->db, "SELECT no FROM removed", -1, &s, NULL) == SQLITE_OK;

    sqlite3_finalize(s);
    return there;
}

int catalog_open(const char *path, struct catalog **ret, bool *ret_new, struct err *e)
{
    _cleanup_(catalog_closep) struct catalog *c = mem_zalloc(sizeof *c);
    const char *vfs = vfs_register();
    int r, sums = PAGE_SUM;

    if (!c || !vfs)
        return err_set(e, -ENOMEM, "catalogue: out of memory");
    pthread_mutex_init(&c->lock, NULL);
    if (sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, vfs) !=
        SQLITE_OK)
        return c->db ? sql_error(c, "open it", e) : err_set(e, -ENOMEM, "catalogue: out of memory");
    sqlite3_file_control(c->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &sums); /* no effect on an existing database */
    sqlite3_exec(c->db, "PRAGMA locking_mode = EXCLUSIVE", NULL, NULL, NULL);
    r = run(c,
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;"
            "PRAGMA wal_autocheckpoint = 200; PRAGMA cache_size = -512; PRAGMA journal_size_limit = 0",
            "open it", e);
    if (r == 0)
        r = check_sound(c, e);
    if (r < 0)
        return r;
    *ret_new = catalog_meta(c, "format") == 0;
    r = *ret_new || !has_tables(c) ? create(c, e) : 0;
    if (r < 0)
        return r;
    if (catalog_meta(c, "format") != FORMAT)
        return err_set(e, -EPROTONOSUPPORT, "catalogue: its format is %llu; this version of wick supports %d",
                       (unsigned long long) catalog_meta(c, "format"), FORMAT);
    *ret = TAKE(c);
    return 0;
}

void catalog_close(struct catalog *c)
{
    if (!c)
        return;
    sqlite3_close_v2(c->db);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

/* --- changing --- */

static int put_segments(struct catalog *c, const struct catalog_change *x, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < x->n_removed; i++) {
        r = run_with(c, "DELETE FROM segments WHERE no = ?", (int64_t[]){(int64_t) x->removed[i]}, 1,
                     "remove a segment", e);
        if (r == 0)
            r = run_with(c, "INSERT OR IGNORE INTO removed VALUES(?)", (int64_t[]){(int64_t) x->removed[i]}, 1,
                         "note a removed segment", e);
    }
    for (uint32_t i = 0; r == 0 && i < x->n_added; i++) {
        const struct segment_meta *m = &x->added[i];
        int64_t v[] = {(int64_t) m->number,
                       m->tenant,
                       m->epoch,
                       m->level,
                       (int64_t) m->log,
                       m->t0,
                       m->t1,
                       (int64_t) m->bytes,
                       (int64_t) m->rows,
                       (int64_t) m->profiles,
                       m->has_detail};

        r = run_with(c, "INSERT INTO segments VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", v, ARRAY_SIZE(v),
                     "add a segment", e);
    }
    return r;
}

/* Groups keys by start: its distance to the previous start, the number of its keys, and five bytes of each key, or all
 * bytes where there is no start. */
static int pack_keys(const struct catalog_change *x, struct buf *b)
{
    _cleanup_(mem_freep) struct id128 *v = mem_alloc(x->n_keys * sizeof *v);
    _cleanup_(mem_freep) struct radix *sort = mem_alloc(2 * (size_t) x->n_keys * sizeof *sort);
    uint64_t start = 0;

    if (!v || !sort)
        return -ENOMEM;
    for (uint32_t i = 0; i < x->n_keys; i++)
        sort[i] = (struct radix){dedup_short(x->keys[i].key).lo, i};
    radix_sort(sort, sort + x->n_keys, x->n_keys);
    for (uint32_t i = 0; i < x->n_keys; i++)
        sort[i].key = x->keys[sort[i].index].key.hi;
    radix_sort(sort, sort + x->n_keys, x->n_keys);
    for (uint32_t i = 0; i < x->n_keys; i++)
        v[i] = dedup_short(x->keys[sort[i].index].key);
    for (uint32_t i = 0, j; i < x->n_keys; i = j) {
        for (j = i; j < x->n_keys && v[j].hi == v[i].hi;)
            j++;
        put_varint(b, v[i].hi - start);
        put_varint(b, j - i);
        for (uint32_t k = i; k < j; k++) {
            put_u32(b, (uint32_t) v[k].lo);
            buf_putc(b, (char) (v[k].lo >> 32));
            for (int n = 5; !v[k].hi && n < 8; n++)
                buf_putc(b, (char) (v[k].lo >> (8 * n)));
        }
        start = v[i].hi;
    }
    return buf_error(b);
}

int catalog_unpack_keys(const void *p, size_t size, int64_t time, struct dedup *d)
{
    struct cursor r = cursor_of(p, size);
    uint64_t start = 0;
    int rc = 0;

    while (rc == 0 && !r.bad && r.p < r.end) {
        uint64_t n;

        start += get_varint(&r);
        n = get_varint(&r);
        for (; n && rc == 0 && !r.bad; n--) {
            struct id128 key = {start, get_u32(&r)};

            for (int k = 4; k < (start ? 5 : 8); k++) {
                const unsigned char *byte = get_raw(&r, 1);

                key.lo |= (uint64_t) (byte ? *byte : 0) << (8 * k);
            }
            if (!r.bad)
                rc = dedup_add(d, key, time);
        }
    }
    return r.bad ? -EBADMSG : rc;
}

static int put_keys(struct catalog *c, const struct catalog_change *x, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    sqlite3_stmt *s;
    int64_t newest = INT64_MIN;
    int r = 0;

    if (x->keys_before)
        r = run_with(c, "DELETE FROM dedup WHERE newest < ?", (int64_t[]){x->keys_before}, 1, "forget old keys", e);
    if (r < 0 || !x->n_keys)
        return r;
    for (uint32_t i = 0; i < x->n_keys; i++)
        newest = MAX(newest, x->keys[i].time_ns);
    r = pack_keys(x, &b);
    if (r < 0)
        return r;
    if (sqlite3_prepare_v2(c->db, "INSERT INTO dedup(newest, n, keys) VALUES(?, ?, ?)", -1, &s, NULL) != SQLITE_OK)
        return sql_error(c, "keep keys", e);
    sqlite3_bind_int64(s, 1, newest);
    sqlite3_bind_int64(s, 2, x->n_keys);
    sqlite3_bind_blob64(s, 3, b.p, b.n, SQLITE_STATIC);
    if (sqlite3_step(s) != SQLITE_DONE)
        r = sql_error(c, "keep keys", e);
    sqlite3_finalize(s);
    return r;
}

static int put_rest(struct catalog *c, const struct catalog_change *x, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < x->n_epochs; i++) {
        const struct catalog_epoch *k = &x->epochs[i];

        r = run_with(c, "INSERT OR REPLACE INTO epochs VALUES(?, ?, ?, ?)",
                     (int64_t[]){k->tenant, k->epoch, (int64_t) k->bytes, k->born}, 4, "keep an epoch", e);
    }
    if (r == 0 && x->log)
        r = run_with(c, "UPDATE meta SET v = ? WHERE k = 'log'", (int64_t[]){(int64_t) x->log}, 1, "move the log", e);
    if (r == 0 && x->next)
        r = run_with(c, "UPDATE meta SET v = max(v, ?) WHERE k = 'next'", (int64_t[]){(int64_t) x->next}, 1,
                     "count segments", e);
    return r;
}

static int commit(struct catalog *c, const struct catalog_change *x, bool replace, struct err *e)
{
    int r = run(c, "BEGIN", "begin", e);

    if (r < 0)
        return r;
    if (replace)
        r = run(c, "DELETE FROM segments; DELETE FROM epochs", "replace what it lists", e);
    if (r == 0)
        r = put_segments(c, x, e);
    if (r == 0)
        r = put_keys(c, x, e);
    if (r == 0)
        r = put_rest(c, x, e);
    if (r == 0) {
        r = run(c, "COMMIT", "commit", e);
        if (r < 0 && x->unsure && sqlite3_extended_errcode(c->db) == SQLITE_IOERR_FSYNC)
            *x->unsure = true;
    }
    if (r < 0)
        sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

int catalog_commit(struct catalog *c, const struct catalog_change *x, struct err *e)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = commit(c, x, false, e);
    pthread_mutex_unlock(&c->lock);
    return r;
}

int catalog_replace(struct catalog *c, const struct catalog_change *x, struct err *e)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = commit(c, x, true, e);
    pthread_mutex_unlock(&c->lock);
    return r;
}

static int add_tenant(struct catalog *c, uint32_t number, const char *name, struct err *e)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "INSERT OR IGNORE INTO tenants VALUES(?, ?)", -1, &s, NULL) != SQLITE_OK)
        return sql_error(c, "add a tenant", e);
    sqlite3_bind_int64(s, 1, number);
    sqlite3_bind_text(s, 2, name, -1, SQLITE_STATIC);
    if (sqlite3_step(s) != SQLITE_DONE)
        r = sql_error(c, "add a tenant", e);
    sqlite3_finalize(s);
    return r;
}

int catalog_add_tenant(struct catalog *c, uint32_t number, const char *name, struct err *e)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = add_tenant(c, number, name, e);
    pthread_mutex_unlock(&c->lock);
    return r;
}

int catalog_drop_epoch(struct catalog *c, uint32_t tenant, uint32_t epoch, struct err *e)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = run_with(c, "DELETE FROM epochs WHERE tenant = ? AND epoch = ?", (int64_t[]){tenant, epoch}, 2, "drop an epoch",
                 e);
    pthread_mutex_unlock(&c->lock);
    return r;
}

static int add_deletion(struct catalog *c, const struct catalog_deletion *d, uint64_t *ret_id, struct err *e)
{
    const int64_t v[] = {d->tenant, (int64_t) d->log, d->from, d->to};
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "INSERT INTO deletions(tenant, log, t0, t1, selector) VALUES(?, ?, ?, ?, ?)", -1, &s,
                           NULL) != SQLITE_OK)
        return sql_error(c, "keep a deletion", e);
    for (int i = 0; i < (int) ARRAY_SIZE(v); i++)
        sqlite3_bind_int64(s, i + 1, v[i]);
    sqlite3_bind_blob64(s, 5, d->selector.p, d->selector.n, SQLITE_STATIC);
    if (sqlite3_step(s) != SQLITE_DONE)
        r = sql_error(c, "keep a deletion", e);
    else
        *ret_id = (uint64_t) sqlite3_last_insert_rowid(c->db);
    sqlite3_finalize(s);
    return r;
}

int catalog_add_deletion(struct catalog *c, const struct catalog_deletion *d, uint64_t *ret_id, struct err *e)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = add_deletion(c, d, ret_id, e);
    if (r == 0) /* into the database itself: damage to SQLite's log must not bring back deleted data */
        sqlite3_exec(c->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    pthread_mutex_unlock(&c->lock);
    return r;
}

int catalog_drop_deletion(struct catalog *c, uint64_t id, struct err *e)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = run_with(c, "DELETE FROM deletions WHERE id = ?", (int64_t[]){(int64_t) id}, 1, "forget a deletion", e);
    pthread_mutex_unlock(&c->lock);
    return r;
}

int catalog_set_clock(struct catalog *c, int64_t now, struct err *e)
{
    int r;

    pthread_mutex_lock(&c->lock);
    r = run_with(c, "INSERT OR REPLACE INTO meta VALUES('clock', ?)", (int64_t[]){now}, 1, "save the time", e);
    pthread_mutex_unlock(&c->lock);
    return r;
}

void catalog_checkpoint(struct catalog *c)
{
    pthread_mutex_lock(&c->lock);
    sqlite3_exec(c->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL); /* on failure, tried again later */
    pthread_mutex_unlock(&c->lock);
}

int catalog_check(struct catalog *c, const char *path, struct err *e)
{
    off_t at = 0;
    int r;

    pthread_mutex_lock(&c->lock);
    r = run(c, "PRAGMA wal_checkpoint(TRUNCATE)", "write its log back", e); /* the check does not read the log */
    if (r == 0) {
        r = vfs_check_pages(path, &at);
        if (r < 0)
            err_set(e, r, "catalogue: the page at %lld is damaged", (long long) at);
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

/* --- reading --- */

uint64_t catalog_meta(struct catalog *c, const char *key)
{
    sqlite3_stmt *s;
    uint64_t v = 0;

    pthread_mutex_lock(&c->lock);
    if (sqlite3_prepare_v2(c->db, "SELECT v FROM meta WHERE k = ?", -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
        if (sqlite3_step(s) == SQLITE_ROW)
            v = (uint64_t) sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
    }
    pthread_mutex_unlock(&c->lock);
    return v;
}

int catalog_tenants(struct catalog *c, int (*fn)(void *, uint32_t, const char *), void *ctx)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "SELECT no, name FROM tenants ORDER BY no", -1, &s, NULL) != SQLITE_OK)
        return -EIO;
    while (r == 0 && sqlite3_step(s) == SQLITE_ROW)
        r = fn(ctx, (uint32_t) sqlite3_column_int64(s, 0), (const char *) sqlite3_column_text(s, 1));
    sqlite3_finalize(s);
    return r;
}

int catalog_epochs(struct catalog *c, int (*fn)(void *, const struct catalog_epoch *), void *ctx)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "SELECT tenant, epoch, bytes, born FROM epochs ORDER BY tenant, epoch", -1, &s,
                           NULL) != SQLITE_OK)
        return -EIO;
    while (r == 0 && sqlite3_step(s) == SQLITE_ROW) {
        struct catalog_epoch k = {(uint32_t) sqlite3_column_int64(s, 0), (uint32_t) sqlite3_column_int64(s, 1),
                                  (uint64_t) sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3)};

        r = fn(ctx, &k);
    }
    sqlite3_finalize(s);
    return r;
}

int catalog_segments(struct catalog *c, int (*fn)(void *, const struct segment_meta *), void *ctx)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db,
                           "SELECT no, tenant, epoch, level, log, t0, t1, bytes, rows, profiles, detail FROM segments"
                           " ORDER BY no",
                           -1, &s, NULL) != SQLITE_OK)
        return -EIO;
    while (r == 0 && sqlite3_step(s) == SQLITE_ROW) {
        struct segment_meta m = {.number = (uint64_t) sqlite3_column_int64(s, 0),
                                 .tenant = (uint32_t) sqlite3_column_int64(s, 1),
                                 .epoch = (uint32_t) sqlite3_column_int64(s, 2),
                                 .level = (uint32_t) sqlite3_column_int64(s, 3),
                                 .log = (uint64_t) sqlite3_column_int64(s, 4),
                                 .t0 = sqlite3_column_int64(s, 5),
                                 .t1 = sqlite3_column_int64(s, 6),
                                 .bytes = (uint64_t) sqlite3_column_int64(s, 7),
                                 .rows = (uint64_t) sqlite3_column_int64(s, 8),
                                 .profiles = (uint64_t) sqlite3_column_int64(s, 9),
                                 .has_detail = sqlite3_column_int64(s, 10) != 0};

        r = fn(ctx, &m);
    }
    sqlite3_finalize(s);
    return r;
}

int catalog_removed(struct catalog *c, int (*fn)(void *, uint64_t), void *ctx)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "SELECT no FROM removed ORDER BY no", -1, &s, NULL) != SQLITE_OK)
        return -EIO;
    while (r == 0 && sqlite3_step(s) == SQLITE_ROW)
        r = fn(ctx, (uint64_t) sqlite3_column_int64(s, 0));
    sqlite3_finalize(s);
    return r;
}

void catalog_forget_removed(struct catalog *c)
{
    pthread_mutex_lock(&c->lock);
    sqlite3_exec(c->db, "DELETE FROM removed", NULL, NULL, NULL); /* on failure, tried again later */
    pthread_mutex_unlock(&c->lock);
}

int catalog_load_dedup(struct catalog *c, struct dedup *d)
{
    sqlite3_stmt *s;
    bool bad = false;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "SELECT keys, newest FROM dedup ORDER BY id", -1, &s, NULL) != SQLITE_OK)
        return -EIO;
    while (r == 0 && sqlite3_step(s) == SQLITE_ROW) {
        r = catalog_unpack_keys(sqlite3_column_blob(s, 0), (size_t) sqlite3_column_bytes(s, 0),
                                sqlite3_column_int64(s, 1), d);
        bad |= r == -EBADMSG;
        r = r == -EBADMSG ? 0 : r;
    }
    sqlite3_finalize(s);
    return r == 0 && bad ? -EBADMSG : r;
}

int catalog_deletions(struct catalog *c, int (*fn)(void *, const struct catalog_deletion *), void *ctx)
{
    sqlite3_stmt *s;
    int r = 0;

    if (sqlite3_prepare_v2(c->db, "SELECT id, tenant, log, t0, t1, selector FROM deletions ORDER BY id", -1, &s,
                           NULL) != SQLITE_OK)
        return -EIO;
    while (r == 0 && sqlite3_step(s) == SQLITE_ROW) {
        struct catalog_deletion d = {.id = (uint64_t) sqlite3_column_int64(s, 0),
                                     .tenant = (uint32_t) sqlite3_column_int64(s, 1),
                                     .log = (uint64_t) sqlite3_column_int64(s, 2),
                                     .from = sqlite3_column_int64(s, 3),
                                     .to = sqlite3_column_int64(s, 4)};

        d.selector = (struct str){sqlite3_column_blob(s, 5), (uint32_t) sqlite3_column_bytes(s, 5)};
        r = fn(ctx, &d);
    }
    sqlite3_finalize(s);
    return r;
}
