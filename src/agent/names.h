/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of an object's code, on the host: symbol tables bounded by the symbols' sizes (never the nearest wrong name), Go's
 * own table with files and lines. Addresses are collected, then named in one pass over the file's tables, which are
 * mapped and not kept: what stays is a name per address that was seen. The agent's thread only.
 */
#ifndef AGENT_NAMES_H
#define AGENT_NAMES_H

#include "agent/object.h"
#include "base/arena.h"

struct object_names;

struct object_name {
    uint64_t address;       /* ELF */
    struct str system_name; /* as in the table; empty: none is known */
    struct str name;        /* for people */
    struct str file;        /* Go only */
    int64_t line, start_line;
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

#endif
