/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for locks. The hooks (lock_hooks.c) try first and come here only when they had to wait. */
#ifndef SDK_LOCK_H
#define SDK_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern _Atomic bool lock_on;

/* The calling thread waited ns for a lock. */
void lock_waited(int64_t ns);
/* The calling thread is libwick's own: its waits are in no profile. */
void lock_exclude_thread(void);

#endif
