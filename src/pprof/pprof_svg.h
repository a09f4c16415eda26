/* SPDX-License-Identifier: Apache-2.0 */
/* Adapts graphviz's SVG for a browser: full size, panned with the mouse, zoomed with the wheel. */
#ifndef PPROF_PPROF_SVG_H
#define PPROF_PPROF_SVG_H

#include "base/buf.h"

void pprof_svg_script(struct str svg, struct buf *out);

#endif
