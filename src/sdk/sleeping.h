/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of a thread that sleeps in a system call, read without a signal: /proc shows its program counter and stack
 * pointer, and its memory is in our address space. Background thread only, as all of this.
 */
#ifndef SDK_SLEEPING_H
#define SDK_SLEEPING_H

#include "sdk/core.h"

/* Stores the frames of t in pc, leaf first; returns 0 if it is running, ran in the meantime, or the kernel does not
 * report its state. A frame that needs a register which only the thread itself can read ends the stack, and is marked
 * in *ret_flags (RECORD_CUT_RULE). */
uint32_t sleeping_walk(const struct thr *t, uint64_t *pc, uint32_t max, uint8_t *ret_flags, uint32_t *ret_generation);
/* How long a thread has been ready to run without a CPU, since it started; -1 if the kernel does not report it. */
int64_t sleeping_ready_ns(int tid);

#endif
