/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges for the objects of a file that pprof reads. Tools key lines and instructions by address alone, so that
 * each object needs a range of its own, also in a profile of many processes, whose real ranges overlap. The ranges are
 * therefore chosen here, as a loader could have: within an object, addresses keep their distance.
 *
 *   the program       where it is linked, or from OBJECT_PLACE_PROGRAM on if it can be loaded anywhere
 *   other objects     from OBJECT_PLACE_FIRST on, in steps of 2 MiB
 *   the kernel        OBJECT_PLACE_KERNEL to the end, with an offset that is equal to its start
 *
 * The code of an object may lie at another ELF address than offset in its file (what lld links): then the mapping has the
 * difference as its skew, for readers that do not have the file. An object with several such differences gets no range and
 * keeps its ELF addresses.
 */
#ifndef AGENT_OBJECT_PLACE_H
#define AGENT_OBJECT_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct object;

#define OBJECT_PLACE_PROGRAM 0x555555554000ull
#define OBJECT_PLACE_FIRST 0x7f0000000000ull
#define OBJECT_PLACE_KERNEL 0xffff800000000000ull

struct object_place {
    uint64_t bias;                                     /* address = ELF address + bias */
    uint64_t start, limit, offset;                     /* of the mapping; all 0: it has no range */
    uint64_t skew;                                     /* ELF address less file offset */
    bool has_functions, has_files, has_lines, inlines; /* what is known of its addresses */
};

/* Chooses the range of one object. *next is where the one after it goes; OBJECT_PLACE_FIRST at first. */
void object_place_choose(const struct object *o, bool is_program, uint64_t *next, struct object_place *ret);

#endif
