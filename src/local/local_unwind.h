/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinds the stacks that `perf record --call-graph dwarf` copied, with the unwind tables of this machine's binaries. */
#ifndef LOCAL_LOCAL_UNWIND_H
#define LOCAL_LOCAL_UNWIND_H

#include "base/buf.h"
#include "codec/perf_data.h"

struct local_objects;

enum { LOCAL_MISSING_NAME = 64 };

struct local_unwind {
    struct perf_unwinder unwinder;
    struct local_objects *objects;
    int64_t written_ns; /* when perf.data was written; 0: not known */
    uint64_t stacks, deep, missing,
        unknown;                           /* all; of those cut: by the copy's end, by a lack of the binary, of rules */
    uint64_t inferred;                     /* of all: a caller was found without call frame information */
    char missing_name[LOCAL_MISSING_NAME]; /* the first binary that is missing */
};

void local_unwind_init(struct local_unwind *u, struct local_objects *objects, int64_t written_ns);
/* Appends a sentence about the stacks that are not whole; nothing if all are. */
void local_unwind_say(const struct local_unwind *u, struct buf *out);

#endif
