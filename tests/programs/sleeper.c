/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps in nanosleep, epoll_wait and a thread of its own, with a little work between. Prints how often EINTR came. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>

static int interrupted;

__attribute__((noinline)) int nap(void)
{
    struct timespec t = {0, 30000000};
    int r = nanosleep(&t, NULL);

    interrupted += r < 0 && errno == EINTR;
    return r;
}

__attribute__((noinline)) int wait_events(int fd)
{
    struct epoll_event e;
    int r = epoll_wait(fd, &e, 1, 20);

    interrupted += r < 0 && errno == EINTR;
    return r;
}

static void *long_sleep(void *arg)
{
    struct timespec t = {2, 0};
    int r = nanosleep(&t, NULL);

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
    printf("%d\n", interrupted);
    return 0;
}
