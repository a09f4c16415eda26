/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wall-clock time without waking anybody. Running is what the CPU timers see. Waiting is what the hooks around blocking
 * calls measure (wall_hooks.c); while a call lasts, the background reads the stack that its thread published. What waits
 * elsewhere is known by the clocks alone: it goes to the thread's last stack, or to "[parked]".
 */
#ifndef SDK_WALL_H
#define SDK_WALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct thr;

extern _Atomic bool wall_on;

/* The calling thread is about to wait in the function at `leaf`; its registers are published. NULL when it is not to be measured. */
struct thr *wall_enter(uint64_t leaf, uint64_t pc, uint64_t sp, uint64_t fp, uint64_t bx);
void wall_leave(struct thr *t);

#endif
