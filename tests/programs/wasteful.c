/* SPDX-License-Identifier: Apache-2.0 */
/* Wastes CPU time in one way for some seconds: wasteful regexp|malloc|faults|locks|none SECONDS. The function that is to blame is
 * waste_NAME(). For tests of `wick query findings`. */
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static volatile unsigned long sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static time_t end;

__attribute__((noinline)) static void work(unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        sink += i * i;
}

__attribute__((noinline)) static void waste_regexp(void)
{
    regex_t r;

    if (regcomp(&r, "^(GET|POST) /[a-z]+/([0-9]+)(\\?.*)?$", REG_EXTENDED) == 0) {
        sink += (unsigned long) regexec(&r, "GET /items/42?x=1", 0, NULL, 0);
        regfree(&r);
    }
    work(2000);
}

__attribute__((noinline)) static void waste_malloc(void)
{
    void *v[200];

    for (int i = 0; i < 200; i++)
        v[i] = malloc(40 + (size_t) i * 7);
    for (int i = 0; i < 200; i++)
        free(v[i]);
    work(2000);
}

__attribute__((noinline)) static void waste_faults(void)
{
    size_t n = 4 << 20;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return;
    madvise(p, n, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < n; i += 4096)
        p[i] = 1;
    munmap(p, n);
    work(20000);
}

__attribute__((noinline)) static void waste_locks(void)
{
    pthread_mutex_lock(&lock);
    work(50);
    pthread_mutex_unlock(&lock);
    work(10);
}

__attribute__((noinline)) static void waste_none(void)
{
    work(100000);
}

static void *loop(void *arg)
{
    void (*waste)(void) = *(void (**)(void)) arg;

    while (time(NULL) < end)
        for (int i = 0; i < 20; i++)
            waste();
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*waste)(void);
        int threads;
    } all[] = {{"regexp", waste_regexp, 1},
               {"malloc", waste_malloc, 1},
               {"faults", waste_faults, 1},
               {"locks", waste_locks, 4},
               {"none", waste_none, 1}};
    pthread_t threads[4];

    for (size_t i = 0; argc == 3 && i < sizeof all / sizeof *all; i++) {
        void (*waste)(void) = all[i].waste;

        if (strcmp(argv[1], all[i].name) != 0)
            continue;
        end = time(NULL) + atoi(argv[2]) + 1;
        for (int t = 0; t < all[i].threads; t++)
            pthread_create(&threads[t], NULL, loop, &waste);
        for (int t = 0; t < all[i].threads; t++)
            pthread_join(threads[t], NULL);
        return 0;
    }
    fprintf(stderr, "usage: wasteful regexp|malloc|faults|locks|none SECONDS\n");
    return 2;
}
