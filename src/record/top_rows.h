/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of `wick top`: a batch of samples added up by function or by process. */
#ifndef RECORD_TOP_ROWS_H
#define RECORD_TOP_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"

struct batch;
struct regex;

struct top_view {
    bool processes;             /* a row is a process, named by its heaviest function; else a function of a service */
    bool threads;               /* threads of different names are different rows */
    bool cumulative;            /* order by total, not by self */
    bool no_kernel;             /* the time in the kernel counts for the functions that called it */
    const struct regex *filter; /* only rows whose function, service or thread matches; NULL: all */
};

struct top_row {
    struct str function, service, thread;
    int64_t self, total;
    int64_t pid;        /* of its only process; 0: of the kernel, or of several processes */
    int64_t last_pid;   /* of the sample added last */
    uint32_t processes; /* how many */
    uint32_t last;      /* the last sample that counts in total: a recursive function counts once */
};

struct top_rows {
    struct top_row *v;
    size_t n, cap;
    struct map map;
    struct arena names; /* of frames without one */
    int64_t sum;        /* of all samples, filtered or not */
};

/* Adds up b, which must outlive the rows. Ends with the heaviest row first. b may be NULL: no samples. */
int top_rows_make(struct top_rows *t, const struct batch *b, const struct top_view *view);
void top_rows_done(struct top_rows *t);

/* The first n rows as one JSON object and a newline; values are in cores over the interval. */
void top_rows_json(const struct top_rows *t, const struct top_view *view, size_t n, int64_t interval_ns,
                   struct buf *out);

#endif
