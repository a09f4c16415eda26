/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a hostile process, read as V8's: the input is memory at BASE, and its first two bytes choose a frame pointer in it.
 * The values are those of Node 20. */
#include <errno.h>
#include <string.h>

#include "agent/dump/dump_v8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x10000 };

struct v8_input {
    const uint8_t *p;
    size_t n;
};

static int read_input(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    const struct v8_input *in = m->data;

    if (address < BASE || address - BASE > in->n || n > in->n - (address - BASE))
        return -EFAULT;
    memcpy(p, in->p + (address - BASE), n);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct dump_v8 node20 = {
        {-16, -8, 24, 16, 32, 16, 0, 12, 12, 16, 16, 24, 16, 128, 7, 8, 8, 0, 1, 5, 262, 261, 167, 3, 2}};
    struct v8_input in = {data, size};
    struct proc_memory m = {.read = read_input, .data = &in};
    struct dump_v8_frame f;
    struct arena a;

    if (size < 2)
        return 0;
    arena_init(&a, 1 << 20);
    dump_v8_frame(&node20, &m, BASE + (uint64_t) (data[0] | data[1] << 8), &a, &f);
    arena_done(&a);
    return 0;
}
