/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets in the structures of each version: see python.h. The tables are for 64-bit machines and builds without
 * Py_DEBUG, and were taken from the debug information of 3.9.18, 3.10.13, 3.11.7 and 3.12.1. The structures do not
 * change within a minor version: extension modules are compiled against them.
 *
 * _Py_DebugOffsets, the first bytes of _PyRuntime, is "xdebugpy", then 64-bit numbers; groups grew from 3.13 to 3.14:
 *
 *                       3.13   3.14
 *   version                8      8
 *   free_threaded         16     16
 *   interpreters_head     40     40
 *   interpreter next      64     64     threads_head 72, 72
 *   thread state next    168    192     current_frame +16, thread_id +24
 *   frame previous       232    256     executable +8, instr_ptr +16, owner +32
 *   code filename        280    320     name +8, qualname +16, linetable +24, firstlineno +32, co_code_adaptive +64
 *   bytes ob_size        520    600     ob_sval +8
 *   unicode state        544    624     length +8, asciiobject_size +16
 */
#include <errno.h>

#include "agent/lang/python/python.h"
#include "agent/lang/python/python_abi.h"

#define NONE PYTHON_NONE

/* In the order of struct python_offsets: version; runtime; interpreter; thread; frame; code; str; bytes. */
static const struct python_offsets versions[] = {
    // clang-format off
    {9,  32,  0, 8,  8, 176, 24, NONE,  24, 32, 104, NONE, NONE,  104, 112, NONE, 120, 40, NONE,  16, 32, 2, 48, 72,  16, 32},
    {10,  32,  0, 8,  8, 176, 24, NONE,  24, 32, 96, NONE, NONE,  104, 112, NONE, 120, 40, NONE,  16, 32, 2, 48, 72,  16, 32},
    {11,  40,  0, 16,  8, 152, 56, 8,  48, 32, 56, 69, 68,  112, 120, 128, 136, 72, 184,  16, 32, 2, 48, 72,  16, 32},
    {12,  40,  0, 72,  8, 136, 56, 0,  8, 0, 56, 70, NONE,  112, 120, 128, 136, 68, 192,  16, 32, 2, 40, 56,  16, 32},
    // clang-format on
};

bool python_offsets_of(unsigned minor, struct python_offsets *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
        if (versions[i].minor == minor) {
            *ret = versions[i];
            return true;
        }
    return false;
}

struct taker {
    const uint8_t *p;
    size_t n;
    bool bad;
};

/* No structure that is read is larger than this; most are a few hundred bytes, an interpreter 200 KB. */
static uint16_t take(struct taker *t, size_t at)
{
    uint64_t v = UINT64_MAX;

    if (at + 8 <= t->n)
        memcpy(&v, t->p + at, sizeof v);
    t->bad |= v >= PYTHON_NONE;
    return (uint16_t) v;
}

/* What names a code object is near its first line, and an object's type is before the length of a str. */
static bool are_consistent(const struct python_offsets *at)
{
    uint16_t lo = at->code_firstline & ~7u, hi = (uint16_t) (lo + AGENT_PYTHON_CONTENT - 8);

    return at->code_filename >= lo && at->code_filename <= hi && at->code_name >= lo && at->code_name <= hi &&
           at->code_qualname >= lo && at->code_qualname <= hi && at->code_linetable >= lo && at->code_linetable <= hi &&
           hi <= 176 && (at->str_length == 16 || at->str_length == 32) && at->str_state <= 64 && at->bytes_size <= 64 &&
           at->str_ascii >= 40 && at->str_ascii <= 128 && at->bytes_data >= 24 && at->bytes_data <= 128;
}

int python_offsets_parse(const void *p, size_t n, struct python_offsets *ret, uint32_t *ret_version)
{
    struct taker t = {p, n, false};
    uint64_t version;
    size_t thread, frame, code, bytes, text;
    unsigned minor;

    if (n < 24 || memcmp(p, "xdebugpy", 8) != 0)
        return -ENODATA;
    memcpy(&version, t.p + 8, sizeof version);
    minor = version >> 16 & 0xff;
    *ret_version = (uint32_t) version;
    if (version >> 24 != 3 || (minor != 13 && minor != 14))
        return -ENOTSUP;
    thread = minor == 13 ? 168 : 192;
    frame = minor == 13 ? 232 : 256;
    code = minor == 13 ? 280 : 320;
    bytes = minor == 13 ? 520 : 600;
    text = minor == 13 ? 544 : 624;
    *ret = (struct python_offsets){
        .minor = (uint16_t) minor,
        .interpreters_head = take(&t, 40),
        .interp_next = take(&t, 64),
        .interp_threads = take(&t, 72),
        .thread_next = take(&t, thread),
        .thread_id = take(&t, thread + 24),
        .thread_frame = take(&t, thread + 16),
        .cframe_frame = NONE,
        .frame_previous = take(&t, frame),
        .frame_code = take(&t, frame + 8),
        .frame_instr = take(&t, frame + 16),
        .frame_owner = take(&t, frame + 32),
        .frame_entry = NONE,
        .code_filename = take(&t, code),
        .code_name = take(&t, code + 8),
        .code_qualname = take(&t, code + 16),
        .code_linetable = take(&t, code + 24),
        .code_firstline = take(&t, code + 32),
        .code_start = take(&t, code + 64),
        .bytes_size = take(&t, bytes),
        .bytes_data = take(&t, bytes + 8),
        .str_state = take(&t, text),
        .str_kind = take(&t, 16) ? 8 : 2, /* without the GIL, `interned` before it is a byte */
        .str_length = take(&t, text + 8),
        .str_ascii = take(&t, text + 16),
    };
    ret->str_compact = (uint16_t) (ret->str_ascii + 16); /* then utf8_length and utf8, of 8 bytes each */
    return t.bad || !are_consistent(ret) ? -EBADMSG : 0;
}
