/* SPDX-License-Identifier: Apache-2.0 */
/* The hook of syscall() (futex_locks.h). */
#include "sdk/futex_locks.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "sdk/core.h"
#include "sdk/got.h"
#include "sdk/lock.h"
#include "sdk/program_symbols.h"
#include "sdk/sys.h"

enum { WAITERS_MAX = 16, CALLERS = 4 }; /* futex_wait() is between them, inlined or not */

static struct waiter {
    uint64_t lo, hi;
} waiters[WAITERS_MAX];
static uint32_t n_waiters;

static void add_waiter(void *arg, struct str name, uint64_t lo, uint64_t hi)
{
    static const char *const names[] = {"14lock_contended", "14read_contended", "15write_contended"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (n_waiters < WAITERS_MAX && memmem(name.p, name.n, names[i], strlen(names[i])))
            waiters[n_waiters++] = (struct waiter){lo, hi};
}

static bool is_waiter(uint64_t after)
{
    for (uint32_t i = 0; i < n_waiters; i++)
        if (after - 1 >= waiters[i].lo && after - 1 < waiters[i].hi)
            return true;
    return false;
}

static bool for_a_lock(void)
{
    struct thr *t = thr_self ? thr_self : thr_adopt();
    uint64_t pc[CALLERS];
    uint32_t generation, n;
    uint8_t flags;

    n = t ? handler_walk_here(t, pc, CALLERS, &flags, &generation) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_waiter(pc[i]))
            return true;
    return false;
}

/* Takes what syscall() takes: six arguments, of which a caller passes those that its system call has. */
static long hook_syscall(long number, ...)
{
    int command, saved;
    int64_t from;
    long a[6], r;
    va_list list;

    va_start(list, number);
    for (size_t i = 0; i < ARRAY_SIZE(a); i++)
        a[i] = va_arg(list, long);
    va_end(list);
    command = (int) a[1] & FUTEX_CMD_MASK;
    if (likely(number != SYS_futex || !atomic_load_explicit(&lock_on, memory_order_relaxed)) ||
        (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET))
        return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    from = sys_clock_ns(CLOCK_MONOTONIC);
    r = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    saved = errno;
    if (for_a_lock())
        lock_waited(sys_clock_ns(CLOCK_MONOTONIC) - from);
    errno = saved;
    return r;
}

void futex_locks_install(void)
{
    static const struct got_hook hook = {"syscall", hook_syscall};
    static bool looked;

    if (!looked)
        program_symbols(add_waiter, NULL);
    looked = true;
    if (n_waiters)
        got_install(&hook, 1, NULL);
}
