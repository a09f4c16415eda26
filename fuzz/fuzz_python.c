/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a hostile process, read as CPython's: line tables, offsets of 3.13 and 3.14, thread states, frames, code
 * objects. The first byte is the minor version (from 9 on), the rest is memory at BASE, and once more the table.
 */
#include <errno.h>

#include "agent/lang/python/python.h"
#include "agent/lang/python/python_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x10000, FRAMES = 64 };

struct input {
    const uint8_t *p;
    size_t n;
};

static int read_input(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    const struct input *in = m->data;

    if (address < BASE || address - BASE > in->n || n > in->n - (address - BASE))
        return -EFAULT;
    memcpy(p, in->p + (address - BASE), n);
    return 0;
}

struct look {
    const struct python *py;
    const struct proc_memory *m;
    unsigned threads;
};

static int one_thread(void *data, uint64_t state, uint64_t id)
{
    struct look *l = data;
    struct python_frame frames[FRAMES];
    uint32_t n;

    python_frames(l->py, l->m, state, frames, FRAMES, &n);
    for (uint32_t i = 0; i < n && i < 4; i++) {
        struct python_code code;
        struct arena a;

        arena_init(&a, 4 << 20);
        if (python_code_read(l->py, l->m, frames[i].code, &a, &code) == 0)
            python_code_line(l->py, &code, frames[i].instr);
        arena_done(&a);
    }
    return ++l->threads > 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data + 1, size ? size - 1 : 0};
    struct proc_memory m = {.read = read_input, .data = &in};
    struct python_image image = {.runtime = BASE, .minor = size ? 9 + data[0] % 6u : 0};
    struct str table = {(const char *) in.p, (uint32_t) in.n};
    struct python py;

    if (!size)
        return 0;
    for (unsigned minor = 9; minor <= 14; minor++)
        for (int64_t at = -2; at < 4000; at = at * 2 + 3)
            python_line(minor, table, 7, at);
    if (python_attach(&m, &image, 0, &py, NULL) == 0)
        python_each_thread(&py, &m, one_thread, &(struct look){&py, &m, 0});
    return 0;
}
