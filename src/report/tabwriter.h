/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic columns as Go's text/tabwriter makes them with (0, 0, 1, ' ', AlignRight): a cell ends with a tab; cells of the
 * same column in consecutive lines are as wide as the widest plus one blank; the last cell of a line belongs to no column.
 */
#ifndef REPORT_TABWRITER_H
#define REPORT_TABWRITER_H

#include "base/buf.h"

/* Appends text (lines with tabs) to out, aligned. */
int tabwriter_format(struct str text, struct buf *out);

#endif
