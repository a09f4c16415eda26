/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a symbolizer process may still do: read files, map memory, talk on the descriptors it has. A system call that is
 * not listed fails with EPERM, so that a library that asks for more gets an error and not a death.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/macros.h"
#include "dwarf/symbol_process.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Opening for reading only: argument `arg` holds the flags. */
#define ALLOW_READING(call, arg)                                                                      \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 4),                                           \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[arg])),                 \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 1, 0), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static int filter_calls(void)
{
#ifdef THIS_ARCH
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(read),
        ALLOW(pread64),
        ALLOW(readv),
        ALLOW(write),
        ALLOW(writev),
        ALLOW(sendto),
        ALLOW(recvfrom),
        ALLOW(close),
        ALLOW(lseek),
        ALLOW(fstat),
        ALLOW(newfstatat),
        ALLOW(statx),
        ALLOW(getdents64),
        ALLOW(readlinkat),
        ALLOW(faccessat),
        ALLOW(fcntl),
        ALLOW(getcwd),
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(mprotect),
        ALLOW(madvise),
        ALLOW(brk),
        ALLOW(ppoll),
        ALLOW(futex),
        ALLOW(clock_gettime),
        ALLOW(getrandom),
        ALLOW(getpid),
        ALLOW(gettid),
        ALLOW(tgkill),
        ALLOW(rt_sigaction),
        ALLOW(rt_sigprocmask),
        ALLOW(rt_sigreturn),
        ALLOW(exit),
        ALLOW(exit_group),
#ifdef __x86_64__
        ALLOW(poll),
        ALLOW(stat),
        ALLOW(lstat),
        ALLOW(access),
        ALLOW(readlink),
        ALLOW_READING(open, 1),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#endif
        ALLOW_READING(openat, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    const struct sock_fprog program = {ARRAY_SIZE(code), code};

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
#else
    return -ENOSYS;
#endif
}

static int limit(int what, rlim_t v)
{
    const struct rlimit l = {v, v};

    return setrlimit((__rlimit_resource_t) what, &l) < 0 ? -errno : 0;
}

int symbol_process_confine(size_t memory_max)
{
    int r = limit(RLIMIT_CORE, 0);

    if (r >= 0)
        r = limit(RLIMIT_NOFILE, 256);
    if (r >= 0 && !SANITIZED) /* a sanitizer reserves terabytes */
        r = limit(RLIMIT_AS, memory_max);
    if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r >= 0 && !SANITIZED)
        r = filter_calls();
    return r;
}
