/* SPDX-License-Identifier: Apache-2.0 */
/* forks PLUGIN.so: a child that never execs, then a library that is loaded while the program runs. */
#include <dlfcn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile uint64_t sink;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

__attribute__((noinline, noclone)) void in_child(double seconds)
{
    double end = now() + seconds;

    while (now() < end)
        for (int i = 0; i < 100000; i++)
            sink += (uint64_t) i * 3;
}

int main(int argc, char **argv)
{
    void (*work)(double, double (*)(void));
    void *lib;

    if (fork() == 0) {
        in_child(0.4);
        _exit(0);
    }
    wait(NULL);
    lib = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    work = lib ? (void (*)(double, double (*)(void))) dlsym(lib, "plugin_work") : NULL;
    if (!work)
        return 1;
    work(0.4, now);
    sink++;
    return 0;
}
