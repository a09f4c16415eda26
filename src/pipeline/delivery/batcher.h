/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects batches into larger ones: the heart of the `batch` processor and of a sending queue with `batch`. Belongs to
 * one thread. Only what is equal in tenant and kind of source is put together.
 */
#ifndef PIPELINE_BATCHER_H
#define PIPELINE_BATCHER_H

#include "base/err.h"
#include "pipeline/delivery/worker.h"

struct batch;

struct batch_settings {
    int64_t timeout;             /* ns after the first one came; 0: never wait */
    int64_t send_batch_size;     /* samples: hand on when there are this many; 0: only by time */
    int64_t send_batch_max_size; /* samples: never more than this in one; 0: no limit */
    int64_t max_bytes;           /* memory of what is collected; 0: 64 MiB */
};

struct batcher;

int batcher_new(const struct batch_settings *s, struct batcher **ret);
void batcher_free(struct batcher *b);
DEFINE_CLEANUP(struct batcher *, batcher_free)

/* Takes one more on. When it is full (or cannot hold this one too) the caller finds it with batcher_ready(). */
int batcher_add(struct batcher *b, struct batch *x, const struct sink_context *ctx, int64_t now);
/* Whether x must go into the next batch: hand on what is there first. */
bool batcher_must_flush(const struct batcher *b, const struct sink_context *ctx);
bool batcher_ready(const struct batcher *b, int64_t now);
/* When batcher_ready() becomes true by time alone; INT64_MAX when empty. */
int64_t batcher_deadline(const struct batcher *b);
bool batcher_empty(const struct batcher *b);
/* Everything collected, cut at send_batch_max_size: calls emit for each, in order. The batch is emit's to keep only by
 * taking a reference. */
int batcher_flush(struct batcher *b, void (*emit)(void *arg, struct batch *x, const struct sink_context *ctx),
                  void *arg, struct err *e);

#endif
