/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames seen by this process: (file, ELF address), numbered, each with the name of its function once it has been
 * looked up. Append-only and bounded; frame 0 is "[truncated]". Background thread only.
 */
#ifndef SDK_FRAME_TABLE_H
#define SDK_FRAME_TABLE_H

#include "base/str.h"
#include "sdk/core.h"
#include "sdk/line_query.h"

enum { FRAMES_MAX = 1 << 18, FRAME_TRUNCATED = 0, FRAME_PARKED = 1, FRAME_CUT = 2, FRAME_UNSEEN = 3 };

#define FRAME_EXTERNAL UINT32_MAX /* its address is a number of ext_frames.h */

struct sdk_frame {
    uint32_t file;            /* modules_file(); 0 = outside all objects; or FRAME_EXTERNAL */
    bool asked;               /* a name has been looked up */
    bool lines_asked;         /* lines have been looked up */
    uint64_t address;         /* ELF address of the instruction (of the call, not after it) */
    struct str name;          /* empty if there is none */
    uint64_t start;           /* ELF address of the function, 0 if not known */
    struct line_answer lines; /* n = 0 if there are none */
};

/* Numbers for program counters as ring_record.pc has them, leaf first. Returns n. */
uint32_t frames_resolve(const uint64_t *pc, uint32_t n, uint32_t generation, uint32_t *ret);
const struct sdk_frame *frame_at(uint32_t id);
uint32_t frames_count(void);
const char *frame_file(const struct sdk_frame *f); /* the path of its object, "" if it has none */
/* Looks up the names of these frames, file by file. */
void frames_name(const uint32_t *ids, uint32_t n);
/* Looks up the lines and inlined calls of these frames until deadline, if `wick symbolize` is available. Returns the
 * number of frames asked about. */
uint32_t frames_find_lines(const uint32_t *ids, uint32_t n, int64_t deadline, void (*pump)(void));

#endif
