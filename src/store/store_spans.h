/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by span: what the samples of a selection add up to for each span that they are linked to. The first half of this
 * file is the answer to store_ops.spans; the second half helps engines that have samples at hand.
 */
#ifndef STORE_STORE_SPANS_H
#define STORE_STORE_SPANS_H

#include "base/arena.h"
#include "base/map.h"
#include "model/batch.h"

enum { STORE_SPANS_MAX = 1 << 20 };

struct store_span {
    struct link link;
    struct str service; /* the first by name, should several have samples of it */
    int64_t value;      /* in the unit of the selection's type */
    uint64_t samples;   /* a sample with several timestamps counts as many; equal ones may have been joined */
    int64_t from, to;   /* of its samples, or of their profiles where samples have no times */
};

struct store_spans {
    struct store_span *v; /* in no particular order */
    uint32_t n;
    int64_t total, linked; /* of all samples, and of those with a span */
    struct str unit;
    /* private */
    size_t cap;
    struct map map;
    struct arena arena;
};

/* A set of spans that samples are selected by (store_column.spans). Equal ones may be in it more than once. */
struct store_span_set {
    const struct link *v; /* of the caller, valid as long as the set */
    uint32_t n;
    /* private */
    struct map map;
};
/* At most STORE_SPANS_MAX. Returns 0, -ENOMEM or -E2BIG. */
int store_span_set_init(struct store_span_set *s, const struct link *v, uint32_t n);
void store_span_set_done(struct store_span_set *s); /* accepts a zeroed set */
bool store_span_set_has(const struct store_span_set *s, const struct link *l);

/* Accepts zeroed spans. */
void store_spans_done(struct store_spans *s);

/* --- for engines --- */

struct span_sample {
    const struct link *link; /* NULL: not linked to a span */
    struct str service;
    int64_t value;
    uint32_t count;
    int64_t from, to;
};

void store_spans_init(struct store_spans *s);
/* -E2BIG if there are more than STORE_SPANS_MAX spans. */
int store_spans_add(struct store_spans *s, const struct span_sample *v);

#endif
