/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be made again and is kept for the next question: footers and dictionaries of segments, views of trees. All of
 * it together has a number of bytes; over that, what was used longest ago goes, unless somebody is at it.
 *
 * Any thread. The lock is held while items are dropped, and is taken with their owners' locks held: drop() may only try
 * for those.
 */
#ifndef SEGMENT_LRU_H
#define SEGMENT_LRU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct lru_item {
    struct lru_item *newer, *older; /* NULL at the ends; both NULL and bytes 0: not in it */
    size_t bytes;
    bool (*drop)(struct lru_item *item); /* frees what it stands for; false: not now, somebody uses it */
};

struct lru {
    pthread_mutex_t lock;
    struct lru_item *newest, *oldest;
    size_t bytes, max;
    _Atomic long files; /* open files of segments */
    long max_files;
};

void lru_init(struct lru *l, size_t max);
void lru_done(struct lru *l);
/* The item was used and takes that much now (not 0); others give way. l may be NULL: nothing is bounded. */
void lru_used(struct lru *l, struct lru_item *item, size_t bytes);
/* It is about to be freed by its owner. */
void lru_forget(struct lru *l, struct lru_item *item);
/* Somebody is done with an item that could not go before. */
void lru_trim(struct lru *l);
size_t lru_bytes(struct lru *l);
/* More files are open than may be kept for the next question. NULL: none may. */
static inline bool lru_files_full(const struct lru *l)
{
    return !l || atomic_load_explicit(&l->files, memory_order_relaxed) > l->max_files;
}

#endif
