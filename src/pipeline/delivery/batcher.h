/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects batches until there are enough for a larger one: used by the `batch` processor and by sending queues with
 * `batch`. Belongs to one thread. Only batches of the same tenant and kind of source are merged.
 *
 * Nothing that was added can get lost: adding cannot fail, the members keep their batches until they are merged, and if
 * merging fails, the caller still has every member and can pass it on separately.
 */
#ifndef PIPELINE_BATCHER_H
#define PIPELINE_BATCHER_H

#include "base/err.h"
#include "pipeline/delivery/worker.h"

struct batch;

struct batch_settings {
    int64_t timeout;             /* ns after the first one arrived; 0: never wait */
    int64_t send_batch_size;     /* samples: pass on when there are this many; 0: only by time */
    int64_t send_batch_max_size; /* samples: never more than this in one batch; 0: no limit */
    int64_t max_bytes;           /* memory of the collected batches; 0: 64 MiB */
};

struct batcher;

int batcher_new(const struct batch_settings *s, struct batcher **ret);
void batcher_free(struct batcher *b); /* must be empty */
DEFINE_CLEANUP(struct batcher *, batcher_free)

/* Takes w with its batch, which belongs to the batcher until batcher_take(). */
void batcher_add(struct batcher *b, struct work *w, int64_t now);
/* True if w must go into the next batch: then take the collected ones first. */
bool batcher_must_flush(const struct batcher *b, const struct work *w);
bool batcher_ready(const struct batcher *b, int64_t now);
/* When batcher_ready() becomes true by time alone; INT64_MAX when empty. */
int64_t batcher_deadline(const struct batcher *b);
bool batcher_empty(const struct batcher *b);
/* Returns all members, oldest first, linked by item.next, and leaves the batcher empty. NULL if it was empty. */
struct work *batcher_take(struct batcher *b);
struct work *batcher_next(struct work *w); /* the next one in such a list */

/* Merges the batches of a list and splits the result at send_batch_max_size. On success *ret is an array of *ret_n
 * batches, to be freed with batcher_parts_free(). On failure (-ENOMEM, or a limit of a batch) nothing is returned. */
int batcher_merge(const struct batcher *b, struct work *list, struct batch ***ret, uint32_t *ret_n, struct err *e);
void batcher_parts_free(struct batch **parts, uint32_t n);

#endif
