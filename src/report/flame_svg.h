/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree as one SVG file: a static flame graph for documents and issues, without scripts. Each frame has its name, value
 * and share as a tooltip. Names are text: markup and control characters in them are escaped.
 */
#ifndef REPORT_FLAME_SVG_H
#define REPORT_FLAME_SVG_H

#include "base/buf.h"
#include "base/err.h"

struct tree;

/* Draws column 0 of a tree whose totals are summed up. Frames narrower than a quarter of a pixel are left out. */
int svg_flame(const struct tree *t, struct str title, struct buf *out, struct err *e);

#endif
