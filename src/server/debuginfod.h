/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files by build id from debuginfod servers (https://sourceware.org/elfutils/Debuginfod.html), with limits on how
 * often, how long and how much. Called on a thread of its own; waits.
 */
#ifndef SERVER_DEBUGINFOD_H
#define SERVER_DEBUGINFOD_H

#include <stdatomic.h>

#include "base/err.h"
#include "server/binary_store.h"

struct debuginfod_options {
    const char *const *urls; /* asked in order */
    uint32_t n_urls;
    int64_t timeout_ns; /* of one file */
    uint64_t max_bytes; /* of one file */
    int64_t per_minute; /* requests */
    const atomic_bool *stop;
};

struct debuginfod_rate {
    int64_t times[256]; /* of the last requests, monotonic; a ring */
    uint32_t n;
};

/* Into the store as a half-received shared file, whose path is ret_path. -ENOENT: no server has it; -EAGAIN: too often. */
int debuginfod_fetch(const struct debuginfod_options *o, struct debuginfod_rate *rate, struct binary_store *into,
                     struct str build_id, char ret_path[BINARY_PATH_SIZE], struct err *e);

#endif
