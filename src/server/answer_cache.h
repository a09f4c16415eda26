/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that are given again: a client that sends Cache-Control: max-age=N accepts an answer to the same question of
 * the same tenant that is at most N seconds old, and shares one that is being made. Without that header every answer is
 * made anew, because what was acknowledged must be in each answer that begins later.
 *
 * Any thread may call it. One caller makes an answer; callers that can share it wait without holding a thread: they are
 * resumed and then ask again. Bytes are limited; the answer that was not used for the longest time is dropped first.
 */
#ifndef SERVER_ANSWER_CACHE_H
#define SERVER_ANSWER_CACHE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/compress.h"
#include "base/macros.h"
#include "store/store.h"

struct answer_cache;

/* An answer as it is sent. */
struct kept_answer {
    struct buf body;
    enum compression coding; /* of the body */
    const char *content_type;
    struct store_notes notes;
    int64_t age_ns; /* set by answer_cache_find() */
};

/* Somebody who waits for an answer that another caller makes. resume() is called exactly once, from any thread, after
 * which the cache does not use the waiter. */
struct answer_waiter {
    struct answer_waiter *next;
    void (*resume)(struct answer_waiter *w);
};

struct answer_question {
    struct str key; /* tenant, question, parameters and encoding: whatever changes a byte of the answer */
    int64_t oldest; /* on the clock clock_mono(): the answer must have been begun at this time or later */
    int64_t now;
};

enum answer_found {
    ANSWER_MAKE,   /* the caller makes the answer and then calls answer_cache_keep() or answer_cache_fail() */
    ANSWER_ALONE,  /* the caller makes the answer, which is not shared */
    ANSWER_SHARED, /* *ret is a copy of a kept answer; its body belongs to the caller */
    ANSWER_WAIT,   /* the waiter will be resumed */
};

int answer_cache_new(size_t max_bytes, struct answer_cache **ret);
void answer_cache_free(struct answer_cache *c); /* no call may be waiting */
DEFINE_CLEANUP(struct answer_cache *, answer_cache_free)

enum answer_found answer_cache_find(struct answer_cache *c, const struct answer_question *q, struct answer_waiter *w,
                                    struct kept_answer *ret);
/* The answer that ANSWER_MAKE promised: copied, or dropped when it is too large. */
void answer_cache_keep(struct answer_cache *c, struct str key, const struct kept_answer *a);
/* There is no answer: the first of those who wait makes it. */
void answer_cache_fail(struct answer_cache *c, struct str key);
/* Drops everything, including answers that are being made now: data were deleted. */
void answer_cache_clear(struct answer_cache *c);

struct answer_cache_stats {
    uint64_t made, shared, waited;
    size_t bytes;
};
void answer_cache_stats(struct answer_cache *c, struct answer_cache_stats *ret);

#endif
