/* SPDX-License-Identifier: Apache-2.0 */
/* faults N: touches N fresh pages, which are as many page faults. Prints the faults that the kernel counted. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

__attribute__((noinline)) static void touch(volatile char *p, long n)
{
    for (long i = 0; i < n; i++)
        p[i * 4096] = 1;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 1000;
    char *p = mmap(NULL, (size_t) n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rusage u;

    if (p == MAP_FAILED || madvise(p, (size_t) n * 4096, MADV_NOHUGEPAGE) < 0)
        return 1;
    touch(p, n);
    getrusage(RUSAGE_SELF, &u);
    printf("%ld\n", u.ru_minflt + u.ru_majflt);
    return 0;
}
