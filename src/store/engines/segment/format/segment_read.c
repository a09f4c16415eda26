/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads segments; see segment_file.h. Footers, dictionaries, directories and lists of profiles are cached; chunks and
 * traces are not. A file is open while it is in use, and stays open afterwards unless too many are. What N.cold does
 * not have is read from the object store (cold.h).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "store/engines/segment/format/column.h"
#include "store/engines/segment/format/segment_file.h"

enum { BLOCK_MAX = 1 << 30 };

void segment_name(char *out, size_t size, uint64_t number)
{
    snprintf(out, size, "%012llu.seg", (unsigned long long) number);
}

void segment_cold_name(char *out, size_t size, uint64_t number)
{
    snprintf(out, size, "%012llu.cold", (unsigned long long) number);
}

void segment_gone_name(char *out, size_t size, uint64_t number)
{
    snprintf(out, size, "%012llu.gone", (unsigned long long) number);
}

int segment_bad(const struct segment *s, const char *what, struct err *e)
{
    return err_set(e, -EBADMSG, "segment %llu: %s", (unsigned long long) s->meta.number, what);
}

/* Must be called between use and release. */
int segment_read_at(const struct segment *s, void *p, size_t n, uint64_t off, struct err *e)
{
    int64_t at = s->stub ? cold_stub_find(s->stub, off, n) : (int64_t) off;
    int r;

    if (at < 0)
        return cold_read(&(struct cold_source){s->cold, s->stub, s->meta.number}, p, (uint32_t) n, off, e);
    r = s->fd < 0 ? s->fd : fd_pread_all(s->fd, p, n, (off_t) at);
    return r < 0 ? err_set(e, r, "cannot read segment %llu: %m", (unsigned long long) s->meta.number) : 0;
}

/* Opens N.cold where there is no complete file. */
static void open_stub(struct segment *s)
{
    struct cold_stub *stub = mem_alloc(sizeof *stub);
    char name[64];
    int r;

    segment_cold_name(name, sizeof name, s->meta.number);
    s->fd = stub ? fd_open(s->dir, name, O_RDONLY, 0) : -ENOMEM;
    r = s->fd < 0 ? s->fd : cold_stub_read(s->fd, stub);
    if (r == 0) {
        s->stub = stub;
        atomic_store(&s->is_cold, true);
        return;
    }
    if (s->fd >= 0)
        fd_close(s->fd);
    s->fd = r;
    mem_free(stub);
}

/* Called under lock, or before any other thread can access the segment. The name is valid as long as there is a
 * reference. */
static void open_file(struct segment *s)
{
    char name[64], lost[80];

    segment_name(name, sizeof name, s->meta.number);
    snprintf(lost, sizeof lost, "%u-%s", s->lost_of, name);
    s->fd = fd_open(s->dir, s->lost_of ? lost : name, O_RDONLY, 0);
    if (s->fd == -ENOENT && !s->lost_of)
        open_stub(s);
    if (s->fd >= 0 && s->lru)
        atomic_fetch_add_explicit(&s->lru->files, 1, memory_order_relaxed);
}

static void close_file(struct segment *s)
{
    if (s->fd >= 0 && s->lru)
        atomic_fetch_sub_explicit(&s->lru->files, 1, memory_order_relaxed);
    fd_close(s->fd);
    s->fd = -1;
    mem_free(s->stub);
    s->stub = NULL;
    s->moved = false;
}

void segment_footer_free(struct segment_footer *f)
{
    if (f)
        arena_done(&f->arena);
    mem_free(f);
}

static void free_parts(struct segment *s)
{
    segment_footer_free(s->footer);
    if (s->blobs)
        blobs_done(s->blobs);
    mem_free(s->blobs);
    segment_listed_free(s->listed);
    s->footer = NULL;
    s->blobs = NULL;
    s->listed = NULL;
}

/* Drops what can be read again, to make room in the cache. */
static bool drop_parts(struct lru_item *item)
{
    struct segment *s = container_of(item, struct segment, item);
    bool idle;

    if (pthread_mutex_trylock(&s->lock) != 0)
        return false;
    idle = !s->users;
    if (idle)
        free_parts(s);
    pthread_mutex_unlock(&s->lock);
    return idle;
}

static int check_tail(struct segment *s, struct err *e)
{
    unsigned char tail[SEGMENT_TAIL];
    struct stat st = {0};
    char name[64];
    int r;

    segment_name(name, sizeof name, s->meta.number);
    if (s->fd == -EBADMSG)
        return segment_bad(s, "its file in place of the object ('.cold') is damaged", e);
    if (s->fd < 0)
        return err_set(e, s->fd, "cannot open segment '%s': %m", name);
    if (!s->stub && fstat(s->fd, &st) < 0)
        return segment_bad(s, "its size is unknown", e);
    s->meta.bytes = s->stub ? s->stub->size : (uint64_t) st.st_size;
    if (s->meta.bytes < 8 + SEGMENT_TAIL)
        return segment_bad(s, "is too short", e);
    r = segment_read_at(s, tail, sizeof tail, s->meta.bytes - SEGMENT_TAIL, e);
    if (r < 0)
        return r;
    if (memcmp(tail + 32, "WICKEND1", 8) != 0 || crc32c(0, tail, 28) != load_u32(tail + 28))
        return segment_bad(s, "its tail is damaged", e);
    if (load_u32(tail + 20) != SEGMENT_VERSION)
        return err_set(e, -EPROTONOSUPPORT, "segment '%s' has version %u; this version of wick supports %d", name,
                       load_u32(tail + 20), SEGMENT_VERSION);
    return 0;
}

static int open_in(int dir, uint32_t lost_of, uint64_t number, struct lru *lru, struct segment **ret, struct err *e)
{
    _cleanup_(segment_unrefp) struct segment *s = mem_zalloc(sizeof *s);
    int r;

    if (!s)
        return -ENOMEM;
    s->refs = 1;
    s->dir = dir;
    s->lost_of = lost_of;
    s->lru = lru;
    s->item.drop = drop_parts;
    s->meta.number = number;
    pthread_mutex_init(&s->lock, NULL);
    open_file(s);
    r = check_tail(s, e);
    if (r < 0)
        return r;
    if (lru_files_full(lru))
        close_file(s);
    *ret = TAKE(s);
    return 0;
}

int segment_open(int dir, uint64_t number, struct lru *lru, struct segment **ret, struct err *e)
{
    return open_in(dir, 0, number, lru, ret, e);
}

int segment_open_lost(int dir, uint32_t tenant, uint64_t number, struct segment **ret, struct err *e)
{
    return open_in(dir, tenant, number, NULL, ret, e);
}

struct segment *segment_use(struct segment *s)
{
    pthread_mutex_lock(&s->lock);
    if (!s->users++ && s->fd < 0)
        open_file(s);
    pthread_mutex_unlock(&s->lock);
    return s;
}

/* Called under lock. */
static void count_parts(struct segment *s)
{
    size_t bytes = (s->footer ? sizeof *s->footer + s->footer->arena.used : 0) +
                   (s->blobs ? blobs_bytes(s->blobs) : 0) + segment_listed_bytes(s->listed);

    if (bytes)
        lru_used(s->lru, &s->item, bytes);
}

void segment_release(struct segment *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    if (!--s->users && (s->moved || lru_files_full(s->lru)))
        close_file(s);
    count_parts(s);
    pthread_mutex_unlock(&s->lock);
    lru_trim(s->lru);
}

void segment_discard(int dir, uint64_t number)
{
    char name[64], gone[64];

    segment_name(name, sizeof name, number);
    fd_unlink(dir, name);
    segment_cold_name(name, sizeof name, number);
    segment_gone_name(gone, sizeof gone, number);
    if (faccessat(dir, name, F_OK, 0) == 0)
        fd_rename(dir, name, dir, gone);
}

void segment_set_cold(struct segment *s, struct cold *c)
{
    pthread_mutex_lock(&s->lock);
    s->cold = c;
    pthread_mutex_unlock(&s->lock);
}

void segment_moved(struct segment *s, bool is_cold)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->is_cold, is_cold);
    if (s->users)
        s->moved = true;
    else
        close_file(s);
    pthread_mutex_unlock(&s->lock);
}

int segment_prefetch(struct segment *s, const struct segment_range *v, uint32_t n, struct err *e)
{
    return s->stub && n ? cold_fetch(&(struct cold_source){s->cold, s->stub, s->meta.number}, v, n, e) : 0;
}

void segment_cold_extents(const struct segment_footer *f, uint64_t bytes, struct cold_stub *ret)
{
    uint64_t from = f->dict.off, end = f->dict.off + f->dict.len, footer = end;
    uint32_t blocks = (f->n_traces + TRACE_BLOCK - 1) / TRACE_BLOCK;

    for (uint32_t i = 0; i < f->n_groups; i++)
        for (int k = 0; k < SEGMENT_LEVELS; k++)
            if (f->groups[i].dirs[k].len)
                from = MIN(from, f->groups[i].dirs[k].off);
    for (uint32_t i = 0; i < blocks; i++) { /* the traces lie between dictionary and footer */
        footer = MAX(footer, f->trace_ids[i].off + f->trace_ids[i].len);
        footer = MAX(footer, f->trace_index[i].off + f->trace_index[i].len);
    }
    ret->n = 0;
    ret->v[ret->n++] = (struct cold_extent){from, end - from};
    ret->v[ret->n++] = (struct cold_extent){footer, bytes - footer};
}

struct segment *segment_ref(struct segment *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void segment_unref(struct segment *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    close_file(s);
    if (atomic_load(&s->dead))
        segment_discard(s->dir, s->meta.number);
    lru_forget(s->lru, &s->item);
    free_parts(s);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* Reads a compressed block of the file and checks its CRC. */
int segment_read_block(struct segment *s, const struct segment_block *k, const char *what, struct buf *out,
                       struct err *e)
{
    _cleanup_(mem_freep) char *packed = NULL;
    ZSTD_DCtx *z;
    size_t n;
    int r;

    if (k->len > s->meta.bytes || k->off > s->meta.bytes - k->len || k->raw > BLOCK_MAX)
        return segment_bad(s, what, e);
    packed = mem_alloc(k->len + 1u);
    if (!packed || !buf_reserve(out, k->raw + 1u))
        return -ENOMEM;
    r = segment_read_at(s, packed, k->len, k->off, e);
    if (r < 0)
        return r;
    if (crc32c(0, packed, k->len) != k->crc)
        return segment_bad(s, what, e);
    z = column_zstd();
    if (!z)
        return -ENOMEM;
    n = ZSTD_decompressDCtx(z, out->p, k->raw, packed, k->len);
    if (ZSTD_isError(n) || n != k->raw)
        return segment_bad(s, what, e);
    out->n = n;
    return 0;
}

static struct segment_block get_block_ref(struct cursor *r)
{
    struct segment_block k;

    k.off = get_varint(r);
    k.len = get_below(r, UINT32_MAX);
    k.raw = get_below(r, UINT32_MAX);
    k.crc = get_u32(r);
    return k;
}

static void read_meta(struct cursor *r, struct segment_footer *f)
{
    f->meta.tenant = (uint32_t) get_varint(r);
    f->meta.epoch = (uint32_t) get_varint(r);
    f->meta.level = get_below(r, SEGMENT_LEVELS);
    f->meta.log = get_varint(r);
    f->meta.t0 = get_zigzag(r);
    f->meta.t1 = get_zigzag(r);
    f->meta.rows = get_varint(r);
    f->meta.profiles = get_varint(r);
    f->meta.has_detail = get_varint(r) & 1;
    f->n_replaced = get_below(r, (uint64_t) (r->end - r->p) + 1);
    f->replaced = arena_zalloc_array(&f->arena, f->n_replaced + 1, sizeof *f->replaced);
    for (uint32_t i = 0; f->replaced && i < f->n_replaced; i++)
        f->replaced[i] = get_varint(r);
}

static void read_traces(struct cursor *r, struct segment_footer *f)
{
    uint32_t n = f->n_traces = get_below(r, ((uint64_t) (r->end - r->p) + 1) * TRACE_BLOCK);

    n = (n + TRACE_BLOCK - 1) / TRACE_BLOCK;
    f->trace_ids = arena_zalloc_array(&f->arena, n + 1, sizeof *f->trace_ids);
    f->trace_index = arena_zalloc_array(&f->arena, n + 1, sizeof *f->trace_index);
    f->trace_first = arena_zalloc_array(&f->arena, n + 1, sizeof *f->trace_first);
    if (!f->trace_ids || !f->trace_index || !f->trace_first) {
        r->bad = true;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        f->trace_ids[i] = get_block_ref(r);
    for (uint32_t i = 0; i < n; i++) {
        f->trace_first[i] = get_u32(r);
        f->trace_index[i] = get_block_ref(r);
    }
}

static void read_lists(struct cursor *r, struct segment_footer *f)
{
    uint32_t series = 0;
    uint64_t off = 0;

    f->n_series = get_below(r, (uint64_t) (r->end - r->p) + 1);
    f->series = arena_zalloc_array(&f->arena, f->n_series + 1, sizeof *f->series);
    for (uint32_t i = 0; f->series && i < f->n_series; i++) {
        series += (uint32_t) get_varint(r);
        f->series[i].series = series;
        f->series[i].first = get_behind(r, f->meta.t0, 1);
        f->series[i].last = get_behind(r, f->series[i].first, 1);
    }
    f->n_groups = get_below(r, (uint64_t) (r->end - r->p) + 1);
    f->groups = arena_zalloc_array(&f->arena, f->n_groups + 1, sizeof *f->groups);
    for (uint32_t i = 0; f->groups && i < f->n_groups && !r->bad; i++) {
        f->groups[i].service = (uint32_t) get_varint(r);
        f->groups[i].type = (uint32_t) get_varint(r);
        f->groups[i].gauge = get_varint(r) & 1;
        for (int k = 0; k < SEGMENT_LEVELS; k++)
            f->groups[i].dirs[k] = get_block_ref(r);
    }
    f->dict = get_block_ref(r);
    read_traces(r, f);
    f->n_linked = get_below(r, (uint64_t) (r->end - r->p) + 1);
    f->linked = arena_zalloc_array(&f->arena, f->n_linked + 1, sizeof *f->linked);
    for (uint32_t i = 0; f->linked && i < f->n_linked; i++) {
        off += get_varint(r);
        f->linked[i].off = off;
        f->linked[i].len = get_below(r, UINT32_MAX);
    }
}

int segment_parse_footer(const void *p, size_t n, struct segment_footer **ret)
{
    struct segment_footer *f = mem_zalloc(sizeof *f);
    struct cursor r = cursor_of(p, n);

    if (!f)
        return -ENOMEM;
    arena_init(&f->arena, 0);
    read_meta(&r, f);
    read_lists(&r, f);
    if (f->arena.failed || r.bad) {
        int rc = f->arena.failed ? -ENOMEM : -EBADMSG; /* without memory for a list, what follows it is not read */

        segment_footer_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

static int load_footer(struct segment *s, struct err *e)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT;
    unsigned char tail[SEGMENT_TAIL];
    struct segment_block k;
    int rc = segment_read_at(s, tail, sizeof tail, s->meta.bytes - SEGMENT_TAIL, e);

    if (rc < 0)
        return rc;
    k = (struct segment_block){load_u64(tail), load_u32(tail + 8), load_u32(tail + 12), load_u32(tail + 16)};
    rc = segment_read_block(s, &k, "its footer is damaged", &raw, e);
    if (rc < 0)
        return rc;
    rc = segment_parse_footer(raw.p, raw.n, &s->footer);
    return rc == -EBADMSG ? segment_bad(s, "its footer is damaged", e) : rc;
}

int segment_footer(struct segment *s, const struct segment_footer **ret, struct err *e)
{
    int r = 0;

    pthread_mutex_lock(&s->lock);
    assert(s->users);
    if (!s->footer)
        r = load_footer(s, e);
    *ret = s->footer;
    pthread_mutex_unlock(&s->lock);
    return r;
}

static int load_blobs(struct segment *s, const struct segment_footer *f, struct err *e)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT;
    struct blobs *b;
    int r = segment_read_block(s, &f->dict, "its dictionary is damaged", &raw, e);

    if (r < 0)
        return r;
    b = mem_zalloc(sizeof *b);
    if (!b)
        return -ENOMEM;
    r = blobs_init(b);
    if (r == 0)
        r = blobs_decode(b, raw.p, raw.n);
    if (r < 0) {
        blobs_done(b);
        mem_free(b);
        return r == -EINVAL ? segment_bad(s, "its dictionary is damaged", e) : r;
    }
    s->blobs = b;
    return 0;
}

int segment_blobs(struct segment *s, const struct blobs **ret, struct err *e)
{
    const struct segment_footer *f;
    int r = segment_footer(s, &f, e);

    if (r < 0)
        return r;
    pthread_mutex_lock(&s->lock);
    if (!s->blobs)
        r = load_blobs(s, f, e);
    *ret = s->blobs;
    pthread_mutex_unlock(&s->lock);
    return r;
}

static void read_directory(struct cursor *r, const struct segment_group *g, struct dir_entry *d, uint32_t n)
{
    int64_t window = 0;
    uint64_t off = 0;

    for (uint32_t i = 0; i < n; i++) {
        window = get_behind(r, window, WINDOW_5M);
        d[i].window = window;
        d[i].e.service = g->service;
        d[i].e.type = g->type;
        d[i].e.gauge = g->gauge;
    }
    for (uint32_t i = 0; i < n; i++)
        d[i].e.series = (uint32_t) get_varint(r) - 1;
    for (uint32_t i = 0; g->gauge && i < n; i++) {
        d[i].e.instance.hi = get_u64(r);
        d[i].e.instance.lo = get_u64(r);
    }
    for (uint32_t i = 0; i < n; i++)
        d[i].e.n_profs = (uint32_t) get_varint(r);
    for (uint32_t i = 0; i < n; i++)
        d[i].e.n_nodes = (uint32_t) get_varint(r);
    for (uint32_t i = 0; i < n; i++)
        d[i].e.sum = get_zigzag(r);
    for (uint32_t i = 0; i < n; i++)
        d[i].e.min_time = get_behind(r, d[i].window, 1);
    for (uint32_t i = 0; i < n; i++)
        d[i].e.max_time = get_behind(r, d[i].e.min_time, 1);
    for (uint32_t i = 0; i < n; i++) {
        off += (uint64_t) get_zigzag(r);
        d[i].off = off;
    }
    for (uint32_t i = 0; i < n; i++)
        d[i].head = (uint32_t) get_varint(r);
    for (uint32_t i = 0; i < n; i++)
        d[i].len = d[i].head + (uint32_t) get_varint(r);
    for (uint32_t i = 0; i < n; i++)
        d[i].e.totals_off = (uint32_t) get_varint(r);
}

int segment_parse_directory(const void *p, size_t size, const struct segment_group *g, struct arena *a,
                            struct dir_entry **ret, uint32_t *ret_n)
{
    struct cursor r = cursor_of(p, size);
    uint32_t n = get_below(&r, size + 1);
    struct dir_entry *d = arena_zalloc_array(a, n + 1, sizeof *d);

    if (!d)
        return -ENOMEM;
    read_directory(&r, g, d, n);
    if (r.bad)
        return -EBADMSG;
    *ret = d;
    *ret_n = n;
    return 0;
}

int segment_read_directory(struct segment *s, const struct segment_group *g, int level, struct arena *a,
                           struct directory *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT;
    struct dir_entry *v;
    uint32_t n;
    int rc;

    *ret = (struct directory){0};
    if (!g->dirs[level].len)
        return 0;
    rc = segment_read_block(s, &g->dirs[level], "a directory is damaged", &raw, e);
    if (rc == 0)
        rc = segment_parse_directory(raw.p, raw.n, g, a, &v, &n);
    if (rc == 0)
        *ret = (struct directory){v, n};
    return rc == -EBADMSG ? segment_bad(s, "a directory is damaged", e) : rc;
}

void segment_sections(struct segment *s, uint64_t sizes[SECTIONS])
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s);
    unsigned char header[CHUNK_HEADER];
    uint64_t at = 8;

    while (!s->stub && segment_read_at(s, header, sizeof header, at, NULL) == 0 && load_u32(header) == CHUNK_MAGIC &&
           crc32c(0, header, 68) == load_u32(header + 68)) {
        at += CHUNK_HEADER;
        for (int i = 0; i < SECTIONS; i++) {
            sizes[i] += load_u32(header + 8 + 12 * i);
            at += load_u32(header + 8 + 12 * i);
        }
    }
}

int segment_chunk_bytes(struct segment *s, uint64_t off, uint32_t len, struct buf *out, struct err *e)
{
    char *p;
    int r;

    if (len > s->meta.bytes || off > s->meta.bytes - len)
        return segment_bad(s, "a directory points outside the segment", e);
    p = buf_reserve(out, len + 1u);
    if (!p)
        return -ENOMEM;
    r = segment_read_at(s, p, len, off, e);
    if (r < 0)
        return r;
    out->n += len;
    return 0;
}

enum { READ_WHOLE = 16 << 10 }; /* up to so many bytes, a second read costs more than it saves */

/* Reads the header of a chunk and those of its bytes that contain sections of the mask. */
static int read_sections(struct segment *s, uint64_t off, uint32_t len, unsigned mask, struct buf *out, struct err *e)
{
    uint64_t at = CHUNK_HEADER, from = len, to = CHUNK_HEADER;
    unsigned char *p;
    int r;

    if (s->stub || len <= READ_WHOLE || mask == ~0u || len > s->meta.bytes || off > s->meta.bytes - len)
        return segment_chunk_bytes(s, off, len, out, e);
    p = (unsigned char *) buf_reserve(out, len + 1u);
    if (!p)
        return -ENOMEM;
    r = segment_read_at(s, p, CHUNK_HEADER, off, e);
    for (int i = 0; r == 0 && i < SECTIONS; i++) {
        uint32_t size = load_u32(p + 8 + 12 * i);

        if (mask >> i & 1) {
            from = MIN(from, at);
            to = at + size;
        }
        at += size;
    }
    to = MIN(to, (uint64_t) len);
    if (r == 0 && from < to)
        r = segment_read_at(s, p + from, to - from, off + from, e);
    if (r == 0)
        out->n += len;
    return r;
}

int segment_chunk(struct segment *s, uint64_t off, uint32_t len, unsigned mask, struct chunk *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int r = read_sections(s, off, len, mask, &b, e);

    if (r < 0)
        return r;
    r = chunk_open(ret, b.p, len, mask, e);
    return r == -EBADMSG ? err_prefix(e, r, "segment %llu at %llu: ", (unsigned long long) s->meta.number,
                                      (unsigned long long) off)
                         : r;
}
