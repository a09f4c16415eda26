/* SPDX-License-Identifier: Apache-2.0 */
/* The reports that show source and instructions: list, weblist, disasm. */
#ifndef REPORT_SOURCE_H
#define REPORT_SOURCE_H

#include "report/objects.h"
#include "report/report.h"

/* -ENOENT with pprof's error message when nothing matches. */
int report_list(struct report *r, struct buf *out, struct err *e);
/* One HTML page. Without binaries (or with objects == NULL) it shows only the source. */
int report_weblist(struct report *r, struct report_objects *objects, struct buf *out, struct err *e);
int report_disasm(struct report *r, struct report_objects *objects, struct buf *out, struct err *e);

/* An expression that is a number is also used as an address. */
bool source_parse_address(struct str s, uint64_t *ret);

#endif
