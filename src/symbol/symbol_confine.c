/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restricts a process that reads binaries to what it needs: mapping memory, using the descriptors it has, and, for the
 * symbolizer, opening files for reading. A system call that is not listed fails with EPERM, so that a library that
 * makes one gets an error instead of being killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/fd.h"
#include "base/macros.h"
#include "symbol/symbol_process.h"

/* All rights of Landlock's first version: every right that is not granted is denied. */
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

enum { FILE_MAX = 512 << 20 }; /* bytes of a memory file */
static const rlim_t DATA_MAX = (rlim_t) 4 << 30;

#define CALL(name)          \
    {                       \
        .call = __NR_##name \
    }
/* Opening for reading only: argument `arg` holds the flags. */
#define READING(name, flags)                                                           \
    {                                                                                  \
        .call = __NR_##name, .when = CONFINE_WITHOUT_BITS, .arg = (flags), .values = { \
            O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND                           \
        }                                                                              \
    }

/* clang-format off */
static const struct confine_rule rules[] = {
    CALL(read), CALL(pread64), CALL(readv), CALL(write), CALL(writev), CALL(sendto), CALL(sendmsg), CALL(recvfrom),
    CALL(recvmsg), CALL(close), CALL(lseek), CALL(fstat), CALL(fcntl), CALL(mmap), CALL(munmap), CALL(mremap),
    CALL(mprotect), CALL(madvise), CALL(brk), CALL(ppoll), CALL(futex), CALL(clock_gettime), CALL(getrandom),
    CALL(getpid), CALL(gettid), CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(exit),
    CALL(exit_group), CALL(memfd_create),
#ifdef __x86_64__
    CALL(poll),
#endif
};
static const struct confine_rule opening[] = {
    CALL(newfstatat), CALL(statx), CALL(getdents64), CALL(readlinkat), CALL(faccessat), CALL(getcwd),
#ifdef __x86_64__
    CALL(stat), CALL(lstat), CALL(access), CALL(readlink), READING(open, 1),
#endif
    READING(openat, 2),
};
/* clang-format on */

/* What starting a program in place of this one needs. */
static const struct confine_rule starting[] = {
    CALL(execve),     CALL(set_tid_address), CALL(set_robust_list), CALL(rseq), CALL(prlimit64),
#ifdef __x86_64__
    CALL(arch_prctl),
#endif
};

enum { RULES_MAX = 1 + ARRAY_SIZE(opening) + ARRAY_SIZE(starting) };

/* At most v: a limit that is lower already cannot be raised. */
static int limit(int what, rlim_t v)
{
    struct rlimit l = {v, v};

    if (getrlimit((__rlimit_resource_t) what, &l) == 0)
        l.rlim_cur = l.rlim_max = MIN(v, l.rlim_max);
    return setrlimit((__rlimit_resource_t) what, &l) < 0 ? -errno : 0;
}

/* Allows only reading below these folders. -EOPNOTSUPP on a kernel without Landlock, or where it is switched off. */
static int restrict_files(const char *const *folders, bool may_exec)
{
    const struct landlock_ruleset_attr all = {.handled_access_fs = FILES_ALL};
    int ruleset = (int) syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0), r = 0;

    if (ruleset < 0)
        return errno == ENOSYS ? -EOPNOTSUPP : -errno;
    for (; *folders && r == 0; folders++) {
        struct landlock_path_beneath_attr below = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE |
                                                                     LANDLOCK_ACCESS_FS_READ_DIR |
                                                                     (may_exec ? LANDLOCK_ACCESS_FS_EXECUTE : 0),
                                                   .parent_fd = fd_open(AT_FDCWD, *folders, O_PATH | O_DIRECTORY, 0)};

        if (below.parent_fd < 0)
            continue; /* a folder that does not exist cannot be read */
        if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0) < 0)
            r = -errno;
        fd_close(below.parent_fd);
    }
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = -errno;
    fd_close(ruleset);
    return r;
}

/* abort() signals the process itself; no other process may be signalled. fstat() of glibc is newfstatat(). */
static int filter_calls(bool no_files, bool may_exec)
{
    struct confine_rule more[RULES_MAX] = {
        {.call = __NR_tgkill, .when = CONFINE_ONE_OF, .arg = 0, .values = {(uint32_t) getpid()}},
        {.call = __NR_newfstatat, .when = CONFINE_ONE_OF, .arg = 3, .values = {AT_EMPTY_PATH}}};

    size_t n = no_files ? 2 : 1 + ARRAY_SIZE(opening);

    if (!no_files)
        memcpy(more + 1, opening, sizeof opening);
    if (may_exec) {
        memcpy(more + n, starting, sizeof starting);
        n += ARRAY_SIZE(starting);
    }
    return confine_calls(rules, ARRAY_SIZE(rules), more, n);
}

int symbol_process_confine(const struct symbol_confine *c)
{
    bool no_files = c->no_files;
    int r = limit(RLIMIT_CORE, 0);

    if (r >= 0)
        r = limit(RLIMIT_NOFILE, 256);
    if (r >= 0 && !SANITIZED) /* a sanitizer reserves terabytes of address space */
        r = limit(RLIMIT_AS, c->memory_max);
    if (r >= 0 && !SANITIZED)
        r = limit(RLIMIT_DATA, MIN((rlim_t) c->memory_max, DATA_MAX));
    if (r >= 0)
        r = limit(RLIMIT_FSIZE, FILE_MAX);
    if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r >= 0 && c->folders && !no_files)
        r = restrict_files(c->folders, c->may_exec);
    if (r == -EOPNOTSUPP) {
        no_files = !c->may_exec; /* a program must be read to be started */
        r = 0;
    }
    if (r >= 0)
        r = confine_caps(0);
    return r < 0 ? r : filter_calls(no_files, c->may_exec);
}
