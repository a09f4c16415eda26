/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the columns of a chunk into totals, profiles and rows; see chunk.h. The bytes come from disk, so every number
 * is checked. */
#include <errno.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "store/engines/segment/format/chunk_decoder.h"
#include "store/engines/segment/format/column.h"

enum { RAW_MAX = 1 << 30 };

/* head: of this section in the chunk's header. */
static int open_section(struct chunk *c, int i, const unsigned char *head, const unsigned char *p, struct err *e)
{
    uint32_t n = load_u32(head), raw = load_u32(head + 4), crc = load_u32(head + 8);
    ZSTD_DCtx *z = column_zstd();
    size_t got;

    if (crc32c(0, p, n) != crc)
        return err_set(e, -EBADMSG, "section %d of a chunk has an invalid checksum", i);
    if (raw > RAW_MAX)
        return err_set(e, -EBADMSG, "section %d of a chunk is too large", i);
    c->raw[i] = mem_alloc((raw ? raw : n) + 16u);
    if (!c->raw[i] || !z)
        return -ENOMEM;
    if (!raw) {
        memcpy(c->raw[i], p, n);
        c->size[i] = n;
        return 0;
    }
    got = ZSTD_decompressDCtx(z, c->raw[i], raw, p, n);
    if (ZSTD_isError(got) || got != raw)
        return err_set(e, -EBADMSG, "section %d of a chunk cannot be decompressed", i);
    c->size[i] = raw;
    return 0;
}

int chunk_open(struct chunk *c, const void *bytes, size_t n, unsigned mask, struct err *e)
{
    const unsigned char *p = bytes;
    size_t at = CHUNK_HEADER;
    int r = 0;

    *c = (struct chunk){0};
    if (n < CHUNK_HEADER || load_u32(p) != CHUNK_MAGIC || crc32c(0, p, 68) != load_u32(p + 68))
        return err_set(e, -EBADMSG, "a chunk's header is damaged");
    if (load_u32(p + 4) != (CHUNK_VERSION | SECTIONS << 16))
        return err_set(e, -EBADMSG, "a chunk has version %u; this version of wick supports %d",
                       load_u32(p + 4) & 0xffff, CHUNK_VERSION);
    for (int i = 0; r == 0 && i < SECTIONS; i++) {
        const unsigned char *head = p + 8 + 12 * i;
        uint32_t size = load_u32(head);

        if (!(mask >> i & 1) || !size) {
            at += size;
            continue;
        }
        if (size > n || at > n - size)
            r = err_set(e, -EBADMSG, "a chunk is truncated");
        else
            r = open_section(c, i, head, p + at, e);
        at += size;
    }
    if (r < 0)
        chunk_done(c);
    return r;
}

void chunk_done(struct chunk *c)
{
    for (int i = 0; i < SECTIONS; i++) {
        if (!c->is_shared)
            mem_free(c->raw[i]);
        c->raw[i] = NULL;
    }
}

static bool totals_head(const struct chunk *c, uint32_t off, struct cursor *r, uint32_t *n, int64_t *scale,
                        bool *negative)
{
    if (!c->raw[SEC_TOTALS] || off >= c->size[SEC_TOTALS])
        return false;
    *r = cursor_of(c->raw[SEC_TOTALS] + off, c->size[SEC_TOTALS] - off);
    *n = get_below(r, c->size[SEC_TOTALS] + 1ull);
    *scale = (int64_t) get_varint(r);
    *negative = get_varint(r) & 1;
    return !r->bad;
}

/* The totals of an entry: two columns, to be read in parallel. */
struct totals_columns {
    struct cursor nodes, values;
    uint32_t n;
    int64_t scale;
    bool negative;
};

static inline bool totals_columns(const struct chunk *c, uint32_t off, struct totals_columns *ret)
{
    struct cursor *values = &ret->values;

    if (!totals_head(c, off, &ret->nodes, &ret->n, &ret->scale, &ret->negative))
        return false;
    *values = ret->nodes;
    for (uint32_t i = 0; i < ret->n; i++) { /* the values begin after n varints */
        while (values->p < values->end && *values->p >= 128)
            values->p++;
        values->p++;
    }
    return values->p <= values->end;
}

int chunk_add_totals(const struct chunk *c, uint32_t off, int64_t *acc, uint32_t n_acc)
{
    struct totals_columns t;
    uint64_t node = 0;

    if (!totals_columns(c, off, &t))
        return -EBADMSG;
    for (uint32_t i = 0; i < t.n; i++) {
        uint64_t v = get_varint(&t.values);

        node += get_varint(&t.nodes);
        if (unlikely(node >= n_acc))
            return -EBADMSG;
        wrap_inc(&acc[node], wrap_mul(t.negative ? unzigzag(v) : (int64_t) v, t.scale));
    }
    return t.nodes.bad || t.values.bad ? -EBADMSG : 0;
}

int chunk_sum_totals(const struct chunk *c, uint32_t off, const uint8_t *marks, uint32_t n_marks, int64_t *ret)
{
    struct totals_columns t;
    uint64_t node = 0;
    int64_t sum = 0;

    if (!totals_columns(c, off, &t))
        return -EBADMSG;
    for (uint32_t i = 0; i < t.n; i++) {
        uint64_t v = get_varint(&t.values);

        node += get_varint(&t.nodes);
        if (node < n_marks && marks[node])
            wrap_inc(&sum, wrap_mul(t.negative ? unzigzag(v) : (int64_t) v, t.scale));
    }
    *ret = sum;
    return t.nodes.bad || t.values.bad ? -EBADMSG : 0;
}

int chunk_read_totals(const struct chunk *c, uint32_t off, uint32_t n_nodes_max, struct totals *ret)
{
    struct cursor r;
    uint32_t n;
    uint64_t node = 0;
    int64_t scale;
    bool negative;

    ret->n = 0;
    if (!totals_head(c, off, &r, &n, &scale, &negative))
        return -EBADMSG;
    for (uint32_t i = 0; i < n; i++) {
        node += get_varint(&r);
        if (r.bad || node >= n_nodes_max)
            return -EBADMSG;
        if (totals_add(ret, (uint32_t) node, 0) < 0)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = get_varint(&r);

        ret->values[i] = (int64_t) ((negative ? (uint64_t) unzigzag(v) : v) * (uint64_t) scale); /* may wrap */
    }
    return r.bad ? -EBADMSG : 0;
}

/* --- profiles --- */

static int read_entries(struct cursor *r, struct arena *a, struct chunk_profiles *p)
{
    struct cursor names, instances, counts;
    uint64_t n = 0;
    int64_t series = 0;
    uint32_t off = 0;

    p->window = get_zigzag(r);
    p->n_entries = get_below(r, COLUMN_MAX);
    names = column_get(r, a);
    instances = column_get(r, a);
    counts = column_get(r, a);
    if (p->n_entries > (uint64_t) (names.end - names.p))
        return -EBADMSG;
    p->entries = arena_zalloc_array(a, p->n_entries + 1, sizeof *p->entries);
    p->first = arena_zalloc_array(a, p->n_entries + 1, sizeof *p->first);
    if (!p->entries || !p->first)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n_entries; i++) {
        struct chunk_entry *e = &p->entries[i];

        series += get_zigzag(&names);
        e->series = (uint32_t) series;
        e->gauge = get_below(&names, 2);
        if (e->gauge) {
            e->instance.hi = get_u64(&instances);
            e->instance.lo = get_u64(&instances);
        }
        e->n_profs = get_below(&counts, COLUMN_MAX);
        off += (uint32_t) get_varint(&counts);
        e->totals_off = off;
        p->first[i] = (uint32_t) n;
        n += e->n_profs;
        if (series < 0 || series >= UINT32_MAX || n > COLUMN_MAX || names.bad || instances.bad || counts.bad)
            return -EBADMSG;
    }
    p->first[p->n_entries] = p->n_profs = (uint32_t) n;
    return 0;
}

static int read_times(struct cursor *r, struct arena *a, struct chunk_profiles *p)
{
    struct cursor times = column_get(r, a), durations = column_get(r, a);
    uint64_t time = (uint64_t) p->window, duration = 0;

    if ((uint64_t) (times.end - times.p) < p->n_profs) /* at least one byte each: checks the claimed count */
        return -EBADMSG;
    p->profs = arena_zalloc_array(a, p->n_profs + 1, sizeof *p->profs);
    if (!p->profs)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n_profs; i++) {
        p->profs[i].time_ns = (int64_t) (time += (uint64_t) get_zigzag(&times));
        p->profs[i].duration_ns = (int64_t) (duration += (uint64_t) get_zigzag(&durations));
    }
    return times.bad || durations.bad ? -EBADMSG : 0;
}

static int read_columns(struct cursor *r, struct arena *a, struct chunk_profiles *p)
{
    struct cursor headers = column_get(r, a), values, groups, has_id, ids;
    uint64_t unit = get_varint(r), header = 0;

    values = column_get(r, a);
    groups = column_get(r, a);
    has_id = column_get(r, a);
    ids = column_get(r, a);
    for (uint32_t i = 0; i < p->n_profs; i++) {
        p->profs[i].header = (uint32_t) (header += (uint64_t) get_zigzag(&headers));
        p->profs[i].value = wrap_mul(get_zigzag(&values), (int64_t) unit);
        p->profs[i].group = (uint32_t) get_varint(&groups);
        if (get_below(&has_id, 2)) {
            const unsigned char *id = get_raw(&ids, 16);

            if (id)
                memcpy(p->profs[i].id, id, 16);
        }
    }
    return r->bad || headers.bad || values.bad || groups.bad || has_id.bad || ids.bad ? -EBADMSG : 0;
}

int chunk_decode_profiles(const struct chunk *c, struct arena *a, struct chunk_profiles *p)
{
    struct cursor r = cursor_of(c->raw[SEC_PROFILES], c->size[SEC_PROFILES]);
    int rc;

    *p = (struct chunk_profiles){0};
    if (!c->raw[SEC_PROFILES])
        return -EBADMSG;
    rc = read_entries(&r, a, p);
    if (rc == 0)
        rc = read_times(&r, a, p);
    if (rc == 0)
        rc = read_columns(&r, a, p);
    for (uint32_t i = 0; rc == 0 && i < p->n_entries; i++)
        for (uint32_t k = p->first[i]; k < p->first[i + 1]; k++) {
            p->profs[k].series = p->entries[i].series;
            p->profs[k].gauge = p->entries[i].gauge;
            p->profs[k].instance = p->entries[i].instance;
        }
    return column_result(rc, a);
}

/* --- rows --- */

struct decoding {
    const struct chunk *c;
    struct arena *a;
    struct chunk_profiles *p;
    const struct chunk_wanted *w;
    uint32_t *base;    /* per entry: its first node in has_rich; n_entries + 1 */
    uint32_t *n_nodes; /* per entry */
    uint32_t **nodes;
    int64_t **sums;
    int64_t *scale;
    struct rich_rows rich;
    uint8_t *has_rich;               /* per node of each entry */
    uint32_t *filled, *filled_extra; /* per profile */
};

static int decode_nodes(struct decoding *d)
{
    uint32_t keys = 0;

    for (uint32_t e = 0; e < d->p->n_entries; e++) {
        struct cursor r;
        uint32_t n;
        uint64_t node = 0;
        bool negative;

        d->base[e] = keys;
        if (!totals_head(d->c, d->p->entries[e].totals_off, &r, &n, &d->scale[e], &negative))
            return -EBADMSG;
        d->nodes[e] = arena_alloc(d->a, (n + 1) * sizeof **d->nodes);
        d->sums[e] = arena_alloc(d->a, (n + 1) * sizeof **d->sums);
        if (!d->nodes[e] || !d->sums[e])
            return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
            node += get_varint(&r);
            d->nodes[e][i] = (uint32_t) node;
        }
        for (uint32_t i = 0; i < n; i++) {
            uint64_t v = get_varint(&r);

            d->sums[e][i] = negative ? unzigzag(v) : (int64_t) v;
        }
        if (r.bad || node > UINT32_MAX)
            return -EBADMSG;
        d->p->entries[e].n_nodes = d->n_nodes[e] = n;
        keys += n;
    }
    d->base[d->p->n_entries] = keys;
    return 0;
}

/* Reads how many nodes each entry has. */
static int count_nodes(struct decoding *d)
{
    for (uint32_t e = 0; e < d->p->n_entries; e++) {
        struct cursor totals;
        int64_t scale;
        bool negative;

        if (!totals_head(d->c, d->p->entries[e].totals_off, &totals, &d->n_nodes[e], &scale, &negative))
            return -EBADMSG;
        d->p->entries[e].n_nodes = d->n_nodes[e];
    }
    return 0;
}

/* Marks the nodes of rows of the extra section, and leaves out rows of traces other than the wanted one. */
static int mark_rich(struct decoding *d)
{
    uint32_t kept = 0;

    d->has_rich = arena_zalloc_array(d->a, d->base[d->p->n_entries] + 1, 1);
    if (!d->has_rich)
        return -ENOMEM;
    for (uint32_t i = 0; i < d->rich.n; i++) {
        const struct rich_row *x = &d->rich.v[i];

        d->has_rich[d->base[x->entry] + x->key] = 1;
        if (d->w->one_trace && (!x->link || d->rich.traces[x->link - 1] != d->w->trace))
            continue;
        d->rich.v[kept++] = *x;
    }
    d->rich.n = kept;
    return 0;
}

/* Which profiles have each node of entry e, as (node, profile) pairs in order. */
struct presence {
    uint32_t *prof; /* concatenated, within the entry */
    uint32_t *count;
    uint32_t n;
};

/* The x86-64 baseline has no instruction for this, and a function call costs more. */
static inline uint32_t count_bits(uint64_t v)
{
    v -= v >> 1 & 0x5555555555555555ull;
    v = (v & 0x3333333333333333ull) + (v >> 2 & 0x3333333333333333ull);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (uint32_t) (v * 0x0101010101010101ull >> 56);
}

static uint64_t count_bits_of(const unsigned char *p, size_t n)
{
    uint64_t total = 0;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, 8);
        total += count_bits(v);
    }
    for (; n; n--)
        total += count_bits(*p++);
    return total;
}

static int read_presence(struct decoding *d, uint32_t e, struct cursor *r, struct presence *pr)
{
    uint32_t n_nodes = d->p->entries[e].n_nodes, n_profs = d->p->entries[e].n_profs, bytes = (n_profs + 7) / 8;
    uint64_t list = get_varint(r), total = 0;

    pr->count = arena_alloc(d->a, (n_nodes + 1) * sizeof *pr->count);
    if (!pr->count)
        return -ENOMEM;
    if (list) {
        for (uint32_t i = 0; i < n_nodes; i++)
            total += pr->count[i] = get_below(r, (uint64_t) n_profs + 1);
        if (r->bad || total > (uint64_t) (r->end - r->p))
            return -EBADMSG;
        pr->prof = arena_alloc(d->a, (total + 1) * sizeof *pr->prof);
        if (!pr->prof)
            return -ENOMEM;
        for (uint32_t i = 0; i < n_nodes; i++)
            for (uint32_t k = 0, last = 0; k < pr->count[i]; k++) {
                last += get_below(r, n_profs);
                pr->prof[pr->n++] = last;
                if (last >= n_profs)
                    return -EBADMSG;
            }
    } else {
        const unsigned char *p = get_raw(r, (size_t) bytes * n_nodes);

        if (!p || n_profs > CHUNK_BITMAP_MAX)
            return -EBADMSG;
        total = count_bits_of(p, (size_t) bytes * n_nodes);
        pr->prof = arena_alloc(d->a, (total + 1) * sizeof *pr->prof);
        if (!pr->prof)
            return -ENOMEM;
        for (uint32_t i = 0; i < n_nodes; i++, p += bytes) {
            uint64_t bits = 0;

            for (uint32_t k = 0; k < bytes; k++)
                bits |= (uint64_t) p[k] << (8 * k);
            pr->count[i] = count_bits(bits);
            for (; bits; bits &= bits - 1) {
                uint32_t k = (uint32_t) __builtin_ctzll(bits);

                if (k >= n_profs)
                    return -EBADMSG;
                pr->prof[pr->n++] = k;
            }
        }
    }
    return r->bad ? -EBADMSG : 0;
}

/* Counts rows per profile so that the rows of each profile are adjacent. */
static int allocate_rows(struct decoding *d, uint32_t e, const struct presence *pr)
{
    uint32_t first = d->p->first[e];

    for (uint32_t i = 0; i < pr->n; i++)
        d->p->profs[first + pr->prof[i]].n_rows++;
    for (uint32_t i = first; i < d->p->first[e + 1]; i++) {
        struct stored_profile *p = &d->p->profs[i];

        p->rows = arena_alloc(d->a, (p->n_rows + 1) * sizeof *p->rows);
        p->extras = p->n_extras ? arena_zalloc_array(d->a, p->n_extras, sizeof *p->extras) : NULL;
        if (!p->rows || (p->n_extras && !p->extras))
            return -ENOMEM;
    }
    return 0;
}

/* Finds where an entry's part of the detail begins. */
static int find_plain(const struct decoding *d, uint32_t e, struct cursor *ret)
{
    const unsigned char *raw = d->c->raw[SEC_DETAIL];
    uint32_t size = d->c->size[SEC_DETAIL], off;

    if (!raw || (size_t) d->p->n_entries * 4 > size)
        return -EBADMSG;
    off = load_u32(raw + 4 * e);
    if (off > size)
        return -EBADMSG;
    *ret = cursor_of(raw + off, size - off);
    return 0;
}

static int decode_plain(struct decoding *d, uint32_t e)
{
    uint32_t first = d->p->first[e], at = 0;
    struct presence pr = {0};
    struct cursor r;
    int rc = find_plain(d, e, &r);

    if (rc == 0)
        rc = read_presence(d, e, &r, &pr);
    if (rc == 0)
        rc = allocate_rows(d, e, &pr);
    for (uint32_t i = 0; rc == 0 && i < d->p->entries[e].n_nodes; i++) {
        int64_t left = d->sums[e][i];
        bool rich = d->has_rich[d->base[e] + i];

        for (uint32_t k = 0; k < pr.count[i]; k++) {
            uint32_t p = first + pr.prof[at++];
            int64_t v = k + 1 < pr.count[i] || rich ? get_zigzag(&r) : left;

            left = wrap_sub(left, v);
            d->p->profs[p].rows[d->filled[p]++] = (struct row){d->nodes[e][i], 0, wrap_mul(v, d->scale[e])};
        }
    }
    return rc < 0 ? rc : r.bad ? -EBADMSG : 0;
}

static int sum_plain(struct decoding *d, uint32_t e, const uint8_t *wanted, int64_t *acc, uint32_t n_acc,
                     uint64_t *rows)
{
    struct presence pr = {0};
    struct cursor r;
    uint32_t at = 0, first = d->p->first[e];
    int rc = find_plain(d, e, &r);

    if (rc == 0)
        rc = read_presence(d, e, &r, &pr);
    for (uint32_t i = 0; rc == 0 && i < d->n_nodes[e]; i++) {
        int64_t left = d->sums[e][i], sum = 0;
        bool rich = d->has_rich[d->base[e] + i];

        for (uint32_t k = 0; k < pr.count[i]; k++) {
            uint32_t p = first + pr.prof[at++];
            int64_t v = k + 1 < pr.count[i] || rich ? get_zigzag(&r) : left;

            left = wrap_sub(left, v);
            wrap_inc(&sum, wanted[p] ? v : 0);
            *rows += wanted[p];
        }
        if (d->nodes[e][i] >= n_acc)
            return -EBADMSG;
        wrap_inc(&acc[d->nodes[e][i]], wrap_mul(sum, d->scale[e]));
    }
    return rc < 0 ? rc : r.bad ? -EBADMSG : 0;
}

static int sum_rich(struct decoding *d, const uint8_t *wanted, int64_t *acc, uint32_t n_acc, uint64_t *rows)
{
    for (uint32_t i = 0; i < d->rich.n; i++) {
        const struct rich_row *x = &d->rich.v[i];

        if (!wanted[x->prof])
            continue;
        if (d->nodes[x->entry][x->key] >= n_acc)
            return -EBADMSG;
        wrap_inc(&acc[d->nodes[x->entry][x->key]], wrap_mul(x->value, d->scale[x->entry]));
        ++*rows;
    }
    return 0;
}

static int place_rich(struct decoding *d)
{
    for (uint32_t i = 0; i < d->rich.n; i++) {
        const struct rich_row *x = &d->rich.v[i];
        struct stored_profile *p = &d->p->profs[x->prof];
        struct extra *extra = &p->extras[d->filled_extra[x->prof]++];

        extra->timestamp = x->timestamp;
        extra->attrs = x->set;
        if (x->link) {
            uint32_t trace = d->rich.traces[x->link - 1];

            extra->has_link = true;
            if (d->w->traces && trace >= d->w->n_traces)
                return -EBADMSG;
            if (d->w->one_trace)
                memcpy(extra->link.trace_id, d->w->one_trace, 16);
            else if (d->w->traces)
                memcpy(extra->link.trace_id, d->w->traces + (size_t) trace * 16, 16);
            memcpy(extra->link.span_id, d->rich.spans + (size_t) (x->link - 1) * 8, 8);
        }
        p->rows[d->filled[x->prof]++] =
            (struct row){d->nodes[x->entry][x->key], d->filled_extra[x->prof], wrap_mul(x->value, d->scale[x->entry])};
    }
    return 0;
}

/* Whether only rows of the extra section are wanted and there is none. */
static bool is_empty(const struct decoding *d)
{
    return !d->w->plain && !d->rich.n;
}

/* Prepares what decoding and summing both need: the rows of the extra section and, unless nothing is wanted, the nodes of
 * all entries. */
static int begin_decoding(struct decoding *d)
{
    uint32_t n = d->p->n_entries + 1;
    int r;

    d->base = arena_zalloc_array(d->a, n, sizeof *d->base);
    d->n_nodes = arena_zalloc_array(d->a, n, sizeof *d->n_nodes);
    d->nodes = arena_zalloc_array(d->a, n, sizeof *d->nodes);
    d->sums = arena_zalloc_array(d->a, n, sizeof *d->sums);
    d->scale = arena_zalloc_array(d->a, n, sizeof *d->scale);
    if (!d->base || !d->n_nodes || !d->nodes || !d->sums || !d->scale)
        return -ENOMEM;
    r = count_nodes(d);
    if (r == 0)
        r = chunk_read_rich(d->c, d->a, d->p, d->n_nodes, &d->rich);
    if (r < 0 || is_empty(d))
        return r;
    r = decode_nodes(d);
    return r < 0 ? r : mark_rich(d);
}

int chunk_decode_rows(const struct chunk *c, struct arena *a, struct chunk_profiles *p, const struct chunk_wanted *w)
{
    struct decoding d = {.c = c, .a = a, .p = p, .w = w};
    int r = begin_decoding(&d);

    d.filled = arena_zalloc_array(a, p->n_profs + 1, sizeof *d.filled);
    d.filled_extra = arena_zalloc_array(a, p->n_profs + 1, sizeof *d.filled_extra);
    if (r == 0 && (!d.filled || !d.filled_extra))
        r = -ENOMEM;
    if (r == 0 && is_empty(&d))
        return column_result(r, a);
    for (uint32_t i = 0; r == 0 && i < d.rich.n; i++) {
        p->profs[d.rich.v[i].prof].n_rows++;
        p->profs[d.rich.v[i].prof].n_extras++;
    }
    for (uint32_t e = 0; r == 0 && e < p->n_entries; e++)
        r = w->plain ? decode_plain(&d, e) : allocate_rows(&d, e, &(struct presence){0});
    if (r == 0)
        r = place_rich(&d);
    return column_result(r, a);
}

static int count_plain(struct decoding *d, uint32_t e)
{
    struct presence pr = {0};
    struct cursor r;
    int rc = find_plain(d, e, &r);

    if (rc == 0)
        rc = read_presence(d, e, &r, &pr);
    for (uint32_t i = 0; rc == 0 && i < pr.n; i++)
        d->p->profs[d->p->first[e] + pr.prof[i]].n_rows++;
    return rc;
}

int chunk_count_rows(const struct chunk *c, struct arena *a, struct chunk_profiles *p)
{
    struct decoding d = {.c = c, .a = a, .p = p, .n_nodes = arena_zalloc_array(a, p->n_entries + 1, sizeof *d.n_nodes)};
    int r = d.n_nodes ? count_nodes(&d) : -ENOMEM;

    if (r == 0)
        r = chunk_read_rich(c, a, p, d.n_nodes, &d.rich);
    for (uint32_t i = 0; r == 0 && i < d.rich.n; i++)
        p->profs[d.rich.v[i].prof].n_rows++;
    for (uint32_t e = 0; r == 0 && e < p->n_entries; e++)
        r = count_plain(&d, e);
    return column_result(r, a);
}

int chunk_sum_rows(const struct chunk *c, struct arena *a, struct chunk_profiles *p, struct chunk_sums *s)
{
    struct decoding d = {.c = c, .a = a, .p = p, .w = &(struct chunk_wanted){.plain = true}};
    int r = begin_decoding(&d);

    s->rows = 0;
    for (uint32_t e = 0; r == 0 && e < p->n_entries; e++) {
        bool any = false;

        for (uint32_t k = p->first[e]; k < p->first[e + 1] && !any; k++)
            any = s->wanted[k];
        if (any)
            r = sum_plain(&d, e, s->wanted, s->acc, s->n_acc, &s->rows);
    }
    if (r == 0)
        r = sum_rich(&d, s->wanted, s->acc, s->n_acc, &s->rows);
    return column_result(r, a);
}
