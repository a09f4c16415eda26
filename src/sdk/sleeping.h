/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of a thread that sleeps in a system call, without a signal: /proc tells its program counter and stack pointer,
 * and its memory is ours. Background thread only.
 */
#ifndef SDK_SLEEPING_H
#define SDK_SLEEPING_H

#include "sdk/core.h"

/* Frames of t into pc, leaf first; 0 when it runs, or ran meanwhile, or the kernel does not tell. A frame that needs a
 * register which only the thread knows ends the stack, and is marked in *ret_flags (RECORD_CUT_RULE). */
uint32_t sleeping_walk(const struct thr *t, uint64_t *pc, uint32_t max, uint8_t *ret_flags, uint32_t *ret_generation);

#endif
