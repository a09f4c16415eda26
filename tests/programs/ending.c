/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending HOW: burns a little CPU and ends in one of the ways in which programs end. What it prints and how it ends must be
 * the same with a profiler inside as without.
 */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_WICK
#include "wick.h"

static struct wick_provider *provider;
#endif

static volatile unsigned long sink;

__attribute__((noinline)) static void burn(double s)
{
    struct timespec t;
    double end = 0, now;

    do {
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005ull + i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now = t.tv_sec + t.tv_nsec / 1e9;
        if (end == 0)
            end = now + s;
    } while (now < end);
}

static void say(const char *s)
{
    (void) !write(1, s, strlen(s));
}

static void at_exit(void)
{
    say("at exit\n");
}

/* --- threads --- */
static void *work(void *arg)
{
    burn(0.2);
    say("worker done\n");
    return arg;
}

static void main_leaves(void)
{
    pthread_t t;

    atexit(at_exit);
    pthread_create(&t, NULL, work, NULL);
    pthread_detach(t);
    pthread_exit(NULL);
}

static void *fork_and_return(void *arg)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) { /* its only thread: when it returns, the process ends */
        burn(0.05);
        say("child done\n");
        return NULL;
    }
    waitpid(pid, &status, 0);
    printf("child's status %d\n", status);
    return arg;
}

static void fork_from_thread(void)
{
    pthread_t t;

    pthread_create(&t, NULL, fork_and_return, NULL);
    pthread_join(t, NULL);
}

/* --- signals --- */
static void show(int sig)
{
    struct sigaction sa;
    void (*h)(int);

    sigaction(sig, NULL, &sa);
    h = signal(sig, SIG_DFL);
    printf("%d: %s %s %x\n", sig,
           sa.sa_handler == SIG_DFL   ? "default"
           : sa.sa_handler == SIG_IGN ? "ignored"
                                      : "handler",
           h == SIG_DFL   ? "default"
           : h == SIG_IGN ? "ignored"
                          : "handler",
           sa.sa_flags);
}

static void dispositions(void)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        show(all[i]);
}

static void on_first(int sig)
{
    say("handled\n");
    raise(sig); /* with SA_RESETHAND the second one ends the process: as Node.js does */
}

static void killed(int sig)
{
    burn(0.2);
    raise(sig);
    say("alive\n");
}

static void once(void)
{
    struct sigaction sa = {.sa_handler = on_first, .sa_flags = (int) SA_RESETHAND}, old;

    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGTERM, NULL, &old);
    printf("%d %x\n", old.sa_handler == on_first, old.sa_flags);
    fflush(stdout);
    killed(SIGTERM);
}

static void on_int(int sig)
{
    say("interrupted\n");
    signal(sig, SIG_DFL);
    kill(getpid(), sig);
}

static void handler_then_default(void)
{
    signal(SIGINT, on_int);
    killed(SIGINT);
}

static void *waits_for_signal(void *arg)
{
    sigset_t set;
    int sig;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigwait(&set, &sig);
    printf("got %d\n", sig);
    exit(3);
}

static void sigwait_in_thread(void)
{
    sigset_t set;
    pthread_t t;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&t, NULL, waits_for_signal, NULL);
    burn(0.1);
    kill(getpid(), SIGTERM);
    pthread_join(t, NULL);
}

/* --- seccomp --- */
/* Allows what a program needs to print and to end; all else kills the process. */
static void filter(int by_syscall, unsigned flags)
{
    static const int allowed[] = {SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_newfstatat};
    struct sock_filter f[32];
    unsigned short n = 0;
    struct sock_fprog prog = {.filter = f};

    f[n++] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        f[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) allowed[i], 0, 1);
        f[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    f[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    prog.len = n;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (by_syscall)
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
    else
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
    for (int i = 0; i < 200000000; i++) /* no clock here */
        sink += i;
    say("filtered\n");
}

static void seccomp_strict(void)
{
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
    say("strict\n");
    syscall(SYS_exit, 4);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
#ifdef WITH_WICK
    struct wick_options o = WICK_OPTIONS_INIT;

    o.file = getenv("PROFILE");
    o.endpoint = getenv("ENDPOINT");
    provider = wick_provider_new(&o);
    if (!provider)
        return 9;
#endif

    burn(0.1);
    if (!strcmp(how, "main-leaves"))
        main_leaves();
    else if (!strcmp(how, "main-leaves-alone"))
        pthread_exit(NULL);
    else if (!strcmp(how, "fork-from-thread"))
        fork_from_thread();
    else if (!strcmp(how, "dispositions"))
        dispositions();
    else if (!strcmp(how, "term"))
        killed(SIGTERM);
    else if (!strcmp(how, "int"))
        killed(SIGINT);
    else if (!strcmp(how, "once"))
        once();
    else if (!strcmp(how, "handler-then-default"))
        handler_then_default();
    else if (!strcmp(how, "sigwait"))
        sigwait_in_thread();
    else if (!strcmp(how, "seccomp"))
        filter(0, 0);
    else if (!strcmp(how, "seccomp-tsync"))
        filter(1, SECCOMP_FILTER_FLAG_TSYNC);
    else if (!strcmp(how, "seccomp-strict"))
        seccomp_strict();
    else if (!strcmp(how, "_exit"))
        _exit(5);
#ifdef WITH_WICK
    wick_provider_free(provider);
#endif
    return 0;
}
