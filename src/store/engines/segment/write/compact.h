/* SPDX-License-Identifier: Apache-2.0 */
/* Between compact.c and compact_copy.c: segments on their way into another. */
#ifndef SEGMENT_COMPACT_H
#define SEGMENT_COMPACT_H

#include <errno.h>

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
    bool *damaged;         /* per input: some of it could not be read */
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

/* Reading failed: the disk's own errors are damage as wrong checksums are. */
static inline int compact_read_error(int r)
{
    return r == -EIO || r == -ENODATA ? -EBADMSG : r;
}
/* Windows whose chunks are all in one input need not be taken apart. */
bool compact_can_copy(const struct rewriting *x, uint32_t from, uint32_t to);
/* Part of an input cannot be read: it is reported and left out, and lost/ gets a copy of the input. 0, or r where it is no
 * damage. */
int compact_damage(struct rewriting *x, uint32_t input, int r, struct err *e);
/* Entries [from, to) are such a window. */
int compact_copy(struct rewriting *x, uint32_t from, uint32_t to, struct err *e);

#endif
