/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects the end of an unmodified program without changing what the program sees.
 *
 * SIGTERM, SIGINT, SIGHUP, and SIGABRT of abort(): where the program leaves them at their default action, we install a handler that flushes and
 * then lets the signal end the process. The program is shown its own setting: sigaction() and its relatives report
 * SIG_DFL, and setting SIG_DFL puts our handler back. A handler of the program's replaces ours; one that it installs
 * for a single use (SA_RESETHAND) is called from ours, because the next such signal has the default action.
 *
 * _exit() runs no destructors, so it flushes here. A seccomp filter may kill a thread that makes a system call which is
 * not on its list, so profiling ends before a filter is installed.
 *
 * A child of vfork() shares our memory but not our signal handlers: in a process with another pid all calls go directly
 * to the C library.
 */
#include "sdk/signal_hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/macros.h"
#include "sdk/ending.h"
#include "sdk/heap.h"
#include "sdk/provider.h"
#include "sdk/sys.h"

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)
enum {
    RESTORER = 0x04000000
}; /* SA_RESTORER, which the C library adds when setting an action and returns when
                                   reading it */
#else
enum { RESTORER = 0 };
#endif

#define AGAIN_NS 1000000000ll

typedef void (*handler_fn)(int);

static struct {
    int (*sigaction)(int, const struct sigaction *, struct sigaction *);
    handler_fn (*signal)(int, handler_fn);
    handler_fn (*sigset)(int, handler_fn);
    int (*prctl)(int, ...);
} real;
__attribute__((visibility("hidden"))) long (*signal_hooks_real_syscall)(long, ...);

static uint64_t root_pid;
static _Atomic bool watching;
static _Atomic int64_t ending_since; /* time of the first of the signals below; 0: none so far */

struct watched_signal {
    int sig;
    struct sigaction wish; /* what the program set; zero is the default action */
};

static struct watched_signal watched[] = {{.sig = SIGTERM}, {.sig = SIGINT}, {.sig = SIGHUP}, {.sig = SIGABRT}};

__attribute__((constructor(101))) static void find_real(void)
{
    real.signal = dlsym(RTLD_NEXT, "signal");
    real.sigset = dlsym(RTLD_NEXT, "sigset");
    real.prctl = dlsym(RTLD_NEXT, "prctl");
    signal_hooks_real_syscall = dlsym(RTLD_NEXT, "syscall");
    __atomic_store_n(&real.sigaction, dlsym(RTLD_NEXT, "sigaction"), __ATOMIC_RELEASE);
}

static void need_real(void) /* a constructor of another library may run before ours */
{
    if (unlikely(!__atomic_load_n(&real.sigaction, __ATOMIC_ACQUIRE)))
        find_real();
}

/* --- the end --- */
/* The provider of this process; NULL in a child of vfork(), and if there is nothing to write. */
static struct wick_provider *own_provider(void)
{
    struct wick_provider *p = provider_current();

    if (!p || !atomic_load(&p->thread_running) || !(p->s.file || p->s.exporting))
        return NULL; /* without a system call: a seccomp filter may be installed */
    return p->pid == (pid_t) sys_call(SYS_getpid, 0, 0, 0, 0) ? p : NULL;
}

static bool is_root(void)
{
    return root_pid == (uint64_t) sys_call(SYS_getpid, 0, 0, 0, 0);
}

/* Children that ended before their first sample have nothing to write. */
static void flush(unsigned root_ms, unsigned child_ms)
{
    struct wick_provider *p = own_provider();

    if (!p)
        return;
    thr_end_process((uint64_t) (uintptr_t) preload_main);
    if (is_root())
        ending_flush(root_ms);
    else if (provider_has_samples(p))
        ending_flush(child_ms);
}

EXPORT void _exit(int status)
{
    flush(ENDING_FILE_MS, 1000);
    for (;;)
        sys_call(SYS_exit_group, status, 0, 0, 0);
}

EXPORT void _Exit(int status)
{
    _exit(status);
}

/* --- signals --- */
static struct watched_signal *find_watched(int sig)
{
    if (likely(sig != SIGTERM && sig != SIGINT && sig != SIGHUP && sig != SIGABRT) || !atomic_load(&watching))
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
        if (watched[i].sig == sig)
            return &watched[i];
    return NULL;
}

static bool is_default(const struct sigaction *a)
{
    return a->sa_handler == SIG_DFL; /* the same storage as sa_sigaction */
}

static void install_ending(int sig);

/* Ends the process by sig, as its default action does. Returns only in the first process of a container, which the
 * kernel protects from the signal. */
static void die_of(int sig)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, sig);
    real.sigaction(sig, &standard, NULL);
    sys_call(SYS_tgkill, sys_call(SYS_getpid, 0, 0, 0, 0), sys_gettid(), sig, 0);
    sys_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long) &set, 0, 8);
    install_ending(sig);
}

static void on_ending(int sig)
{
    int saved = errno;
    int64_t first = 0, now = sys_clock_ns(CLOCK_MONOTONIC);

    if (atomic_compare_exchange_strong(&ending_since, &first, now))
        flush(ENDING_FILE_MS, ENDING_FILE_MS);
    else if (now - first <
             AGAIN_NS) /* sent to the whole group and also forwarded by `wick run` or a shell: counts as one */
        return;
    die_of(sig); /* a second one ends the process at once */
    atomic_store(&ending_since, 0);
    errno = saved;
}

static void on_once(int sig, siginfo_t *si, void *uc)
{
    struct watched_signal *w = find_watched(sig);
    struct sigaction program = w ? w->wish : (struct sigaction){0};

    install_ending(sig);
    if (w)
        w->wish = (struct sigaction){0};
    if (program.sa_flags & SA_SIGINFO && program.sa_sigaction)
        program.sa_sigaction(sig, si, uc);
    else if (program.sa_handler != SIG_DFL && program.sa_handler != SIG_IGN)
        program.sa_handler(sig);
}

static void install_ending(int sig)
{
    struct sigaction sa = {.sa_handler = on_ending, .sa_flags = SA_RESTART | SA_NODEFER};

    real.sigaction(sig, &sa, NULL);
}

/* The action to install in the kernel where the program wants `wish`. */
static const struct sigaction *to_kernel(const struct sigaction *wish, struct sigaction *room)
{
    if (is_default(wish)) {
        *room = (struct sigaction){.sa_handler = on_ending, .sa_flags = SA_RESTART | SA_NODEFER};
        return room;
    }
    if (!(wish->sa_flags & (int) SA_RESETHAND) || wish->sa_handler == SIG_IGN)
        return wish;
    *room = *wish;
    room->sa_sigaction = on_once;
    room->sa_flags = (wish->sa_flags & ~(int) SA_RESETHAND) | SA_SIGINFO;
    return room;
}

static bool is_ours(const struct sigaction *kernel)
{
    return kernel->sa_handler == on_ending || (kernel->sa_flags & SA_SIGINFO && kernel->sa_sigaction == on_once);
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    struct watched_signal *w = find_watched(sig);
    struct sigaction room, kernel, before;
    int r;

    need_real();
    if (likely(!w))
        return real.sigaction(sig, act, old);
    before = w->wish;
    if (act && own_provider()) {
        w->wish = *act; /* before the handler can run */
        act = to_kernel(act, &room);
    }
    r = real.sigaction(sig, act, &kernel);
    if (r == 0 && act)
        w->wish.sa_flags |= RESTORER;
    if (r < 0)
        w->wish = before;
    else if (old)
        *old = is_ours(&kernel) ? before : kernel;
    return r;
}

/* Called after a function of the C library set a handler; returns `was` as the program should see it. */
static handler_fn after_set(int sig, handler_fn wish, handler_fn was)
{
    struct watched_signal *w = find_watched(sig);
    struct sigaction before = w ? w->wish : (struct sigaction){0};

    if (!w || was == SIG_ERR)
        return was;
    if (own_provider()) {
        w->wish = (struct sigaction){.sa_handler = wish};
        if (wish == SIG_DFL)
            install_ending(sig);
    }
    return was == on_ending || was == (handler_fn) (void *) on_once ? before.sa_handler : was;
}

EXPORT handler_fn signal(int sig, handler_fn handler)
{
    need_real();
    return after_set(sig, handler, real.signal(sig, handler));
}

EXPORT handler_fn bsd_signal(int sig, handler_fn handler);
handler_fn bsd_signal(int sig, handler_fn handler)
{
    return signal(sig, handler);
}

EXPORT handler_fn ssignal(int sig, handler_fn handler)
{
    return signal(sig, handler);
}

EXPORT handler_fn sigset(int sig, handler_fn handler)
{
    need_real();
    if (handler == (handler_fn) 2) /* SIG_HOLD only blocks the signal */
        return real.sigset(sig, handler);
    return after_set(sig, handler, real.sigset(sig, handler));
}

EXPORT int sigignore(int sig)
{
    struct sigaction sa = {.sa_handler = SIG_IGN};

    return sigaction(sig, &sa, NULL);
}

EXPORT handler_fn __sysv_signal(int sig, handler_fn handler)
{
    struct sigaction sa = {.sa_handler = handler, .sa_flags = (int) (SA_RESETHAND | SA_NODEFER | SA_INTERRUPT)}, old;

    return sigaction(sig, &sa, &old) < 0 ? SIG_ERR : old.sa_handler;
}

EXPORT handler_fn sysv_signal(int sig, handler_fn handler)
{
    return __sysv_signal(sig, handler);
}

void signal_hooks_start(uint64_t root)
{
    need_real();
    root_pid = root;
    for (size_t i = 0; i < ARRAY_SIZE(watched); i++) {
        struct sigaction was;

        if (real.sigaction(watched[i].sig, NULL, &was) < 0)
            continue;
        watched[i].wish = was;
        if (is_default(&was))
            install_ending(watched[i].sig);
    }
    atomic_store(&watching, true);
}

/* --- seccomp --- */
/* Called before the filter is installed. All samples so far are written; none of our code runs afterwards. */
static void seal(void)
{
    struct wick_provider *p = own_provider();
    int saved = errno;

    if (!p)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
        if (atomic_load(&watching) && is_default(&watched[i].wish))
            real.sigaction(watched[i].sig, &watched[i].wish, NULL);
    atomic_store(&watching, false);
    ending_hurry(ENDING_EXPORT_MS);
    wick_stop(p);
    errno = saved;
}

EXPORT int prctl(int option, ...)
{
    unsigned long a[4];
    va_list args;

    va_start(args, option);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(args, unsigned long);
    va_end(args);
    need_real();
    if (option == PR_SET_SECCOMP && (a[0] == SECCOMP_MODE_STRICT || a[1]))
        seal();
    return real.prctl(option, a[0], a[1], a[2], a[3]);
}

/* syscall() may be any call, even a clone() that returns on another stack: all calls except seccomp() and unshare() are a
 * plain jump. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    cmp $317, %rdi\n" /* SYS_seccomp */
        "    je 1f\n"
        "    cmp $272, %rdi\n" /* SYS_unshare */
        "    je 1f\n"
        "2:  mov signal_hooks_real_syscall(%rip), %rax\n"
        "    test %rax, %rax\n"
        "    jz 1f\n"
        "    jmp *%rax\n"
        "1:  push %rdi\n .cfi_adjust_cfa_offset 8\n"
        "    push %rsi\n .cfi_adjust_cfa_offset 8\n"
        "    push %rdx\n .cfi_adjust_cfa_offset 8\n"
        "    push %rcx\n .cfi_adjust_cfa_offset 8\n"
        "    push %r8\n .cfi_adjust_cfa_offset 8\n"
        "    push %r9\n .cfi_adjust_cfa_offset 8\n"
        "    sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n"
        "    call signal_hooks_before_syscall\n"
        "    add $8, %rsp\n .cfi_adjust_cfa_offset -8\n"
        "    pop %r9\n .cfi_adjust_cfa_offset -8\n"
        "    pop %r8\n .cfi_adjust_cfa_offset -8\n"
        "    pop %rcx\n .cfi_adjust_cfa_offset -8\n"
        "    pop %rdx\n .cfi_adjust_cfa_offset -8\n"
        "    pop %rsi\n .cfi_adjust_cfa_offset -8\n"
        "    pop %rdi\n .cfi_adjust_cfa_offset -8\n"
        "    jmp *signal_hooks_real_syscall(%rip)\n"
        "    .cfi_endproc\n"
        ".size syscall, . - syscall\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, %function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    adrp x16, signal_hooks_real_syscall\n"
        "    ldr x16, [x16, :lo12:signal_hooks_real_syscall]\n"
        "    cmp x0, #277\n" /* SYS_seccomp */
        "    b.eq 1f\n"
        "    cmp x0, #97\n" /* SYS_unshare */
        "    b.eq 1f\n"
        "    cbz x16, 1f\n"
        "    br x16\n"
        "1:  stp x29, x30, [sp, #-80]!\n .cfi_adjust_cfa_offset 80\n .cfi_offset 30, -72\n"
        "    stp x0, x1, [sp, #16]\n"
        "    stp x2, x3, [sp, #32]\n"
        "    stp x4, x5, [sp, #48]\n"
        "    str x6, [sp, #64]\n"
        "    bl signal_hooks_before_syscall\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x2, x3, [sp, #32]\n"
        "    ldp x4, x5, [sp, #48]\n"
        "    ldr x6, [sp, #64]\n"
        "    ldp x29, x30, [sp], #80\n .cfi_adjust_cfa_offset -80\n"
        "    adrp x16, signal_hooks_real_syscall\n"
        "    ldr x16, [x16, :lo12:signal_hooks_real_syscall]\n"
        "    br x16\n"
        "    .cfi_endproc\n"
        ".size syscall, . - syscall\n");
#endif

void signal_hooks_before_syscall(long number, long operation, long flags, const void *filter);

/* A NULL filter only asks which actions the kernel supports. */
__attribute__((visibility("hidden"), used)) void signal_hooks_before_syscall(long number, long operation, long flags,
                                                                             const void *filter)
{
    need_real();
    if (number == SYS_seccomp &&
        (operation == SECCOMP_SET_MODE_STRICT || (operation == SECCOMP_SET_MODE_FILTER && filter)))
        seal();
    if (number == SYS_unshare && operation & CLONE_NEWUSER)
        seal();
}

/* The kernel refuses a new user namespace to a process with threads. */
EXPORT int unshare(int flags)
{
    long r;

    need_real();
    if (flags & CLONE_NEWUSER)
        seal();
    r = sys_call(SYS_unshare, flags, 0, 0, 0);
    if (r < 0)
        errno = (int) -r;
    return r < 0 ? -1 : 0;
}
