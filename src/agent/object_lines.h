/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and inlined calls from debug information, from a symbolizer (model/symbolizer.h) that is a separate process.
 * Requests are made only for objects that have debug information, and only for sampled addresses; the results go into
 * the object's names, for later batches.
 *
 * Without a budget (wick record) object_lines_all() waits for the answers, and sends no more requests after 15 s: the
 * remaining addresses keep the names of the symbol table. With a budget (wick agent) nothing waits: object_lines_step()
 * reads an available answer and sends the next request if there is CPU time left in the budget; there is at most one
 * request per object and minute, and the symbolizer process ends when there is nothing more to request. The agent's
 * thread only.
 */
#ifndef AGENT_OBJECT_LINES_H
#define AGENT_OBJECT_LINES_H

#include <stdint.h>

struct object_lines;
struct objects;
struct symbolizer;

struct object_lines_options {
    struct symbolizer *symbolizer; /* owned by the caller */
    double cpu;                    /* part of one CPU's time that it may use over a minute */
    int64_t credit_ns;             /* what it may use beyond that at once; also the initial credit */
};

int object_lines_new(const struct object_lines_options *o, struct object_lines **ret);
void object_lines_free(struct object_lines *l);
/* New addresses were named: there may be something to request. */
void object_lines_wake(struct object_lines *l);
void object_lines_step(struct object_lines *l, struct objects *objects, uint64_t now_ns);
void object_lines_all(struct object_lines *l, struct objects *objects);
/* CPU time spent so far. */
uint64_t object_lines_cpu_ns(const struct object_lines *l);

#endif
