/* SPDX-License-Identifier: Apache-2.0 */
/* dropped DIR: a server started by root, as nginx is: its workers give up its user, one of them its root directory too. */
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static void burn(void)
{
    struct timespec t;

    do {
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005ull + i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec == 0 && t.tv_nsec < 300000000);
}

__attribute__((noinline)) static void worker(void)
{
    burn();
    sink += 3;
}

__attribute__((noinline)) static void jailed_worker(void)
{
    burn();
    sink++;
}

int main(int argc, char **argv)
{
    int status, bad = 0;

    clearenv();
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            if (i == 1 && (chroot(argv[1]) < 0 || chdir("/") < 0))
                exit(2);
            if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
                exit(3);
            (i ? jailed_worker : worker)();
            exit(0);
        }
    while (wait(&status) > 0)
        bad |= status;
    printf("%d\n", bad);
    return 0;
}
