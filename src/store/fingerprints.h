/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fingerprints: 128-bit hashes of the content of a batch's strings, functions, mappings, locations, stacks and
 * attributes, the same in every request, epoch and process. Each is computed once, on first use, from the batch alone,
 * so that a known stack is found without accessing any symbol.
 *
 * Two locations with the same fingerprint are one location of the store (symbols.h). A native location is identified
 * by its binary and ELF address, any other by its kind and lines. The names of a native location are not part of its
 * fingerprint.
 */
#ifndef STORE_FINGERPRINTS_H
#define STORE_FINGERPRINTS_H

#include "base/arena.h"
#include "base/hash.h"
#include "model/batch.h"

struct fingerprints {
    const struct batch *batch;
    struct id128 *strings, *functions, *mappings, *locations, *stacks, *attrs; /* zero = not computed yet */
    struct id128 *sets; /* per sample that has attributes: the fingerprint of all of them */
};

int fingerprints_init(struct fingerprints *p, const struct batch *b, struct arena *a);
/* The stack's identity; never zero. */
struct id128 fingerprints_make_stack(struct fingerprints *p, uint32_t stack);
/* Computes the stacks of n samples at once, with prefetching, since their lists are scattered over the dictionary. */
void fingerprints_samples(struct fingerprints *p, const struct sample *samples, uint32_t n);
struct id128 fingerprints_string(struct fingerprints *p, uint32_t string);
struct id128 fingerprints_attr(struct fingerprints *p, uint32_t attr);
/* The fingerprint of a list of attributes, in order. */
struct id128 fingerprints_attrs(struct fingerprints *p, struct run attrs);
/* The fingerprint of the attributes of a sample of the batch, which has at least one. */
struct id128 fingerprints_sample_attrs(struct fingerprints *p, uint32_t sample);
/* The fingerprint of everything in it, in order. */
struct id128 fingerprints_resource(const struct resource *r);
struct id128 fingerprints_scope(const struct scope *s);
/* The fingerprint of a profile's content with its times, as sent by this resource. */
struct id128 fingerprints_profile(struct fingerprints *p, struct id128 resource, const struct profile *profile);

static inline struct id128 fingerprints_stack(struct fingerprints *p, uint32_t stack)
{
    return id128_is_zero(p->stacks[stack]) ? fingerprints_make_stack(p, stack) : p->stacks[stack];
}

/* Adds one item to a fingerprint with one multiplication. For a fixed previous fingerprint, different items give
 * different results. */
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
