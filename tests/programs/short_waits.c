/* SPDX-License-Identifier: Apache-2.0 */
/* short_waits SECONDS: threads work for milliseconds and sleep for milliseconds, in nap() and, longer, in doze(), with libwick's wall-clock
 * time. Writes wall.pb.gz; prints for nap, doze and work how long they lasted: at least, and at most, in ns. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <wick.h>

enum { THREADS = 4 };

static _Atomic long account[6];
static long end;

static long now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

__attribute__((noinline)) static void nap(useconds_t us)
{
    long begin = now(CLOCK_MONOTONIC);

    usleep(us);
    account[0] += 1000l * us;
    account[1] += now(CLOCK_MONOTONIC) - begin;
}

__attribute__((noinline)) static void doze(useconds_t us)
{
    long begin = now(CLOCK_MONOTONIC);

    usleep(us);
    account[2] += 1000l * us;
    account[3] += now(CLOCK_MONOTONIC) - begin;
}

__attribute__((noinline)) static void work(long ns)
{
    long begin = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);

    while (now(CLOCK_THREAD_CPUTIME_ID) < cpu + ns)
        ;
    account[4] += ns;
    account[5] += now(CLOCK_MONOTONIC) - begin;
}

static void *run(void *arg)
{
    unsigned seed = (unsigned) (uintptr_t) arg;

    while (now(CLOCK_MONOTONIC) < end) {
        work(1000l * (250 + rand_r(&seed) % 1000));
        nap(500 + (useconds_t) rand_r(&seed) % 2000);
        work(1000l * (250 + rand_r(&seed) % 1000));
        doze(1000 + (useconds_t) rand_r(&seed) % 6000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;
    pthread_t t[THREADS];
    void *snapshot;
    size_t n;
    FILE *f = fopen("wall.pb.gz", "w");

    (void) argc;
    o.endpoint = "none";
    o.types = WICK_WALL;
    p = wick_provider_new(&o);
    if (!p)
        return printf("%s\n", wick_last_error()), 1;
    end = now(CLOCK_MONOTONIC) + atol(argv[1]) * 1000000000;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, run, (void *) (i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    if (wick_snapshot(p, WICK_WALL, &snapshot, &n) < 0)
        return printf("%s\n", wick_last_error()), 1;
    fwrite(snapshot, 1, n, f);
    fclose(f);
    wick_provider_free(p);
    for (int i = 0; i < 6; i++)
        printf("%ld ", account[i]);
    return 0;
}
