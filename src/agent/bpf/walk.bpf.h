// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * The maps, and the walk over a user stack with the rows of unwind/rows.h: one bpf_loop over frames, one frame a step.
 * If the kernel has no bpf_loop (before 5.17), the constant `bounded` is set: programs then walk a part of the frames
 * in a plain loop and tail-call themselves for the next part (agent.bpf.c).
 *
 * Searches are free of branches, because the verifier follows every branch: `x << k` of a bit, never an AND with 0 or
 * -1, which kernel 6.18 splits into two states. Kernel structures are declared here with only the fields that are read.
 */
#ifndef AGENT_WALK_BPF_H
#define AGENT_WALK_BPF_H

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>

#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "agent/bpf/agent_abi.h"
#include "agent/bpf/bounds.bpf.h"
#include "agent/bpf/lang_abi.h"

struct mm_struct {
    unsigned long arg_start, arg_end, env_start, env_end;
} __attribute__((preserve_access_index));

struct kernfs_node {
    __u64 id;
} __attribute__((preserve_access_index));

struct cgroup {
    struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct css_set {
    struct cgroup *dfl_cgrp; /* of the unified hierarchy */
} __attribute__((preserve_access_index));

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
    unsigned long fsbase;
} __attribute__((preserve_access_index));
#else
struct thread_struct {
    struct {
        unsigned long tp_value;
    } uw;
} __attribute__((preserve_access_index));
#endif

struct bpf_local_storage;

struct sched_entity {
    __u64 sum_exec_runtime, prev_sum_exec_runtime; /* its total time on CPU; the same when it was last switched in */
} __attribute__((preserve_access_index));

struct task_struct {
    struct mm_struct *mm;
    void *stack;
    struct bpf_local_storage *bpf_storage; /* NULL: the task has no storage */
    unsigned long nvcsw, nivcsw;           /* voluntary and involuntary switches */
    struct sched_entity se;
    int pid, tgid;
    unsigned int flags;
    struct css_set *cgroups;
    struct task_struct *group_leader;
    struct thread_struct thread;
    unsigned int __state;
    char comm[16];
} __attribute__((preserve_access_index));

/* The kernel compares the shards that the user side makes with this one: both are without types, of which 6.1 would want
 * the same. */
struct shard_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct agent_shard));
} shard_0 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, AGENT_SHARDS);
    __type(key, __u32);
    __array(values, struct shard_map);
} shards SEC(".maps") = {.values = {&shard_0}};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, AGENT_RULES);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct agent_rule);
} rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, AGENT_PAGES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct agent_page_key);
    __type(value, struct agent_page);
} pages SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, AGENT_CODE_RULES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct agent_code_key);
    __type(value, __u32);
} code_rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, AGENT_PROCESSES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct agent_process);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, AGENT_PROCESSES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct agent_lang);
} langs SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20); /* the loader sets it according to the number of CPUs */
} events SEC(".maps");

/* Room for what is copied of a process; also for a struct agent_memory. Indexed by CPU: a value of a per-CPU map may not be
 * this large. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct agent_stack);
} stacks SEC(".maps");

struct agent_control control = {.take_unknown = 1};

/* The state of a walk. Not on the stack: the verifier tracks every value on the stack, and none in a map. */
struct walk_place {
    __u64 pc, sp, fp, bx;
    __u64 tp; /* thread pointer */
    __u32 exact, is_leaf;
    __u32 walks; /* there are frames to walk here */
    __u32 parts, lang,
        steps; /* without bpf_loop: programs that walked; 1 + the language; the same if it has a step; 0: none */
    __u32 frames, marks;
    __u32 file;                                     /* of the last mapping: the next frame is usually in the same one */
    __u64 start, end, bias;                         /* likewise */
    __u32 page_file, page_number, page_row, page_n; /* the last page */
};

/* What helpers write to and read from while a frame is left. In a bounded loop it is in the map: on the stack it would be part of the
 * state that the verifier compares, and each way through a frame would be followed through all further frames. With bpf_loop, which
 * has a frame verified once, it is on the stack, which is faster. */
struct walk_next {
    __u64 cfa, ra, fp, bx, pair[2];
    struct agent_page_key page;
    struct agent_code_key code;
    __u32 number;
};

/* What a walk needs besides its state: too large for the stack. */
struct scratch {
    struct walk_place at;
    struct walk_next next;
    __u64 context[33]; /* of a signal frame */
    __u64 lang[64];    /* what the languages read of a process */
    __u64 walk[16];    /* LANG_VARIABLES */
    struct agent_event event;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

struct walk_state {
    struct scratch *s;
    struct agent_process *process;
    struct agent_lang *lang; /* NULL: none */
};

/* Parts of a walk without bpf_loop. There may be 33 tail calls, the last of which is that of the language's program. All
 * native parts together are more than AGENT_USER_FRAMES. */
enum { WALK_PARTS = 32, WALK_PART = 32, WALK_LANG_PART = 64 };

/* What a step of a walk returns, and a part of one. */
enum {
    WALK_ON,
    WALK_ENDED,
    WALK_STEPS, /* only without bpf_loop: the next frame is for the program with the steps of the language */
};

/* Calls f(i, arg) until it returns 1, n times at most; fewer without bpf_loop. f is __noinline: the verifier of kernel
 * 5.10 accepts a loop only if its back edge is a plain jump, which is certain if the loop contains nothing but a
 * call. */
#define WALK_REPEAT(bounded, n, f, arg)                 \
    do {                                                \
        if (!(bounded))                                 \
            bpf_loop(n, f, arg, 0);                     \
        else                                            \
            for (int i_ = 0; i_ < WALK_LANG_PART; i_++) \
                if (f(i_, arg))                         \
                    break;                              \
    } while (0)

static __always_inline long finish(struct walk_state *w, __u32 end)
{
    w->s->event.end = end;
    return WALK_ENDED;
}

/* Adds a word to the event. WALK_ENDED when there is no more room. */
static __always_inline long put_word(struct walk_state *w, __u64 word)
{
    struct agent_event *e = &w->s->event;
    __u32 n = e->n_words;

    if (n >= AGENT_WORDS)
        return finish(w, AGENT_END_DEPTH);
    *step_words(e->words, n, AGENT_WORDS - 1) = word;
    e->n_words = n + 1;
    return 0;
}

static __always_inline int read_word(__u64 at, __u64 *ret)
{
    return bpf_probe_read_user(ret, sizeof *ret, (void *) at);
}

#include "agent/bpf/arch.bpf.h"
#include "agent/bpf/lang.bpf.h"

static __always_inline __u32 find_mapping(struct agent_process *p, __u64 pc)
{
    __u64 base = 0, n = p->n;

#pragma unroll
    for (int bit = 7; bit >= 0; bit--) {
        __u64 at = base + (1 << bit), in = (at - n) >> 63;
        __u64 below = (p->v[at & (AGENT_MAPPINGS - 1)].start - pc - 1) >> 63; /* user addresses are below 2^63 */

        in &= below;
        BARRIER(in);
        base += in << bit;
    }
    return base & (AGENT_MAPPINGS - 1);
}

/* Sets the page of an ELF address; false when it is not loaded. */
static __always_inline int find_page(struct walk_state *w, struct walk_next *n, __u64 address)
{
    struct agent_page_key *key = &n->page;
    struct agent_page *page;

    key->file = w->s->at.file;
    key->page = (__u32) (address >> UNWIND_PAGE_BITS);
    if (w->s->at.page_file == key->file && w->s->at.page_number == key->page)
        return 1;
    page = bpf_map_lookup_elem(&pages, key);
    if (!page) {
        w->s->event.missing_file = key->file;
        w->s->event.missing_page = key->page;
        return 0;
    }
    w->s->at.page_file = key->file;
    w->s->at.page_number = key->page;
    w->s->at.page_row = page->row;
    w->s->at.page_n = page->n;
    return 1;
}

/* Without bpf_loop, the verifier follows each frame of a loop: those programs leave all inferred rules to the user side. */
const volatile bool no_code_rules;

/* The number of the rule that was inferred for an address without a row. */
static __always_inline __u32 inferred_rule(struct walk_state *w, struct walk_next *n, __u64 address, __u32 *end)
{
#if defined(__TARGET_ARCH_x86)
    struct agent_code_key *key = &n->code;
    __u32 *number;

    if (no_code_rules) {
        *end = w->s->at.is_leaf ? AGENT_END_CODE : AGENT_END_NO_RULE;
        return 0;
    }
    *key = (struct agent_code_key){address, w->s->at.file, 0};
    number = bpf_map_lookup_elem(&code_rules, key);
    if (!number) {
        *end = AGENT_END_CODE;
        return 0;
    }
    if (*number)
        w->s->event.flags |= AGENT_EVENT_INFERRED;
    return *number;
#else
    return 0; /* code_rule.h is for x86-64 */
#endif
}

/* The number of the rule of the row at an ELF address; 0: none. Its page was found. */
static __always_inline __u32 rule_of_row(struct walk_state *w, struct walk_next *n, __u64 address)
{
    __u32 *key = &n->number;
    struct agent_shard *shard;
    __u64 base, last, low = address & 0xffff;
    void *inner;

    if (!w->s->at.page_n)
        return 0;
    *key = w->s->at.page_row / UNWIND_SHARD_ROWS;
    inner = bpf_map_lookup_elem(&shards, key);
    if (!inner)
        return 0;
    *key = 0;
    shard = bpf_map_lookup_elem(inner, key);
    if (!shard)
        return 0;
    base = w->s->at.page_row % UNWIND_SHARD_ROWS;
    last = base + w->s->at.page_n;
#pragma unroll
    for (int bit = 15; bit >= 0; bit--) {
        __u64 at = base + (1 << bit), in = (at - last) >> 63;
        __u64 below = ((__u64) shard->rows[at & (UNWIND_SHARD_ROWS - 1)].pc - low - 1) >> 63;

        in &= below;
        BARRIER(in);
        base += in << bit;
    }
    return shard->rows[base & (UNWIND_SHARD_ROWS - 1)].rule;
}

/* The rule in force at an ELF address, NULL with the reason in *end. */
static __always_inline struct unwind_rule *find_rule(struct walk_state *w, struct walk_next *n, __u64 address,
                                                     __u32 *end)
{
    __u32 *number = &n->number;

    if (!find_page(w, n, address)) {
        *end = AGENT_END_NO_PAGE;
        return NULL;
    }
    *end = AGENT_END_NO_RULE;
    *number = rule_of_row(w, n, address);
    if (!*number)
        *number = inferred_rule(w, n, address, end);
    if (!*number)
        return NULL;
    return bpf_map_lookup_elem(&rules, number); /* begins with the rule */
}

static __always_inline long signal_frame(struct walk_state *w)
{
    if (arch_signal_frame(w))
        return finish(w, AGENT_END_READ);
    w->s->at.exact = !arch_after_syscall(w);
    w->s->at.is_leaf = 1;
    return 0;
}

/* The frame pointer is still that of the caller, on another stack. */
static __always_inline long stack_switch(struct walk_state *w, struct walk_next *n)
{
    __u64 *v = n->pair;

    if (!w->s->at.fp || bpf_probe_read_user(v, sizeof n->pair, (void *) w->s->at.fp))
        return finish(w, AGENT_END_NO_RULE);
    if (!v[1])
        return finish(w, AGENT_END_ROOT);
    w->s->at.pc = arch_code(v[1]);
    w->s->at.sp = w->s->at.fp + ARCH_SWITCH_CFA;
    w->s->at.fp = v[0];
    w->s->at.exact = w->s->at.is_leaf = 0;
    return 0;
}

static __always_inline int find_cfa(struct walk_state *w, struct unwind_rule *r, __u64 *ret)
{
    __s64 off = r->cfa_off;

    switch (r->cfa) {
    case UNWIND_CFA_SP:
        *ret = w->s->at.sp + off;
        return 0;
    case UNWIND_CFA_FP:
        *ret = w->s->at.fp + off;
        return 0;
    case UNWIND_CFA_PLT:
        *ret = w->s->at.sp + 8 + ((w->s->at.pc & 15) >= r->reg ? 8 : 0);
        return 0;
    case UNWIND_CFA_DEREF_SP:
    case UNWIND_CFA_DEREF_FP:
        if (read_word((r->cfa == UNWIND_CFA_DEREF_SP ? w->s->at.sp : w->s->at.fp) + off, ret))
            return -1;
        *ret += r->reg * 8;
        return 0;
    case UNWIND_CFA_REG:
        if (r->reg == ARCH_BX)
            *ret = w->s->at.bx + off;
        else if (w->s->at.is_leaf)
            *ret = w->s->event.resume.leaf[r->reg & (AGENT_LEAF_REGS - 1)] + off;
        else
            return -1;
        return 0;
    }
    return -1;
}

static __always_inline long apply(struct walk_state *w, struct walk_next *next, struct unwind_rule *r)
{
    if (r->cfa == UNWIND_CFA_END)
        return finish(w, AGENT_END_ROOT);
    if (r->cfa == UNWIND_CFA_SIGNAL)
        return signal_frame(w);
    if (r->cfa == UNWIND_CFA_SWITCH)
        return stack_switch(w, next);
    next->fp = w->s->at.fp;
    next->bx = w->s->at.bx;
    if (find_cfa(w, r, &next->cfa) || next->cfa < w->s->at.sp ||
        (r->ra == UNWIND_RA_REG ? !w->s->at.is_leaf : next->cfa == w->s->at.sp))
        return finish(w, AGENT_END_BAD);
    if (arch_read_ra(w, r, next->cfa, &next->ra))
        return finish(w, AGENT_END_READ);
    if (r->flags & UNWIND_FP_SAVED &&
        read_word((r->flags & UNWIND_FP_AT_FP ? w->s->at.fp : next->cfa) + (__s64) r->fp * 8, &next->fp))
        return finish(w, AGENT_END_READ);
    if (r->flags & UNWIND_BX_SAVED &&
        read_word((r->flags & UNWIND_BX_AT_FP ? w->s->at.fp : next->cfa) + (__s64) r->aux * 8, &next->bx))
        return finish(w, AGENT_END_READ);
    if (!next->ra)
        return finish(w, AGENT_END_ROOT);
    w->s->at.pc = arch_code(next->ra);
    w->s->at.sp = next->cfa;
    w->s->at.fp = next->fp;
    w->s->at.bx = next->bx;
    w->s->at.exact = w->s->at.is_leaf = 0;
    return 0;
}

/* Code outside of all files (JIT code) without a language's step: frame pointers, as long as they are plausible. */
static __always_inline long by_frame_pointer(struct walk_state *w, struct walk_next *n)
{
    __u64 *v = n->pair;

    if (w->s->at.fp < w->s->at.sp || bpf_probe_read_user(v, sizeof n->pair, (void *) w->s->at.fp))
        return finish(w, AGENT_END_NO_RULE);
    if (!v[1])
        return finish(w, AGENT_END_ROOT);
    if (v[0] && v[0] <= w->s->at.fp)
        return finish(w, AGENT_END_NO_RULE);
    w->s->at.pc = arch_code(v[1]);
    w->s->at.sp = w->s->at.fp + 16;
    w->s->at.fp = v[0];
    w->s->at.exact = w->s->at.is_leaf = 0;
    return 0;
}

static __always_inline int enter_mapping(struct walk_state *w, __u64 at)
{
    struct agent_mapping *m;

    if (at - w->s->at.start < w->s->at.end - w->s->at.start)
        return 1;
    m = &w->process->v[find_mapping(w->process, at)];
    if (at < m->start || at >= m->end)
        return 0;
    w->s->at.start = m->start;
    w->s->at.end = m->end;
    w->s->at.bias = m->bias;
    w->s->at.file = m->file;
    return 1;
}

static __always_inline __u64 walk_address(struct walk_state *w)
{
    return w->s->at.exact ? w->s->at.pc : w->s->at.pc - 1;
}

/* Adds the word of a frame. */
static __always_inline long put_frame(struct walk_state *w, __u32 exact)
{
    if (put_word(w, w->s->at.pc | (__u64) exact << 56))
        return WALK_ENDED;
    w->s->at.frames++;
    return WALK_ON;
}

/* A frame of code outside of all files. */
static __always_inline long walk_code(struct walk_state *w, struct walk_next *n)
{
    long r;

    if (put_frame(w, w->s->at.exact))
        return WALK_ENDED;
    r = w->lang ? lang_step(w) : LANG_NO_STEP;
    return r == LANG_NO_STEP ? by_frame_pointer(w, n) : r;
}

/* The word of a frame is added after its rule was found, so that a walk that is resumed elsewhere begins with this
 * frame. bounded: there is no bpf_loop; a language has a program of its own for its steps. */
static __always_inline long walk_frame(struct walk_state *w, struct walk_next *n, const bool bounded)
{
    __u32 end = AGENT_END_NO_RULE;
    struct unwind_rule *r;
    __u64 at = walk_address(w);

    if (!enter_mapping(w, at))
        return finish(w, AGENT_END_NO_MAPPING);
    if (w->s->at.file == AGENT_FILE_UNKNOWN)
        return finish(w, AGENT_END_NO_MAPPING);
    if (w->s->at.frames >= AGENT_USER_FRAMES)
        return finish(w, AGENT_END_DEPTH);
    if (w->s->at.file == AGENT_FILE_NONE && !bounded)
        return walk_code(w, n);
    if (w->s->at.file == AGENT_FILE_NONE) {
        if (w->s->at.steps)
            return WALK_STEPS;
        return put_frame(w, w->s->at.exact) ? WALK_ENDED : by_frame_pointer(w, n);
    }
    r = find_rule(w, n, at - w->s->at.bias, &end);
    if (!r && end != AGENT_END_NO_RULE)
        return finish(w, end);
    if (put_frame(w, w->s->at.exact | (r && r->cfa == UNWIND_CFA_SIGNAL)))
        return WALK_ENDED;
    if (!r)
        return finish(w, end);
    return apply(w, n, r);
}

/* For bpf_loop. */
static __noinline long one_frame(__u32 i, struct walk_state *w)
{
    struct walk_next next;

    return walk_frame(w, &next, false);
}

/* Without a call: before 6.0, arm64 refuses tail calls in programs that have calls. */
static __always_inline long walk_part(struct walk_state *w)
{
    long r = WALK_ON;

#pragma clang loop unroll(disable)
    for (int i = 0; i < WALK_PART && !r; i++)
        r = walk_frame(w, &w->s->next, true);
    return r;
}

/* A part of the walk by the steps of one language: the frames of code outside of all files, up to the next native one. */
#define WALK_CODE_PART(w, step)                                                             \
    ({                                                                                      \
        long r_ = WALK_STEPS, step_;                                                        \
                                                                                            \
        _Pragma("clang loop unroll(disable)") for (int i_ = 0; i_ < WALK_PART; i_++)        \
        {                                                                                   \
            if (!enter_mapping(w, walk_address(w)) || (w)->s->at.file != AGENT_FILE_NONE || \
                (w)->s->at.frames >= AGENT_USER_FRAMES) {                                   \
                r_ = WALK_ON;                                                               \
                break;                                                                      \
            }                                                                               \
            step_ = put_frame(w, (w)->s->at.exact);                                         \
            if (!step_)                                                                     \
                step_ = step(w);                                                            \
            if (step_ == LANG_NO_STEP)                                                      \
                step_ = by_frame_pointer(w, &(w)->s->next);                                 \
            if (step_) {                                                                    \
                r_ = WALK_ENDED;                                                            \
                break;                                                                      \
            }                                                                               \
        }                                                                                   \
        r_;                                                                                 \
    })

#endif
