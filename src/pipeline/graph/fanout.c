/* SPDX-License-Identifier: Apache-2.0 */
/* See fanout.h. */
#include "pipeline/graph/fanout.h"

#include <errno.h>
#include <pthread.h>

#include "base/mem.h"

struct fanout {
    struct sink sink;
    struct blob_sink blob_sink;
    struct sink **sinks;
    struct blob_sink **blobs;
    uint32_t n, n_blobs;
};

/* One of these per request and branch; the last to complete tells the sender. */
struct branch {
    struct ack ack;
    struct join *join;
};

struct join {
    pthread_mutex_t lock;
    struct ack *up;
    uint32_t left;
    struct ack_result worst;
    struct branch branches[];
};

/* What the sender should hear of two: a permanent failure of one branch must not make it send again to the other, so a
 * retryable one wins only over success. */
static bool worse(const struct ack_result *a, const struct ack_result *b)
{
    if (b->status == SINK_OK)
        return a->status != SINK_OK || a->rejected > b->rejected;
    return a->status != SINK_OK && sink_status_retryable(b) && !sink_status_retryable(a);
}

static void branch_done(struct ack *a, const struct ack_result *r)
{
    struct join *j = container_of(a, struct branch, ack)->join;
    bool last;

    pthread_mutex_lock(&j->lock);
    if (worse(r, &j->worst))
        j->worst = *r;
    last = --j->left == 0;
    pthread_mutex_unlock(&j->lock);
    if (!last)
        return;
    ack_complete(j->up, &j->worst);
    pthread_mutex_destroy(&j->lock);
    mem_free(j);
}

static struct join *join_new(uint32_t n, struct ack *up)
{
    struct join *j = mem_zalloc(sizeof *j + n * sizeof *j->branches);

    if (!j)
        return NULL;
    pthread_mutex_init(&j->lock, NULL);
    j->up = up;
    j->left = n;
    for (uint32_t i = 0; i < n; i++)
        j->branches[i] = (struct branch){{branch_done}, j};
    return j;
}

static void consume(struct sink *s, struct batch *b, const struct sink_context *ctx, struct ack *ack)
{
    struct fanout *f = container_of(s, struct fanout, sink);
    struct join *j = join_new(f->n, ack);

    if (!j) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "no memory");
        return;
    }
    for (uint32_t i = 0, n = f->n; i < n; i++) /* j may be gone after the last */
        sink_consume(f->sinks[i], b, ctx, &j->branches[i].ack);
}

static void consume_blob(struct blob_sink *s, struct blob *b, const struct sink_context *ctx, struct ack *ack)
{
    struct fanout *f = container_of(s, struct fanout, blob_sink);
    struct join *j = join_new(f->n_blobs, ack);

    if (!j) {
        ack_fail(ack, SINK_UNAVAILABLE, 0, "no memory");
        return;
    }
    for (uint32_t i = 0, n = f->n_blobs; i < n; i++)
        blob_sink_consume(f->blobs[i], b, ctx, &j->branches[i].ack);
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
