/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * A step up a stack through code of HotSpot, without frame pointers in it; both for BPF and for user space. BPF defines, before it
 * includes this file,
 *
 *   HOTSPOT_READ(to, n, address)   reads n bytes, a constant, of the process: 0, or an error
 *   hotspot_memory                 its argument `m`
 *   HOTSPOT_UNROLL                 before a loop that the verifier needs unrolled
 *
 * All code is in a few heaps, each with a map of segments that leads from an address to its blob, whose head says what it is and how
 * large its frames are:
 *
 *   interpreter   frame pointer; the frame has method, bytecode pointer, the caller's stack pointer
 *   nmethod       a compiled method: a frame of blob_frame words, the last two are the caller's frame pointer and the return address.
 *                 A leaf may be before or after that: in its first blob_complete bytes, or at its return.
 *   stub          a frame of blob_frame words if it has a size, else by the frame pointer
 *   vtable        no frame
 */
#ifndef AGENT_LANG_HOTSPOT_STEP_H
#define AGENT_LANG_HOTSPOT_STEP_H

#include "agent/bpf/agent_abi.h"
#include "agent/lang/hotspot/hotspot_abi.h"

#ifndef HOTSPOT_READ
#include "proc/proc_memory.h"
typedef const struct proc_memory hotspot_memory;
#define HOTSPOT_READ(to, n, address) proc_memory_read(m, address, to, n)
#define HOTSPOT_UNROLL
#endif

enum hotspot_result {
    HOTSPOT_STEPPED,
    HOTSPOT_ELSEWHERE, /* the code is not HotSpot's */
    HOTSPOT_LOST,      /* memory that cannot be read, or an invalid frame */
};

/* A frame, then its caller. */
struct hotspot_at {
    __u64 pc, sp, fp;
    __u64 rax, r13; /* of a leaf */
    __u32 is_leaf, pad;
    __u64 words
        [AGENT_LANG_WORDS]; /* of the frame; an interpreted one has the address of its bytecode in the second and third, from
                                    * register and frame, and its content is still to be read */
};

/* What a step needs; in BPF its stack would be too small. */
struct hotspot_work {
    __u64 blob[HOTSPOT_BLOB_WORDS + 1]; /* its head. Whoever reads it masks indices with 63: there is room for them */
    struct hotspot_at at;
    __u64 v[10];
};

_Static_assert(sizeof(struct hotspot_work) <= 512, "it fits where BPF has it");

enum { HOTSPOT_SEGMENT_STEPS = 16, HOTSPOT_FRAME_MAX = 1 << 20, HOTSPOT_PUSHED_MAX = 6 };
enum { HOTSPOT_IS_NMETHOD = 1, HOTSPOT_IS_VTABLE = 4, HOTSPOT_IS_STUB = 6 }; /* as _kind has them */

#define HOTSPOT_INLINE static inline __attribute__((always_inline))

HOTSPOT_INLINE int hotspot_in_heaps(const struct agent_hotspot *h, __u64 pc, __u64 *ret_lo, __u64 *ret_segments)
{
    int found = 0;

    HOTSPOT_UNROLL
    for (int i = 0; i < HOTSPOT_HEAPS; i++)
        if (pc - h->heaps[i].lo < h->heaps[i].hi - h->heaps[i].lo) {
            *ret_lo = h->heaps[i].lo;
            *ret_segments = h->heaps[i].segments;
            found = 1;
        }
    return found;
}

/* The blob of an address; 0: there is none. */
HOTSPOT_INLINE __u64 hotspot_blob(hotspot_memory *m, const struct agent_hotspot *h, __u64 pc, __u64 lo, __u64 segments)
{
    __u64 segment = (pc - lo) >> (h->segment_shift & 31);
    __u8 tag = 0;

    for (int i = 0; i < HOTSPOT_SEGMENT_STEPS; i++) {
        if (HOTSPOT_READ(&tag, 1, segments + segment) || tag == 0xff)
            return 0;
        if (!tag)
            return lo + (segment << (h->segment_shift & 31)) + h->block_bytes;
        segment -= tag;
    }
    return 0;
}

/* A word of the blob, which was read into v, at an offset that is a multiple of 4, or of 2. */
HOTSPOT_INLINE __u64 hotspot_word(const __u64 *v, __u32 at)
{
    return v[at >> 3 & 63];
}

HOTSPOT_INLINE __u32 hotspot_half(const __u64 *v, __u32 at)
{
    return (__u32) (v[at >> 3 & 63] >> (at & 4) * 8);
}

/* A field that is an address, or, from JDK 23 on, an offset in the blob. */
HOTSPOT_INLINE __u64 hotspot_place(const struct agent_hotspot *h, const __u64 *v, __u64 blob, __u32 at)
{
    return h->is_relative ? blob + hotspot_half(v, at) : hotspot_word(v, at);
}

HOTSPOT_INLINE __u64 hotspot_code_content(__u32 id, __u64 method)
{
    return agent_hash_step(agent_hash_step(0x4853, id), method) | 1;
}

HOTSPOT_INLINE __u32 hotspot_kind(hotspot_memory *m, const struct agent_hotspot *h, const __u64 *v)
{
    __u64 name = 0;

    if (h->blob_kind)
        return (__u8) (v[h->blob_kind >> 3 & 63] >> (h->blob_kind & 7) * 8);
    if (HOTSPOT_READ(&name, 8, hotspot_word(v, h->blob_name)))
        return 0;
    if ((__u32) name == 0x74656d6e || (__u32) name == 0x6974616e) /* "nmethod", "native nmethod" */
        return HOTSPOT_IS_NMETHOD;
    return (__u32) name == 0x62617476 ? HOTSPOT_IS_VTABLE : HOTSPOT_IS_STUB; /* "vtable chunks" */
}

/* Whether there is a call before the address, which is in one of the heaps. */
HOTSPOT_INLINE int hotspot_is_after_call(hotspot_memory *m, const struct agent_hotspot *h, __u64 pc)
{
    __u64 lo, segments, v = 0;

    if (!hotspot_in_heaps(h, pc, &lo, &segments) || HOTSPOT_READ(&v, 8, pc - 8))
        return 0;
    return (v >> 24 & 0xff) == 0xe8 || (v >> 48 & 0x38ff) == 0x10ff || (v >> 40 & 0x38ff) == 0x10ff ||
           (v >> 16 & 0x38ff) == 0x10ff; /* call; call *reg; call *8(reg); call *32(reg) */
}

HOTSPOT_INLINE int hotspot_arrive(struct hotspot_at *at, __u64 pc, __u64 sp, __u64 fp)
{
    if (!pc || sp <= at->sp || sp - at->sp > HOTSPOT_FRAME_MAX)
        return HOTSPOT_LOST;
    at->pc = pc;
    at->sp = sp;
    at->fp = fp;
    at->is_leaf = 0;
    return HOTSPOT_STEPPED;
}

/* The caller's frame pointer and the return address are the two words below sp. */
HOTSPOT_INLINE int hotspot_pop(hotspot_memory *m, struct hotspot_at *at, __u64 sp)
{
    __u64 v[2];

    if (HOTSPOT_READ(v, sizeof v, sp - 16))
        return HOTSPOT_LOST;
    return hotspot_arrive(at, v[1], sp, v[0]);
}

/* Only the return address is on the stack. */
HOTSPOT_INLINE int hotspot_pop_pc(hotspot_memory *m, struct hotspot_at *at)
{
    __u64 pc;

    if (HOTSPOT_READ(&pc, 8, at->sp))
        return HOTSPOT_LOST;
    return hotspot_arrive(at, pc, at->sp + 8, at->fp);
}

HOTSPOT_INLINE int hotspot_by_fp(hotspot_memory *m, struct hotspot_at *at)
{
    if (at->fp < at->sp || at->fp - at->sp > HOTSPOT_FRAME_MAX)
        return HOTSPOT_LOST;
    return hotspot_pop(m, at, at->fp + 16);
}

/* Where a leaf is in the frame of a compiled method: words that were pushed, or all: the frame is complete. */
enum { HOTSPOT_NONE, HOTSPOT_FP_PUSHED, HOTSPOT_NOT_SAVED, HOTSPOT_ALL };

/* v: 16 bytes before the instruction. The method begins by
 *   mov %eax,-N(%rsp); push %rbp; [mov %rsp,%rbp;] sub $N,%rsp      or   sub $N,%rsp; mov %rbp,N-16(%rsp) */
HOTSPOT_INLINE int hotspot_begun(const __u64 *v)
{
    __u64 b = v[1];
    __u32 last = b >> 56, sub8 = b >> 32 & 0xffffff, sub32 = b >> 8 & 0xffffff;

    if (last == 0x55 || b >> 40 == 0xec8b48 || b >> 40 == 0xe58948)
        return HOTSPOT_FP_PUSHED;
    if (sub8 == 0xec8348)
        return (b >> 24 & 0xff) == 0x55 || (b >> 8 & 0xffffff) == 0xec8b48 ? HOTSPOT_ALL : HOTSPOT_NOT_SAVED;
    if (sub32 == 0xec8148)
        return (b & 0xff) == 0x55 || v[0] >> 48 == 0x8b48 ? HOTSPOT_ALL : HOTSPOT_NOT_SAVED;
    return HOTSPOT_NONE;
}

/* v: 8 bytes before the instruction, and 8 from it on. The method ends by
 *   add $N,%rsp; pop %rbp; [poll;] ret */
HOTSPOT_INLINE int hotspot_ended(const __u64 *v)
{
    __u64 before = v[0], here = v[1];
    __u32 last = before >> 56;

    if ((__u8) here == 0xc3)
        return HOTSPOT_NONE;
    if ((__u8) here == 0x5d && ((before >> 32 & 0xffffff) == 0xc48348 || (before >> 8 & 0xffffff) == 0xc48148))
        return HOTSPOT_FP_PUSHED;
    if (last == 0x5d && ((here & 0xffffff) == 0xa73b49 || (here & 0xf8ffff) == 0x908b4d || (here & 0xffff) == 0x0585))
        return HOTSPOT_NONE; /* cmp N(%r15),%rsp; mov N(%r15),%r10; test %eax,N(%rip) */
    if ((__u8) before == 0x5d && (before >> 8 & 0xffffff) == 0xa73b49 && (here & 0xffff) == 0x870f)
        return HOTSPOT_NONE; /* ja */
    if ((__u8) before == 0x5d && (before >> 8 & 0xf8ffff) == 0x908b4d && (here & 0xffff) == 0x8541)
        return HOTSPOT_NONE; /* test %eax,(%r10) */
    return HOTSPOT_ALL;
}

HOTSPOT_INLINE int hotspot_stage(hotspot_memory *m, const struct agent_hotspot *h, const __u64 *blob, __u64 begin,
                                 __u64 pc)
{
    __s16 complete = (__s16) (hotspot_word(blob, h->blob_complete) >> (h->blob_complete & 6) * 8);
    __u64 v[2];

    if (complete > 0 && pc - begin < (__u64) complete)
        return HOTSPOT_READ(v, 16, pc - 16) ? HOTSPOT_ALL : hotspot_begun(v);
    return HOTSPOT_READ(v, 16, pc - 8) ? HOTSPOT_ALL : hotspot_ended(v);
}

/* The frame is complete; a leaf may have pushed more words. */
HOTSPOT_INLINE int hotspot_whole(hotspot_memory *m, const struct agent_hotspot *h, struct hotspot_work *w, __u64 bytes)
{
    struct hotspot_at *at = &w->at;
    __u64 *v = w->v, lo, segments, end = at->sp + bytes;
    int found = -1;

    if (!at->is_leaf)
        return hotspot_pop(m, at, end);
    if (HOTSPOT_READ(v, 8 * (HOTSPOT_PUSHED_MAX + 2), end - 16))
        return HOTSPOT_LOST;
    if (hotspot_in_heaps(h, v[1], &lo, &segments))
        return hotspot_arrive(at, v[1], end, v[0]);
    HOTSPOT_UNROLL
    for (int i = 1; i <= HOTSPOT_PUSHED_MAX; i++)
        if (found < 0 && hotspot_is_after_call(m, h, v[i + 1]))
            found = i;
    if (found < 0)
        return hotspot_by_fp(m, at);
    return hotspot_pop(m, at, end + (__u64) (__u32) found * 8);
}

/* Code that was deoptimised continues at a handler; the address where it would have is in its frame. */
HOTSPOT_INLINE __u64 hotspot_original(hotspot_memory *m, const struct agent_hotspot *h, const struct hotspot_at *at,
                                      const __u64 *v, __u64 blob)
{
    __u64 pc = at->pc;

    if (pc == hotspot_place(h, v, blob, h->code_deopt) || pc == hotspot_place(h, v, blob, h->code_deopt_mh))
        HOTSPOT_READ(&pc, 8, at->sp + (__s32) hotspot_half(v, h->code_original));
    return pc;
}

HOTSPOT_INLINE int hotspot_nmethod(hotspot_memory *m, const struct agent_hotspot *h, struct hotspot_work *w, __u64 blob)
{
    struct hotspot_at *at = &w->at;
    const __u64 *v = w->blob;
    __u64 bytes = (__u64) hotspot_half(v, h->blob_frame) * 8, pc = hotspot_original(m, h, at, v, blob);
    int stage = HOTSPOT_ALL;

    at->words[0] = blob | (at->is_leaf ? HOTSPOT_LEAF : HOTSPOT_CODE);
    at->words[1] = pc & HOTSPOT_ADDRESS;
    at->words[2] = hotspot_code_content(hotspot_half(v, h->code_id), hotspot_word(v, h->code_method));
    if (at->is_leaf)
        stage = hotspot_stage(m, h, v, hotspot_place(h, v, blob, h->blob_begin), at->pc);
    if (stage == HOTSPOT_NONE)
        return hotspot_pop_pc(m, at);
    if (stage == HOTSPOT_FP_PUSHED)
        return hotspot_pop(m, at, at->sp + 16);
    if (bytes < 16 || bytes > HOTSPOT_FRAME_MAX)
        return hotspot_by_fp(m, at);
    if (stage == HOTSPOT_NOT_SAVED) {
        if (HOTSPOT_READ(&pc, 8, at->sp + bytes - 8))
            return HOTSPOT_LOST;
        return hotspot_arrive(at, pc, at->sp + bytes, at->fp);
    }
    return hotspot_whole(m, h, w, bytes);
}

/* Everything else: stubs, adapters. */
HOTSPOT_INLINE int hotspot_stub(hotspot_memory *m, const struct agent_hotspot *h, struct hotspot_work *w, __u64 blob,
                                __u32 kind)
{
    struct hotspot_at *at = &w->at;
    const __u64 *v = w->blob;
    __u64 bytes = (__u64) hotspot_half(v, h->blob_frame) * 8, pc = 0;

    at->words[0] = blob | HOTSPOT_STUB;
    at->words[1] = at->pc & HOTSPOT_ADDRESS;
    at->words[2] = agent_hash_step(0x5354, hotspot_word(v, h->blob_name)) | 1;
    if (kind == HOTSPOT_IS_VTABLE)
        return hotspot_pop_pc(m, at);
    if (at->is_leaf && !HOTSPOT_READ(&pc, 8, at->sp) && hotspot_is_after_call(m, h, pc))
        return hotspot_arrive(at, pc, at->sp + 8, at->fp);
    if (bytes >= 16 && bytes < HOTSPOT_FRAME_MAX)
        return hotspot_pop(m, at, at->sp + bytes);
    return hotspot_by_fp(m, at);
}

/* Words of an interpreter's frame from 64 bytes below its frame pointer on. */
enum { HOTSPOT_BCP, HOTSPOT_METHOD = 5, HOTSPOT_SENDER_SP = 7, HOTSPOT_SAVED_FP, HOTSPOT_RETURN, HOTSPOT_FRAME_WORDS };

/* The entry of a method, before it has a frame: the method is in a register that is not kept here; its caller is shown. */
HOTSPOT_INLINE int hotspot_entry(hotspot_memory *m, const struct agent_hotspot *h, struct hotspot_at *at)
{
    __u32 pc = (__u32) (at->pc - h->interpreter), in = 0, bare = 0;
    __u64 ra = at->rax;

    HOTSPOT_UNROLL
    for (int i = 0; i < HOTSPOT_ENTRIES; i++) {
        in |= pc - h->entries[i].lo < h->entries[i].hi - h->entries[i].lo;
        bare |= pc - h->entries[i].lo < h->entries[i].bare - h->entries[i].lo;
    }
    if (!in)
        return HOTSPOT_ELSEWHERE;
    if (bare && HOTSPOT_READ(&ra, 8, at->sp))
        return HOTSPOT_LOST;
    return hotspot_arrive(at, ra, at->r13, at->fp);
}

HOTSPOT_INLINE int hotspot_interpreted(hotspot_memory *m, const struct agent_hotspot *h, struct hotspot_work *w)
{
    struct hotspot_at *at = &w->at;
    __u64 *v = w->v;
    int r;

    at->words[0] = 0;
    if (at->is_leaf) {
        r = hotspot_entry(m, h, at);
        if (r != HOTSPOT_ELSEWHERE)
            return r;
    }
    if (at->fp < at->sp || at->fp - at->sp > HOTSPOT_FRAME_MAX || HOTSPOT_READ(v, 8 * HOTSPOT_FRAME_WORDS, at->fp - 64))
        return HOTSPOT_LOST;
    at->words[0] = (v[HOTSPOT_METHOD] & HOTSPOT_ADDRESS) | HOTSPOT_INTERPRETED;
    at->words[1] = (at->is_leaf ? at->r13 : v[HOTSPOT_BCP]) & HOTSPOT_ADDRESS;
    at->words[2] = v[HOTSPOT_BCP] & HOTSPOT_ADDRESS;
    return hotspot_arrive(at, v[HOTSPOT_RETURN], v[HOTSPOT_SENDER_SP], v[HOTSPOT_SAVED_FP]);
}

/* To the caller of HotSpot's code, from w->at. Its words[0] is 0 if the frame is not to be shown. */
HOTSPOT_INLINE int hotspot_step_at(hotspot_memory *m, const struct agent_hotspot *h, struct hotspot_work *w)
{
    __u64 lo = 0, segments = 0, blob;
    __u32 kind;

    w->at.words[0] = 0;
    if (w->at.pc - h->interpreter < h->interpreter_size)
        return hotspot_interpreted(m, h, w);
    if (!hotspot_in_heaps(h, w->at.pc, &lo, &segments))
        return HOTSPOT_ELSEWHERE;
    blob = hotspot_blob(m, h, w->at.pc, lo, segments);
    if (!blob || HOTSPOT_READ(w->blob, HOTSPOT_BLOB_BYTES, blob))
        return HOTSPOT_LOST;
    kind = hotspot_kind(m, h, w->blob);
    if (kind == HOTSPOT_IS_NMETHOD)
        return hotspot_nmethod(m, h, w, blob);
    return hotspot_stub(m, h, w, blob, kind);
}

/* What tells a method from another one at the same address before or after it: where its code, its class and the names of both are, and
 * the begin of its class's name. v: room for 16 words. Sets *ret_code to its bytecode. 0: it cannot be read. */
HOTSPOT_INLINE __u64 hotspot_method_content(hotspot_memory *m, const struct agent_hotspot *h, __u64 method, __u64 *v,
                                            __u64 *ret_code, __u32 *ret_size)
{
    __u64 code = 0, pool, name = 0, holder = 0, class = 0, hash = 0x4d45;

    if (HOTSPOT_READ(&code, 8, method + h->method_const) || HOTSPOT_READ(v, 64, code))
        return 0;
    pool = v[h->const_pool >> 3 & 7];
    *ret_code = code + h->const_size;
    *ret_size = (__u16) (v[h->const_code >> 3 & 7] >> (h->const_code & 7) * 8);
    name = (__u16) (v[h->const_name >> 3 & 7] >> (h->const_name & 7) * 8);
    hash = agent_hash_step(hash, code);
    hash = agent_hash_step(hash, pool);
    hash = agent_hash_step(hash, *ret_size);
    if (HOTSPOT_READ(&name, 8, pool + h->pool_size + name * 8) || HOTSPOT_READ(&holder, 8, pool + h->pool_holder) ||
        HOTSPOT_READ(&class, 8, holder + h->class_name) || HOTSPOT_READ(v, HOTSPOT_TEXT_BYTES, class))
        return 0;
    hash = agent_hash_step(hash, name);
    hash = agent_hash_step(hash, class);
    hash = agent_hash_step(hash, v[0] & h->symbol_mask);
    if ((__u16) (v[0] >> (h->symbol_length & 7) * 8) > 2) /* else the next word is another Symbol's */
        hash = agent_hash_step(hash, v[1]);
    return hash | 1;
}

#endif
