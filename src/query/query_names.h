/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of store.h whose answers have frames, with the step that names what is nameless (names.h): the same
 * parameters and the same result as the store's own operations. The source is q->names; without one, or with an engine
 * that takes no names, the question goes to the store unchanged.
 */
#ifndef QUERY_QUERY_NAMES_H
#define QUERY_QUERY_NAMES_H

#include "query/query.h"
#include "store/store_cube.h"

int named_select(struct store *s, struct names *names, const struct store_query *q, struct tree **ret,
                 struct store_notes *notes, struct err *e);
int named_table(struct store *s, struct names *names, const struct store_query *q, const struct store_table_query *tq,
                struct store_table *ret, struct store_notes *notes, struct err *e);
int named_callers(struct store *s, struct names *names, const struct store_query *q, struct str function,
                  struct tree **ret_callers, struct tree **ret_callees, struct store_notes *notes, struct err *e);
int named_windows(struct store *s, struct names *names, const struct store_query *q, uint32_t n,
                  struct store_windows *ret, struct store_notes *notes, struct err *e);
/* Notes go to q->notes, which must be set. */
int named_cube(struct store *s, struct names *names, const struct store_query *q, const struct store_cube_query *cq,
               struct store_cube *ret, struct err *e);
int named_export(struct store *s, struct names *names, const struct store_query *q, store_batch_fn fn, void *ctx,
                 struct err *e);

#endif
