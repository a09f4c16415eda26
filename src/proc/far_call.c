/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper process that makes system calls for the thread of the agent (far_call.h). A slot is the memory that both use:
 * the call, its result, and a buffer through which all data goes. A slot whose helper was left behind is freed when the
 * helper has ended.
 *
 * The helper has no thread-local storage of its own: it makes raw system calls, which do not set errno, and calls nothing
 * else. All its signals are blocked.
 */
#include "proc/far_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"

enum {
    BOUNCE = 64 << 10,
    STACK = 32 << 10,
    LEFT_MAX = 16,
    ASIDE_MAX = 256,
    STARVED_MS = 10000,
    HANGS_MAX = 5,
    NEAR_MAX = 4096,
    SPENT_MAX = 1024,
    CALL_NS = 10000 /* of a call, about */
};
enum { TURN_IDLE, TURN_CALL, TURN_DONE };
static const uint64_t PAUSE_MIN_NS = 10ull * NS_PER_S, PAUSE_MAX_NS = 600ull * NS_PER_S, HANGS_NS = 10ull * NS_PER_S;

struct slot {
    _Atomic uint32_t turn;
    pid_t pid;
    long nr, args[6], result;
    char bounce[BOUNCE];
    char stack[STACK] __attribute__((aligned(64)));
};

struct spent {
    uint32_t target;
    int64_t ns;
};

struct aside {
    uint32_t target;
    uint64_t until_ns, pause_ns;
};

static struct {
    bool on;
    uint32_t target;
    struct slot *slot, *left[LEFT_MAX]; /* the helper in use, and those that were left behind */
    struct aside aside[ASIDE_MAX];
    struct far_counts counts;
    bool near[NEAR_MAX];           /* descriptors of files that need no helper */
    uint64_t window_ns, in_window; /* hangs since then */
    int64_t spent_ns;              /* CPU time of helpers that have ended */
    int64_t budget_ns;             /* of a minute; 0: none */
    uint64_t minute_ns;            /* when it began */
    unsigned n_spenders;           /* targets that have used more than a little */
    struct spent spent[SPENT_MAX];
} far;
static _Thread_local bool is_caller;

#if defined(__x86_64__)
static inline long raw_call(long nr, const long a[6])
{
    register long a3 __asm__("r10") = a[3], a4 __asm__("r8") = a[4], a5 __asm__("r9") = a[5];
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(a3), "r"(a4), "r"(a5)
                     : "rcx", "r11", "memory");
    return r;
}
#elif defined(__aarch64__)
static inline long raw_call(long nr, const long a[6])
{
    register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a[0], x1 __asm__("x1") = a[1], x2 __asm__("x2") = a[2];
    register long x3 __asm__("x3") = a[3], x4 __asm__("x4") = a[4], x5 __asm__("x5") = a[5];

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#endif

/* --- the helper --- */
__attribute__((no_sanitize("address", "undefined"), noreturn)) static int help(void *arg)
{
    struct slot *s = arg;

    raw_call(SYS_prctl, (const long[6]){PR_SET_PDEATHSIG, SIGKILL});
    for (;;) {
        uint32_t turn = atomic_load(&s->turn);

        if (turn != TURN_CALL) {
            raw_call(SYS_futex, (const long[6]){(long) (uintptr_t) &s->turn, FUTEX_WAIT_PRIVATE, (long) turn});
            continue;
        }
        s->result = raw_call(s->nr, s->args);
        atomic_store(&s->turn, TURN_DONE);
        raw_call(SYS_futex, (const long[6]){(long) (uintptr_t) &s->turn, FUTEX_WAKE_PRIVATE, 1});
    }
}

static bool reap(struct slot *s)
{
    struct rusage used = {0};

    if (wait4(s->pid, NULL, __WALL | WNOHANG, &used) == 0)
        return false;
    far.spent_ns += clock_rusage(&used);
    munmap(s, sizeof *s);
    return true;
}

static struct slot *start_helper(void)
{
    struct slot *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigset_t all, old;

    if (s == MAP_FAILED)
        return NULL;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    s->pid = clone(help, s->stack + STACK, CLONE_VM | CLONE_FILES, s);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (s->pid < 0) {
        munmap(s, sizeof *s);
        return NULL;
    }
    return s;
}

/* Kills the helper. False when it cannot be remembered that it was left behind: then all calls fail. */
static bool leave_behind(void)
{
    struct slot *s = far.slot;

    kill(s->pid, SIGKILL);
    for (unsigned i = 0; i < LEFT_MAX; i++)
        if (!far.left[i]) {
            far.left[i] = s;
            far.slot = NULL;
            return true;
        }
    return false;
}

static void reap_left(void)
{
    for (unsigned i = 0; i < LEFT_MAX; i++)
        if (far.left[i] && reap(far.left[i]))
            far.left[i] = NULL;
}

/* --- what is set aside --- */
static struct aside *find_aside(uint32_t target)
{
    for (unsigned i = 0; i < ASIDE_MAX; i++)
        if (far.aside[i].target == target)
            return &far.aside[i];
    return NULL;
}

static void set_aside(uint32_t target, uint64_t now)
{
    struct aside *a = find_aside(target);

    for (unsigned i = 0; i < ASIDE_MAX && !a; i++)
        if (!far.aside[i].target)
            a = &far.aside[i];
    if (!a)
        a = &far.aside[far.counts.hangs % ASIDE_MAX];
    if (a->target != target)
        *a = (struct aside){.target = target};
    a->pause_ns = a->pause_ns ? MIN(2 * a->pause_ns, PAUSE_MAX_NS) : PAUSE_MIN_NS;
    a->until_ns = now + a->pause_ns;
    far.counts.hangs++;
    far.counts.last = target;
    far.counts.pause_ns = a->pause_ns;
    far.in_window++;
}

/* Many targets that hang one after another must not take all the time: then nothing is tried for a while. */
static bool may_try(uint32_t target, uint64_t now)
{
    const struct aside *a = far.counts.hangs ? find_aside(target) : NULL;

    if (now - far.window_ns > HANGS_NS) {
        far.window_ns = now;
        far.in_window = 0;
        reap_left();
    }
    return far.in_window < HANGS_MAX && (!a || now >= a->until_ns);
}

/* --- what it costs --- */
static struct spent *spent_of(uint32_t target)
{
    for (unsigned i = 0; i < 16; i++) {
        struct spent *s = &far.spent[(target * 2654435761u + i) % SPENT_MAX];

        if (!s->target)
            s->target = target;
        if (s->target == target)
            return s;
    }
    return &far.spent[target % SPENT_MAX]; /* shared */
}

bool far_spend(int64_t ns)
{
    int64_t little = far.budget_ns / 100, part;
    uint64_t now;
    struct spent *s;

    if (!far.budget_ns || !is_caller || !far.target)
        return true;
    now = (uint64_t) clock_mono();
    if (now - far.minute_ns > 60ull * NS_PER_S) {
        far.minute_ns = now;
        far.n_spenders = 0;
        memset(far.spent, 0, sizeof far.spent);
    }
    s = spent_of(far.target);
    far.n_spenders += s->ns <= little && s->ns + ns > little;
    s->ns += ns;
    part = far.budget_ns / (int64_t) MAX(far.n_spenders, 1u);
    return s->ns <= MAX(part, little);
}

void far_budget(int64_t ns)
{
    far.budget_ns = ns;
}

/* --- a call --- */
/* True when the helper has not returned because it got no CPU time: a process is not set aside because the machine is busy. */
static bool is_starved(pid_t pid)
{
    char path[40], text[256];
    const char *end;
    int fd;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int) pid);
    fd = fd_ops_system.open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    n = fd < 0 ? -1 : fd_ops_system.read(fd, text, sizeof text - 1);
    if (fd >= 0)
        fd_ops_system.close(fd);
    text[MAX(n, 0)] = 0;
    end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'R';
}

static bool wait_for_result(struct slot *s)
{
    int64_t begin = clock_mono();

    while (atomic_load(&s->turn) == TURN_CALL) {
        struct timespec t = {0, FAR_DEADLINE_MS * NS_PER_MS / 2};
        int64_t waited;

        syscall(SYS_futex, &s->turn, FUTEX_WAIT_PRIVATE, TURN_CALL, &t, NULL, 0);
        waited = clock_mono() - begin;
        if (atomic_load(&s->turn) == TURN_CALL && waited >= FAR_DEADLINE_MS * NS_PER_MS &&
            (waited >= STARVED_MS * NS_PER_MS || !is_starved(s->pid)))
            return false;
    }
    return true;
}

/* The slot for a call that may be made by a helper; NULL: it fails with *ret, or if *ret is 0, is made directly. must: even
 * if the target is set aside. */
static struct slot *begin_call(bool must, long *ret)
{
    *ret = 0;
    if (!is_caller || !far.target)
        return NULL;
    if (!may_try(far.target, (uint64_t) clock_mono()) && !must) {
        *ret = -ETIMEDOUT;
        return NULL;
    }
    if (!far_spend(CALL_NS) && !must) {
        far.counts.refused++;
        *ret = -EDQUOT;
        return NULL;
    }
    if (!far.slot)
        far.slot = start_helper();
    if (far.slot)
        return far.slot;
    *ret = -EAGAIN;
    return NULL;
}

static long finish_call(struct slot *s, long nr, const long args[6])
{
    s->nr = nr;
    memcpy(s->args, args, sizeof s->args);
    atomic_store(&s->turn, TURN_CALL);
    syscall(SYS_futex, &s->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    if (wait_for_result(s)) {
        atomic_store(&s->turn, TURN_IDLE);
        return s->result;
    }
    set_aside(far.target, (uint64_t) clock_mono());
    if (!leave_behind())
        far.in_window = HANGS_MAX;
    return -ETIMEDOUT;
}

static long as_errno(long r)
{
    if (r >= 0)
        return r;
    errno = (int) -r;
    return -1;
}

/* Puts a path into the slot; NULL if it is too long. */
static const char *put_path(struct slot *s, const char *path, size_t at)
{
    size_t n = strlen(path) + 1;

    return n <= BOUNCE - at ? memcpy(s->bounce + at, path, n) : NULL;
}

/* Files of /proc that the kernel writes without a look at the memory of the process or at its files. */
static bool is_near(const char *path, int flags)
{
    static const char *const names[] = {"stat", "status", "cgroup", "comm"};
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

    if (slash && (strncmp(path, "/proc/", 6) != 0 || strstr(path, "/root/")))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(base, names[i]) == 0)
            return true;
    return slash == path + 5 && flags & O_PATH;
}

static int far_open(int dirfd, const char *path, int flags, mode_t mode)
{
    bool near = is_near(path, flags);
    long r = 0;
    struct slot *s = near ? NULL : begin_call(false, &r);
    const char *there = s ? put_path(s, path, 0) : NULL;
    int fd;

    if (!s && !r) {
        fd = fd_ops_system.open(dirfd, path, flags, mode);
        if (near && fd >= 0 && fd < NEAR_MAX)
            far.near[fd] = true;
        return fd;
    }
    if (s)
        r = there ? finish_call(s, SYS_openat, (const long[6]){dirfd, (long) (uintptr_t) there, flags, mode})
                  : -ENAMETOOLONG;
    return (int) as_errno(r);
}

static int far_open_within(int dirfd, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
    long r;
    struct slot *s = begin_call(false, &r);
    const char *there = s ? put_path(s, path, sizeof how) : NULL;

    if (!s && !r)
        return fd_ops_system.open_within(dirfd, path, resolve);
    if (s) {
        memcpy(s->bounce, &how, sizeof how);
        r = there ? finish_call(
                        s, SYS_openat2,
                        (const long[6]){dirfd, (long) (uintptr_t) there, (long) (uintptr_t) s->bounce, sizeof how})
                  : -ENAMETOOLONG;
    }
    return (int) as_errno(r);
}

static int far_stat(int dirfd, const char *path, struct stat *ret, int flags)
{
    long r;
    struct slot *s = begin_call(false, &r);
    const char *there = s ? put_path(s, path, sizeof *ret) : NULL;

    if (!s && !r)
        return fd_ops_system.stat(dirfd, path, ret, flags);
    if (s) {
        r = there ? finish_call(s, SYS_newfstatat,
                                (const long[6]){dirfd, (long) (uintptr_t) there, (long) (uintptr_t) s->bounce, flags})
                  : -ENAMETOOLONG;
        if (r == 0)
            memcpy(ret, s->bounce, sizeof *ret);
    }
    return (int) as_errno(r);
}

static ssize_t far_pread(int fd, void *p, size_t n, off_t off)
{
    bool near = fd >= 0 && fd < NEAR_MAX && far.near[fd];
    long r = 0;
    struct slot *s = near ? NULL : begin_call(false, &r);

    if (!s && !r)
        return off < 0 ? fd_ops_system.read(fd, p, n) : fd_ops_system.pread(fd, p, n, off);
    if (s) {
        r = finish_call(s, off < 0 ? SYS_read : SYS_pread64,
                        (const long[6]){fd, (long) (uintptr_t) s->bounce, (long) MIN(n, (size_t) BOUNCE), off});
        if (r > 0)
            memcpy(p, s->bounce, (size_t) r);
    }
    return as_errno(r);
}

static ssize_t far_read(int fd, void *p, size_t n)
{
    return far_pread(fd, p, n, -1);
}

/* Closing a file of FUSE waits for its server, too. */
static int far_close(int fd)
{
    bool near = fd >= 0 && fd < NEAR_MAX && far.near[fd];
    long r = 0;
    struct slot *s = near ? NULL : begin_call(true, &r);

    if (near)
        far.near[fd] = false;
    if (!s)
        return fd_ops_system.close(fd);
    return (int) as_errno(finish_call(s, SYS_close, (const long[6]){fd}));
}

static ssize_t read_piece(int pid, uint64_t address, void *p, size_t n)
{
    long r;
    struct slot *s = begin_call(false, &r);
    struct iovec here = {p, n}, there = {(void *) (uintptr_t) address, n}, *io;

    if (!s && r)
        return r;
    if (s) {
        io = (struct iovec *) (void *) s->stack; /* the end of the stack that is never reached */
        here.iov_base = s->bounce;
        io[0] = here, io[1] = there;
        r = finish_call(s, SYS_process_vm_readv,
                        (const long[6]){pid, (long) (uintptr_t) io, 1, (long) (uintptr_t) (io + 1), 1, 0});
        if (r > 0)
            memcpy(p, s->bounce, (size_t) r);
        here.iov_base = p;
    }
    if (!s || r == -EPERM) { /* a system may allow it to parents only (ptrace_scope) */
        r = process_vm_readv(pid, &here, 1, &there, 1, 0);
        r = r < 0 ? -errno : r;
    }
    return r;
}

ssize_t far_read_memory(int pid, uint64_t address, void *p, size_t n)
{
    size_t done = 0;

    while (done < n) {
        size_t piece = MIN(n - done, (size_t) BOUNCE);
        ssize_t r = read_piece(pid, address + done, (char *) p + done, piece);

        if (r < 0)
            return done ? (ssize_t) done : r;
        done += (size_t) r;
        if ((size_t) r < piece)
            break;
    }
    return (ssize_t) done;
}

/* --- life --- */
void far_start(void)
{
    static struct fd_ops ops;

    if (far.on)
        return;
    far.slot = start_helper();
    if (!far.slot)
        return;
    ops = fd_ops_system;
    ops.open = far_open;
    ops.open_within = far_open_within;
    ops.stat = far_stat;
    ops.read = far_read;
    ops.pread = far_pread;
    ops.close = far_close;
    fd_ops = &ops;
    far.on = is_caller = true;
}

void far_stop(void)
{
    if (!far.on)
        return;
    fd_ops = &fd_ops_system;
    is_caller = far.on = false;
    far.target = 0;
    far.budget_ns = 0;
    if (far.slot && leave_behind())
        reap_left();
}

uint32_t far_target(uint32_t pid)
{
    uint32_t before = far.target;

    if (is_caller)
        far.target = pid;
    return before;
}

void far_forget(uint32_t pid)
{
    struct aside *a = pid ? find_aside(pid) : NULL;

    if (a)
        *a = (struct aside){0};
}

int64_t far_cpu_ns(void)
{
    return far.spent_ns + (far.slot ? child_cpu_ns(far.slot->pid) : 0);
}

void far_counts(struct far_counts *ret)
{
    far.counts.aside = 0;
    for (unsigned i = 0; i < ASIDE_MAX; i++)
        far.counts.aside += far.aside[i].target != 0;
    *ret = far.counts;
}
