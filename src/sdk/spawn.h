/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper process that the host never notices: no SIGCHLD, nothing for its wait(), no atfork handlers; the helper gets
 * neither the host's file descriptors nor its LD_PRELOAD. Background thread only.
 */
#ifndef SDK_SPAWN_H
#define SDK_SPAWN_H

#include "base/buf.h"
#include "base/err.h"

/* Runs argv[0] (a path) and appends its standard output to *out until it closes that, at most until deadline
 * (clock_mono()): then it is killed and the result is -ETIMEDOUT. More than limit bytes: -E2BIG. pump, if not NULL, is
 * called from time to time while this waits. */
int spawn_read(const char *const *argv, size_t limit, int64_t deadline, void (*pump)(void), struct buf *out,
               struct err *e);

#endif
