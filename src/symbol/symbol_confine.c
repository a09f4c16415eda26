/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a symbolizer process may still do: read files, map memory, talk on the descriptors it has. A system call that is
 * not listed fails with EPERM, so that a library that asks for more gets an error and not a death.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "symbol/symbol_process.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

/* All that Landlock's first version knows: every right that is not granted is gone. */
enum {
    FILES_ALL = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
                LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                LANDLOCK_ACCESS_FS_MAKE_SYM
};

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

/* Nothing but reading below these folders. A kernel without Landlock leaves it at the filter of calls. */
static int restrict_files(const char *const *folders)
{
    const struct landlock_ruleset_attr all = {.handled_access_fs = FILES_ALL};
    int ruleset = (int) syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0), r = 0;

    if (ruleset < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
    for (; *folders && r == 0; folders++) {
        struct landlock_path_beneath_attr below = {.allowed_access =
                                                       LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
                                                   .parent_fd = fd_open(AT_FDCWD, *folders, O_PATH | O_DIRECTORY, 0)};

        if (below.parent_fd < 0)
            continue; /* what is not there cannot be read */
        if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0)
            r = -errno;
        fd_close(below.parent_fd);
    }
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = -errno;
    fd_close(ruleset);
    return r;
}

int symbol_process_confine(size_t memory_max, const char *const *folders)
{
    int r = limit(RLIMIT_CORE, 0);

    if (r >= 0)
        r = limit(RLIMIT_NOFILE, 256);
    if (r >= 0 && !SANITIZED) /* a sanitizer reserves terabytes */
        r = limit(RLIMIT_AS, memory_max);
    if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r >= 0 && folders)
        r = restrict_files(folders);
    if (r >= 0 && !SANITIZED)
        r = filter_calls();
    return r;
}
