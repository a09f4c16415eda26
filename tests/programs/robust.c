/* SPDX-License-Identifier: Apache-2.0 */
/*
 * robust WHAT: what programs do that a profiler inside of them must survive. Prints "fine" when all went as it would
 * without one. WHAT: fork vfork exec dlopen threads signals fibers altstack exit-in-thread soak.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile int stop;

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void burn(double s)
{
    for (double end = cpu() + s; cpu() < end;)
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005ull + i;
}

static void *churn(void *arg) /* allocates and burns until told to stop */
{
    void *p[64] = {0};

    for (unsigned i = 0; !stop; i++) {
        free(p[i % 64]);
        p[i % 64] = malloc(1 + i * 7919 % 200000);
        if (i % 256 == 0)
            burn(0.0005);
    }
    for (int i = 0; i < 64; i++)
        free(p[i]);
    return NULL;
}

static void with_threads(void (*f)(void))
{
    pthread_t t[3];

    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, churn, NULL);
    f();
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}

static void check(int ok, const char *what)
{
    if (ok)
        return;
    printf("not fine: %s\n", what);
    fflush(stdout);
    _exit(1);
}

static void do_fork(void)
{
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            pthread_t t;
            void *p = malloc(1 << 20);

            burn(0.02);
            pthread_create(&t, NULL, churn, NULL);
            burn(0.01);
            stop = 1;
            pthread_join(t, NULL);
            free(p);
            if (i % 2)
                _exit(7);
            exit(7);
        }
        check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7, "a forked child");
    }
}

static void do_vfork(void)
{
    for (int i = 0; i < 60; i++) {
        int status;
        pid_t pid = vfork();

        if (pid == 0) {
            if (i % 2)
                execl("/bin/true", "true", (char *) NULL);
            _exit(i % 2 ? 99 : 3);
        }
        check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == (i % 2 ? 0 : 3), "vfork");
        burn(0.002);
    }
    check(system("exit 5") >> 8 == 5, "system");
}

static void do_dlopen(void)
{
    static const char *const names[] = {"libz.so.1", "libm.so.6", "libexpat.so.1", "libbz2.so.1.0", "liblzma.so.5"};

    for (int i = 0; i < 300; i++) {
        void *h = dlopen(names[i % 5], RTLD_NOW | RTLD_LOCAL);

        burn(0.001);
        if (h)
            dlclose(h);
    }
}

static void *tiny(void *arg)
{
    free(malloc(1000 + (uintptr_t) arg % 100000));
    if ((uintptr_t) arg % 100 == 0)
        pthread_exit(NULL);
    return NULL;
}

static void do_threads(void)
{
    for (int i = 0; i < 10000; i += 50) {
        pthread_t t[50];

        for (int k = 0; k < 50; k++)
            check(pthread_create(&t[k], NULL, tiny, (void *) (uintptr_t) (i + k)) == 0, "pthread_create");
        for (int k = 0; k < 50; k++)
            pthread_join(t[k], NULL);
    }
}

static volatile sig_atomic_t got[65];

static void on_signal(int sig, siginfo_t *si, void *uc)
{
    got[sig]++;
}

/* The host takes every real-time signal and SIGPROF, with timers of its own. */
static void do_signals(void)
{
    struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    struct itimerspec it = {{0, 5000000}, {0, 5000000}};
    timer_t t;

    sigaction(SIGPROF, &sa, NULL);
    for (int s = SIGRTMIN + 4; s <= SIGRTMAX; s++)
        sigaction(s, &sa, NULL);
    timer_create(CLOCK_PROCESS_CPUTIME_ID, &ev, &t);
    timer_settime(t, 0, &it, NULL);
    burn(1.5);
    for (int s = SIGRTMIN + 4; s <= SIGRTMAX; s++) {
        int before = got[s];

        raise(s);
        check(got[s] > before, "a real-time signal of the host");
    }
    check(got[SIGPROF] > 20, "SIGPROF of the host");
}

static ucontext_t main_context, fibers[8];
static int fiber_runs;

static void fiber(int i)
{
    for (int k = 0; k < 20; k++) {
        burn(0.002);
        free(malloc(100000));
        fiber_runs++;
        swapcontext(&fibers[i], &main_context);
    }
}

static void do_fibers(void)
{
    for (int i = 0; i < 8; i++) {
        size_t size = i % 2 ? 65536 : 16384;

        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fibers[i].uc_stack.ss_size = size;
        fibers[i].uc_link = &main_context;
        makecontext(&fibers[i], (void (*)(void)) fiber, 1, i);
    }
    for (int k = 0; k < 20; k++)
        for (int i = 0; i < 8; i++)
            swapcontext(&main_context, &fibers[i]);
    check(fiber_runs == 160, "fibers");
}

static void on_alt(int sig, siginfo_t *si, void *uc)
{
    burn(0.01);
    got[sig]++;
}

static void do_altstack(void)
{
    struct sigaction sa = {.sa_sigaction = on_alt, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    size_t size = 16384;
    stack_t alt = {.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                   .ss_size = size};

    sigaltstack(&alt, NULL);
    sigaction(SIGUSR1, &sa, NULL);
    for (int i = 0; i < 50; i++) {
        raise(SIGUSR1);
        burn(0.005);
    }
    check(got[SIGUSR1] == 50, "a handler on its own stack");
}

static void *leaves(void *arg)
{
    burn(0.05);
    puts("fine");
    fflush(stdout);
    exit(0);
}

static double soak_seconds;

static long rss_kb(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * 4;
}

/* Loads and unloads, forks and starts threads until the time is over. Prints what the process holds early and late. */
static void do_soak(void)
{
    time_t start = time(NULL);
    long early = 0;

    while (time(NULL) - start < soak_seconds) {
        pthread_t t[20];
        pid_t pid;

        for (int k = 0; k < 20; k++)
            pthread_create(&t[k], NULL, tiny, (void *) (uintptr_t) k);
        for (int k = 0; k < 20; k++)
            pthread_join(t[k], NULL);
        for (int i = 0; i < 5; i++) {
            static const char *const names[] = {"libz.so.1", "libexpat.so.1", "libbz2.so.1.0", "liblzma.so.5",
                                                "libgcc_s.so.1"};
            void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);

            burn(0.002);
            if (h)
                dlclose(h);
        }
        pid = fork();
        if (pid == 0) {
            burn(0.002);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        if (!early && time(NULL) - start >= soak_seconds / 4)
            early = rss_kb();
    }
    printf("rss %ld %ld\n", early, rss_kb());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    pthread_t t;

    if (!strcmp(what, "fork"))
        with_threads(do_fork);
    else if (!strcmp(what, "vfork"))
        with_threads(do_vfork);
    else if (!strcmp(what, "exec")) {
        if (argc > 2)
            burn(0.1);
        else {
            pthread_create(&t, NULL, churn, NULL);
            burn(0.2);
            execl("/proc/self/exe", argv[0], "exec", "again", (char *) NULL);
        }
    } else if (!strcmp(what, "dlopen"))
        with_threads(do_dlopen);
    else if (!strcmp(what, "soak")) {
        soak_seconds = argc > 2 ? atof(argv[2]) : 60;
        with_threads(do_soak);
    } else if (!strcmp(what, "threads"))
        do_threads();
    else if (!strcmp(what, "signals"))
        do_signals();
    else if (!strcmp(what, "fibers"))
        do_fibers();
    else if (!strcmp(what, "altstack"))
        do_altstack();
    else if (!strcmp(what, "exit-in-thread")) {
        pthread_create(&t, NULL, leaves, NULL);
        pause();
    } else
        return 2;
    puts("fine");
    return 0;
}
