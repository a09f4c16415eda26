/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what follows the chunks of a segment: directories, dictionary, traces, footer and tail; see segment_file.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/engines/segment/format/chunk_encoder.h"
#include "store/engines/segment/format/segment_writer.h"

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

/* Appends raw, compressed, to the file. Data that will be rewritten within the hour gets a lower compression level. */
int segment_put_block(struct segment_writer *w, const struct buf *raw, struct segment_block *ret, struct err *e)
{
    size_t bound = ZSTD_compressBound(raw->n), n;
    char *p;

    if (buf_error(raw) < 0 || raw->n > UINT32_MAX)
        return -ENOMEM;
    p = buf_reserve(&w->out, bound);
    if (!p)
        return -ENOMEM;
    n = ZSTD_compressCCtx(w->encoder->zstd, p, bound, raw->p ? raw->p : "", raw->n, w->o.meta.level ? 3 : 1);
    if (ZSTD_isError(n))
        return -ENOMEM;
    *ret = (struct segment_block){w->off, (uint32_t) n, (uint32_t) raw->n, crc32c(0, p, n)};
    w->out.n += n;
    w->off += n;
    return segment_write_out(w, false, e);
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

void segment_put_block_ref(struct buf *b, const struct segment_block *k)
{
    put_varint(b, k->off);
    put_varint(b, k->len);
    put_varint(b, k->raw);
    put_u32(b, k->crc);
}

/* Writes directories to the file and groups to the footer. */
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
            r = segment_put_block(w, &w->scratch, &dirs[w->dir[from].level], e);
        }
        put_varint(&groups, w->dir[i].d.e.service);
        put_varint(&groups, w->dir[i].d.e.type);
        put_varint(&groups, w->dir[i].d.e.gauge);
        for (int k = 0; k < SEGMENT_LEVELS; k++)
            segment_put_block_ref(&groups, &dirs[k]);
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

int segment_write_footer(struct segment_writer *w, struct err *e)
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
    r = segment_put_block(w, &w->scratch, &block, e);
    segment_put_block_ref(&footer, &block);
    if (r == 0)
        r = segment_write_traces(w, &footer, e);
    if (r == 0)
        r = segment_put_block(w, &footer, &block, e);
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
    return segment_write_out(w, true, e);
}
