/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callers and callees of a function in a tree, shared by all engines. Both answers have the function as the only
 * child of their root. Recursion counts once: only the outermost call on a path counts.
 */
#ifndef STORE_STORE_CALLERS_H
#define STORE_STORE_CALLERS_H

#include "model/tree.h"
#include "store/store.h"

/* store_ops.callers for engines that have nothing better than the tree of select. */
int callers_by_select(struct store *s, const struct store_query *q, struct str function, struct store_callers *ret,
                      struct err *e);
/* Computes totals of an assembled answer and prunes it. Consumes t. */
int callers_finish(struct tree *t, struct str type, struct str unit, uint32_t max_nodes, struct tree **ret);

#endif
