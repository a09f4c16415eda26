/* SPDX-License-Identifier: Apache-2.0 */
/* Between compact.c and compact_copy.c: segments on their way into another. */
#ifndef SEGMENT_COMPACT_H
#define SEGMENT_COMPACT_H

#include "store/engines/segment/engine.h"

/* An entry of an input's directory of five minutes. */
struct rewrite_entry {
    uint32_t input;
    struct dir_entry d;
};

struct rewriting {
    struct engine *g;
    const struct rewrite *w;
    struct snapshot *snap; /* deletions of now: at least those that the output's log does not let readers apply */
    bool whole;            /* nothing is left out */
    struct segment_writer *out;
    struct blob_remap *maps; /* per input */
    struct rewrite_traces {
        const unsigned char *ids;
        uint32_t n, *numbers, n_numbered; /* the output's numbers of the first n_numbered */
    } * traces;                           /* per input */
    struct arena arena;                   /* for them */
    struct rewrite_entry *entries;        /* by window, input, chunk */
    size_t cap;
    uint32_t n;
};

/* Windows whose chunks are all in one input need not be taken apart. */
bool compact_can_copy(const struct rewriting *x, uint32_t from, uint32_t to);
/* Entries [from, to) are such a window. Damage is told of and left out. */
int compact_copy(struct rewriting *x, uint32_t from, uint32_t to, struct err *e);

#endif
