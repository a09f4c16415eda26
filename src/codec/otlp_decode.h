/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the protobuf decoder, shared by its two files: dictionary and body. */
#ifndef CODEC_OTLP_DECODE_H
#define CODEC_OTLP_DECODE_H

#include "codec/otlp_scan.h"
#include "codec/otlp_value.h"

struct otlp_decoder {
    struct batch *b; /* its tables are allocated by count; its n_* are the numbers of entries filled */
    struct otlp_values values;
    struct otlp_table mappings, functions, locations, stacks, links, attrs;
    struct value_type *types; /* one per profile */
    size_t cap_indices, cap_lines;
    size_t memory, used; /* bytes of tables and pools: the limit, and used so far */
    uint32_t empty;      /* lines of locations that the scan did not examine */
    struct wire_err w;
};

/* The contents of batch.owned: one block of tables with the pools at its end, and pools that outgrew it. */
enum { OWNED_BLOCK, OWNED_INDICES, OWNED_LINES };

/* A pool of elements that can outgrow the block. */
struct otlp_pool {
    int owned;      /* its slot in batch.owned once it has */
    void *elements; /* address of the pointer to the elements */
    size_t *cap;
    size_t n, size; /* elements, and bytes of each */
};

/* Makes room for `need` elements. -EFBIG over the limit, -ENOMEM. */
int otlp_grow_pool(struct otlp_decoder *d, const struct otlp_pool *pool, size_t need);

/* Appends the elements of a repeated number field (WIRE_LIST_OF) to the pool of indices as references into t; `next` is
 * the position after the field. No other run may be appended to between the elements of one run. */
int otlp_decode_refs(struct otlp_decoder *d, const struct wire_field *f, const uint8_t *next,
                     const struct otlp_table *t, const char *field, struct run *run);
/* The bytes of an id: either absent, or all n of them. */
int otlp_decode_id(struct otlp_decoder *d, const struct wire_field *f, const char *field, uint8_t *ret, size_t n);
/* Decode the strings of the dictionary message, and then everything else in it. */
int otlp_decode_strings(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end);
int otlp_decode_dictionary(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end);

#endif
