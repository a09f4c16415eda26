// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Bounded copies and array steps: the only place where a number that the verifier must know the limit of is used. Included by
 * walk.bpf.h.
 *
 * The verifier knows the limit of a register that was compared. It forgets it when the compiler stores the number on the
 * stack and loads it again: before 5.12 always, later if it stored the number before the comparison. Therefore each function
 * here clamps a copy of its own of the number, in assembly that the compiler cannot look into or move, just before the helper
 * call or the addition that needs it: nothing else uses that copy, so there is no reason to store it. The sum of an address
 * and a number keeps its limits on the stack in all kernels.
 *
 * Clamping only satisfies the verifier: callers decide before what to do with a number that is too large.
 */
#ifndef AGENT_BOUNDS_BPF_H
#define AGENT_BOUNDS_BPF_H

/* Hides from the compiler where x comes from. */
#define BARRIER(x) asm volatile("" : "+r"(x))

/* x, an __u64, is at most `most`, a constant, from here on. */
#define CLAMP(x, most) asm volatile("if %0 <= %1 goto +1\n\t%0 = %1" : "+r"(x) : "i"(most))

/* Copies n bytes, at most `most`, of the process; 0, or an error if one of them cannot be read. */
static __always_inline long read_user(void *to, __u64 n, const __u32 most, __u64 from)
{
    CLAMP(n, most);
    return bpf_probe_read_user(to, n, (void *) from);
}

/* The same for memory of the kernel, maps included. */
static __always_inline long read_kernel(void *to, __u64 n, const __u32 most, const void *from)
{
    CLAMP(n, most);
    return bpf_probe_read_kernel(to, n, from);
}

/* base + i, where i is at most `most`. */
static __always_inline void *step_bytes(void *base, __u64 i, const __u32 most)
{
    CLAMP(i, most);
    base += i;
    BARRIER(base); /* the sum, not the two parts, is used from here on */
    return base;
}

/* &words[i], where i is at most `most`. */
static __always_inline __u64 *step_words(__u64 *words, __u64 i, const __u32 most)
{
    return step_bytes(words, i * sizeof *words, most * sizeof *words);
}

/* Puts n bytes, at most `most`, into a ring. */
static __always_inline long put_ring(void *ring, void *from, __u64 n, const __u32 most, __u64 flags)
{
    CLAMP(n, most);
    return bpf_ringbuf_output(ring, from, n, flags);
}

#endif
