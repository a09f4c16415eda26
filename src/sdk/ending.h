/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a profiled process ends. wick's thread must not keep a process alive, change its exit status, or noticeably delay
 * its end; and the samples taken so far should be sent or written before the process is gone.
 */
#ifndef SDK_ENDING_H
#define SDK_ENDING_H

#include <stdbool.h>
#include <stdint.h>

struct wick_provider;

enum {
    ENDING_EXPORT_MS = 1000, /* for the last export, when the process is about to end: a collector may never answer */
    ENDING_FILE_MS = 5000,   /* for the last file and export together */
};

/*
 * Asks the background thread for a last flush and waits for it, at most ms milliseconds. Async-signal-safe: it takes no
 * lock and allocates nothing. False if the flush was not finished in time.
 */
bool ending_flush(unsigned ms);

/* --- for the background thread --- */
/* True once for each request of ending_flush(). The caller flushes and then calls ending_flushed(). */
bool ending_flush_wanted(void);
void ending_flushed(void);
/* The time on CLOCK_MONOTONIC at which an export that may last until deadline has to give up. */
int64_t ending_deadline(int64_t deadline);
/* From now on no export lasts longer than ms milliseconds. */
void ending_hurry(unsigned ms);
/* At a start, and in a forked child: clears pending requests and deadlines. */
void ending_reset(void);
/* True if the calling thread is the only one of the process that is still running. */
bool ending_alone(void);

#endif
