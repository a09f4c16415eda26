/* SPDX-License-Identifier: Apache-2.0 */
/* The current stack of every thread, and the stack that started it, as in Go's goroutine and threadcreate profiles.
 * Background thread only. */
#ifndef SDK_THREAD_VIEW_H
#define SDK_THREAD_VIEW_H

#include "sdk/agg.h"

struct buf;

/* Adds one to the stack of each thread except our own. A sleeping thread is not woken: its stack is read from outside.
 * For a running thread the stack of its last CPU sample is used. */
void thread_view_now(struct agg *a);
/* By the stack that called pthread_create(); threads whose start was not seen have none. */
void thread_view_created(struct agg *a);
/* As human-readable text, one paragraph per thread, with the lines that were looked up before. */
void thread_view_print(struct buf *out);

#endif
