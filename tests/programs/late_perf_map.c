/* SPDX-License-Identifier: Apache-2.0 */
/* Runs code that it wrote into memory, as a JIT does. Its perf map (argv[1]: where) has another function at first; the name of
 * the code that runs is added after each line of input. Prints a line when the code runs. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void (*code)(void);

static void *run(void *arg)
{
    (void) arg;
    for (;;)
        code();
    return NULL;
}

int main(int argc, char **argv)
{
    /* a loop of 2^24 rounds, without a frame of its own: mov ecx, 1 << 24; dec ecx; jnz; ret */
    static const unsigned char bytes[] = {0xb9, 0, 0, 0, 1, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *map = argc > 1 ? fopen(argv[1], "w") : NULL;
    pthread_t thread;
    char line[64];

    if (at == MAP_FAILED || !map)
        return 1;
    memcpy(at, bytes, sizeof bytes);
    memcpy(&code, &at, sizeof code);
    fprintf(map, "%lx 100 other\n", (unsigned long) at + 2048);
    fflush(map);
    if (pthread_create(&thread, NULL, run, NULL))
        return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        fprintf(map, "%lx %lx late_name\n", (unsigned long) at, (unsigned long) sizeof bytes);
        fflush(map);
    }
    return 0;
}
