/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JavaScript frames of a stopped process with V8 (Node), for `wick dump`: interpreted, baseline and optimised code alike. A
 * frame of JavaScript has its function at a fixed place below its frame pointer; from the function V8's objects lead to its
 * name and its script. V8 itself describes their layout (v8_symbols.h). The memory may hold anything: every object is
 * checked by its type before it is used.
 */
#ifndef AGENT_DUMP_V8_H
#define AGENT_DUMP_V8_H

#include "agent/v8_symbols.h"
#include "base/arena.h"
#include "base/str.h"
#include "proc/proc_memory.h"

struct dump_v8 {
    int32_t v[V8_VALUES_N];
};

struct dump_v8_frame {
    struct str function; /* "(anonymous)" when it has no name; in the arena */
    struct str file;     /* of its script; {NULL}: not known */
};

/* Reads the values. 0, or a negative errno when they make no sense. bias: of the mapping of the binary. */
int dump_v8_read(const struct v8_symbols *s, uint64_t bias, const struct proc_memory *m, struct dump_v8 *ret);
/* The function of the frame with this frame pointer; false when it is not one of JavaScript. */
bool dump_v8_frame(const struct dump_v8 *v, const struct proc_memory *m, uint64_t fp, struct arena *a,
                   struct dump_v8_frame *ret);

#endif
