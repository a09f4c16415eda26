/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a frame in text formats, and its kind. */
#ifndef CODEC_FRAME_NAME_H
#define CODEC_FRAME_NAME_H

#include <stdbool.h>

#include "model/batch.h"

/* The number of frames of a location: its lines, or one if it has none. */
static inline uint32_t frame_count(const struct location *l)
{
    return l->lines.n ? l->lines.n : 1;
}

/* Appends the name of frame `line` of the location, 0 = innermost: function name, else system name, else as unnamed.h
 * says. */
void frame_name(const struct batch *b, uint32_t location, uint32_t line, struct buf *out);
/* profile.frame.type of a location, empty if it is not set. */
struct str frame_type(const struct batch *b, uint32_t location);

#endif
