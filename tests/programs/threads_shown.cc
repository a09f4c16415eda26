// SPDX-License-Identifier: Apache-2.0
/*
 * threads_shown: three threads that sleep, one that runs (in a function inlined into another) and one that
 * allocates, until standard input ends. Prints what it saw of children, of which it has none.
 */
#include <pthread.h>
#include <signal.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;
static volatile sig_atomic_t children;

static inline __attribute__((always_inline)) uint64_t inner(uint64_t x)
{
    for (int i = 0; i < 1000000; i++)
        x = x * 6364136223846793005ull + (uint64_t) i; /* the hot line */
    return x;
}

__attribute__((noinline)) uint64_t outer_function(uint64_t x)
{
    uint64_t r = inner(x);
    sink = r;
    return r + 1;
}

__attribute__((noinline)) void *spinner(void *)
{
    for (;;)
        outer_function(sink);
    return nullptr;
}

__attribute__((noinline)) void *napper(void *)
{
    for (;;) {
        pause();
        sink = sink + 1;
    }
    return nullptr;
}

__attribute__((noinline)) void *keeper(void *)
{
    for (;;) {
        void *volatile p = malloc(100000);
        usleep(1000);
        free(p);
    }
    return nullptr;
}

__attribute__((noinline)) void start_all(void)
{
    pthread_t t;
    for (int i = 0; i < 3; i++)
        pthread_create(&t, nullptr, napper, nullptr);
    pthread_create(&t, nullptr, spinner, nullptr);
    pthread_create(&t, nullptr, keeper, nullptr);
    sink = sink + 1;
}

static void on_child(int)
{
    children = children + 1;
}

int main()
{
    char c;
    signal(SIGCHLD, on_child);
    start_all();
    puts("ready");
    fflush(stdout);
    for (ssize_t n = 1; n != 0;)
        n = read(0, &c, 1);
    printf("children %d, wait() says %d\n", (int) children, (int) waitpid(-1, nullptr, WNOHANG));
    fflush(stdout);
    _exit(0);
}
