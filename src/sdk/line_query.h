/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and inlined calls of addresses, from a `wick symbolize` next to this library or on the PATH: libwick itself
 * reads symbol tables only. WICK_SYMBOLIZE names the program, or is "off". Background thread only.
 */
#ifndef SDK_LINE_QUERY_H
#define SDK_LINE_QUERY_H

#include "base/arena.h"
#include "base/str.h"

struct frame_line {
    struct str function, system_name, file;
    int64_t line, start_line;
};

struct line_answer {
    uint32_t n;
    const struct frame_line *v; /* innermost inlined call first */
};

struct line_request {
    const char *path;
    const uint64_t *addresses;
    uint32_t n;
    int64_t deadline;
    void (*pump)(void); /* called while waiting */
};

/* Queries the addresses of one file; ret[i] is left unchanged where nothing is known. Strings and lines are allocated in
 * the arena. Returns how many were answered, or a negative errno: -ENOENT if the program was not found. */
int line_query(const struct line_request *q, struct arena *arena, struct line_answer *ret);

#endif
