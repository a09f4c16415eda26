/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and inlined calls from debug information, by a symbolizer (model/symbolizer.h) that is a process of its own. Only
 * objects that have some are asked about, and only addresses that were sampled; what is known goes into the object's
 * names, for the batches that follow.
 *
 * Without a budget (wick record) object_lines_all() waits for the answers, and asks no more after 15 s:
 * what is left keeps the names of its symbol table. With one (wick agent) nothing waits: object_lines_step()
 * takes an answer that is there and asks the next question when there is CPU time left to spend on it; an object is asked
 * about once a minute at most, and the process ends when there is nothing to ask. The agent's thread only.
 */
#ifndef AGENT_OBJECT_LINES_H
#define AGENT_OBJECT_LINES_H

#include <stdint.h>

struct object_lines;
struct objects;
struct symbolizer;

struct object_lines_options {
    struct symbolizer *symbolizer; /* stays the caller's */
    double cpu;                    /* part of one CPU's time that it may take over a minute */
    int64_t credit_ns;             /* what it may take beyond that at once, as in the beginning */
};

int object_lines_new(const struct object_lines_options *o, struct object_lines **ret);
void object_lines_free(struct object_lines *l);
/* New addresses were named: there may be something to ask. */
void object_lines_wake(struct object_lines *l);
void object_lines_step(struct object_lines *l, struct objects *objects, uint64_t now_ns);
void object_lines_all(struct object_lines *l, struct objects *objects);
/* CPU time that was spent so far. */
uint64_t object_lines_cpu_ns(const struct object_lines *l);

#endif
