/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose next statement is inlined code of another file (call_places.h), and code that is interrupted at the first
 * instruction of its function: the address after the call, and the one before the instruction, are in other functions.
 *
 *     call_places alloc | lock | wait | spin | signal [SECONDS]
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "call_places.h"

enum { TURNS = 1 << 24 };

#define NOINLINE __attribute__((noinline))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *volatile kept;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

NOINLINE void allocates(void)
{
    kept = malloc(100000); /* the call of allocates */
    innocent();
    free(kept);
}

NOINLINE void locks(void)
{
    pthread_mutex_lock(&mutex); /* the call of locks */
    innocent();
    pthread_mutex_unlock(&mutex);
}

/* A system call in the function itself, as musl, Go and Rust's rustix have them. */
NOINLINE void waits(void)
{
    struct timespec t = {0, 20000000};
    long r;

#if defined(__x86_64__)
    __asm__ volatile("syscall" /* the call of waits */
                     : "=a"(r)
                     : "0"(SYS_nanosleep), "D"(&t), "S"(0)
                     : "rcx", "r11", "memory");
#else
    r = syscall(SYS_nanosleep, &t, NULL); /* the call of waits */
#endif
    innocent();
    (void) r;
}

/* Before spins() lies a function that is never called. */
__asm__(".text\n"
        ".type never_called,@function\n"
        "never_called:\n"
        "  ret\n"
        ".size never_called, .-never_called\n"
        ".globl spins\n"
        ".type spins,@function\n"
        "spins:\n"
        "  .cfi_startproc\n"
#if defined(__x86_64__)
        "  decq (%rdi)\n"
        "  jnz spins\n"
#else
        "1: ldr x1, [x0]\n  subs x1, x1, #1\n  str x1, [x0]\n  b.ne spins\n"
#endif
        "  ret\n"
        "  .cfi_endproc\n"
        ".size spins, .-spins\n");
void spins(volatile uint64_t *left);

static volatile uint64_t left;

NOINLINE void burns(double seconds)
{
    double until = now() + seconds;

    while (now() < until)
        for (int i = 0; i < 100000; i++)
            innocent_work++;
}

static void on_alarm(int sig)
{
    (void) sig;
    burns(1);
}

static void *holder(void *arg)
{
    double until = *(double *) arg;

    while (now() < until) {
        pthread_mutex_lock(&mutex);
        usleep(2000);
        pthread_mutex_unlock(&mutex);
        usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "alloc";
    double seconds = argc > 2 ? atof(argv[2]) : 1, until = now() + seconds;
    pthread_t t;

    setvbuf(stdout, NULL, _IONBF, 0);
    puts("ready");
    if (strcmp(mode, "alloc") == 0) {
        for (int i = 0; i < 20000; i++)
            allocates();
    } else if (strcmp(mode, "lock") == 0) {
        pthread_create(&t, NULL, holder, &until);
        while (now() < until)
            locks();
        pthread_join(t, NULL);
    } else if (strcmp(mode, "wait") == 0) {
        while (now() < until)
            waits();
    } else if (strcmp(mode, "spin") == 0) {
        for (left = TURNS; now() < until; left = TURNS)
            spins(&left);
    } else {
        signal(SIGALRM, on_alarm);
        ualarm(50000, 0);
        for (left = TURNS; now() < until; left = TURNS)
            spins(&left);
    }
    return 0;
}
