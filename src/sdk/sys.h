/* SPDX-License-Identifier: Apache-2.0 */
/* System calls without libc: nothing here touches errno, a lock, or memory other than the caller's. */
#ifndef SDK_SYS_H
#define SDK_SYS_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns the result, or a negative errno. */
static inline long sys_call(long nr, long a, long b, long c, long d)
{
#if defined(__x86_64__)
    long r;
    register long r10 __asm__("r10") = d;

    __asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return r;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#endif
}

static inline int sys_gettid(void)
{
    return (int) sys_call(SYS_gettid, 0, 0, 0, 0);
}

/* The CPU-time clock of another thread. */
static inline clockid_t sys_thread_clock(int tid)
{
    return (clockid_t) (((~(unsigned) tid) << 3) | 6);
}

static inline int64_t sys_clock_ns(clockid_t clock)
{
    struct timespec t;

    return clock_gettime(clock, &t) ? -1 : t.tv_sec * 1000000000ll + t.tv_nsec;
}

#endif
