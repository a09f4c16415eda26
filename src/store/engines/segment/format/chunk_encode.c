/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes profiles and their rows as the columns of a chunk; see chunk.h. Attributes, links and timestamps, which few
 * rows have, are in chunk_extra.c. */
#include <errno.h>
#include <stdlib.h>

#include "store/engines/segment/format/chunk_encoder.h"

#include "base/wrap.h"
#include "store/engines/segment/format/column.h"

int chunk_encoder_new(struct chunk_encoder **ret)
{
    struct chunk_encoder *c = mem_zalloc(sizeof *c);

    if (!c)
        return -ENOMEM;
    c->zstd = ZSTD_createCCtx();
    if (!c->zstd) {
        mem_free(c);
        return -ENOMEM;
    }
    arena_init(&c->arena, 0);
    *ret = c;
    return 0;
}

void chunk_encoder_free(struct chunk_encoder *c)
{
    if (!c)
        return;
    ZSTD_freeCCtx(c->zstd);
    for (int i = 0; i < SECTIONS; i++)
        buf_done(&c->raw[i]);
    buf_done(&c->values);
    buf_done(&c->lists);
    mem_free(c->items);
    mem_free(c->spare);
    mem_free(c->rich);
    mem_free(c->links);
    mem_free(c->link_traces);
    map_done(&c->set_map);
    map_done(&c->link_map);
    buf_done(&c->column);
    arena_done(&c->arena);
    mem_free(c);
}

void chunk_out_done(struct chunk_out *o)
{
    buf_done(&o->bytes);
    for (uint32_t i = 0; i < o->cap_entries; i++)
        totals_done(&o->totals[i]);
    mem_free(o->entries);
    mem_free(o->totals);
    mem_free(o->traces);
    *o = (struct chunk_out){0};
}

/* --- gathering and sorting --- */

/* Stable radix sort by node, 8 or 11 bits at a time over the range that occurs. */
static void sort_items(struct item *a, struct item *tmp, uint32_t n)
{
    uint32_t lo = UINT32_MAX, hi = 0, count[2048], size = n < 2048 ? 256 : 2048;
    int bits = size == 256 ? 8 : 11;
    struct item *from = a, *to = tmp;

    for (uint32_t i = 0; i < n; i++) {
        lo = MIN(lo, a[i].node);
        hi = MAX(hi, a[i].node);
    }
    for (int shift = 0; shift < 32 && n && (hi - lo) >> shift; shift += bits) {
        struct item *swap = from;
        uint32_t at = 0;

        memset(count, 0, size * sizeof *count);
        for (uint32_t i = 0; i < n; i++)
            count[(from[i].node - lo) >> shift & (size - 1)]++;
        for (uint32_t i = 0; i < size; i++) {
            uint32_t k = count[i];

            count[i] = at;
            at += k;
        }
        for (uint32_t i = 0; i < n; i++)
            to[count[(from[i].node - lo) >> shift & (size - 1)]++] = from[i];
        from = to;
        to = swap;
    }
    if (from != a)
        memcpy(a, from, n * sizeof *a);
}

static int gather(struct chunk_encoder *c, struct stored_profile *const *profs, uint32_t n, uint32_t *ret_n)
{
    size_t total = 0, k = 0;

    for (uint32_t i = 0; i < n; i++)
        total += profs[i]->n_rows;
    if (total > UINT32_MAX / 2)
        return -E2BIG;
    if (array_reserve(c->items, c->cap_items, total + 1, UINT32_MAX) < 0 ||
        array_reserve(c->spare, c->cap_spare, total + 1, UINT32_MAX) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < profs[i]->n_rows; r++) {
            const struct row *row = &profs[i]->rows[r];

            c->items[k++] =
                (struct item){row->node, i, row->value, row->extra ? &profs[i]->extras[row->extra - 1] : NULL};
        }
    sort_items(c->items, c->spare, (uint32_t) k);
    *ret_n = (uint32_t) k;
    return 0;
}

/* Merges plain rows of one profile with the same stack. */
static uint32_t merge_twice(struct item *a, uint32_t n)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (k && !a[i].extra && a[i].node == a[k - 1].node && a[i].prof == a[k - 1].prof && !a[k - 1].extra)
            wrap_inc(&a[k - 1].value, a[i].value);
        else
            a[k++] = a[i];
    }
    return k;
}

/* Puts plain rows before rich ones within (node, profile), so that plain rows to be merged are adjacent. */
static void plain_first(struct item *a, uint32_t n)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t j = i + 1, plain = 0;

        while (j < n && a[j].node == a[i].node && a[j].prof == a[i].prof)
            j++;
        for (uint32_t k = i; j - i > 1 && k < j; k++)
            if (!a[k].extra) {
                struct item t = a[k];

                memmove(&a[i + plain + 1], &a[i + plain], (k - i - plain) * sizeof *a);
                a[i + plain++] = t;
            }
        i = j;
    }
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;

        a = b;
        b = t;
    }
    return a;
}

static int64_t find_scale(const struct item *a, uint32_t n)
{
    uint64_t g = 0, last = 0;

    for (uint32_t i = 0; i < n && g != 1; i++) {
        uint64_t v = a[i].value < 0 ? 0 - (uint64_t) a[i].value : (uint64_t) a[i].value;

        if (v != last)
            g = gcd(v, g);
        last = v;
    }
    return g && g <= INT64_MAX ? (int64_t) g : 1;
}

/* --- totals --- */

static int64_t totals_scale(const struct totals *t)
{
    uint64_t g = 0;

    for (uint32_t k = 0; k < t->n && g != 1; k++)
        g = gcd(t->values[k] < 0 ? 0 - (uint64_t) t->values[k] : (uint64_t) t->values[k], g);
    return g && g <= INT64_MAX ? (int64_t) g : 1;
}

static void put_totals(struct chunk_encoder *c, const struct totals *t, int64_t scale)
{
    struct buf *b = &c->raw[SEC_TOTALS];
    bool negative = false;
    uint32_t last = 0;
    unsigned char *p;

    for (uint32_t i = 0; i < t->n; i++)
        negative |= t->values[i] < 0;
    put_varint(b, t->n);
    put_varint(b, (uint64_t) scale);
    put_varint(b, negative);
    p = (unsigned char *) buf_reserve(b, (size_t) t->n * 15 + 1);
    if (!p)
        return;
    for (uint32_t i = 0; i < t->n; i++) {
        p = varint_write(p, t->nodes[i] - last);
        last = t->nodes[i];
    }
    for (uint32_t i = 0; i < t->n; i++) {
        int64_t v = scale == 1 ? t->values[i] : t->values[i] / scale;

        p = varint_write(p, negative ? zigzag(v) : (uint64_t) v);
    }
    b->n = (size_t) ((char *) p - b->p);
}

/* --- detail --- */

static void put_value(struct buf *b, int64_t v)
{
    put_zigzag(b, v);
}

/* Encodes items [0, n) of one node: plain ones go into the entry's columns, others into the rich list. */
/* The entry that is being encoded. */
struct entry_state {
    uint32_t entry, n_profs;
    int64_t scale;
    uint32_t key; /* of the next node */
};

static int put_node(struct chunk_encoder *c, const struct item *a, uint32_t n, struct entry_state *at)
{
    uint32_t n_profs = at->n_profs, key = at->key++;
    int64_t scale = at->scale;
    uint32_t plain = 0, last_prof = 0;
    uint64_t bits = 0;

    for (uint32_t i = 0; i < n; i++)
        plain += !a[i].extra;
    if (n_profs > CHUNK_BITMAP_MAX)
        put_varint(&c->raw[SEC_DETAIL], plain);
    for (uint32_t i = 0, seen = 0; i < n; i++) {
        if (a[i].extra) {
            uint32_t k = c->n_rich;

            if (array_reserve(c->rich, c->cap_rich, (size_t) k + 1, UINT32_MAX) < 0)
                return -ENOMEM;
            c->rich[k] = (struct rich){.when = a[i].extra->timestamp,
                                       .prof = a[i].prof,
                                       .entry = at->entry,
                                       .key = key,
                                       .set = a[i].extra->attrs,
                                       .value = a[i].value / scale,
                                       .extra = a[i].extra};
            c->n_rich++;
            c->any_link |= a[i].extra->has_link;
            continue;
        }
        if (n_profs > CHUNK_BITMAP_MAX) {
            put_varint(&c->lists, a[i].prof - last_prof);
            last_prof = a[i].prof;
        } else {
            bits |= 1ull << a[i].prof;
        }
        if (++seen < n || plain < n) /* the last one is implied */
            put_value(&c->values, scale == 1 ? a[i].value : a[i].value / scale);
    }
    if (n_profs <= CHUNK_BITMAP_MAX)
        for (uint32_t i = 0; i < (n_profs + 7) / 8; i++)
            buf_putc(&c->raw[SEC_DETAIL], (char) (bits >> (8 * i)));
    return 0;
}

static int encode_entry(struct chunk_encoder *c, struct stored_profile *const *profs, uint32_t n, uint32_t entry,
                        struct chunk_entry *e, struct totals *t)
{
    struct entry_state at = {.entry = entry, .n_profs = n};
    uint32_t n_items;
    int r = gather(c, profs, n, &n_items);

    if (r < 0)
        return r;
    plain_first(c->items, n_items);
    n_items = merge_twice(c->items, n_items);
    at.scale = find_scale(c->items, n_items);
    t->n = 0;
    buf_reset(&c->values);
    buf_reset(&c->lists);
    store_u32(c->raw[SEC_DETAIL].p + 4 * entry, (uint32_t) c->raw[SEC_DETAIL].n);
    put_varint(&c->raw[SEC_DETAIL], n > CHUNK_BITMAP_MAX);
    for (uint32_t i = 0, j; r == 0 && i < n_items; i = j) {
        int64_t sum = 0;

        for (j = i; j < n_items && c->items[j].node == c->items[i].node; j++)
            wrap_inc(&sum, c->items[j].value);
        r = totals_add(t, c->items[i].node, sum);
        if (r == 0)
            r = put_node(c, &c->items[i], j - i, &at);
        wrap_inc(&e->sum, sum);
    }
    if (r < 0)
        return r;
    buf_put_buf(&c->raw[SEC_DETAIL], &c->lists);
    buf_put_buf(&c->raw[SEC_DETAIL], &c->values);
    e->totals_off = (uint32_t) c->raw[SEC_TOTALS].n;
    e->n_nodes = t->n;
    put_totals(c, t, at.scale);
    return 0;
}

/* --- profiles --- */

static void end_column(struct chunk_encoder *c)
{
    struct buf *out = &c->raw[SEC_PROFILES];

    column_put(c->zstd, out, &c->column, 1);
    buf_reset(&c->column);
}

static void put_entry_list(struct chunk_encoder *c, int64_t window, const struct chunk_out *out, uint32_t n_entries)
{
    struct buf *b = &c->column;

    put_zigzag(&c->raw[SEC_PROFILES], window);
    put_varint(&c->raw[SEC_PROFILES], n_entries);
    for (uint32_t i = 0, last = 0; i < n_entries; last = out->entries[i++].series) {
        put_zigzag(b, (int64_t) out->entries[i].series - last);
        put_varint(b, out->entries[i].gauge);
    }
    end_column(c);
    for (uint32_t i = 0; i < n_entries; i++)
        if (out->entries[i].gauge) {
            put_u64(b, out->entries[i].instance.hi);
            put_u64(b, out->entries[i].instance.lo);
        }
    end_column(c);
    for (uint32_t i = 0, last = 0; i < n_entries; last = out->entries[i++].totals_off) {
        put_varint(b, out->entries[i].n_profs);
        put_varint(b, out->entries[i].totals_off - last);
    }
    end_column(c);
}

static uint64_t value_unit(struct stored_profile *const *profs, uint32_t n)
{
    uint64_t g = 0;

    for (uint32_t i = 0; i < n && g != 1; i++)
        g = gcd(profs[i]->value < 0 ? 0 - (uint64_t) profs[i]->value : (uint64_t) profs[i]->value, g);
    return g && g <= INT64_MAX ? g : 1;
}

static bool has_id(const struct stored_profile *p)
{
    return load_u64(p->id) || load_u64(p->id + 8);
}

static void put_profiles(struct chunk_encoder *c, int64_t window, struct stored_profile *const *profs, uint32_t n)
{
    struct buf *b = &c->column;
    int64_t last = window, unit = (int64_t) value_unit(profs, n);

    for (uint32_t i = 0; i < n; last = profs[i++]->time_ns)
        put_zigzag(b, profs[i]->time_ns - last);
    end_column(c);
    last = 0;
    for (uint32_t i = 0; i < n; last = profs[i++]->duration_ns)
        put_zigzag(b, profs[i]->duration_ns - last);
    end_column(c);
    last = 0;
    for (uint32_t i = 0; i < n; last = profs[i++]->header)
        put_zigzag(b, (int64_t) profs[i]->header - last);
    end_column(c);
    put_varint(&c->raw[SEC_PROFILES], (uint64_t) unit);
    for (uint32_t i = 0; i < n; i++)
        put_zigzag(b, profs[i]->value / unit);
    end_column(c);
    for (uint32_t i = 0; i < n; i++)
        put_varint(b, profs[i]->group);
    end_column(c);
    for (uint32_t i = 0; i < n; i++)
        buf_putc(b, has_id(profs[i]));
    end_column(c);
    for (uint32_t i = 0; i < n; i++)
        if (has_id(profs[i]))
            buf_put(b, profs[i]->id, 16);
    end_column(c);
}

/* --- whole chunks --- */

/* Whether the columns of the section are compressed one by one. */
static bool is_packed(int section)
{
    return section == SEC_PROFILES || section == SEC_EXTRA || section == SEC_LINKS;
}

static int write_sections(struct chunk_encoder *c, struct buf *out, uint32_t *ret_head, uint32_t *ret_front)
{
    size_t start = out->n;
    unsigned char header[CHUNK_HEADER] = {0};

    if (!buf_reserve(out, CHUNK_HEADER))
        return -ENOMEM;
    out->n += CHUNK_HEADER;
    for (int i = 0; i < SECTIONS; i++) {
        size_t bound = ZSTD_compressBound(c->raw[i].n), n = 0;
        char *p;

        if (buf_error(&c->raw[i]) < 0)
            return buf_error(&c->raw[i]);
        p = buf_reserve(out, bound + 1);
        if (!p)
            return -ENOMEM;
        if (is_packed(i) && c->raw[i].n)
            memcpy(p, c->raw[i].p, n = c->raw[i].n);
        else if (c->raw[i].n)
            n = ZSTD_compressCCtx(c->zstd, p, bound, c->raw[i].p, c->raw[i].n, 1);
        if (ZSTD_isError(n) || c->raw[i].n > UINT32_MAX)
            return -ENOMEM;
        store_u32(header + 8 + 12 * i, (uint32_t) n);
        store_u32(header + 12 + 12 * i, is_packed(i) ? 0 : (uint32_t) c->raw[i].n);
        store_u32(header + 16 + 12 * i, crc32c(0, p, n));
        out->n += n;
        if (i == SEC_TOTALS)
            *ret_head = (uint32_t) (out->n - start);
        if (i == SEC_LINKS)
            *ret_front = (uint32_t) (out->n - start);
    }
    store_u32(header, CHUNK_MAGIC);
    store_u32(header + 4, CHUNK_VERSION | SECTIONS << 16);
    store_u32(header + 68, crc32c(0, header, 68));
    memcpy(out->p + start, header, sizeof header);
    return 0;
}

static void reset(struct chunk_encoder *c)
{
    for (int i = 0; i < SECTIONS; i++)
        buf_reset(&c->raw[i]);
    c->n_rich = c->n_links = 0;
    c->any_link = false;
    map_reset(&c->link_map);
    arena_done(&c->arena);
}

static bool same_entry(const struct stored_profile *a, const struct stored_profile *b)
{
    return a->series == b->series && (!a->gauge || id128_eq(a->instance, b->instance));
}

int chunk_out_grow(struct chunk_out *out)
{
    size_t before = out->cap_entries, cap = before;

    if (array_reserve(out->entries, out->cap_entries, (size_t) out->n_entries + 1, 1 << 24) < 0)
        return -ENOMEM;
    if (out->cap_entries == before)
        return 0;
    if (array_reserve(out->totals, cap, out->cap_entries, 1 << 24) < 0) {
        out->cap_entries = before;
        return -ENOMEM;
    }
    memset(out->totals + before, 0, (out->cap_entries - before) * sizeof *out->totals);
    return 0;
}

static int add_entry(struct chunk_out *out, const struct stored_profile *first, struct stored_profile *const *profs,
                     uint32_t n)
{
    struct chunk_entry *e;

    if (chunk_out_grow(out) < 0)
        return -ENOMEM;
    e = &out->entries[out->n_entries++];
    *e = (struct chunk_entry){.series = first->series,
                              .service = first->service,
                              .type = first->type,
                              .gauge = first->gauge,
                              .instance = first->instance,
                              .n_profs = n,
                              .min_time = profs[0]->time_ns,
                              .max_time = profs[n - 1]->time_ns};
    return 0;
}

/* Entries [from, to) have the same service and type: their sum becomes another entry, without profiles. */
static int put_sum(struct chunk_encoder *c, struct chunk_out *out, uint32_t from, uint32_t to)
{
    struct chunk_entry *sum;
    struct totals *t;
    int r = chunk_out_grow(out);

    if (r < 0)
        return r;
    sum = &out->entries[out->n_entries];
    t = &out->totals[out->n_entries];
    *sum = out->entries[from];
    sum->series = SERIES_ALL;
    t->n = 0;
    for (uint32_t i = from; r == 0 && i < to; i++) {
        const struct chunk_entry *e = &out->entries[i];

        if (i > from) {
            sum->n_profs += e->n_profs;
            wrap_inc(&sum->sum, e->sum);
            sum->min_time = MIN(sum->min_time, e->min_time);
            sum->max_time = MAX(sum->max_time, e->max_time);
        }
        for (uint32_t k = 0; r == 0 && k < out->totals[i].n; k++)
            r = totals_add(t, out->totals[i].nodes[k], out->totals[i].values[k]);
    }
    if (r == 0)
        r = totals_normalize(t);
    if (r < 0)
        return r;
    sum->totals_off = (uint32_t) c->raw[SEC_TOTALS].n;
    sum->n_nodes = t->n;
    put_totals(c, t, totals_scale(t));
    out->n_entries++;
    return 0;
}

static int put_sums(struct chunk_encoder *c, struct chunk_out *out, uint32_t n)
{
    int r = 0;

    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        for (j = i + 1; j < n && out->entries[j].service == out->entries[i].service &&
                        out->entries[j].type == out->entries[i].type;)
            j++;
        if (j - i >= CHUNK_SUM_MIN && !out->entries[i].gauge)
            r = put_sum(c, out, i, j);
    }
    return r;
}

int chunk_encode(struct chunk_encoder *c, const struct chunk_hooks *hooks, int64_t window,
                 struct stored_profile *const *profs, uint32_t n, struct chunk_out *out)
{
    uint32_t entries = 0, *first;
    int r = 0;

    reset(c);
    buf_reset(&out->bytes);
    out->n_entries = out->n_traces = 0;
    out->n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        entries += i == 0 || !same_entry(profs[i], profs[i - 1]);
        out->n_rows += profs[i]->n_rows;
    }
    first = arena_alloc(&c->arena, (entries + 1) * sizeof *first);
    buf_pad(&c->raw[SEC_DETAIL], 0, (size_t) entries * 4);
    if (!first || buf_error(&c->raw[SEC_DETAIL]) < 0)
        return -ENOMEM;
    for (uint32_t i = 0, j; r == 0 && i < n; i = j) {
        for (j = i + 1; j < n && same_entry(profs[j], profs[i]);)
            j++;
        first[out->n_entries] = i;
        r = add_entry(out, profs[i], profs + i, j - i);
        if (r == 0)
            r = encode_entry(c, profs + i, j - i, out->n_entries - 1, &out->entries[out->n_entries - 1],
                             &out->totals[out->n_entries - 1]);
    }
    if (r < 0)
        return r;
    first[entries] = n;
    buf_reset(&c->column);
    put_entry_list(c, window, out, entries);
    put_profiles(c, window, profs, n);
    r = chunk_put_extra(c, hooks, profs, first, entries, out);
    if (r == 0)
        r = put_sums(c, out, entries);
    return r < 0 ? r : write_sections(c, &out->bytes, &out->head, &out->front);
}

int chunk_encode_totals(struct chunk_encoder *c, struct chunk_entry *entries, const struct totals *totals, uint32_t n,
                        struct buf *out, uint32_t *ret_head)
{
    uint32_t front;

    reset(c);
    for (uint32_t i = 0; i < n; i++) {
        entries[i].totals_off = (uint32_t) c->raw[SEC_TOTALS].n;
        entries[i].n_nodes = totals[i].n;
        put_totals(c, &totals[i], totals_scale(&totals[i]));
    }
    return write_sections(c, out, ret_head, &front);
}
