/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a store with everything that a server keeps beside its profiles: spans, symbol files, notes and other small files of
 * tenants, states of alerts. The copy is itself such a store. */
#ifndef SERVE_STORE_BACKUP_H
#define SERVE_STORE_BACKUP_H

#include "base/err.h"

struct span_index;
struct store;

struct store_backup {
    struct store *store;
    struct span_index *spans; /* may be NULL */
    const char *dir;          /* of the store */
    const char *to;           /* must not exist, or be empty */
};

/* Has everything that was acknowledged before the call. Reading and writing go on meanwhile. */
int store_backup_make(const struct store_backup *b, struct err *e);

#endif
