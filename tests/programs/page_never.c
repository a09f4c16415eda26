/* SPDX-License-Identifier: Apache-2.0 */
/* Looks like CPython 3.14 whose list of interpreters is on a page that never arrives: it is registered with userfaultfd, and
 * no one serves it. Burns CPU time for argv[1] seconds. Ends with 77 where userfaultfd is not permitted. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The names that the agent looks for. */
__attribute__((section(".PyRuntime"))) uint64_t _PyRuntime[160] = {0x7967756265647878};
__attribute__((noinline)) double _PyEval_EvalFrameDefault(double x)
{
    for (int i = 0; i < 1000; i++)
        x = x * 1.0000001 + 1e-9;
    return x;
}

static void *page_that_never_arrives(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register all = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    void *p = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = (int) syscall(SYS_userfaultfd, O_CLOEXEC);

    all.range = (struct uffdio_range){(uint64_t) (uintptr_t) p, 1 << 16};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &all) < 0) {
        perror("userfaultfd");
        exit(77);
    }
    return p;
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + atoi(argv[1]);
    volatile double x = 1;
    static uint64_t state[4];
    uint64_t *o = _PyRuntime;
    char *page = page_that_never_arrives();
    static uint64_t interpreter[4], frame[16];

    memcpy(o, "xdebugpy", 8);
    o[1] = 0x030e00f0;
    o[5] = 800, o[8] = 0, o[9] = 8;
    o[24] = 0, o[26] = 8, o[27] = 16;
    o[32] = 8, o[33] = 0, o[34] = 16, o[36] = 24;
    for (int i = 40; i < 95; i++)
        o[i] = 16;
    o[100] = (uint64_t) (uintptr_t) interpreter;
    interpreter[1] = (uint64_t) (uintptr_t) state;
    state[0] = (uint64_t) (uintptr_t) page; /* the next one */
    state[1] = (uint64_t) (uintptr_t) frame;
    state[2] = (uint64_t) (uintptr_t) __builtin_thread_pointer();
    frame[0] = (uint64_t) (uintptr_t) page + 4096; /* its code object */
    while (time(NULL) < end)
        x = _PyEval_EvalFrameDefault(x);
    return 0;
}
