/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See batcher.h. One batch alone is handed on as it is; from the second on they are merged as they come, so that memory
 * holds one merged dictionary and not all the requests.
 */
#include "pipeline/delivery/batcher.h"

#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"

struct batcher {
    struct batch_settings s;
    struct batch *first; /* the only one so far */
    struct builder *builder;
    uint64_t samples;
    size_t bytes;
    int64_t since;
    struct kept_context kept;
};

int batcher_new(const struct batch_settings *s, struct batcher **ret)
{
    struct batcher *b = mem_zalloc(sizeof *b);

    if (!b)
        return -ENOMEM;
    b->s = *s;
    if (!b->s.max_bytes)
        b->s.max_bytes = 64 << 20;
    *ret = b;
    return 0;
}

static void reset(struct batcher *b)
{
    batch_unref(b->first);
    builder_free(b->builder);
    b->first = NULL;
    b->builder = NULL;
    b->samples = 0;
    b->bytes = 0;
}

void batcher_free(struct batcher *b)
{
    if (!b)
        return;
    reset(b);
    mem_free(b);
}

bool batcher_empty(const struct batcher *b)
{
    return !b->first && !b->builder;
}

bool batcher_must_flush(const struct batcher *b, const struct sink_context *ctx)
{
    return !batcher_empty(b) &&
           (strcmp(b->kept.tenant, ctx->tenant ? ctx->tenant : "") != 0 || b->kept.ctx.cumulative != ctx->cumulative);
}

int batcher_add(struct batcher *b, struct batch *x, const struct sink_context *ctx, int64_t now)
{
    int r = 0;

    if (batcher_empty(b)) {
        b->since = now;
        context_keep(&b->kept, ctx);
        b->first = batch_ref(x);
    } else {
        if (!b->builder) {
            r = builder_new(NULL, &b->builder);
            if (r == 0)
                r = builder_append(b->builder, b->first);
            batch_unref(TAKE(b->first));
        }
        if (r == 0)
            r = builder_append(b->builder, x);
    }
    if (r < 0) {
        reset(b);
        return r;
    }
    b->samples += x->n_samples;
    b->bytes = b->builder ? batch_memory(builder_batch(b->builder)) : batch_memory(x);
    return 0;
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

/* [from, from + n) of x as a batch of its own. */
static int cut(const struct batch *x, uint32_t from, uint32_t n, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *bl = NULL;
    int r = builder_new(NULL, &bl);

    if (r == 0)
        r = builder_append_part(bl, x, from, n);
    return r < 0 ? r : builder_finish(bl, ret, e);
}

int batcher_flush(struct batcher *b, void (*emit)(void *arg, struct batch *x, const struct sink_context *ctx),
                  void *arg, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    uint64_t max = b->s.send_batch_max_size > 0 ? (uint64_t) b->s.send_batch_max_size : UINT64_MAX;
    int r = 0;

    if (batcher_empty(b))
        return 0;
    if (b->builder)
        r = builder_finish(b->builder, &x, e);
    else
        x = TAKE(b->first);
    reset(b);
    if (r < 0)
        return r;
    if (x->n_samples <= max) {
        emit(arg, x, &b->kept.ctx);
        return 0;
    }
    for (uint64_t from = 0; from < x->n_samples; from += max) {
        _cleanup_(batch_unrefp) struct batch *part = NULL;

        r = cut(x, (uint32_t) from, (uint32_t) MIN(max, x->n_samples - from), &part, e);
        if (r < 0)
            return r;
        emit(arg, part, &b->kept.ctx);
    }
    return 0;
}
