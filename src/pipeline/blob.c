/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See blob.h. The requests of all three signals have one shape:
 *
 *     request  { 1: resource_x[] }      resource_x { 2: scope_x[] }      scope_x { 2: item[] }
 *
 * except that the items of metrics are metrics, each with data points in one of five kinds (fields 5, 7, 9, 10, 11, whose
 * field 1 is a point); the Collector counts points.
 */
#include "pipeline/blob.h"

#include <errno.h>

#include "base/mem.h"

const char *const signal_names[SIGNALS] = {"profiles", "traces", "metrics", "logs"};
const char *const signal_items[SIGNALS] = {"profile_samples", "spans", "metric_points", "log_records"};

int blob_new(enum signal signal, bool json, struct buf *in, struct blob **ret)
{
    struct blob *b = mem_zalloc(sizeof *b);

    if (!b)
        return -ENOMEM;
    b->refs = 1;
    b->signal = signal;
    b->json = json;
    b->p = buf_take(in, &b->n);
    *ret = b;
    return 0;
}

struct blob *blob_ref(struct blob *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void blob_unref(struct blob *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    mem_free(b->p);
    mem_free(b);
}

struct cursor {
    const unsigned char *p, *end;
};

static bool get_varint(struct cursor *c, uint64_t *ret)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64 && c->p < c->end; shift += 7) {
        unsigned char b = *c->p++;

        v |= (uint64_t) (b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *ret = v;
            return true;
        }
    }
    return false;
}

/* The next field; for a length-delimited one *ret is its content. false at the end or when malformed (then p != end). */
static bool next_field(struct cursor *c, uint32_t *ret_field, bool *ret_len, struct cursor *ret)
{
    uint64_t tag, n = 0;
    size_t left;

    if (c->p >= c->end || !get_varint(c, &tag))
        return false;
    *ret_field = (uint32_t) (tag >> 3);
    *ret_len = (tag & 7) == 2;
    switch (tag & 7) {
    case 0:
        return get_varint(c, &n);
    case 1:
        n = 8;
        break;
    case 2:
        if (!get_varint(c, &n))
            return false;
        break;
    case 5:
        n = 4;
        break;
    default:
        c->p = c->end - (c->end > c->p); /* groups: malformed for us */
        return false;
    }
    left = (size_t) (c->end - c->p);
    if (n > left) {
        c->p = c->end - (left > 0);
        return false;
    }
    *ret = (struct cursor){c->p, c->p + n};
    c->p += n;
    return true;
}

/* How many length-delimited fields of this number; -EINVAL when malformed. With `inside`, counts within each instead. */
static int count_level(struct cursor c, const uint32_t *path, int depth, uint64_t *sum)
{
    const unsigned char *before = c.p;
    struct cursor in;
    uint32_t field;
    bool len;

    while (next_field(&c, &field, &len, &in)) {
        before = c.p;
        if (field != path[0])
            continue;
        if (!len)
            return -EINVAL;
        if (depth == 1)
            ++*sum;
        else if (count_level(in, path + 1, depth - 1, sum) < 0)
            return -EINVAL;
    }
    return c.p == c.end && before == c.end ? 0 : -EINVAL;
}

int blob_count(enum signal signal, const void *p, size_t n, uint32_t *ret_items)
{
    static const uint32_t items[] = {1, 2, 2};
    static const uint32_t kinds[] = {5, 7, 9, 10, 11};
    struct cursor c = {p, (const unsigned char *) p + n};
    uint64_t sum = 0;
    int r = 0;

    if (signal != SIGNAL_METRICS)
        r = count_level(c, items, 3, &sum);
    for (size_t i = 0; r == 0 && signal == SIGNAL_METRICS && i < ARRAY_SIZE(kinds); i++)
        r = count_level(c, (uint32_t[]){1, 2, 2, kinds[i], 1}, 5, &sum);
    if (r == 0)
        *ret_items = (uint32_t) MIN(sum, (uint64_t) UINT32_MAX);
    return r;
}
