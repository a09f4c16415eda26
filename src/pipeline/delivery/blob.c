/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are passed through without being decoded, and counting their items. See blob.h. The requests of all
 * three signals have one shape:
 *
 *     request  { 1: resource_x[] }      resource_x { 2: scope_x[] }      scope_x { 2: item[] }
 *
 * except that the items of metrics are metrics, each with data points in one of five kinds (fields 5, 7, 9, 10, 11,
 * whose field 1 is a point); the Collector counts points.
 */
#include "pipeline/delivery/blob.h"

#include <errno.h>

#include "base/mem.h"
#include "base/wire.h"

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

/* Counts the length-delimited fields at the end of this path of field numbers. -EINVAL if malformed. */
static int count_level(const uint8_t *p, const uint8_t *end, const uint32_t *path, int depth, uint64_t *sum)
{
    while (p < end) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        if (!p || (f.tag >> 3 == path[0] && f.tag != WIRE_TAG(path[0], WIRE_LEN)))
            return -EINVAL;
        if (f.tag != WIRE_TAG(path[0], WIRE_LEN))
            continue;
        if (depth == 1)
            ++*sum;
        else if (count_level(f.data, f.data + f.v, path + 1, depth - 1, sum) < 0)
            return -EINVAL;
    }
    return 0;
}

int blob_count(enum signal signal, const void *p, size_t n, uint32_t *ret_items)
{
    static const uint32_t items[] = {1, 2, 2};
    static const uint32_t kinds[] = {5, 7, 9, 10, 11};
    const uint8_t *start = p, *end = start + n;
    uint64_t sum = 0;
    int r = 0;

    if (signal != SIGNAL_METRICS)
        r = count_level(start, end, items, 3, &sum);
    for (size_t i = 0; r == 0 && signal == SIGNAL_METRICS && i < ARRAY_SIZE(kinds); i++)
        r = count_level(start, end, (uint32_t[]){1, 2, 2, kinds[i], 1}, 5, &sum);
    if (r == 0)
        *ret_items = (uint32_t) MIN(sum, (uint64_t) UINT32_MAX);
    return r;
}
