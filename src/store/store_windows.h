/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selection of one column in equal windows of its time, in one answer: which stacks grow (query_leaks()). An engine
 * that can group by time implements store_ops.windows; for any other, store_windows() asks select window by window.
 */
#ifndef STORE_STORE_WINDOWS_H
#define STORE_STORE_WINDOWS_H

#include "model/tree.h"
#include "store/store.h"

enum { STORE_WINDOWS_MAX = 64 };

struct store_windows {
    struct tree *tree; /* of all windows; its columns are the first and the last window, with totals */
    int64_t *values;   /* per node of the tree: its self value in each of the n windows */
    uint32_t n;
    int64_t from, width_ns; /* window i is [from + i * width_ns, from + (i + 1) * width_ns) */
};

/* Cuts the time of column 0 into n windows, from 2 to STORE_WINDOWS_MAX; less than n nanoseconds at its end are left
 * out. -EINVAL if the range is too short. max_nodes and min_share do not apply. */
int store_windows(struct store *s, const struct store_query *q, uint32_t n, struct store_windows *ret, struct err *e);
/* Accepts zeroed windows. */
void store_windows_done(struct store_windows *w);

#endif
