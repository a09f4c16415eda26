/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HotSpot: what its BPF and user sides share.
 *
 * Words of a frame
 *   compiled      blob | kind, address in its code                          a hash of the number of the compilation and the method
 *   interpreted   method | kind, offset of its bytecode (none: HOTSPOT_NO_BCI)   the method's content
 *   stub          blob | kind, address in its code                          a hash of where its name is
 * The index of the native word is in the upper 16 bits of the second word until merge().
 */
#ifndef AGENT_LANG_HOTSPOT_ABI_H
#define AGENT_LANG_HOTSPOT_ABI_H

#include "agent/bpf/lang_abi.h"

enum {
    HOTSPOT_CODE, /* the second word is the address after a call */
    HOTSPOT_LEAF, /* the second word is the address of an instruction that was interrupted */
    HOTSPOT_INTERPRETED,
    HOTSPOT_STUB,
    HOTSPOT_KINDS = 7,        /* a mask */
    HOTSPOT_PLACE_SHIFT = 48, /* LANG_PLACE_SHIFT */
    HOTSPOT_NO_BCI = 0xffff,
};
#define HOTSPOT_ADDRESS ((1ull << HOTSPOT_PLACE_SHIFT) - 1)

enum {
    HOTSPOT_HEAPS = 4,
    HOTSPOT_ENTRIES = 4,
    HOTSPOT_BLOB_BYTES = 344, /* of a blob, that are read */
    HOTSPOT_BLOB_WORDS = HOTSPOT_BLOB_BYTES / 8,
    HOTSPOT_TEXT_BYTES = 16, /* of a class's name, for the content */
};

/* Where things are in HotSpot: offsets in bytes. */
struct agent_hotspot {
    struct {
        __u64 lo, hi, segments; /* code, and its map of segments */
    } heaps[HOTSPOT_HEAPS];
    __u64 interpreter; /* its code */
    __u64 symbol_mask; /* of the first word of a Symbol: what does not change */
    __u32 interpreter_size;
    struct {
        __u32 lo, bare,
            hi; /* entry of a method, from the interpreter's begin: the return address is on the stack, then in a register */
    } entries[HOTSPOT_ENTRIES];
    __u16 blob_name, blob_begin, blob_end, blob_complete, blob_frame,
        blob_kind; /* of a CodeBlob; blob_kind 0: its name says it */
    __u16 code_method, code_id, code_original, code_deopt, code_deopt_mh; /* of an nmethod */
    __u16 method_const, const_pool, const_size, const_code,
        const_name; /* const_size: of a ConstMethod; its bytecode follows */
    __u16 pool_holder, pool_size, class_name;
    __u8 segment_shift, block_bytes, is_relative, symbol_length; /* symbol_length: of a Symbol */
};

#endif
