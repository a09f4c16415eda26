/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects work and merges its batches: see batcher.h. The members are kept as they are and merged in one step when
 * they are passed on, so that a failure in the middle of a merge leaves all of them untouched.
 */
#include "pipeline/delivery/batcher.h"

#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"

struct batcher {
    struct batch_settings s;
    struct queue_item *first, **last;
    uint64_t samples;
    size_t bytes;
    int64_t since;
};

int batcher_new(const struct batch_settings *s, struct batcher **ret)
{
    struct batcher *b = mem_zalloc(sizeof *b);

    if (!b)
        return -ENOMEM;
    b->s = *s;
    b->last = &b->first;
    if (!b->s.max_bytes)
        b->s.max_bytes = 64 << 20;
    *ret = b;
    return 0;
}

void batcher_free(struct batcher *b)
{
    mem_free(b);
}

bool batcher_empty(const struct batcher *b)
{
    return !b->first;
}

bool batcher_must_flush(const struct batcher *b, const struct work *w)
{
    const struct work *x = b->first ? container_of(b->first, struct work, item) : NULL;

    return x && (strcmp(x->kept.tenant, w->kept.tenant) != 0 || x->kept.ctx.cumulative != w->kept.ctx.cumulative);
}

void batcher_add(struct batcher *b, struct work *w, int64_t now)
{
    if (!b->first)
        b->since = now;
    w->item.next = NULL;
    *b->last = &w->item;
    b->last = &w->item.next;
    b->samples += w->batch->n_samples;
    b->bytes += batch_memory(w->batch);
}

bool batcher_ready(const struct batcher *b, int64_t now)
{
    if (batcher_empty(b))
        return false;
    return (b->s.send_batch_size > 0 && b->samples >= (uint64_t) b->s.send_batch_size) || b->s.timeout <= 0 ||
           now >= b->since + b->s.timeout || b->bytes >= (size_t) b->s.max_bytes;
}

int64_t batcher_deadline(const struct batcher *b)
{
    return batcher_empty(b) ? INT64_MAX : b->since + MAX(b->s.timeout, 0);
}

struct work *batcher_take(struct batcher *b)
{
    struct queue_item *first = TAKE(b->first);

    b->last = &b->first;
    b->samples = 0;
    b->bytes = 0;
    return first ? container_of(first, struct work, item) : NULL;
}

struct work *batcher_next(struct work *w)
{
    return w->item.next ? container_of(w->item.next, struct work, item) : NULL;
}

void batcher_parts_free(struct batch **parts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        batch_unref(parts[i]);
    mem_free(parts);
}

/* Merges all batches of the list into one; a single one is passed on as it is. */
static int merge(struct work *list, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *bl = NULL;
    int r;

    if (!list->item.next) {
        *ret = batch_ref(list->batch);
        return 0;
    }
    r = builder_new(NULL, &bl);
    for (struct work *w = list; r == 0 && w; w = batcher_next(w))
        r = builder_append(bl, w->batch);
    return r < 0 ? r : builder_finish(bl, ret, e);
}

/* Copies [from, from + n) of x into a batch of its own. */
static int cut(const struct batch *x, uint32_t from, uint32_t n, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *bl = NULL;
    int r = builder_new(NULL, &bl);

    if (r == 0)
        r = builder_append_part(bl, x, from, n);
    return r < 0 ? r : builder_finish(bl, ret, e);
}

int batcher_merge(const struct batcher *b, struct work *list, struct batch ***ret, uint32_t *ret_n, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *whole = NULL;
    struct batch **parts;
    uint32_t max, n, done = 0;
    int r = merge(list, &whole, e);

    if (r < 0)
        return r;
    max = b->s.send_batch_max_size > 0 ? (uint32_t) MIN(b->s.send_batch_max_size, (int64_t) UINT32_MAX) : UINT32_MAX;
    n = whole->n_samples <= max ? 1 : (uint32_t) (((uint64_t) whole->n_samples + max - 1) / max);
    parts = mem_zalloc_array(n, sizeof *parts);
    if (!parts)
        return -ENOMEM;
    if (n == 1)
        parts[done++] = TAKE(whole);
    for (; r == 0 && done < n; done += r == 0)
        r = cut(whole, done * max, MIN(max, whole->n_samples - done * max), &parts[done], e);
    if (r < 0) {
        batcher_parts_free(parts, done);
        return r;
    }
    *ret = parts;
    *ret_n = n;
    return 0;
}
