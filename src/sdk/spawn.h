/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper process that the host never notices: no SIGCHLD, nothing for its wait(), no atfork handlers, none of its files
 * or its LD_PRELOAD. Background thread only.
 */
#ifndef SDK_SPAWN_H
#define SDK_SPAWN_H

#include "base/buf.h"
#include "base/err.h"

/* Runs argv[0] (a path) and appends what it writes to its standard output to *out, until it closes it, at the latest
 * until deadline (clock_mono()): then it is killed and the result is -ETIMEDOUT. More than limit bytes: -E2BIG. pump, if
 * not NULL, is called now and then meanwhile. */
int spawn_read(const char *const *argv, size_t limit, int64_t deadline, void (*pump)(void), struct buf *out,
               struct err *e);

#endif
