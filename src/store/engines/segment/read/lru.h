/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of data that can be rebuilt: footers and dictionaries of segments, views of trees. There is one limit on the
 * bytes of all items; over it, the least recently used items that are not in use are dropped.
 *
 * Any thread may call it. The lock is held while items are dropped, and is taken while the owners' locks are held, so
 * drop() may only try to lock those.
 */
#ifndef SEGMENT_LRU_H
#define SEGMENT_LRU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct lru_item {
    struct lru_item *newer, *older; /* NULL at the ends; both NULL and bytes 0: not in the list */
    size_t bytes;
    bool (*drop)(struct lru_item *item); /* frees the item's data; false: in use, not now */
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
/* The item was used and has this size now (not 0); others may be dropped. l may be NULL: nothing is bounded. */
void lru_used(struct lru *l, struct lru_item *item, size_t bytes);
/* The owner is about to free the item. */
void lru_forget(struct lru *l, struct lru_item *item);
/* A user of an item that could not be dropped before has released it. */
void lru_trim(struct lru *l);
size_t lru_bytes(struct lru *l);
/* Whether more files are open than may be kept for later queries. NULL: none may be kept. */
static inline bool lru_files_full(const struct lru *l)
{
    return !l || atomic_load_explicit(&l->files, memory_order_relaxed) > l->max_files;
}

#endif
