/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the chunks of a segment and sums them up by hour and day; see segment_file.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "store/engines/segment/format/radix.h"
#include "store/engines/segment/format/segment_writer.h"

/* A group with more plain rows than this gets its own chunks; smaller groups share one up to CHUNK_ROWS. Rows with
 * timestamps compress better the more ticks of a CPU are in one chunk. */
enum { GROUP_ROWS = 4096, CHUNK_ROWS = 65536, WRITE_AT = 1 << 20 };

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
    trace_table_done(&w->traces);
    mem_free(w->set_lanes.v);
    mem_free(w->attr_lanes.v);
    blobs_done(&w->blobs);
    mem_free(w);
}

struct blobs *segment_writer_blobs(struct segment_writer *w)
{
    return &w->blobs;
}

int segment_write_out(struct segment_writer *w, bool all, struct err *e)
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

static int add_dir(struct segment_writer *w, const struct dir_entry *d, int level)
{
    if (array_push(w->dir, w->n_dir, w->cap_dir, UINT32_MAX, (struct dir_record){*d, (uint8_t) level}) < 0)
        return -ENOMEM;
    w->meta.t0 = MIN(w->meta.t0, d->e.min_time);
    w->meta.t1 = MAX(w->meta.t1, d->e.max_time);
    return 0;
}

/* --- sums over hours and days --- */

static uint64_t sums_hash(const struct chunk_entry *e)
{
    return hash64_u64((uint64_t) e->series << 32 | e->type) ^ (e->gauge ? e->instance.lo : 0) ^
           (uint64_t) e->service << 40;
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
        if (array_reserve(w->sums[k], w->cap_sums[k], (size_t) w->n_sums[k] + 1, 1 << 24) < 0 ||
            map_insert(&w->sums_map[k], h, w->n_sums[k]) < 0)
            return -ENOMEM;
        s = &w->sums[k][w->n_sums[k]++];
        *s = (struct sums){.entry = *e, .window = window};
    } else {
        s = &w->sums[k][p.index];
        s->entry.n_profs += e->n_profs;
        wrap_inc(&s->entry.sum, e->sum);
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

/* A chunk of sums under construction: entries with their totals, some of which it owns. */
struct sums_chunk {
    struct chunk_entry *entries;
    struct totals *totals;
    uint32_t n, n_borrowed;
};

/* Adds the sum over a group's series as one more entry. */
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
            wrap_inc(&sum->sum, c->entries[i].sum);
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
        r = add_dir(w,
                    &(struct dir_entry){c.entries[i], w->sums[level - 1][from].window, w->off, head,
                                        (uint32_t) (w->out.n - start)},
                    level);
    if (r == 0) {
        w->off += w->out.n - start;
        r = segment_write_out(w, false, e);
    }
    for (uint32_t i = c.n_borrowed; i < c.n; i++)
        totals_done(&c.totals[i]);
    mem_free(c.entries);
    mem_free(c.totals);
    return r;
}

/* Ends the hour or the day: writes its sums; those of an hour are added to the day. */
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

enum prof_key { KEY_HEADER, KEY_TIME, KEY_INSTANCE_LO, KEY_INSTANCE_HI, KEY_SERIES, KEY_TYPE, KEY_SERVICE, KEYS };

static uint64_t prof_key(const struct stored_profile *p, enum prof_key k)
{
    switch (k) {
    case KEY_HEADER:
        return p->header;
    case KEY_TIME:
        return radix_signed(p->time_ns);
    case KEY_INSTANCE_LO:
        return p->gauge ? p->instance.lo : 0;
    case KEY_INSTANCE_HI:
        return p->gauge ? p->instance.hi : 0;
    case KEY_SERIES:
        return p->series;
    case KEY_TYPE:
        return p->type;
    default:
        return p->service;
    }
}

/* Sorts by service, type, series, the instance of gauges, time and header. */
static int sort_profs(struct stored_profile **profs, uint32_t n)
{
    _cleanup_(mem_freep) struct radix *keys = mem_alloc(2 * (size_t) n * sizeof *keys);
    _cleanup_(mem_freep) struct stored_profile **sorted = mem_alloc(n * sizeof *sorted);

    if (!keys || !sorted)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        keys[i].index = i;
    for (enum prof_key k = 0; k < KEYS; k++) {
        for (uint32_t i = 0; i < n; i++)
            keys[i].key = prof_key(profs[keys[i].index], k);
        radix_sort(keys, keys + n, n);
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = profs[keys[i].index];
    memcpy(profs, sorted, n * sizeof *profs);
    return 0;
}

static uint32_t find_trace(void *ctx, const uint8_t id[16])
{
    return segment_writer_trace(ctx, id);
}

/* Returns the slot of lane number i; NULL when memory runs out. */
static uint32_t *lane_at(struct lanes *l, uint32_t i)
{
    size_t before = l->cap;

    if (array_reserve(l->v, l->cap, (size_t) i + 1, 1 << 28) < 0)
        return NULL;
    if (l->cap > before)
        memset(l->v + before, 0, (l->cap - before) * sizeof *l->v);
    return &l->v[i];
}

/* Returns the CPU in an attribute, + 1; 0: not a CPU attribute. */
static uint32_t attr_lane(struct segment_writer *w, uint32_t attr)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    uint32_t *at = lane_at(&w->attr_lanes, attr), cpu = 0;

    if (!at)
        return 0;
    if (!*at && blobs_attr_find(&w->blobs, attr, STR("cpu.logical_number"), &text)) {
        for (uint32_t i = 0; i < text.n && i < 6 && text.p[i] >= '0' && text.p[i] <= '9'; i++)
            cpu = cpu * 10 + (uint32_t) (text.p[i] - '0');
        *at = cpu + 2;
    } else if (!*at) {
        *at = 1;
    }
    return *at - 1;
}

/* Returns the CPU in a set of attributes, + 1. */
static uint32_t find_lane(void *ctx, uint32_t set)
{
    struct segment_writer *w = ctx;
    uint32_t *at = lane_at(&w->set_lanes, set), attrs[64], n, lane = 0;

    if (!at || *at)
        return at ? *at : 0;
    n = blobs_set_attrs(&w->blobs, set, attrs, ARRAY_SIZE(attrs));
    for (uint32_t i = 0; i < n && !lane; i++)
        lane = attr_lane(w, attrs[i]);
    return *at = MAX(lane, 1u);
}

static int time_cmp(const void *a, const void *b)
{
    const struct stored_profile *x = *(struct stored_profile *const *) a, *y = *(struct stored_profile *const *) b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static bool has_links(const struct stored_profile *p)
{
    for (uint32_t i = 0; i < p->n_extras; i++)
        if (p->extras[i].has_link)
            return true;
    return false;
}

/* Numbers the traces of a window by time, across services, so that the numbers within a chunk are close together. */
static int number_traces(struct segment_writer *w, struct stored_profile **profs, uint32_t n)
{
    bool any = false;

    for (uint32_t i = 0; i < n && !any; i++)
        any = has_links(profs[i]);
    if (!any)
        return 0;
    qsort(profs, n, sizeof *profs, time_cmp);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < profs[i]->n_extras; k++)
            if (profs[i]->extras[k].has_link &&
                trace_table_find(&w->traces, profs[i]->extras[k].link.trace_id) == UINT32_MAX)
                return -ENOMEM;
    return 0;
}

/* Adds w->chunk to the file, its directory, the longer sums and the index of traces. */
static int put_chunk(struct segment_writer *w, int64_t window, struct err *e)
{
    uint32_t len = (uint32_t) w->chunk.bytes.n;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < w->chunk.n_entries; i++) {
        const struct chunk_entry *entry = &w->chunk.entries[i];

        r = add_dir(w, &(struct dir_entry){*entry, window, w->off, w->chunk.head, len}, 0);
        if (entry->series == SERIES_ALL)
            continue;
        w->meta.profiles += entry->n_profs;
        if (r == 0 && w->o.meta.level >= 1)
            r = sum_into(w, 1, window_start(window, WINDOW_1H), entry, &w->chunk.totals[i]);
    }
    if (r == 0 && w->chunk.n_traces)
        r = trace_table_add_chunk(&w->traces, w->off, w->chunk.front, w->chunk.traces, w->chunk.n_traces);
    if (r < 0)
        return r;
    w->meta.rows += w->chunk.n_rows;
    w->meta.has_detail = true;
    buf_put(&w->out, w->chunk.bytes.p, len);
    w->off += len;
    return segment_write_out(w, false, e);
}

static int write_chunk(struct segment_writer *w, int64_t window, struct stored_profile *const *profs, uint32_t n,
                       struct err *e)
{
    struct chunk_hooks hooks = {w, find_trace, find_lane};
    int r = chunk_encode(w->encoder, &hooks, window, profs, n, &w->chunk);

    return r < 0 ? r : put_chunk(w, window, e);
}

/* Adds the entries of a copied chunk, with their totals where longer sums need them. */
static int take_entries(struct segment_writer *w, const struct dir_entry *const *entries, uint32_t n, struct err *e)
{
    struct chunk_out *out = &w->chunk;
    struct chunk c = {0};
    int r = 0;

    if (w->o.meta.level >= 1)
        r = chunk_open(&c, out->bytes.p, out->bytes.n, 1u << SEC_TOTALS, e);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = chunk_out_grow(out);
        if (r < 0)
            break;
        out->entries[out->n_entries] = entries[i]->e;
        if (w->o.meta.level >= 1 && entries[i]->e.series != SERIES_ALL)
            r = chunk_read_totals(&c, entries[i]->e.totals_off, UINT32_MAX, &out->totals[out->n_entries]);
        out->n_entries++;
    }
    chunk_done(&c);
    return r;
}

int segment_writer_copy(struct segment_writer *w, const struct segment_copy *from, const struct chunk_renumber *how,
                        struct err *e)
{
    int r = roll_sums(w, from->window, e);

    if (r == 0)
        r = chunk_copy(w->encoder, how, from->bytes->p, from->bytes->n, &w->chunk, e);
    if (r == 0)
        r = take_entries(w, from->entries, from->n, e);
    return r < 0 ? r : put_chunk(w, from->window, e);
}

uint32_t segment_writer_trace(struct segment_writer *w, const uint8_t id[16])
{
    return trace_table_find(&w->traces, id);
}

void segment_writer_rows(struct segment_writer *w, uint64_t rows)
{
    w->meta.rows = rows;
}

int segment_writer_window(struct segment_writer *w, int64_t window, struct stored_profile **profs, uint32_t n,
                          struct err *e)
{
    uint64_t pending = 0;
    uint32_t start = 0;
    int r = roll_sums(w, window, e);

    if (r == 0)
        r = number_traces(w, profs, n);
    if (r == 0)
        r = sort_profs(profs, n);
    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        uint64_t rows = 0, plain = 0;

        for (j = i; j < n && profs[j]->service == profs[i]->service && profs[j]->type == profs[i]->type; j++) {
            rows += profs[j]->n_rows;
            plain += profs[j]->n_rows - profs[j]->n_extras;
        }
        if (plain >= GROUP_ROWS || pending + rows > CHUNK_ROWS) {
            if (i > start)
                r = write_chunk(w, window, profs + start, i - start, e);
            start = i;
            pending = 0;
        }
        pending += rows;
        if (r == 0 && plain >= GROUP_ROWS) {
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
        r = add_dir(w, &(struct dir_entry){entries[i], window, w->off, head, (uint32_t) (w->out.n - start)}, 0);
        if (r == 0 && w->o.meta.level >= 1 && entries[i].series != SERIES_ALL)
            r = sum_into(w, 1, window_start(window, WINDOW_1H), &entries[i], &totals[i]);
    }
    if (r < 0)
        return r;
    w->off += w->out.n - start;
    return segment_write_out(w, false, e);
}

/* --- finishing --- */

int segment_writer_finish(struct segment_writer *w, struct segment_meta *ret, struct err *e)
{
    int r = 0;

    for (int level = 1; r == 0 && level <= (int) w->o.meta.level; level++)
        r = flush_sums(w, level, e);
    if (r == 0)
        r = segment_write_footer(w, e);
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
