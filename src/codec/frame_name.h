/* SPDX-License-Identifier: Apache-2.0 */
/* What text formats call a frame, and what kind of frame it is. */
#ifndef CODEC_FRAME_NAME_H
#define CODEC_FRAME_NAME_H

#include <stdbool.h>

#include "model/batch.h"

/* Frames of a location: its lines, or one when it has none. */
static inline uint32_t frame_count(const struct location *l)
{
    return l->lines.n ? l->lines.n : 1;
}

/* Appends the name of frame `line` of the location, 0 = innermost: function name, else system name, else its address
 * as 0x..., else its binary as [file]. */
void frame_name(const struct batch *b, uint32_t location, uint32_t line, struct buf *out);
/* profile.frame.type of a location, empty when it is not said. */
struct str frame_type(const struct batch *b, uint32_t location);

#endif
