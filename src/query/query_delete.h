/* SPDX-License-Identifier: Apache-2.0 */
/* Deleting what a selector matches: profiles in the store, and spans in the span index. */
#ifndef QUERY_QUERY_DELETE_H
#define QUERY_QUERY_DELETE_H

#include "base/err.h"

struct span_index;
struct store;
struct store_column;

/*
 * A selector without a type means everything of its services: profiles of every type, and spans. The type `spans` means
 * spans alone, any other type only profiles of that type. A span has the labels service.name, service.version and
 * service.instance.id, and matches as a profile with only these would. x may be NULL.
 */
int query_delete(struct store *s, struct span_index *x, const char *tenant, const struct store_column *what,
                 struct err *e);

#endif
