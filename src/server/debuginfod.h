/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches debug files by build id from debuginfod servers (https://sourceware.org/elfutils/Debuginfod.html), with
 * limits on rate, time and size. Blocks; called on a thread of its own.
 */
#ifndef SERVER_DEBUGINFOD_H
#define SERVER_DEBUGINFOD_H

#include <stdatomic.h>

#include "base/err.h"
#include "server/binary_store.h"

struct debuginfod_options {
    const char *const *urls; /* tried in order */
    uint32_t n_urls;
    int64_t timeout_ns; /* per file */
    uint64_t max_bytes; /* per file */
    int64_t per_minute; /* requests */
    const atomic_bool *stop;
};

struct debuginfod_rate {
    int64_t times[256]; /* ring of the times of the last requests, monotonic */
    uint32_t n;
};

/* Fetches into the store as a shared file that is not yet accepted, whose path is ret_path. -ENOENT: no server has it;
 * -EAGAIN: the rate limit was reached. */
int debuginfod_fetch(const struct debuginfod_options *o, struct debuginfod_rate *rate, struct binary_store *into,
                     struct str build_id, char ret_path[BINARY_PATH_SIZE], struct err *e);

#endif
