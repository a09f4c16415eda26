/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of an object's code, found on this host: from symbol tables, where a symbol covers only the addresses within
 * its size (the nearest symbol is never used beyond that), and from Go's own table with files, lines and inlined calls.
 * Addresses are collected, then named in one pass over the file's tables, which are mapped and not kept: only the names
 * of sampled addresses stay in memory. Lines and inlined calls of debug information are added later (object_lines.h).
 * The agent's thread only.
 */
#ifndef AGENT_NAMES_H
#define AGENT_NAMES_H

#include "agent/object.h"
#include "base/arena.h"

struct object_names;

struct object_frame {
    struct str name;        /* demangled */
    struct str system_name; /* as in the table */
    struct str file;        /* empty: not known */
    int32_t line, start_line;
};

struct object_name {
    uint64_t address;                  /* ELF */
    const struct object_frame *frames; /* innermost inlined call first */
    uint32_t n_frames;                 /* 0: no name was found */
};

/* Requests the name of an address; it is available after object_names_resolve(). 0 or -ENOMEM. */
int object_names_want(struct object *o, uint64_t address);
/* Names the addresses that were requested and have no name yet. */
void object_names_resolve(struct object *o);
/* The name of an address; NULL when there is none. Valid until the next call that adds one. */
const struct object_name *object_names_find(const struct object *o, uint64_t address);
/* How many addresses have no name, of how many. */
size_t object_names_missing(const struct object *o, size_t *ret_all);
/* Whether something waits for object_names_resolve(). */
bool object_names_pending(const struct object *o);
void object_names_free(struct object_names *n);
size_t object_names_memory(const struct object *o); /* bytes */

/* Returns up to max addresses whose lines were not requested yet, and marks them as requested. Returns their number. */
uint32_t object_names_unlined(struct object *o, uint64_t *ret, uint32_t max);
/* Whether there are such addresses. */
bool object_names_has_unlined(const struct object *o);
/* Replaces the frames of an address by those from debug information, which are copied. 0, also when the address is no
 * longer known, or -ENOMEM. */
int object_names_set(struct object *o, uint64_t address, const struct object_frame *frames, uint32_t n);

#endif
