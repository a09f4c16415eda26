/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of store.h whose answers have frames, with the step that looks up missing names (names.h): the same
 * parameters and the same result as the store's own operations. The source is q->names; without one, or with an engine
 * that takes no names, the question goes to the store unchanged.
 */
#ifndef QUERY_QUERY_NAMES_H
#define QUERY_QUERY_NAMES_H

#include "query/query.h"
#include "store/store_cube.h"

/* Who answers: names may be NULL. */
struct named_store {
    struct store *store;
    struct names *names;
};

int named_select(const struct named_store *n, const struct store_query *q, struct tree **ret, struct err *e);
int named_table(const struct named_store *n, const struct store_query *q, const struct store_table_query *tq,
                struct store_table *ret, struct err *e);
int named_callers(const struct named_store *n, const struct store_query *q, struct str function,
                  struct store_callers *ret, struct err *e);
int named_windows(const struct named_store *n, const struct store_query *q, uint32_t windows, struct store_windows *ret,
                  struct err *e);
int named_cube(const struct named_store *n, const struct store_query *q, const struct store_cube_query *cq,
               struct store_cube *ret, struct err *e);
int named_export(const struct named_store *n, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e);

#endif
