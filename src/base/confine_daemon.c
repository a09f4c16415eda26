/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of wick's daemons, for confine_calls(): those that glibc, OpenSSL, SQLite and wick itself use to
 * serve requests, write files and run confined children. A call that is missing here fails with EPERM.
 */
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/confine.h"
#include "base/macros.h"

#define NEW_NAMESPACES \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define CALL(name)          \
    {                       \
        .call = __NR_##name \
    }

/* clang-format off */
const struct confine_rule confine_daemon[] = {
    /* the most frequent ones first */
    CALL(futex), CALL(read), CALL(write), CALL(epoll_pwait), CALL(recvfrom), CALL(sendto), CALL(recvmsg), CALL(sendmsg),
    CALL(writev), CALL(readv), CALL(pread64), CALL(pwrite64), CALL(clock_gettime), CALL(close), CALL(madvise),
    /* memory */
    CALL(mmap), CALL(munmap), CALL(mremap), CALL(mprotect), CALL(brk), CALL(mincore), CALL(msync), CALL(membarrier),
    CALL(mlock), CALL(munlock),
    /* threads and processes; clone3 hides its flags from a filter, and glibc then uses clone */
    {.call = __NR_clone, .when = CONFINE_WITHOUT_BITS, .arg = 0, .values = {NEW_NAMESPACES}},
    {.call = __NR_clone3, .when = CONFINE_ENOSYS},
    CALL(execve), CALL(exit), CALL(exit_group), CALL(wait4), CALL(waitid), CALL(kill), CALL(tgkill), CALL(tkill),
    CALL(set_tid_address), CALL(set_robust_list), CALL(get_robust_list), CALL(rseq), CALL(sched_yield),
    CALL(sched_getaffinity), CALL(sched_setaffinity), CALL(sched_getparam), CALL(sched_getscheduler), CALL(getpriority),
    CALL(setpriority), CALL(getcpu), CALL(prctl), CALL(seccomp), CALL(landlock_create_ruleset),
    CALL(landlock_add_rule), CALL(landlock_restrict_self), CALL(capget), CALL(capset), CALL(setsid), CALL(setpgid),
    CALL(pidfd_open), CALL(pidfd_send_signal),
    /* signals and timers */
    CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigtimedwait), CALL(rt_sigsuspend),
    CALL(rt_sigpending), CALL(rt_sigqueueinfo), CALL(rt_tgsigqueueinfo), CALL(sigaltstack), CALL(restart_syscall),
    CALL(signalfd4), CALL(timerfd_create), CALL(timerfd_settime), CALL(timerfd_gettime), CALL(timer_create),
    CALL(timer_settime), CALL(timer_gettime), CALL(timer_getoverrun), CALL(timer_delete), CALL(setitimer),
    CALL(getitimer), CALL(nanosleep), CALL(clock_nanosleep), CALL(clock_getres), CALL(gettimeofday), CALL(times),
    /* identity and limits of the process */
    CALL(getpid), CALL(getppid), CALL(gettid), CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid),
    CALL(getresuid), CALL(getresgid), CALL(getgroups), CALL(getpgid), CALL(getsid), CALL(getrlimit), CALL(setrlimit),
    CALL(prlimit64), CALL(getrusage), CALL(sysinfo), CALL(uname), CALL(getrandom), CALL(umask), CALL(getcwd),
    /* files */
    CALL(openat), CALL(openat2), CALL(close_range), CALL(fstat), CALL(newfstatat), CALL(statx), CALL(fstatfs),
    CALL(statfs), CALL(lseek), CALL(getdents64), CALL(readlinkat), CALL(faccessat), CALL(faccessat2), CALL(fcntl),
    CALL(flock), CALL(fsync), CALL(fdatasync), CALL(sync_file_range), CALL(syncfs), CALL(ftruncate), CALL(fallocate),
    CALL(renameat), CALL(renameat2), CALL(unlinkat), CALL(mkdirat), CALL(linkat), CALL(symlinkat), CALL(fchmod),
    CALL(fchmodat), CALL(utimensat), CALL(fadvise64), CALL(readahead), CALL(copy_file_range), CALL(sendfile),
    CALL(preadv), CALL(pwritev), CALL(preadv2), CALL(pwritev2), CALL(ioctl), CALL(dup), CALL(dup3), CALL(pipe2),
    CALL(eventfd2), CALL(memfd_create), CALL(inotify_init1), CALL(inotify_add_watch), CALL(inotify_rm_watch),
    CALL(chdir), CALL(fchdir),
    /* sockets: no raw, packet or other unusual families */
    {.call = __NR_socket, .when = CONFINE_ONE_OF, .arg = 0, .values = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}},
    CALL(socketpair), CALL(connect), CALL(bind), CALL(listen), CALL(accept), CALL(accept4), CALL(getsockname),
    CALL(getpeername), CALL(getsockopt), CALL(setsockopt), CALL(shutdown), CALL(sendmmsg), CALL(recvmmsg), CALL(ppoll),
    CALL(pselect6), CALL(epoll_create1), CALL(epoll_ctl),
#ifdef __NR_epoll_pwait2
    CALL(epoll_pwait2),
#endif
#ifdef __x86_64__
    CALL(epoll_wait), CALL(epoll_create), CALL(poll), CALL(select), CALL(open), CALL(stat), CALL(lstat), CALL(access),
    CALL(readlink), CALL(getdents), CALL(unlink), CALL(rename), CALL(mkdir), CALL(rmdir), CALL(link), CALL(symlink),
    CALL(chmod), CALL(dup2), CALL(pipe), CALL(eventfd), CALL(fork), CALL(vfork), CALL(arch_prctl), CALL(alarm),
    CALL(time), CALL(getpgrp), CALL(pause), CALL(creat),
#endif
};
/* clang-format on */

const size_t confine_daemon_n = ARRAY_SIZE(confine_daemon);
