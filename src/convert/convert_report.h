/* SPDX-License-Identifier: Apache-2.0 */
/* The report formats of `wick convert`: flame graphs as HTML and SVG, and callgrind. */
#ifndef CONVERT_CONVERT_REPORT_H
#define CONVERT_CONVERT_REPORT_H

#include "base/buf.h"
#include "base/err.h"
#include "model/batch.h"

/* What a flame graph shows: one sample type of a profile. */
struct convert_view {
    const struct batch *batch;
    const struct profile *profile;
    uint32_t type;
    const char *title;
};

/* Writes it as a self-contained flame graph, compared with the same type of the profile in base_path
 * (or NULL). */
int convert_html(const struct convert_view *v, const char *base_path, struct buf *out, struct err *e);
/* The same as a static SVG file. */
int convert_svg(const struct convert_view *v, struct buf *out, struct err *e);
/* Whether the two profiles of b are CPU time and off-CPU time: their sum is the time that the threads existed. */
bool convert_shows_together(const struct batch *b);
/* One flame graph of both, each below a frame that says what it is. */
int convert_together(const struct batch *b, const char *title, bool svg, struct buf *out, struct err *e);
int convert_callgrind(struct batch *b, const struct profile *p, uint32_t type, struct buf *out, struct err *e);

#endif
