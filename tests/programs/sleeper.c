/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeps in nanosleep, epoll_wait and a thread of its own, with a little work between. Prints how often EINTR came, and the
 * seconds that nap(), wait_events() and long_sleep() took.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>

static int interrupted;
static double slept[3];

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

__attribute__((noinline)) int nap(void)
{
    struct timespec t = {0, 30000000};
    double from = now();
    int r = nanosleep(&t, NULL);

    slept[0] += now() - from;
    interrupted += r < 0 && errno == EINTR;
    return r;
}

__attribute__((noinline)) int wait_events(int fd)
{
    struct epoll_event e;
    double from = now();
    int r = epoll_wait(fd, &e, 1, 20);

    slept[1] += now() - from;
    interrupted += r < 0 && errno == EINTR;
    return r;
}

static void *long_sleep(void *arg)
{
    struct timespec t = {2, 0};
    double from = now();
    int r = nanosleep(&t, NULL);

    slept[2] += now() - from;
    interrupted += r < 0 && errno == EINTR;
    return NULL;
}

int main(void)
{
    int fd = epoll_create1(0);
    volatile long k = 0;
    pthread_t t;

    pthread_create(&t, NULL, long_sleep, NULL);
    for (int i = 0; i < 40; i++) {
        nap();
        wait_events(fd);
        for (int j = 0; j < 2000000; j++)
            k++;
    }
    pthread_join(t, NULL);
    printf("%d %f %f %f\n", interrupted, slept[0], slept[1], slept[2]);
    return 0;
}
