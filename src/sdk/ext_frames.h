/* SPDX-License-Identifier: Apache-2.0 */
/* Frames interned by ext.h, as the frame table reads them. */
#ifndef SDK_EXT_FRAMES_H
#define SDK_EXT_FRAMES_H

#include <stdbool.h>

#include "base/str.h"
#include "sdk/ext.h"
#include "sdk/line_query.h"

#define EXT_FRAMES_TAG (0xe7e0ull << 48) /* not a valid user-space address on x86-64 or arm64 */

struct ext_frame {
    struct frame_line line;
    struct str kind;
};

static inline bool ext_frames_is(uint64_t pc)
{
    return (pc & (0xffffull << 48)) == EXT_FRAMES_TAG;
}

/* A frame that gets its name later, from the namer. */
static inline bool ext_frames_is_late(uint64_t pc)
{
    return (pc & (0xffffull << 48)) == WICK_EXT_LATE;
}

void ext_frames_set_namer(wick_ext_namer *namer);
/* Asks the namer; returns the number of the interned frame, 0 if it has no name. Background thread only. */
uint64_t ext_frames_name_late(uint64_t pc);
/* The frame with this number, NULL if there is none. Any thread; the frame is never moved. */
const struct ext_frame *ext_frames_at(uint64_t number);
/* Around fork(). */
void ext_frames_fork_prepare(void);
void ext_frames_fork_done(void);

#endif
