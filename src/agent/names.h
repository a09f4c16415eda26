/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of an object's code, on the host: symbol tables bounded by the symbols' sizes (never the nearest wrong name), Go's
 * own table with files, lines and inlined calls. Addresses are collected, then named in one pass over the file's tables,
 * which are mapped and not kept: what stays is what is known of each address that was seen. Lines and inlined calls of
 * debug information are added later (object_lines.h). The agent's thread only.
 */
#ifndef AGENT_NAMES_H
#define AGENT_NAMES_H

#include "agent/object.h"
#include "base/arena.h"

struct object_names;

struct object_frame {
    struct str name;        /* for people */
    struct str system_name; /* as in the table */
    struct str file;        /* empty: not known */
    int32_t line, start_line;
};

struct object_name {
    uint64_t address;                  /* ELF */
    const struct object_frame *frames; /* innermost inlined call first */
    uint32_t n_frames;                 /* 0: nothing is known */
};

/* Asks for an address; its name is there after object_names_resolve(). 0 or -ENOMEM. */
int object_names_want(struct object *o, uint64_t address);
/* Names what was asked for and has none yet. */
void object_names_resolve(struct object *o);
/* What is known of an address; NULL when nothing is. Valid until the next call that adds. */
const struct object_name *object_names_find(const struct object *o, uint64_t address);
/* Whether something waits for object_names_resolve(). */
bool object_names_pending(const struct object *o);
void object_names_free(struct object_names *n);
size_t object_names_memory(const struct object *o); /* bytes */

/* Addresses whose lines were not asked for yet, at most max of them; from now on they were. How many. */
uint32_t object_names_unlined(struct object *o, uint64_t *ret, uint32_t max);
/* Whether there are such. */
bool object_names_has_unlined(const struct object *o);
/* What debug information says of an address, instead of what was known. Copied; 0, also when nobody asks for the address
 * any more, or -ENOMEM. */
int object_names_set(struct object *o, uint64_t address, const struct object_frame *frames, uint32_t n);

#endif
