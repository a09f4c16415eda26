/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a selection with one branch for each value of a label, below frames of the kind QUERY_LABEL_FRAME. */
#ifndef QUERY_QUERY_GROUPS_H
#define QUERY_QUERY_GROUPS_H

#include "query/query.h"

enum { QUERY_LABEL_FRAME = 0x7f }; /* frame.kind of a value of a label */

/* The largest groups are branches of their own, all others are one branch with the name "(others)". The first name of
 * p->zoom is that of a group. p is not a diff. *ret is the caller's, to be freed with tree_free(). */
int query_flame_by(struct store *s, const struct query_params *p, struct str label, struct tree **ret, struct err *e);

#endif
