/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8: what its BPF and user sides share.
 *
 * Words of a frame: its SharedFunctionInfo (aligned; the lowest bits are V8_KIND_*); the address of its code, or the offset of its
 * bytecode, with the index of its native word in the upper 16 bits until merge(); the function's content.
 */
#ifndef AGENT_LANG_V8JS_ABI_H
#define AGENT_LANG_V8JS_ABI_H

#include "agent/bpf/lang_abi.h"

enum {
    V8_KIND_CODE,        /* the second word is the address in its code, after a call */
    V8_KIND_BYTECODE,    /* the second word is the offset in its bytecode, as the frame has it */
    V8_KIND_OTHER,       /* not a function: the first word is V8's type of the frame */
    V8_KIND_LEAF,        /* the second word is the address of an instruction that was interrupted */
    V8_KINDS = 3,        /* a mask */
    V8_KIND_SHIFT = 8,   /* of the type of a frame */
    V8_PLACE_SHIFT = 48, /* LANG_PLACE_SHIFT */
};
#define V8_ADDRESS ((1ull << V8_PLACE_SHIFT) - 1)
#define V8_INTERPRETS (1ull << 63) /* in a mark: code of the interpreter */

enum {
    V8_FRAME_BYTES =
        40, /* of a frame, up to its frame pointer: offset, bytecode, number of arguments, function, context */
    V8_FUNCTION_BYTES = 40,
    V8_SHARED_BYTES = 72,
    V8_SCRIPT_BYTES = 72,
    V8_SCOPE_BYTES = 48,   /* the begin of a ScopeInfo, before the names of variables */
    V8_TAIL_BYTES = 64,    /* what follows its variables */
    V8_TAIL_NAMES = 5,     /* words of it among which the function's name is */
    V8_LOCALS_INLINE = 75, /* as many variables, or more, are in a table of their own */
    V8_LOCALS_MAX = 100000,
    V8_TEXT = 512, /* bytes of a name that are sent */
};

/* Pieces of what is sent with the first sample of a function (struct agent_memory). */
enum { V8_PIECE_SHARED, V8_PIECE_SCRIPT, V8_PIECE_SCOPE, V8_PIECE_TAIL, V8_PIECE_NAME, V8_PIECE_FILE };

/* Where things are in V8: offsets in bytes. */
struct agent_v8js {
    __u64 entry_lo, entry_hi, handlers_lo,
        handlers_hi; /* ELF addresses of code that runs in frames of the interpreter */
    __u16 function_shared, shared_name, shared_script, shared_id, script_name, script_id, map_type;
    __u16 string_length, type_shared, type_script, type_scope, first_non_string, encoding_mask, representation_mask;
    __u16 scope_first, scope_locals;
    __u16 frame_wasm, frame_regexp; /* types of frames; 0: there are none */
};

/* A function's content tells it from another one whose SharedFunctionInfo is at the same address before or after it: its number in its
 * script, the number of the script, and where its name and its script are. */
static inline __attribute__((always_inline)) __u64 v8_content(__u64 name, __u64 script, __u64 id, __u64 script_id)
{
    __u64 hash = agent_hash_step(0x5638, name);

    hash = agent_hash_step(hash, script);
    return agent_hash_step(hash, script_id ^ (__u32) id) | 1; /* not 0 */
}

/* Whether a word is a pointer to an object. */
static inline __attribute__((always_inline)) int v8_is_pointer(__u64 word)
{
    return (word & 3) == 1;
}

#endif
