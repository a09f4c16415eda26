/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the store that a running server makes, for POST /api/v1/snapshot: serve/serve_snapshot.c implements it. */
#ifndef SERVER_SNAPSHOTS_H
#define SERVER_SNAPSHOTS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct snapshots {
    /* Makes one and appends {"name", "dir", "bytes"}. store: empty, or the directory that the caller means; another one is refused.
     * Takes as long as copying does; any thread. */
    int (*make)(void *ctx, struct str store, struct buf *out, struct err *e);
    void *ctx;
};

#endif
