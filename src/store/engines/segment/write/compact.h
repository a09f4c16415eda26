/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by compact.c and compact_copy.c: the state of a rewrite of segments. */
#ifndef SEGMENT_COMPACT_H
#define SEGMENT_COMPACT_H

#include <errno.h>

#include "store/engines/segment/engine.h"

/* An entry of an input's five-minute directory. */
struct rewrite_entry {
    uint32_t input;
    struct dir_entry d;
};

struct rewriting {
    struct engine *g;
    const struct rewrite *w;
    struct snapshot *snap; /* its deletions: at least those that the output's log number hides from readers */
    bool whole;            /* nothing is omitted */
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

/* A read failed: I/O errors of the disk are treated as damage, like wrong checksums. */
static inline int compact_read_error(int r)
{
    return r == -EIO || r == -ENODATA ? -EBADMSG : r;
}
/* Whether all chunks of the window are in one input, so that they can be copied without decoding. */
bool compact_can_copy(const struct rewriting *x, uint32_t from, uint32_t to);
/* A part of an input cannot be read: reports it and omits it, and lost/ gets a copy of the input. Returns 0, or r if it
 * is not damage. */
int compact_damage(struct rewriting *x, uint32_t input, int r, struct err *e);
/* Copies entries [from, to), which are such a window. */
int compact_copy(struct rewriting *x, uint32_t from, uint32_t to, struct err *e);

#endif
