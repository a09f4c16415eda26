/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of test_sdk_threads.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "wick.h"

atomic_bool sdk_threads_stop;
atomic_ulong sdk_threads_rounds;
void *sdk_threads_work(void *arg);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void burn(int n)
{
    volatile unsigned long x = 1;

    for (int i = 0; i < n; i++)
        x = x * 6364136223846793005ul + 1;
}

static void *short_lived(void *arg)
{
    void *volatile p = malloc(100000);

    free(p);
    burn(20000);
    return arg;
}

void *sdk_threads_work(void *arg)
{
    uint8_t trace[16] = {1, 2, 3}, span[8] = {(uint8_t) (uintptr_t) arg, 1};
    void *kept[32] = {0};

    for (unsigned i = 0; !atomic_load(&sdk_threads_stop); i++) {
        pthread_t t;

        wick_span_enter(trace, span);
        wick_label_set("route", i % 2 ? "/a" : "/b");
        free(kept[i % 32]);
        kept[i % 32] = malloc(1 + i * 7919 % 300000);
        pthread_mutex_lock(&mutex);
        burn(3000);
        pthread_mutex_unlock(&mutex);
        wick_label_set("route", NULL);
        wick_span_leave();
        if (i % 64 == 0 && pthread_create(&t, NULL, short_lived, NULL) == 0)
            pthread_join(t, NULL);
        atomic_fetch_add(&sdk_threads_rounds, 1);
    }
    for (int i = 0; i < 32; i++)
        free(kept[i]);
    return NULL;
}
