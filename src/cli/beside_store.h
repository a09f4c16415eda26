/* SPDX-License-Identifier: Apache-2.0 */
/* The span index beside a store that is in a directory, for `wick store`: DIR/spans. */
#ifndef CLI_BESIDE_STORE_H
#define CLI_BESIDE_STORE_H

#include <stdbool.h>

#include "base/err.h"

struct span_index;

/* Opens the index of the store in dir; *ret is NULL if the store has none. */
int store_spans_open(const char *dir, bool read_only, struct span_index **ret, struct err *e);

#endif
