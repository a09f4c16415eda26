/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a batch's strings, functions, mappings, locations, stacks and attributes are, as 128 bits over their content: the
 * same in every request, epoch and process. Each is hashed once, when first asked for, from the batch alone: a stack
 * that the store knows is found without a look at any symbol.
 *
 * Two locations with one print are one location of the store (symbols.h): a native one is its binary and ELF address,
 * another its kind and lines. Names that a native location carries are not part of it.
 */
#ifndef STORE_PRINTS_H
#define STORE_PRINTS_H

#include "base/arena.h"
#include "base/hash.h"
#include "model/batch.h"

struct prints {
    const struct batch *batch;
    struct id128 *strings, *functions, *mappings, *locations, *stacks, *attrs; /* zero = not yet */
    struct id128 *sets; /* per sample that has attributes: of all of them */
};

int prints_init(struct prints *p, const struct batch *b, struct arena *a);
/* The stack's identity; never zero. */
struct id128 prints_make_stack(struct prints *p, uint32_t stack);
/* The stacks of n samples at once: their lists lie anywhere in the dictionary and are fetched ahead. */
void prints_samples(struct prints *p, const struct sample *samples, uint32_t n);
struct id128 prints_string(struct prints *p, uint32_t string);
struct id128 prints_attr(struct prints *p, uint32_t attr);
/* A list of attributes in its order. */
struct id128 prints_attrs(struct prints *p, struct run attrs);
/* Those of a sample of the batch; at least one. */
struct id128 prints_sample_attrs(struct prints *p, uint32_t sample);
/* Everything that is said of it, in its order. */
struct id128 prints_resource(const struct resource *r);
struct id128 prints_scope(const struct scope *s);
/* Content with its times, of what this resource sent. */
struct id128 prints_profile(struct prints *p, struct id128 resource, const struct profile *profile);

static inline struct id128 prints_stack(struct prints *p, uint32_t stack)
{
    return id128_is_zero(p->stacks[stack]) ? prints_make_stack(p, stack) : p->stacks[stack];
}

/* A print and one more thing: one multiplication. What is added last can be told from the print and what was before. */
static inline struct id128 print_add(struct id128 s, uint64_t hi, uint64_t lo)
{
    uint64_t x = hash_mix(s.hi ^ hi, lo ^ 0xe7037ed1a0b428dbull);

    return (struct id128){x, ((s.lo << 23 | s.lo >> 41) ^ x) + lo};
}

static inline struct id128 print_add_id(struct id128 s, struct id128 id)
{
    return print_add(s, id.hi, id.lo);
}

#endif
