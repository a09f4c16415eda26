/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers of query.h as JSON, the same for `wick query --json` and the HTTP API. Times are Unix nanoseconds
 * as decimal strings, since they exceed 2^53; values are numbers. */
#ifndef QUERY_QUERY_JSON_H
#define QUERY_QUERY_JSON_H

#include "base/buf.h"
#include "query/query.h"

/* Appends ,"notes":{...} when there are notes, else nothing. */
void query_notes_json(struct buf *out, const struct store_notes *n);
/* {"callers":…,"callees":…,"total":…}: two trees, and the sum of the whole selection. */
void query_callers_json(struct buf *out, const struct store_callers *c);
void query_table_json(struct buf *out, const struct query_table *t, const struct store_notes *n);
void query_names_json(struct buf *out, const struct query_names *n);
void query_label_names_json(struct buf *out, const struct query_names *n); /* [{"name":…,"slow":true}] */
void query_services_json(struct buf *out, const struct query_services *l);
void query_profiles_json(struct buf *out, const struct query_profiles *l);
void query_points_json(struct buf *out, const struct store_points *p, const int64_t *covered, const int64_t *each,
                       const struct store_notes *n);
/* ,"rate":19 or, when it changed, ,"rate":[10,19]; nothing when it is not known. */
void query_rate_json(struct buf *out, const struct store_notes *n);
void query_coverage_json(struct buf *out, const int64_t *covered, uint32_t n_columns);
void query_leaks_json(struct buf *out, const struct query_leaks *l, const struct store_notes *n);
void query_binaries_json(struct buf *out, const struct query_binaries *b, const struct store_notes *n);
void query_labels_json(struct buf *out, const struct labels *l); /* {"name":"value"} */

#endif
