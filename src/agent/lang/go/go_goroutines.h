/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All goroutines of a process, Go 1.19 and later, read from its memory: their state as runtime.Stack() prints it, since
 * when they wait, and where their stack is.
 *
 *   allgs ─► g   stack {lo, hi} at 0, m at 48, sched {sp, pc, g, …, bp} at 56
 *                atomicstatus, goid at +8, waitsince at +24, waitreason at +32 from it
 *
 * waitsince is set by the garbage collector: the wait is at least that long, and unknown before the first collection.
 */
#ifndef AGENT_LANG_GO_GOROUTINES_H
#define AGENT_LANG_GO_GOROUTINES_H

#include "agent/lang/go/go_runtime.h"
#include "unwind/remote.h"

enum { GOROUTINES_MAX = 1 << 20, GO_REASONS_MAX = 64 };

struct goroutine {
    uint64_t address, id;
    struct str state;        /* "chan receive", "running"; valid as long as the struct go_states */
    int64_t wait_since_ns;   /* of the monotonic clock; 0: not known */
    struct remote_regs regs; /* where it continues; not set while it runs */
    bool is_running;         /* a thread runs it: the registers are the thread's */
    uint64_t stack_lo, stack_hi;
};

/* The names of wait reasons, in the process. */
struct go_states {
    uint64_t reasons; /* address; 0: not found */
    struct str names[GO_REASONS_MAX];
};

/* A process with a Go program. */
struct go_process {
    struct go_runtime runtime;
    uint64_t bias; /* address = ELF address + bias */
    struct proc_memory memory;
    struct go_states states; /* of go_states_find() */
};

/* Finds the names of the wait reasons; they are in the arena. */
void go_states_find(struct go_process *p, struct arena *a);
/* Calls f for each goroutine that is not dead until it returns a value other than 0, which is returned. -ENOTSUP when
 * the list cannot be found or has another layout, with an error message. */
int go_each_goroutine(const struct go_process *p, int (*f)(void *arg, const struct goroutine *g), void *arg,
                      struct err *e);

#endif
