/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a hostile process, read as V8's: the input is memory at BASE, and its first words choose a function, an offset of its
 * bytecode and an address of its code in it. The values are those of Node 20, or of Node 24. */
#include <errno.h>
#include <string.h>

#include "agent/lang/v8js/v8.h"
#include "base/mem.h"

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

/* Node 20; what Node 24 has elsewhere is set for odd inputs. */
static struct v8 values(bool new)
{
    struct v8 v8 = {{[V8_FP_FUNCTION] = -16,
                     [V8_FP_CONTEXT] = -8,
                     [V8_FUNCTION_SHARED] = 24,
                     [V8_SHARED_NAME] = 16,
                     [V8_SHARED_SCRIPT] = 32,
                     [V8_SHARED_FLAGS] = 48,
                     [V8_SHARED_DATA] = 8,
                     [V8_SCRIPT_NAME] = 16,
                     [V8_SCRIPT_SOURCE] = 8,
                     [V8_SCRIPT_LINE_ENDS] = 56,
                     [V8_MAP_TYPE] = 12,
                     [V8_STRING_LENGTH] = 12,
                     [V8_ONE_BYTE_CHARS] = 16,
                     [V8_CONS_FIRST] = 16,
                     [V8_CONS_SECOND] = 24,
                     [V8_THIN_ACTUAL] = 16,
                     [V8_EXTERNAL_RESOURCE] = 16,
                     [V8_FIRST_NON_STRING] = 128,
                     [V8_REPRESENTATION_MASK] = 7,
                     [V8_ENCODING_MASK] = 8,
                     [V8_ONE_BYTE_TAG] = 8,
                     [V8_CONS_TAG] = 1,
                     [V8_THIN_TAG] = 5,
                     [V8_EXTERNAL_TAG] = 2,
                     [V8_TYPE_SHARED] = 262,
                     [V8_TYPE_SCOPE] = 261,
                     [V8_TYPE_SCRIPT] = 167,
                     [V8_TYPE_BYTECODE] = 191,
                     [V8_TYPE_CODE] = 245,
                     [V8_TYPE_STREAM] = 252,
                     [V8_SCOPE_FIRST] = 3,
                     [V8_SCOPE_LOCALS] = 2,
                     [V8_BYTECODE_DATA] = 54,
                     [V8_CODE_START] = 40,
                     [V8_CODE_SIZE] = 56,
                     [V8_CODE_WRAPPER] = -1,
                     [V8_DEOPT_LITERALS] = 2,
                     [V8_DEOPT_SHARED] = 6,
                     [V8_DEOPT_WRAPPED] = -1,
                     [V8_DEOPT_INLINING] = 7,
                     [V8_MAJOR] = 11}};

    if (new) {
        v8.v[V8_CODE_WRAPPER] = 24;
        v8.v[V8_DEOPT_SHARED] = -1;
        v8.v[V8_DEOPT_WRAPPED] = 7;
        v8.v[V8_DEOPT_INLINING] = 8;
        v8.v[V8_SCOPE_FIRST] = 5;
        v8.v[V8_MAJOR] = 14;
    }
    return v8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct v8_input in = {data, size};
    struct proc_memory m = {.read = read_input, .data = &in};
    struct v8_place places[V8_INLINED_MAX];
    uint64_t stream_map = 0, shared;
    struct v8_lines lines = {0};
    struct v8_function f;
    struct v8_reader r;
    struct arena a;
    uint16_t at[4];
    struct v8 v8;

    if (size < sizeof at)
        return 0;
    memcpy(at, data, sizeof at);
    v8 = values(at[3] & 1);
    r = (struct v8_reader){&v8, &m, &m, &stream_map};
    arena_init(&a, 1 << 20);
    shared = v8_shared_of(&r, BASE + (uint64_t) at[0]);
    shared = shared ? shared : BASE + (uint64_t) at[0];
    if (v8_function_read(&r, shared, &a, &f) == 0 && v8_lines_read(&r, f.script, &lines) == 0)
        v8_line(&lines, f.start);
    v8_bytecode_position(&r, shared, at[1]);
    v8_code_places(&r, shared, BASE + (uint64_t) at[2], at[3] & 2, places);
    v8_is_frame_of(&r, shared, BASE + (uint64_t) at[2], BASE + (uint64_t) at[1]);
    mem_free(lines.ends);
    arena_done(&a);
    return 0;
}
