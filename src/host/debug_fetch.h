/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files of sampled programs from debuginfod servers, for `wick record`. Files are kept in the cache that elfutils and
 * gdb use as well: $DEBUGINFOD_CACHE_PATH, else debuginfod_client in $XDG_CACHE_HOME or ~/.cache, as ID/debuginfo.
 */
#ifndef HOST_DEBUG_FETCH_H
#define HOST_DEBUG_FETCH_H

#include <stddef.h>

struct objects;

struct debug_fetch {
    const char *urls; /* separated by spaces, as in $DEBUGINFOD_URLS */
    void (*say)(void *ctx,
                const char *message); /* progress and failures, a line each, without its newline; may be NULL */
    void *ctx;
};

/* Makes the agent look for debug files in the cache. Called before sampling begins. */
void debug_fetch_use_cache(void);
/* Fetches what the sampled objects lack. Returns the number of files fetched; a file that cannot be fetched is reported by
 * say() and left out. */
size_t debug_fetch_missing(const struct debug_fetch *f, struct objects *objects);

#endif
