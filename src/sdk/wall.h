/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wall-clock time without waking threads. Running time comes from the CPU timers. Waiting time is measured by the hooks
 * around blocking calls (wall_hooks.c); while a call lasts, the background thread reads the stack that the blocked
 * thread published. Other waiting time follows from the clocks: it is added to the stacks of the system calls that looks find the thread
 * asleep in (sleeping.h). Time in which a thread was ready to run and had no CPU, as the kernel counts it, is added below "[parked]" to
 * the last stack seen.
 */
#ifndef SDK_WALL_H
#define SDK_WALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ring_record;
struct thr;

extern _Atomic bool wall_on;

/* The calling thread is about to wait in the function at `leaf`; its registers are published. NULL if it is not to be
 * measured. */
struct thr *wall_enter(uint64_t leaf, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t bx);
void wall_leave(struct thr *t);

/* --- background --- */
/* Frames (at most CORE_DEPTH_MAX) of a thread in a hook; the caller compares block_seq before and after. */
uint32_t wall_blocked_stack(const struct thr *t, uint64_t *pc, uint8_t *ret_flags, uint32_t *ret_generation);
/* Where a thread whose CPU time is cpu sleeps; NULL if it does not sleep, or that cannot be determined. The result
 * belongs to the thread and is valid until the next call. */
const struct ring_record *wall_asleep(struct thr *t, int64_t cpu);

#endif
