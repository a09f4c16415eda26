/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from a process what V8 says of its layout (v8_image.h), and checks it. */
#include <errno.h>

#include "agent/lang/v8js/v8.h"
#include "agent/lang/v8js/v8js_abi.h"

static int read_values(const struct v8_image *image, uint64_t bias, const struct proc_memory *m, struct v8 *ret)
{
    static const int32_t otherwise[] = {
#define X(name, text, otherwise) otherwise,
        V8_VALUES(X)
#undef X
    };

    for (size_t i = 0; i < V8_VALUES_N; i++) {
        int r = 0;

        ret->v[i] = otherwise[i];
        if (image->at[i])
            r = proc_memory_read(m, bias + image->at[i], &ret->v[i], sizeof ret->v[i]);
        if (r < 0)
            return r;
        if (ret->v[i] < -4096 || ret->v[i] > 65535)
            return -EBADMSG;
    }
    return 0;
}

/* Offsets in what the BPF program copies. */
static bool fits(const int32_t *v, enum v8_value i, int32_t bytes)
{
    return v[i] >= 8 && v[i] % 4 == 0 && v[i] + 8 <= bytes;
}

static bool is_known(const int32_t *v)
{
    return v[V8_FP_CONTEXT] == -8 && v[V8_FP_FUNCTION] == -16 && v[V8_FP_BYTECODE] == -32 && v[V8_FP_OFFSET] == -40 &&
           v[V8_HEAP_MAP] == 0 && fits(v, V8_FUNCTION_SHARED, V8_FUNCTION_BYTES) && fits(v, V8_SHARED_NAME, 64) &&
           fits(v, V8_SHARED_SCRIPT, 64) && fits(v, V8_SHARED_FLAGS, 64) && fits(v, V8_SCRIPT_NAME, 64) &&
           v[V8_SCRIPT_LINE_ENDS] == V8_SCRIPT_BYTES - 16 && v[V8_MAP_TYPE] > 0 && v[V8_STRING_LENGTH] >= 8 &&
           v[V8_STRING_LENGTH] <= 12 && v[V8_ONE_BYTE_CHARS] == 16 && v[V8_SCOPE_LOCALS] == 2 &&
           v[V8_SCOPE_FIRST] >= 3 && v[V8_SCOPE_FIRST] <= 8;
}

int v8_read(const struct v8_image *image, uint64_t bias, const struct proc_memory *m, struct v8 *ret, struct err *e)
{
    int r = read_values(image, bias, m, ret);

    if (r < 0)
        return r;
    if (!is_known(ret->v))
        return err_set(
            e, -ENOTSUP,
            "this version of V8 has frames or objects of an unknown layout (wick knows those of Node 18 to 26)");
    ret->entry = image->entry;
    ret->handlers = image->handlers;
    return 0;
}
