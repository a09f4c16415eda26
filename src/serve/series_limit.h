/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the number of series that one tenant sends: distinct labels (of the allow-list) and types. Each series costs
 * the server memory and index space for as long as it is kept, so a sender that puts an id into a label must be
 * stopped. A series that was not sent for about a day is forgotten. Safe from any thread.
 */
#ifndef SERVE_SERIES_LIMIT_H
#define SERVE_SERIES_LIMIT_H

#include <pthread.h>

#include "base/map.h"

struct batch;

/* A set of 64-bit keys. */
struct series_set {
    struct map map;
    uint64_t *keys;
    uint32_t n;
    size_t cap;
};

struct series_limit {
    pthread_mutex_t lock;
    const char *const *allow; /* labels of series; labels_default_allow unless it is replaced before the first batch */
    struct series_set now _guarded_by_(lock), before
        _guarded_by_(lock);                         /* of the current half day, and of the one before it */
    struct series_set resources _guarded_by_(lock); /* hashes of resources whose labels are known */
    uint64_t *labels _guarded_by_(lock);            /* one hash per resource */
    size_t cap_labels _guarded_by_(lock);
    int64_t turned _guarded_by_(lock); /* when now became before, monotonic */
};

void series_limit_init(struct series_limit *s);
void series_limit_done(struct series_limit *s);
/* Counts the series of the batch. -EDQUOT if some are new and max is reached already; -ENOMEM. max 0: no limit, nothing
 * is counted. */
int series_limit_take(struct series_limit *s, const struct batch *b, int64_t max);

#endif
