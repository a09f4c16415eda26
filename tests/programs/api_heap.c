/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap and lock profiles by the API alone: hooks go into the offset tables of what is loaded. Prints the bytes allocated and
 * in use in keep(), and the seconds waited, then writes heap.pb.gz and lock.pb.gz into the current directory.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wick.h>

static void *kept[20000];
static uint64_t bytes, live;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int64_t waited;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

__attribute__((noinline)) static void keep(void)
{
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < 20000; i++) {
            size_t n = 16 + (size_t) (i * 7919 % 20000);

            free(kept[i]);
            kept[i] = i % 2 ? malloc(n) : calloc(1, n);
            bytes += n;
            live += round == 19 ? n : 0;
        }
}

static void *fight(void *arg)
{
    for (int i = 0; i < 400; i++) {
        int64_t from = now(), end;

        pthread_mutex_lock(&m);
        __sync_fetch_and_add(&waited, now() - from);
        for (end = now() + 200000; now() < end;)
            ;
        pthread_mutex_unlock(&m);
        for (end = now() + 100000; now() < end;)
            ;
    }
    return NULL;
}

static void save(struct wick_provider *p, unsigned type, const char *path)
{
    void *snapshot;
    size_t n;
    FILE *f = fopen(path, "w");

    if (wick_snapshot(p, type, &snapshot, &n) < 0)
        printf("%s\n", wick_last_error());
    else
        fwrite(snapshot, 1, n, f);
    fclose(f);
}

int main(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;
    pthread_t t[3];

    o.endpoint = "none";
    o.types = WICK_HEAP | WICK_LOCK;
    o.alloc_interval = 65536;
    p = wick_provider_new(&o);
    if (!p)
        return printf("%s\n", wick_last_error()), 1;
    keep();
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, fight, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    save(p, WICK_HEAP, "heap.pb.gz");
    save(p, WICK_LOCK, "lock.pb.gz");
    printf("%lu %lu %.6f\n", (unsigned long) bytes, (unsigned long) live, waited / 1e9);
    wick_provider_free(p);
    return 0;
}
