/* SPDX-License-Identifier: Apache-2.0 */
/* Every thread where it is now, and where it was started, as Go's goroutine and threadcreate. Background thread only. */
#ifndef SDK_THREAD_VIEW_H
#define SDK_THREAD_VIEW_H

#include "sdk/agg.h"

struct buf;

/* Adds one to the stack of each thread but our own. A sleeping thread is not woken: its stack is read from outside. One
 * that runs is where its last CPU sample was. */
void thread_view_now(struct agg *a);
/* By the stack that called pthread_create(); those that nobody saw starting have none. */
void thread_view_created(struct agg *a);
/* As text, a paragraph a thread, for people; with the lines that were asked for before. */
void thread_view_print(struct buf *out);

#endif
