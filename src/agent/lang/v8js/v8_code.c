/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of instructions (v8.h). A table of positions has two numbers in base 128 for each: the distance from the one before in the
 * code, with flags, and in the source, zigzag. The flags are the first one's sign (zigzag), from V8 14 on its lowest two bits. A
 * position in optimised code is
 *
 *   bit 0: not of a script   bits 1 to 30: place in the source + 1   bits 31 to 46: number of the inlined call + 1
 *
 * and the numbered calls are in the code's deoptimisation data: 16 bytes each, the position of the call and the number of the function
 * among the code's literals. Machine code is found by its header, which is before it: the function need not point to it, as
 * after on-stack replacement.
 */
#include <errno.h>
#include <string.h>

#include "agent/lang/v8js/v8.h"
#include "base/mem.h"

enum {
    WORD = 8,
    ARRAY_DATA = 16, /* map and length are before it */
    TABLE_MAX = 256 << 10,
    CODE_MAX = 1 << 20,
    CHUNK = 4096,
    CODE_STEP = 16, /* headers of code are aligned */
    INLINED_BYTES = 16,
    SHARED_INDEX = 6,   /* of V8 without the variable */
    FLAGS_ARE_LOW = 14, /* from this version on */
};

/* --- tables --- */
struct v8_table {
    uint8_t *bytes;
    size_t n, at;
};

/* The bytes of a byte array; an empty table when there is none. */
static struct v8_table read_table(const struct v8_reader *r, uint64_t array)
{
    uint64_t size = v8_field(r, array, WORD);
    struct v8_table t = {.n = size >> 32};

    if ((uint32_t) size || !t.n || t.n > TABLE_MAX)
        return (struct v8_table){0};
    t.bytes = mem_zalloc(t.n);
    if (t.bytes && proc_memory_read(r->m, array - 1 + ARRAY_DATA, t.bytes, t.n) >= 0)
        return t;
    mem_free(t.bytes);
    return (struct v8_table){0};
}

static bool next_number(struct v8_table *t, uint64_t *ret)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; t->at < t->n && shift < 64; shift += 7) {
        uint8_t b = t->bytes[t->at++];

        v |= (uint64_t) (b & 127) << shift;
        if (!(b & 128)) {
            *ret = v;
            return true;
        }
    }
    return false;
}

static uint64_t unzigzag(uint64_t v)
{
    return v >> 1 ^ -(v & 1);
}

/* The last position at or before an offset in the code; 0: none. V8 writes one where the position changes. */
static uint64_t find_position(const struct v8_reader *r, uint64_t array, int64_t offset)
{
    struct v8_table t = r->v8->v[V8_MAJOR] > 0 ? read_table(r, array) : (struct v8_table){0};
    uint64_t at = UINT64_MAX /* -1: the function's entry */, position = 0, found = 0, code, source;

    while (next_number(&t, &code) && next_number(&t, &source)) {
        at += r->v8->v[V8_MAJOR] >= FLAGS_ARE_LOW ? code >> 2 : code >> 1; /* the complement, when the sign is set */
        if ((int64_t) at > offset)
            break;
        position += unzigzag(source);
        found = position;
    }
    mem_free(t.bytes);
    return found;
}

static int32_t in_script(uint64_t position)
{
    return position & 1 ? -1 : (int32_t) (position >> 1 & 0x3fffffff) - 1;
}

/* --- bytecode --- */
static bool is_new(const struct v8_reader *r) /* 12 and later: code is in a space of its own */
{
    return r->v8->v[V8_CODE_WRAPPER] >= 0;
}

static uint64_t deopt_data(const struct v8_reader *r, uint64_t code)
{
    return v8_field(r, code, is_new(r) ? WORD : 2 * WORD);
}

static uint64_t bytecode_of(const struct v8_reader *r, uint64_t shared)
{
    uint64_t data = v8_field(r, shared, r->v8->v[V8_SHARED_DATA]);
    int type = v8_type(r, data);

    if (type == r->v8->v[V8_TYPE_CODE]) /* baseline */
        data = deopt_data(r, data);
    else if (type != r->v8->v[V8_TYPE_BYTECODE]) /* with a copy of the interpreter's entry */
        data = v8_field(r, data, WORD);
    return v8_type(r, data) == r->v8->v[V8_TYPE_BYTECODE] ? data : 0;
}

int32_t v8_bytecode_position(const struct v8_reader *r, uint64_t shared, uint64_t offset)
{
    uint64_t bytecode = bytecode_of(r, shared);
    int64_t at = (int64_t) offset - (r->v8->v[V8_BYTECODE_DATA] - 1), size;

    if (!bytecode || r->v8->v[V8_BYTECODE_DATA] < 0)
        return -1;
    size = (int64_t) (v8_field(r, bytecode, WORD) >> 32);
    if (at < 0 || at >= size)
        return -1;
    return in_script(find_position(r, v8_field(r, bytecode, is_new(r) ? 3 * WORD : 4 * WORD), at));
}

/* --- machine code --- */
struct v8_code {
    uint64_t object, start, size;
};

/* Whether an object is the header of code with this address. */
static bool is_code_with(const struct v8_reader *r, uint64_t stream, uint64_t pc, struct v8_code *ret)
{
    const int32_t *v = r->v8->v;
    uint32_t size = 0;

    ret->object = v[V8_TYPE_STREAM] < 0 ? stream : v8_field(r, stream, WORD);
    if (v8_type(r, ret->object) != v[V8_TYPE_CODE])
        return false;
    ret->start =
        v[V8_TYPE_STREAM] < 0 ? stream - 1 + (uint64_t) v[V8_CODE_START] : v8_field(r, ret->object, v[V8_CODE_START]);
    if (proc_memory_read(r->m, ret->object - 1 + (uint64_t) v[V8_CODE_SIZE], &size, sizeof size) < 0)
        return false;
    ret->size = size;
    return pc - ret->start < size && stream < ret->start;
}

static bool is_stream(const struct v8_reader *r, uint64_t object, uint64_t map)
{
    int type;

    if (!v8_is_object(map) || map >> 47 || map < 1 << 16)
        return false;
    if (*r->stream_map)
        return map == *r->stream_map;
    type = v8_type(r, object);
    if (type < 0 || type != (r->v8->v[V8_TYPE_STREAM] < 0 ? r->v8->v[V8_TYPE_CODE] : r->v8->v[V8_TYPE_STREAM]))
        return false;
    return true;
}

static bool find_code(const struct v8_reader *r, uint64_t pc, struct v8_code *ret)
{
    uint64_t words[CHUNK / WORD], end = pc & ~(uint64_t) (CHUNK - 1);

    for (uint64_t at = end; end - at <= CODE_MAX && at >= CHUNK; at -= CHUNK) {
        if (proc_memory_read(r->m, at, words, sizeof words) < 0)
            return false;
        for (uint32_t i = CHUNK; i; i -= CODE_STEP) {
            uint32_t k = (i - CODE_STEP) / WORD;
            uint64_t object = at + (uint64_t) k * WORD + 1;

            if (object > pc || !is_stream(r, object, words[k]))
                continue;
            if (!is_code_with(r, object, pc, ret)) {
                if (*r->stream_map)
                    return false; /* code of nothing, between two others */
                continue;
            }
            *r->stream_map = words[k];
            return true;
        }
    }
    return false;
}

static uint64_t element(const struct v8_reader *r, uint64_t array, int64_t i)
{
    uint64_t n = v8_field(r, array, WORD) >> 32;

    return i >= 0 && (uint64_t) i < n ? v8_field(r, array, (int32_t) (ARRAY_DATA + i * WORD)) : 0;
}

/* A reference that may be weak, and may be wrapped. */
static uint64_t shared_of(const struct v8_reader *r, uint64_t word)
{
    uint64_t object = word & ~2ull;

    if (v8_is_object(object) && v8_type(r, object) != r->v8->v[V8_TYPE_SHARED])
        object = v8_field(r, object, WORD);
    return object && v8_type(r, object) == r->v8->v[V8_TYPE_SHARED] ? object : 0;
}

static uint64_t shared_of_code(const struct v8_reader *r, uint64_t deopt)
{
    const int32_t *v = r->v8->v;
    int32_t i = v[V8_DEOPT_WRAPPED] >= 0  ? v[V8_DEOPT_WRAPPED]
                : v[V8_DEOPT_SHARED] >= 0 ? v[V8_DEOPT_SHARED]
                                          : SHARED_INDEX;

    return shared_of(r, element(r, deopt, i));
}

/* The inlined calls of a position, innermost first, then the function itself. */
static uint32_t expand(const struct v8_reader *r, uint64_t deopt, uint64_t position,
                       struct v8_place ret[V8_INLINED_MAX])
{
    uint64_t calls = element(r, deopt, r->v8->v[V8_DEOPT_INLINING]);
    uint64_t literals = element(r, deopt, r->v8->v[V8_DEOPT_LITERALS]);
    uint32_t n = 0;

    for (uint32_t id = position >> 31 & 0xffff; id && n < V8_INLINED_MAX - 1; id = position >> 31 & 0xffff) {
        uint64_t at = ARRAY_DATA + (uint64_t) (id - 1) * INLINED_BYTES, inlined;

        if (at + INLINED_BYTES > ARRAY_DATA + (v8_field(r, calls, WORD) >> 32))
            break;
        inlined = shared_of(r, element(r, literals, (int32_t) v8_field(r, calls, (int32_t) at + WORD)));
        if (inlined)
            ret[n++] = (struct v8_place){inlined, in_script(position)};
        position = v8_field(r, calls, (int32_t) at);
    }
    ret[n++] = (struct v8_place){0, in_script(position)};
    return n;
}

uint32_t v8_code_places(const struct v8_reader *r, uint64_t shared, uint64_t pc, bool leaf,
                        struct v8_place ret[V8_INLINED_MAX])
{
    struct v8_code c;
    uint64_t deopt;

    if (!find_code(r, pc - !leaf, &c))
        return 0;
    deopt = deopt_data(r, c.object);
    if (v8_type(r, deopt) == r->v8->v[V8_TYPE_BYTECODE] || shared_of_code(r, deopt) != shared)
        return 0;
    return expand(
        r, deopt,
        find_position(r, v8_field(r, c.object, is_new(r) ? 2 * WORD : 3 * WORD), (int64_t) (pc - !leaf - c.start)),
        ret);
}

bool v8_is_frame_of(const struct v8_reader *r, uint64_t shared, uint64_t pc, uint64_t bytecode)
{
    uint64_t own = bytecode_of(r, shared), deopt;
    struct v8_code c;

    if (own && own == bytecode)
        return true;
    if (!find_code(r, pc, &c))
        return false;
    deopt = deopt_data(r, c.object);
    return (own && deopt == own) || shared_of_code(r, deopt) == shared;
}
