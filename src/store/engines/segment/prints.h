/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a batch's strings, functions, mappings, locations and stacks are, as 128 bits over their content: the same in
 * every request, epoch and process. Each is hashed once, when first asked for, from the batch alone: a stack that the
 * store knows is found without a look at any symbol.
 *
 * Two locations with one print are one location of the store (symbols.h): a native one is its binary and ELF address,
 * another its kind and lines. Names that a native location carries are not part of it.
 */
#ifndef SEGMENT_PRINTS_H
#define SEGMENT_PRINTS_H

#include "base/arena.h"
#include "base/hash.h"
#include "model/batch.h"

struct prints {
    const struct batch *batch;
    struct id128 *strings, *functions, *mappings, *locations, *stacks; /* zero = not yet */
};

int prints_init(struct prints *p, const struct batch *b, struct arena *a);
/* The stack's identity; never zero. */
struct id128 prints_make_stack(struct prints *p, uint32_t stack);

/* The stacks of n samples at once: their lists lie anywhere in the dictionary and are fetched ahead. */
void prints_samples(struct prints *p, const struct sample *samples, uint32_t n);

static inline struct id128 prints_stack(struct prints *p, uint32_t stack)
{
    return id128_is_zero(p->stacks[stack]) ? prints_make_stack(p, stack) : p->stacks[stack];
}

#endif
