/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes what it receives to several sinks. The branches share the acknowledgement: each holds it once (sink.h), so
 * that the sender gets the worst of their results when the last one is done. Nothing is allocated per request.
 */
#include "pipeline/graph/fanout.h"

#include <errno.h>

#include "base/mem.h"

struct fanout {
    struct sink sink;
    struct blob_sink blob_sink;
    struct sink **sinks;
    struct blob_sink **blobs;
    uint32_t n, n_blobs;
};

static void consume(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    struct fanout *f = container_of(s, struct fanout, sink);

    ack_hold(ack, f->n - 1);
    for (uint32_t i = 0, n = f->n; i < n; i++) /* f may be freed after the last one */
        sink_consume(f->sinks[i], b, ctx, ack);
}

static void consume_blob(struct blob_sink *s, struct blob *b, const struct sink_context *ctx, struct ack *ack)
{
    struct fanout *f = container_of(s, struct fanout, blob_sink);

    ack_hold(ack, f->n_blobs - 1);
    for (uint32_t i = 0, n = f->n_blobs; i < n; i++)
        blob_sink_consume(f->blobs[i], b, ctx, ack);
}

int fanout_new(struct sink *const *sinks, uint32_t n, struct blob_sink *const *blobs, uint32_t n_blobs,
               struct fanout **ret)
{
    struct fanout *f = mem_zalloc(sizeof *f);

    if (!f)
        return -ENOMEM;
    f->sink.consume = consume;
    f->blob_sink.consume = consume_blob;
    f->sinks = mem_dup(sinks, n * sizeof *sinks);
    f->blobs = mem_dup(blobs, n_blobs * sizeof *blobs);
    f->n = n;
    f->n_blobs = n_blobs;
    if (!f->sinks || !f->blobs) {
        fanout_free(f);
        return -ENOMEM;
    }
    *ret = f;
    return 0;
}

void fanout_free(struct fanout *f)
{
    if (!f)
        return;
    mem_free(f->sinks);
    mem_free(f->blobs);
    mem_free(f);
}

struct sink *fanout_sink(struct fanout *f)
{
    return f->n == 1 ? f->sinks[0] : &f->sink;
}

struct blob_sink *fanout_blobs(struct fanout *f)
{
    return f->n_blobs == 1 ? f->blobs[0] : &f->blob_sink;
}
