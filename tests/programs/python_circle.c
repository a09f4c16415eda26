/* SPDX-License-Identifier: Apache-2.0 */
/* Looks like CPython 3.14 with a thread state whose successor is itself, and a frame whose caller is itself; burns CPU time
 * for argv[1] seconds. With "long" as argv[2] the chains are long instead of circles. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STATES = 4096, FRAMES = 65536 };
static struct state {
    uint64_t next, frame, id, unused[5];
} states[STATES];
static struct frame {
    uint64_t code, previous, instr, owner;
    uint64_t unused[8];
} frames[FRAMES];
static uint64_t interpreter[4];

/* The names that the agent looks for. */
__attribute__((section(".PyRuntime"))) uint64_t _PyRuntime[160] = {0x7967756265647878};
__attribute__((noinline)) double _PyEval_EvalFrameDefault(double x)
{
    for (int i = 0; i < 1000; i++)
        x = x * 1.0000001 + 1e-9;
    return x;
}

int main(int argc, char **argv)
{
    int longer = argc > 2 && !strcmp(argv[2], "long");
    time_t end = time(NULL) + atoi(argv[1]);
    volatile double x = 1;
    uint64_t *o = _PyRuntime;

    memcpy(o, "xdebugpy", 8);
    o[1] = 0x030e00f0;
    o[5] = 800, o[8] = 0, o[9] = 8;               /* list of interpreters; their next, and their threads */
    o[24] = 0, o[26] = 8, o[27] = 16;             /* thread state: next, frame, id */
    o[32] = 8, o[33] = 0, o[34] = 16, o[36] = 24; /* frame: previous, code, instruction, owner */
    for (int i = 40; i < 95; i++)
        o[i] = 16;
    o[100] = (uint64_t) (uintptr_t) interpreter;
    interpreter[1] = (uint64_t) (uintptr_t) states;
    for (int i = 0; i < STATES; i++)
        states[i] = (struct state){.next = (uint64_t) (uintptr_t) &states[longer && i + 1 < STATES ? i + 1 : i],
                                   .frame = (uint64_t) (uintptr_t) frames};
    states[0].id = (uint64_t) (uintptr_t) __builtin_thread_pointer();
    for (int i = 0; i < FRAMES; i++)
        frames[i].previous = (uint64_t) (uintptr_t) &frames[longer && i + 1 < FRAMES ? i + 1 : i];
    while (time(NULL) < end)
        x = _PyEval_EvalFrameDefault(x);
    return 0;
}
