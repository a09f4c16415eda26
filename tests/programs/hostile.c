/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are expensive to profile. hostile KIND SECONDS:
 *   map       code of a JIT at ever other addresses, and a perf map of 60 MiB, which grows
 *   threads   5,000 threads, each of which runs a moment now and then
 *   mappings  30,000 executable mappings, some of which come and go
 *   context   a process context that is always being changed
 *   exec      replaces itself again and again */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static time_t end;

static void spin(int n)
{
    for (volatile int i = 0; i < n; i++)
        ;
}

/* --- map --- */
enum { CODE = 8 << 20, STEP = 64, MAP_BYTES = 60 << 20 };
/* mov ecx, 1 << 12; dec ecx; jnz; ret */
static const unsigned char loop[] = {0xb9, 0, 0x10, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

static void huge_map(void)
{
    unsigned char *at = mmap(NULL, CODE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    FILE *map;

    snprintf(name, sizeof name, "/tmp/perf-%d.map", (int) getpid());
    map = fopen(name, "w");
    if (at == MAP_FAILED || !map)
        exit(1);
    for (size_t i = 0; i < CODE; i += STEP)
        memcpy(at + i, loop, sizeof loop);
    for (size_t i = 0; ftell(map) < MAP_BYTES; i += STEP)
        fprintf(map, "%lx %x name_%zu\n", (unsigned long) (at + i % CODE), STEP, i);
    fflush(map);
    for (size_t i = 0; time(NULL) < end; i += STEP) {
        void (*f)(void);
        unsigned char *p = at + i % CODE;

        memcpy(&f, &p, sizeof f);
        f();
        if (i % (STEP * 64) == 0 && ftell(map) < MAP_BYTES * 2)
            fprintf(map, "%lx %x later_%zu\n", (unsigned long) p, STEP, i);
    }
    unlink(name);
}

/* --- threads --- */
static void *sleeper(void *arg)
{
    while (time(NULL) < end) {
        spin(20000);
        usleep(500000 + (unsigned) (uintptr_t) arg * 97 % 1000000);
    }
    return NULL;
}

static void threads(void)
{
    pthread_attr_t a;
    pthread_t t;

    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 64 << 10);
    for (uintptr_t i = 0; i < 5000; i++)
        if (pthread_create(&t, &a, sleeper, (void *) i))
            break;
    sleeper(NULL);
}

/* --- mappings --- */
static void mappings(void)
{
    int fd = memfd_create("code", 0);
    size_t page = 4096, n = 0;
    char *last = NULL;

    if (fd < 0 || ftruncate(fd, 1 << 20) < 0)
        exit(1);
    for (; n < 30000; n++) /* every other one has other rights, so that they are not joined */
        if (mmap(NULL, page, n % 2 ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd,
                 (off_t) (n * 7 % 256 * page)) == MAP_FAILED)
            break;
    while (time(NULL) < end) {
        if (last)
            munmap(last, page);
        last = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        spin(2000000);
    }
}

/* --- context --- */
static void context(void)
{
    uint64_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    prctl(0x53564d41 /* PR_SET_VMA */, 0, p, 4096, "OTEL_CTX");
    memcpy(p, "OTEL_CTX", 8);
    p[1] = 2 | 100ull << 32;
    p[2] = 0; /* being changed */
    p[3] = (uint64_t) (uintptr_t) p;
    while (time(NULL) < end)
        spin(2000000);
}

int main(int argc, char **argv)
{
    char until[32];

    if (argc < 3)
        return 2;
    end = argc > 3 ? (time_t) atoll(argv[3]) : time(NULL) + atoi(argv[2]);
    if (!strcmp(argv[1], "map"))
        huge_map();
    else if (!strcmp(argv[1], "threads"))
        threads();
    else if (!strcmp(argv[1], "mappings"))
        mappings();
    else if (!strcmp(argv[1], "context"))
        context();
    else if (!strcmp(argv[1], "exec") && time(NULL) < end) {
        snprintf(until, sizeof until, "%lld", (long long) end);
        spin(3000000);
        execl(argv[0], argv[0], "exec", "0", until, NULL);
    }
    return 0;
}
