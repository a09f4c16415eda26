/* SPDX-License-Identifier: Apache-2.0 */
/* As a process that is to enter a sandbox: checks that it has one thread, and asks for a user namespace of its own by the
 * function or, with the argument "syscall", by the number. Prints "one" for the first and the error of the second. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY), r;
    struct stat st = {0};
    struct timespec t;

    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    while (t.tv_sec * 1e9 + t.tv_nsec < 2e8);
    fstatat(proc, "self/task/", &st, 0);
    r = argc > 1 && !strcmp(argv[1], "syscall") ? (int) syscall(SYS_unshare, CLONE_NEWUSER) : unshare(CLONE_NEWUSER);
    printf("%s %s\n", st.st_nlink == 3 ? "one" : "many", r ? strerror(errno) : "fine");
    return 0;
}
