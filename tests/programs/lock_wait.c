/* SPDX-License-Identifier: Apache-2.0 */
/* Four threads fight for a mutex; prints the seconds they measured themselves waiting. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t sink;
static __thread int64_t waited;
static int64_t total;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void spin(int64_t ns)
{
    for (int64_t end = now() + ns; now() < end;)
        sink++;
}

__attribute__((noinline)) static void critical(int us)
{
    int64_t from = now();

    pthread_mutex_lock(&m);
    waited += now() - from;
    spin(us * 1000);
    pthread_mutex_unlock(&m);
}

static void *work(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        critical(20 + i % 50);
        spin(30000);
    }
    __sync_fetch_and_add(&total, waited);
    return NULL;
}

int main(void)
{
    pthread_t t[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    printf("%.6f\n", total / 1e9);
    return 0;
}
