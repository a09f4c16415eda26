/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a copied stack to its end, with the tables of the objects that its process has mapped (stack_walk.h). What the walk
 * touches is loaded into the BPF maps, so that the next walk of this process does not need a copy. The agent's thread only.
 */
#ifndef AGENT_COPY_WALK_H
#define AGENT_COPY_WALK_H

#include "agent/process.h"
#include "unwind/rows.h"

struct agent_event;
struct agent_stack;
struct row_store;
struct stack_words;

struct copy_walk {
    struct processes *processes;
    struct objects *objects;
    struct row_store *rows; /* NULL without BPF */
    struct code_memo *memo;
    uint64_t now_ns;
};

/* What the code of objects showed: reading it takes longer than all else. By the number of the object and ELF address. */
struct code_memo {
    struct code_known {
        uint32_t object; /* 0: empty */
        bool called, found;
        uint64_t address;
        struct unwind_rule rule;
    } v[1024];
};

/* Appends to `to`. */
enum agent_end copy_walk(const struct copy_walk *w, struct process *p, const struct agent_event *e,
                         const struct agent_stack *s, struct stack_words *to);

/* A stack whose last word is in the start code of a program or its loader is complete, although no unwind rule says so. */
enum agent_end copy_walk_judge(struct processes *s, struct process *p, uint64_t last, enum agent_end end);

#endif
