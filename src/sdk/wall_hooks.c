/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking calls of the preload library: each hook publishes where its thread is before it waits, and measures how long
 * it waited. No signals are sent, so no call returns EINTR that would not do so without us. A hook that is off costs a
 * load and a jump.
 */
#undef _FORTIFY_SOURCE /* whose inline functions have the names of the hooks */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "sdk/wall.h"

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)
#define ENTER_HERE(t, leaf)                                                                    \
    do {                                                                                       \
        uint64_t pc_, sp_, fp_, bx_;                                                           \
        __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n\tmov %%rbx, %3" \
                         : "=r"(pc_), "=r"(sp_), "=r"(fp_), "=r"(bx_));                        \
        (t) = wall_enter(leaf, pc_, sp_, fp_, bx_);                                            \
    } while (0)
#elif defined(__aarch64__)
#define ENTER_HERE(t, leaf)                                                                           \
    do {                                                                                              \
        uint64_t pc_, sp_, fp_;                                                                       \
        __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29" : "=r"(pc_), "=r"(sp_), "=r"(fp_)); \
        (t) = wall_enter(leaf, pc_, sp_, fp_, 0);                                                     \
    } while (0)
#endif

/* Declares the real function and the hook around it. The function is looked up when the library is loaded: the first
 * call may come from a signal handler, where dlsym() must not run. */
#define WAIT_HOOK(type, name, params, args)                                        \
    EXPORT type name params;                                                       \
    static type(*real_##name) params;                                              \
    __attribute__((constructor(101))) static void look_##name(void)                \
    {                                                                              \
        __atomic_store_n(&real_##name, dlsym(RTLD_NEXT, #name), __ATOMIC_RELEASE); \
    }                                                                              \
    static __attribute__((noinline)) type measured_##name params                   \
    {                                                                              \
        struct thr *t;                                                             \
        type r;                                                                    \
                                                                                   \
        ENTER_HERE(t, (uint64_t) (uintptr_t) name);                                \
        r = real_##name args;                                                      \
        if (t)                                                                     \
            wall_leave(t);                                                         \
        return r;                                                                  \
    }                                                                              \
    type name params                                                               \
    {                                                                              \
        if (unlikely(!__atomic_load_n(&real_##name, __ATOMIC_ACQUIRE)))            \
            look_##name();                                                         \
        if (likely(!atomic_load_explicit(&wall_on, memory_order_relaxed)))         \
            return real_##name args;                                               \
        return measured_##name args;                                               \
    }

WAIT_HOOK(unsigned, sleep, (unsigned s), (s))
WAIT_HOOK(int, usleep, (useconds_t us), (us))
WAIT_HOOK(int, nanosleep, (const struct timespec *a, struct timespec *b), (a, b))
WAIT_HOOK(int, clock_nanosleep, (clockid_t c, int f, const struct timespec *a, struct timespec *b), (c, f, a, b))
WAIT_HOOK(int, poll, (struct pollfd * p, nfds_t n, int ms), (p, n, ms))
WAIT_HOOK(int, ppoll, (struct pollfd * p, nfds_t n, const struct timespec *t_, const sigset_t *m), (p, n, t_, m))
WAIT_HOOK(int, select, (int n, fd_set *r_, fd_set *w, fd_set *e, struct timeval *t_), (n, r_, w, e, t_))
WAIT_HOOK(int, pselect, (int n, fd_set *r_, fd_set *w, fd_set *e, const struct timespec *t_, const sigset_t *m),
          (n, r_, w, e, t_, m))
WAIT_HOOK(int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms), (fd, e, n, ms))
WAIT_HOOK(int, epoll_pwait, (int fd, struct epoll_event *e, int n, int ms, const sigset_t *m), (fd, e, n, ms, m))
WAIT_HOOK(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
WAIT_HOOK(ssize_t, recv, (int fd, void *p, size_t n, int f), (fd, p, n, f))
WAIT_HOOK(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f))
WAIT_HOOK(ssize_t, recvfrom, (int fd, void *p, size_t n, int f, struct sockaddr *a, socklen_t *an),
          (fd, p, n, f, a, an))
WAIT_HOOK(int, accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
WAIT_HOOK(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int f), (fd, a, n, f))
WAIT_HOOK(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
WAIT_HOOK(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
WAIT_HOOK(int, pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t_), (c, m, t_))
WAIT_HOOK(int, pthread_join, (pthread_t th, void **ret), (th, ret))
WAIT_HOOK(int, sem_wait, (sem_t * s), (s))
WAIT_HOOK(int, sem_timedwait, (sem_t * s, const struct timespec *t_), (s, t_))
WAIT_HOOK(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
