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
    struct sink **sinks;
    uint32_t n;
};

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct fanout *f = container_of(s, struct fanout, sink);

    ack_hold(ack, f->n - 1);
    for (uint32_t i = 0, n = f->n; i < n; i++) /* f may be freed after the last one */
        sink_pass(f->sinks[i], data, ctx, ack);
}

int fanout_new(struct sink *const *sinks, uint32_t n, struct fanout **ret)
{
    struct fanout *f = mem_zalloc(sizeof *f);

    if (!f)
        return -ENOMEM;
    f->sink.consume = consume;
    f->sinks = mem_dup(sinks, n * sizeof *sinks);
    f->n = n;
    if (!f->sinks) {
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
    mem_free(f);
}

struct sink *fanout_sink(struct fanout *f)
{
    return f->n == 1 ? f->sinks[0] : &f->sink;
}
