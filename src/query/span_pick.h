/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects spans of the index (span/span_index.h) for questions about profiles: which spans are meant, with or without
 * their descendants, and which they are compared with.
 */
#ifndef QUERY_SPAN_PICK_H
#define QUERY_SPAN_PICK_H

#include "span/span_index.h"

enum { SPAN_PICKS_MAX = 1 << 19 };

struct span_pick {
    struct link link;
    int64_t start, duration;
    uint8_t side; /* 1: selected; 0: the rest */
};

/* Spans that were found, and their descendants if wanted. */
struct span_picks {
    struct span_pick *v;
    uint32_t n;
    uint32_t one_in; /* a power of two: only one in so many traces is in it, because there are more than fit */
    size_t cap;
};

void span_picks_done(struct span_picks *p);
/* Collects the spans of the filter. If there are more than SPAN_PICKS_MAX, traces are left out at random, as wholes. */
int span_picks_collect(struct span_index *x, const struct span_filter *f, struct span_picks *ret, struct err *e);
/* Adds the descendants of the spans, each on the side of its nearest ancestor among them. Spans that start more than an
 * hour after the last one are not looked for. */
int span_picks_children(struct span_index *x, const char *tenant, struct span_picks *p, const atomic_bool *cancel,
                        struct err *e);
/* Puts the slowest `percent` (0 to 100) of them, at least one, on side 1, and sorts them by duration, longest first.
 * Returns how many. */
uint32_t span_picks_slowest(struct span_picks *p, double percent);

#endif
