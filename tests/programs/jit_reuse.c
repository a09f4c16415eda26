/* SPDX-License-Identifier: Apache-2.0 */
/* Code of several functions, one after another at the same address, as a JIT that uses its memory again. Each is named in the
 * perf map (argv[1]) before it runs, for argv[2] seconds of CPU time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    /* a loop of 2^22 rounds, without a frame of its own: mov ecx, 1 << 22; dec ecx; jnz; ret */
    static const unsigned char bytes[] = {0xb9, 0, 0, 0x40, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *map = argc > 2 ? fopen(argv[1], "w") : NULL;
    void (*code)(void);

    if (at == MAP_FAILED || !map)
        return 1;
    memcpy(at, bytes, sizeof bytes);
    memcpy(&code, &at, sizeof code);
    for (int i = 0; i < 5; i++) {
        double end = cpu() + atof(argv[2]);

        fprintf(map, "%lx %lx phase_%d\n", (unsigned long) at, (unsigned long) sizeof bytes, i);
        fflush(map);
        while (cpu() < end)
            code();
    }
    return 0;
}
