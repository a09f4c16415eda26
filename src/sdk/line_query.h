/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and inlined calls of addresses, from a `wick symbolize` beside us or on the PATH: libwick itself reads symbol
 * tables only. WICK_SYMBOLIZE names the program, or "off". Background thread only.
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

/* Asks for n addresses of one file; *ret[i] is left alone where nothing is known. Strings and lines go into the arena.
 * How many were answered, or a negative errno: -ENOENT when there is no such program. */
int line_query(const char *path, const uint64_t *addresses, uint32_t n, int64_t deadline, void (*pump)(void),
               struct arena *arena, struct line_answer *ret);

#endif
