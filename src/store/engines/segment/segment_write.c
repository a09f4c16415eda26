/* SPDX-License-Identifier: Apache-2.0 */
/* See segment_file.h: writing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/engines/segment/segment_file.h"

/* A group with more rows than this has chunks of its own; smaller ones share until there are CHUNK_ROWS. */
enum { GROUP_ROWS = 4096, CHUNK_ROWS = 32768, WRITE_AT = 1 << 20 };

struct dir_record {
    struct dir_entry d;
    uint8_t level;
};

/* What has been added up of one entry over the current hour and day. */
struct sums {
    struct chunk_entry entry;
    struct totals totals;
    int64_t window;
};

struct segment_writer {
    struct segment_writer_options o;
    int fd;
    char tmp[80], name[64];
    bool finished;
    struct buf out; /* not yet written */
    uint64_t off;   /* of the end of `out` */
    struct chunk_encoder *encoder;
    struct chunk_out chunk;
    struct buf scratch, packed;
    struct dir_record *dir;
    size_t cap_dir;
    uint32_t n_dir;
    struct sums *sums[2]; /* hour, day */
    size_t cap_sums[2];
    uint32_t n_sums[2];
    struct map sums_map[2];
    struct blobs blobs;
    uint64_t *traces; /* hash << 32 | linked chunk */
    size_t cap_traces;
    uint32_t n_traces;
    struct {
        uint64_t off;
        uint32_t len;
    } * linked;
    size_t cap_linked;
    uint32_t n_linked;
    struct segment_meta meta;
};

int segment_writer_new(const struct segment_writer_options *o, struct segment_writer **ret, struct err *e)
{
    _cleanup_(segment_writer_freep) struct segment_writer *w = mem_zalloc(sizeof *w);
    int r;

    if (!w)
        return -ENOMEM;
    w->fd = -1;
    w->o = *o;
    w->meta = o->meta;
    w->meta.t0 = INT64_MAX;
    w->meta.t1 = INT64_MIN;
    segment_name(w->name, sizeof w->name, o->meta.number);
    snprintf(w->tmp, sizeof w->tmp, "%s.tmp", w->name);
    r = blobs_init(&w->blobs);
    if (r == 0)
        r = chunk_encoder_new(&w->encoder);
    if (r < 0)
        return r;
    w->fd = fd_open(o->dir, w->tmp, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (w->fd < 0)
        return err_set(e, w->fd, "cannot create segment '%s': %m", w->tmp);
    buf_puts(&w->out, "WICKSEG1");
    w->off = 8;
    *ret = TAKE(w);
    return 0;
}

void segment_writer_free(struct segment_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        fd_close(w->fd);
    if (w->fd >= 0 && !w->finished)
        fd_unlink(w->o.dir, w->tmp);
    chunk_encoder_free(w->encoder);
    chunk_out_done(&w->chunk);
    buf_done(&w->out);
    buf_done(&w->scratch);
    buf_done(&w->packed);
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < w->n_sums[k]; i++)
            totals_done(&w->sums[k][i].totals);
        mem_free(w->sums[k]);
        map_done(&w->sums_map[k]);
    }
    mem_free(w->dir);
    mem_free(w->traces);
    mem_free(w->linked);
    blobs_done(&w->blobs);
    mem_free(w);
}

struct blobs *segment_writer_blobs(struct segment_writer *w)
{
    return &w->blobs;
}

static int write_out(struct segment_writer *w, bool all, struct err *e)
{
    int r;

    if (buf_error(&w->out) < 0)
        return buf_error(&w->out);
    if (!all && w->out.n < WRITE_AT)
        return 0;
    r = fd_pwrite_all(w->fd, w->out.p, w->out.n, (off_t) (w->off - w->out.n));
    if (r < 0)
        return err_set(e, r, "cannot write segment '%s': %m", w->tmp);
    buf_reset(&w->out);
    return 0;
}

static int add_dir(struct segment_writer *w, const struct chunk_entry *e, int level, int64_t window, uint64_t off,
                   uint32_t head, uint32_t len)
{
    if (mem_grow((void **) &w->dir, &w->cap_dir, (size_t) w->n_dir + 1, sizeof *w->dir, UINT32_MAX) < 0)
        return -ENOMEM;
    w->dir[w->n_dir++] = (struct dir_record){{*e, window, off, head, len}, (uint8_t) level};
    w->meta.t0 = MIN(w->meta.t0, e->min_time);
    w->meta.t1 = MAX(w->meta.t1, e->max_time);
    return 0;
}

/* --- sums over hours and days --- */

static uint64_t sums_hash(const struct chunk_entry *e)
{
    return hash64_u64((uint64_t) e->series << 32 | e->type) ^ e->instance.lo ^ (uint64_t) e->service << 40;
}

static int sum_into(struct segment_writer *w, int level, int64_t window, const struct chunk_entry *e,
                    const struct totals *t)
{
    int k = level - 1, r = 0;
    uint64_t h = sums_hash(e);
    struct map_pos p;
    struct sums *s;

    for (p = map_find(&w->sums_map[k], h); p.index != MAP_NONE; p = map_next(&w->sums_map[k], p)) {
        s = &w->sums[k][p.index];
        if (s->entry.series == e->series && s->entry.service == e->service && s->entry.type == e->type &&
            (!e->gauge || id128_eq(s->entry.instance, e->instance)))
            break;
    }
    if (p.index == MAP_NONE) {
        if (mem_grow((void **) &w->sums[k], &w->cap_sums[k], (size_t) w->n_sums[k] + 1, sizeof *w->sums[k], 1 << 24) <
                0 ||
            map_insert(&w->sums_map[k], h, w->n_sums[k]) < 0)
            return -ENOMEM;
        s = &w->sums[k][w->n_sums[k]++];
        *s = (struct sums){.entry = *e, .window = window};
    } else {
        s = &w->sums[k][p.index];
        s->entry.n_profs += e->n_profs;
        s->entry.sum += e->sum;
        s->entry.min_time = MIN(s->entry.min_time, e->min_time);
        s->entry.max_time = MAX(s->entry.max_time, e->max_time);
    }
    for (uint32_t i = 0; r == 0 && i < t->n; i++)
        r = totals_add(&s->totals, t->nodes[i], t->values[i]);
    return r;
}

static int sums_cmp(const void *a, const void *b)
{
    const struct chunk_entry *x = &((const struct sums *) a)->entry, *y = &((const struct sums *) b)->entry;

    if (x->service != y->service)
        return x->service < y->service ? -1 : 1;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return 0;
}

static bool same_group(const struct chunk_entry *a, const struct chunk_entry *b)
{
    return a->service == b->service && a->type == b->type;
}

/* A chunk of sums being put together: entries with their totals, some of which are its own. */
struct sums_chunk {
    struct chunk_entry *entries;
    struct totals *totals;
    uint32_t n, n_borrowed;
};

/* The sum over a group's series as one more entry. */
static int add_group_sum(struct sums_chunk *c, uint32_t from, uint32_t to)
{
    struct chunk_entry *sum = &c->entries[c->n];
    struct totals *t = &c->totals[c->n];
    int r = 0;

    *sum = c->entries[from];
    *t = (struct totals){0};
    c->n++;
    sum->series = SERIES_ALL;
    for (uint32_t i = from; r == 0 && i < to; i++) {
        if (i > from) {
            sum->n_profs += c->entries[i].n_profs;
            sum->sum += c->entries[i].sum;
            sum->min_time = MIN(sum->min_time, c->entries[i].min_time);
            sum->max_time = MAX(sum->max_time, c->entries[i].max_time);
        }
        for (uint32_t k = 0; r == 0 && k < c->totals[i].n; k++)
            r = totals_add(t, c->totals[i].nodes[k], c->totals[i].values[k]);
    }
    return r < 0 ? r : totals_normalize(t);
}

/* Writes sums [from, to) as one chunk. */
static int write_sums(struct segment_writer *w, int level, uint32_t from, uint32_t to, struct err *e)
{
    uint32_t n = to - from, head;
    size_t start = w->out.n;
    struct sums_chunk c = {.entries = mem_alloc(2 * n * sizeof *c.entries),
                           .totals = mem_zalloc_array(2 * n, sizeof *c.totals)};
    int r = c.entries && c.totals ? 0 : -ENOMEM;

    for (uint32_t i = 0; r == 0 && i < n; i++) {
        c.entries[i] = w->sums[level - 1][from + i].entry;
        c.totals[i] = w->sums[level - 1][from + i].totals;
        c.n = c.n_borrowed = i + 1;
    }
    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        for (j = i + 1; j < n && same_group(&c.entries[i], &c.entries[j]);)
            j++;
        if (j - i >= CHUNK_SUM_MIN && !c.entries[i].gauge)
            r = add_group_sum(&c, i, j);
    }
    if (r == 0)
        r = chunk_encode_totals(w->encoder, c.entries, c.totals, c.n, &w->out, &head);
    for (uint32_t i = 0; r == 0 && i < c.n; i++)
        r = add_dir(w, &c.entries[i], level, w->sums[level - 1][from].window, w->off, head,
                    (uint32_t) (w->out.n - start));
    if (r == 0) {
        w->off += w->out.n - start;
        r = write_out(w, false, e);
    }
    for (uint32_t i = c.n_borrowed; i < c.n; i++)
        totals_done(&c.totals[i]);
    mem_free(c.entries);
    mem_free(c.totals);
    return r;
}

/* Ends the hour or the day: its sums are written, and an hour's go on into the day's. */
static int flush_sums(struct segment_writer *w, int level, struct err *e)
{
    int k = level - 1, r = 0;
    uint32_t n = w->n_sums[k], start = 0, nodes = 0;
    struct sums *v = w->sums[k];

    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = totals_normalize(&v[i].totals);
    if (n)
        qsort(v, n, sizeof *v, sums_cmp);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        nodes += v[i].totals.n;
        if (level == 1 && w->o.meta.level == 2)
            r = sum_into(w, 2, window_start(v[i].window, WINDOW_1D), &v[i].entry, &v[i].totals);
        if (r == 0 && (i + 1 == n || (nodes > GROUP_ROWS && !same_group(&v[i].entry, &v[i + 1].entry)))) {
            r = write_sums(w, level, start, i + 1, e);
            start = i + 1;
            nodes = 0;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        totals_done(&v[i].totals);
    w->n_sums[k] = 0;
    map_reset(&w->sums_map[k]);
    return r;
}

static int roll_sums(struct segment_writer *w, int64_t window, struct err *e)
{
    int r = 0;

    if (w->o.meta.level >= 1 && w->n_sums[0] && w->sums[0][0].window != window_start(window, WINDOW_1H))
        r = flush_sums(w, 1, e);
    if (r == 0 && w->o.meta.level >= 2 && w->n_sums[1] && w->sums[1][0].window != window_start(window, WINDOW_1D))
        r = flush_sums(w, 2, e);
    return r;
}

/* --- windows --- */

static int prof_cmp(const void *a, const void *b)
{
    const struct prof *x = *(struct prof *const *) a, *y = *(struct prof *const *) b;

    if (x->service != y->service)
        return x->service < y->service ? -1 : 1;
    if (x->type != y->type)
        return x->type < y->type ? -1 : 1;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    if (x->gauge && x->instance.hi != y->instance.hi)
        return x->instance.hi < y->instance.hi ? -1 : 1;
    if (x->gauge && x->instance.lo != y->instance.lo)
        return x->instance.lo < y->instance.lo ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->header < y->header ? -1 : x->header > y->header;
}

static int add_traces(struct segment_writer *w, uint64_t off, uint32_t len)
{
    if (!w->chunk.n_traces)
        return 0;
    if (mem_grow((void **) &w->linked, &w->cap_linked, (size_t) w->n_linked + 1, sizeof *w->linked, 1 << 28) < 0 ||
        mem_grow((void **) &w->traces, &w->cap_traces, (size_t) w->n_traces + w->chunk.n_traces, sizeof *w->traces,
                 1 << 30) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < w->chunk.n_traces; i++)
        w->traces[w->n_traces++] = (uint64_t) w->chunk.trace_hashes[i] << 32 | w->n_linked;
    w->linked[w->n_linked].off = off;
    w->linked[w->n_linked++].len = len;
    return 0;
}

static int write_chunk(struct segment_writer *w, int64_t window, struct prof *const *profs, uint32_t n, struct err *e)
{
    int r = chunk_encode(w->encoder, window, profs, n, &w->chunk);
    uint32_t len = (uint32_t) w->chunk.bytes.n;

    for (uint32_t i = 0; r == 0 && i < w->chunk.n_entries; i++) {
        r = add_dir(w, &w->chunk.entries[i], 0, window, w->off, w->chunk.head, len);
        if (r == 0 && w->o.meta.level >= 1 && w->chunk.entries[i].series != SERIES_ALL)
            r = sum_into(w, 1, window_start(window, WINDOW_1H), &w->chunk.entries[i], &w->chunk.totals[i]);
    }
    if (r == 0)
        r = add_traces(w, w->off, len);
    if (r < 0)
        return r;
    w->meta.rows += w->chunk.n_rows;
    w->meta.profiles += n;
    w->meta.has_detail = true;
    buf_put(&w->out, w->chunk.bytes.p, len);
    w->off += len;
    return write_out(w, false, e);
}

int segment_writer_window(struct segment_writer *w, int64_t window, struct prof **profs, uint32_t n, struct err *e)
{
    uint64_t pending = 0;
    uint32_t start = 0;
    int r = roll_sums(w, window, e);

    qsort(profs, n, sizeof *profs, prof_cmp);
    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        uint64_t rows = 0;

        for (j = i; j < n && profs[j]->service == profs[i]->service && profs[j]->type == profs[i]->type; j++)
            rows += profs[j]->n_rows;
        if (rows >= GROUP_ROWS || pending + rows > CHUNK_ROWS) {
            if (i > start)
                r = write_chunk(w, window, profs + start, i - start, e);
            start = i;
            pending = 0;
        }
        pending += rows;
        if (r == 0 && rows >= GROUP_ROWS) {
            r = write_chunk(w, window, profs + i, j - i, e);
            start = j;
            pending = 0;
        }
    }
    if (r == 0 && n > start)
        r = write_chunk(w, window, profs + start, n - start, e);
    return r;
}

int segment_writer_totals(struct segment_writer *w, int64_t window, struct chunk_entry *entries,
                          const struct totals *totals, uint32_t n, struct err *e)
{
    size_t start = w->out.n;
    uint32_t head;
    int r = roll_sums(w, window, e);

    if (r == 0) {
        start = w->out.n;
        r = chunk_encode_totals(w->encoder, entries, totals, n, &w->out, &head);
    }
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = add_dir(w, &entries[i], 0, window, w->off, head, (uint32_t) (w->out.n - start));
        if (r == 0 && w->o.meta.level >= 1 && entries[i].series != SERIES_ALL)
            r = sum_into(w, 1, window_start(window, WINDOW_1H), &entries[i], &totals[i]);
    }
    if (r < 0)
        return r;
    w->off += w->out.n - start;
    return write_out(w, false, e);
}

/* --- the end --- */

static int dir_cmp(const void *a, const void *b)
{
    const struct dir_record *x = a, *y = b;

    if (x->d.e.service != y->d.e.service)
        return x->d.e.service < y->d.e.service ? -1 : 1;
    if (x->d.e.type != y->d.e.type)
        return x->d.e.type < y->d.e.type ? -1 : 1;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->d.window != y->d.window)
        return x->d.window < y->d.window ? -1 : 1;
    if (x->d.off != y->d.off)
        return x->d.off < y->d.off ? -1 : 1;
    return x->d.e.totals_off < y->d.e.totals_off ? -1 : x->d.e.totals_off > y->d.e.totals_off;
}

/* Appends raw, compressed, to the file. */
static int put_block(struct segment_writer *w, const struct buf *raw, struct segment_block *ret, struct err *e)
{
    size_t bound = ZSTD_compressBound(raw->n), n;
    char *p;

    if (buf_error(raw) < 0 || raw->n > UINT32_MAX)
        return -ENOMEM;
    p = buf_reserve(&w->out, bound);
    if (!p)
        return -ENOMEM;
    n = ZSTD_compress(p, bound, raw->p ? raw->p : "", raw->n, 3);
    if (ZSTD_isError(n))
        return -ENOMEM;
    *ret = (struct segment_block){w->off, (uint32_t) n, (uint32_t) raw->n, crc32c(0, p, n)};
    w->out.n += n;
    w->off += n;
    return write_out(w, false, e);
}

static void put_directory(struct buf *b, const struct dir_record *d, uint32_t n)
{
    int64_t window = 0;
    uint64_t off = 0;

    put_varint(b, n);
    for (uint32_t i = 0; i < n; i++) {
        put_zigzag(b, (d[i].d.window - window) / WINDOW_5M);
        window = d[i].d.window;
    }
    for (uint32_t i = 0; i < n; i++)
        put_varint(b, d[i].d.e.series == SERIES_ALL ? 0 : d[i].d.e.series + 1ull);
    for (uint32_t i = 0; i < n; i++)
        if (d[i].d.e.gauge) {
            put_u64(b, d[i].d.e.instance.hi);
            put_u64(b, d[i].d.e.instance.lo);
        }
    for (uint32_t i = 0; i < n; i++)
        put_varint(b, d[i].d.e.n_profs);
    for (uint32_t i = 0; i < n; i++)
        put_varint(b, d[i].d.e.n_nodes);
    for (uint32_t i = 0; i < n; i++)
        put_zigzag(b, d[i].d.e.sum);
    for (uint32_t i = 0; i < n; i++)
        put_zigzag(b, d[i].d.e.min_time - d[i].d.window);
    for (uint32_t i = 0; i < n; i++)
        put_zigzag(b, d[i].d.e.max_time - d[i].d.e.min_time);
    for (uint32_t i = 0; i < n; i++) {
        put_zigzag(b, (int64_t) (d[i].d.off - off));
        off = d[i].d.off;
    }
    for (uint32_t i = 0; i < n; i++)
        put_varint(b, d[i].d.head);
    for (uint32_t i = 0; i < n; i++)
        put_varint(b, d[i].d.len - d[i].d.head);
    for (uint32_t i = 0; i < n; i++)
        put_varint(b, d[i].d.e.totals_off);
}

static void put_block_ref(struct buf *b, const struct segment_block *k)
{
    put_varint(b, k->off);
    put_varint(b, k->len);
    put_varint(b, k->raw);
    put_u32(b, k->crc);
}

/* Directories into the file, groups into the footer. */
static int write_groups(struct segment_writer *w, struct buf *footer, struct err *e)
{
    _cleanup_(buf_done) struct buf groups = BUF_INIT;
    uint32_t n_groups = 0;
    int r = 0;

    for (uint32_t i = 0, j; r == 0 && i < w->n_dir; i = j) {
        struct segment_block dirs[SEGMENT_LEVELS] = {0};

        j = i;
        while (r == 0 && j < w->n_dir && w->dir[j].d.e.service == w->dir[i].d.e.service &&
               w->dir[j].d.e.type == w->dir[i].d.e.type) {
            uint32_t from = j;

            while (j < w->n_dir && w->dir[j].d.e.service == w->dir[i].d.e.service &&
                   w->dir[j].d.e.type == w->dir[i].d.e.type && w->dir[j].level == w->dir[from].level)
                j++;
            buf_reset(&w->scratch);
            put_directory(&w->scratch, w->dir + from, j - from);
            r = put_block(w, &w->scratch, &dirs[w->dir[from].level], e);
        }
        put_varint(&groups, w->dir[i].d.e.service);
        put_varint(&groups, w->dir[i].d.e.type);
        put_varint(&groups, w->dir[i].d.e.gauge);
        for (int k = 0; k < SEGMENT_LEVELS; k++)
            put_block_ref(&groups, &dirs[k]);
        n_groups++;
    }
    put_varint(footer, n_groups);
    buf_put(footer, groups.p, groups.n);
    return r < 0 ? r : buf_error(&groups);
}

static int series_cmp(const void *a, const void *b)
{
    const struct segment_series *x = a, *y = b;

    return x->series < y->series ? -1 : x->series > y->series;
}

static int put_series(struct segment_writer *w, struct buf *footer)
{
    struct segment_series *v = mem_alloc((w->n_dir + 1) * sizeof *v);
    uint32_t n = 0, k = 0, last = 0;

    if (!v)
        return -ENOMEM;
    for (uint32_t i = 0; i < w->n_dir; i++)
        if (w->dir[i].level == 0 && w->dir[i].d.e.series != SERIES_ALL)
            v[n++] = (struct segment_series){w->dir[i].d.e.series, w->dir[i].d.e.min_time, w->dir[i].d.e.max_time};
    qsort(v, n, sizeof *v, series_cmp);
    for (uint32_t i = 0; i < n; i++) {
        if (k && v[k - 1].series == v[i].series) {
            v[k - 1].first = MIN(v[k - 1].first, v[i].first);
            v[k - 1].last = MAX(v[k - 1].last, v[i].last);
        } else {
            v[k++] = v[i];
        }
    }
    put_varint(footer, k);
    for (uint32_t i = 0; i < k; i++) {
        put_varint(footer, v[i].series - last);
        put_zigzag(footer, v[i].first - w->meta.t0);
        put_zigzag(footer, v[i].last - v[i].first);
        last = v[i].series;
    }
    mem_free(v);
    return 0;
}

static int u64_cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static int write_traces(struct segment_writer *w, struct buf *footer, struct err *e)
{
    size_t start;
    uint64_t off = w->off, last = 0;

    if (w->n_traces)
        qsort(w->traces, w->n_traces, sizeof *w->traces, u64_cmp);
    start = w->out.n;
    for (uint32_t i = 0; i < w->n_traces; i++) {
        put_u32(&w->out, (uint32_t) (w->traces[i] >> 32));
        put_u32(&w->out, (uint32_t) w->traces[i]);
    }
    if (buf_error(&w->out) < 0)
        return buf_error(&w->out);
    w->off += w->out.n - start;
    put_varint(footer, off);
    put_varint(footer, w->n_traces);
    put_u32(footer, crc32c(0, w->out.p + start, w->out.n - start));
    put_varint(footer, w->n_linked);
    for (uint32_t i = 0; i < w->n_linked; i++) {
        put_varint(footer, w->linked[i].off - last);
        put_varint(footer, w->linked[i].len);
        last = w->linked[i].off;
    }
    return write_out(w, false, e);
}

static void put_meta(struct segment_writer *w, struct buf *b)
{
    put_varint(b, w->meta.tenant);
    put_varint(b, w->meta.epoch);
    put_varint(b, w->meta.level);
    put_varint(b, w->meta.log);
    put_zigzag(b, w->meta.t0);
    put_zigzag(b, w->meta.t1);
    put_varint(b, w->meta.rows);
    put_varint(b, w->meta.profiles);
    put_varint(b, w->meta.has_detail);
    put_varint(b, w->o.n_replaced);
    for (uint32_t i = 0; i < w->o.n_replaced; i++)
        put_varint(b, w->o.replaced[i]);
}

static int write_footer(struct segment_writer *w, struct err *e)
{
    _cleanup_(buf_done) struct buf footer = BUF_INIT;
    struct segment_block block;
    unsigned char tail[SEGMENT_TAIL] = {0};
    int r;

    if (w->n_dir)
        qsort(w->dir, w->n_dir, sizeof *w->dir, dir_cmp);
    put_meta(w, &footer);
    r = put_series(w, &footer);
    if (r == 0)
        r = write_groups(w, &footer, e);
    if (r < 0)
        return r;
    buf_reset(&w->scratch);
    blobs_encode(&w->blobs, &w->scratch);
    r = put_block(w, &w->scratch, &block, e);
    put_block_ref(&footer, &block);
    if (r == 0)
        r = write_traces(w, &footer, e);
    if (r == 0)
        r = put_block(w, &footer, &block, e);
    if (r < 0)
        return r;
    store_u32(tail, (uint32_t) block.off);
    store_u32(tail + 4, (uint32_t) (block.off >> 32));
    store_u32(tail + 8, block.len);
    store_u32(tail + 12, block.raw);
    store_u32(tail + 16, block.crc);
    store_u32(tail + 20, SEGMENT_VERSION);
    memcpy(tail + 32, "WICKEND1", 8);
    store_u32(tail + 28, crc32c(0, tail, 28));
    buf_put(&w->out, tail, sizeof tail);
    w->off += sizeof tail;
    return write_out(w, true, e);
}

int segment_writer_finish(struct segment_writer *w, struct segment_meta *ret, struct err *e)
{
    int r = 0;

    for (int level = 1; r == 0 && level <= (int) w->o.meta.level; level++)
        r = flush_sums(w, level, e);
    if (r == 0)
        r = write_footer(w, e);
    if (r < 0)
        return r;
    r = fd_sync(w->fd);
    if (r == 0)
        r = fd_rename(w->o.dir, w->tmp, w->o.dir, w->name);
    if (r < 0)
        return err_set(e, r, "cannot finish segment '%s': %m", w->name);
    w->finished = true;
    w->meta.bytes = w->off;
    *ret = w->meta;
    return 0;
}
