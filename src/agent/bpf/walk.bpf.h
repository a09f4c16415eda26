// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * The maps, and the walk over a user stack with the rows of unwind/rows.h: one bpf_loop over frames, one frame a step.
 *
 * Searches are free of branches, because the verifier follows each one: `x << k` of a bit, never an AND with 0 or -1, which
 * kernel 6.18 splits into two states. Kernel structures are declared here with the fields that are read.
 */
#ifndef AGENT_WALK_BPF_H
#define AGENT_WALK_BPF_H

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "agent/bpf/agent_abi.h"
#include "agent/bpf/lang_abi.h"

struct mm_struct; /* only compared */

struct thread_struct {
    unsigned long fsbase;
} __attribute__((preserve_access_index));

struct task_struct {
    struct mm_struct *mm;
    int pid, tgid;
    unsigned int flags;
    struct task_struct *group_leader;
    struct thread_struct thread;
    unsigned int __state;
    char comm[16];
} __attribute__((preserve_access_index));

struct task_struct___before_5_14 {
    long state;
} __attribute__((preserve_access_index));

#define BARRIER(x) asm volatile("" : "+r"(x))

struct shard_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct agent_shard);
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

/* What a walk needs besides its state: too large for the stack. */
struct scratch {
    __u64 context[17]; /* of a signal frame */
    __u64 lang[64];    /* for the languages' steps */
    struct agent_event event;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

enum walk_mode { WALK_NATIVE, WALK_LANG };

struct walk_state {
    struct scratch *s;
    struct agent_process *process;
    struct agent_lang *lang; /* NULL: none */
    __u64 pc, sp, fp, bx;
    __u64 tp; /* thread pointer */
    __u32 exact, is_leaf;
    __u32 mode; /* WALK_LANG: the next step is the language's */
    __u32 frames;
    __u64 lang_state[4];    /* the language's, over the whole walk */
    __u64 start, end, bias; /* of the last mapping: the next frame is mostly in it as well */
    __u32 file;
    __u32 page_file, page_number, page_row, page_n; /* the last page */
};

static __always_inline long finish(struct walk_state *w, __u32 end)
{
    w->s->event.end = end;
    return 1;
}

/* Adds a word to the event. 0, or 1 when there is no more room. */
static __always_inline long put_word(struct walk_state *w, __u64 word)
{
    struct agent_event *e = &w->s->event;
    __u32 n = e->n_words;

    if (n >= AGENT_WORDS)
        return finish(w, AGENT_END_DEPTH);
    e->words[n] = word;
    e->n_words = n + 1;
    return 0;
}

static __always_inline int read_word(__u64 at, __u64 *ret)
{
    return bpf_probe_read_user(ret, sizeof *ret, (void *) at);
}

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
static __always_inline int find_page(struct walk_state *w, __u64 address)
{
    struct agent_page_key key = {w->file, (__u32) (address >> UNWIND_PAGE_BITS)};
    struct agent_page *page;

    if (w->page_file == key.file && w->page_number == key.page)
        return 1;
    page = bpf_map_lookup_elem(&pages, &key);
    if (!page) {
        w->s->event.missing_file = key.file;
        w->s->event.missing_page = key.page;
        return 0;
    }
    w->page_file = key.file;
    w->page_number = key.page;
    w->page_row = page->row;
    w->page_n = page->n;
    return 1;
}

/* The rule in force at an ELF address, NULL with the reason in *end. */
static __always_inline struct unwind_rule *find_rule(struct walk_state *w, __u64 address, __u32 *end)
{
    __u32 zero = 0, shard_key, rule_key;
    struct agent_shard *shard;
    __u64 base, last, low = address & 0xffff;
    void *inner;

    if (!find_page(w, address)) {
        *end = AGENT_END_NO_PAGE;
        return NULL;
    }
    *end = AGENT_END_NO_RULE;
    if (!w->page_n)
        return NULL;
    shard_key = w->page_row / UNWIND_SHARD_ROWS;
    inner = bpf_map_lookup_elem(&shards, &shard_key);
    shard = inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
    if (!shard)
        return NULL;
    base = w->page_row % UNWIND_SHARD_ROWS;
    last = base + w->page_n;
#pragma unroll
    for (int bit = 15; bit >= 0; bit--) {
        __u64 at = base + (1 << bit), in = (at - last) >> 63;
        __u64 below = ((__u64) shard->rows[at & (UNWIND_SHARD_ROWS - 1)].pc - low - 1) >> 63;

        in &= below;
        BARRIER(in);
        base += in << bit;
    }
    rule_key = shard->rows[base & (UNWIND_SHARD_ROWS - 1)].rule;
    if (!rule_key)
        return NULL;
    return bpf_map_lookup_elem(&rules, &rule_key); /* begins with the rule */
}

/* ucontext at sp; gregs from +40: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. */
static __always_inline long signal_frame(struct walk_state *w)
{
    __u64 *g = w->s->context, *leaf = w->s->event.resume.leaf;

    if (bpf_probe_read_user(g, sizeof w->s->context, (void *) (w->sp + 40)))
        return finish(w, AGENT_END_READ);
    leaf[0] = g[13];
    leaf[1] = g[12];
    leaf[2] = g[14];
    leaf[4] = g[9];
    leaf[5] = g[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        leaf[8 + i] = g[i];
    w->fp = g[10];
    w->bx = g[11];
    w->sp = g[15];
    w->pc = g[16];
    w->exact = w->is_leaf = 1;
    return 0;
}

static __always_inline int find_cfa(struct walk_state *w, struct unwind_rule *r, __u64 *ret)
{
    __s64 off = r->cfa_off;

    switch (r->cfa) {
    case UNWIND_CFA_SP:
        *ret = w->sp + off;
        return 0;
    case UNWIND_CFA_FP:
        *ret = w->fp + off;
        return 0;
    case UNWIND_CFA_PLT:
        *ret = w->sp + 8 + ((w->pc & 15) >= r->reg ? 8 : 0);
        return 0;
    case UNWIND_CFA_DEREF_SP:
    case UNWIND_CFA_DEREF_FP:
        if (read_word((r->cfa == UNWIND_CFA_DEREF_SP ? w->sp : w->fp) + off, ret))
            return -1;
        *ret += r->reg * 8;
        return 0;
    case UNWIND_CFA_REG:
        if (r->reg == 3)
            *ret = w->bx + off;
        else if (w->is_leaf)
            *ret = w->s->event.resume.leaf[r->reg & 15] + off;
        else
            return -1;
        return 0;
    }
    return -1;
}

static __always_inline long apply(struct walk_state *w, struct unwind_rule *r)
{
    __u64 cfa = 0, ra = 0, fp = w->fp, bx = w->bx;

    if (r->cfa == UNWIND_CFA_END)
        return finish(w, AGENT_END_ROOT);
    if (r->cfa == UNWIND_CFA_SIGNAL)
        return signal_frame(w);
    if (r->cfa == UNWIND_CFA_LANG)
        return lang_rule(w, r);
    if (find_cfa(w, r, &cfa) || cfa < w->sp || (r->ra == UNWIND_RA_REG ? !w->is_leaf : cfa == w->sp))
        return finish(w, AGENT_END_BAD);
    if (r->ra == UNWIND_RA_REG)
        ra = w->s->event.resume.leaf[r->reg & 15];
    else if (read_word(cfa - 8, &ra))
        return finish(w, AGENT_END_READ);
    if (r->flags & UNWIND_FP_SAVED && read_word((r->flags & UNWIND_FP_AT_FP ? w->fp : cfa) + (__s64) r->fp * 8, &fp))
        return finish(w, AGENT_END_READ);
    if (r->flags & UNWIND_BX_SAVED && read_word((r->flags & UNWIND_BX_AT_FP ? w->fp : cfa) + (__s64) r->aux * 8, &bx))
        return finish(w, AGENT_END_READ);
    if (!ra)
        return finish(w, AGENT_END_ROOT);
    w->pc = ra;
    w->sp = cfa;
    w->fp = fp;
    w->bx = bx;
    w->exact = w->is_leaf = 0;
    return 0;
}

/* Code outside of all files (a JIT's): by frame pointers, as long as they make sense. */
static __always_inline long by_frame_pointer(struct walk_state *w)
{
    __u64 v[2] = {};

    if (w->fp < w->sp || bpf_probe_read_user(v, sizeof v, (void *) w->fp))
        return finish(w, AGENT_END_NO_RULE);
    if (!v[1])
        return finish(w, AGENT_END_ROOT);
    if (v[0] && v[0] <= w->fp)
        return finish(w, AGENT_END_NO_RULE);
    w->pc = v[1];
    w->sp = w->fp + 16;
    w->fp = v[0];
    w->exact = w->is_leaf = 0;
    return 0;
}

static __always_inline int enter_mapping(struct walk_state *w, __u64 at)
{
    struct agent_mapping *m;

    if (at - w->start < w->end - w->start)
        return 1;
    m = &w->process->v[find_mapping(w->process, at)];
    if (at < m->start || at >= m->end)
        return 0;
    w->start = m->start;
    w->end = m->end;
    w->bias = m->bias;
    w->file = m->file;
    return 1;
}

/* The word of a frame goes in after the frame's rule is there, so that a walk that is resumed elsewhere begins with it. */
static long one_frame(__u32 i, struct walk_state *w)
{
    __u32 end = AGENT_END_NO_RULE;
    struct unwind_rule *r;
    __u64 at;

    if (w->mode == WALK_LANG)
        return lang_step(w);
    at = w->exact ? w->pc : w->pc - 1;
    if (!enter_mapping(w, at))
        return finish(w, AGENT_END_NO_MAPPING);
    if (w->file == AGENT_FILE_UNKNOWN)
        return finish(w, AGENT_END_NO_MAPPING);
    if (w->frames >= AGENT_USER_FRAMES)
        return finish(w, AGENT_END_DEPTH);
    if (w->file == AGENT_FILE_NONE) {
        if (put_word(w, w->pc | (__u64) w->exact << 56))
            return 1;
        w->frames++;
        return by_frame_pointer(w);
    }
    r = find_rule(w, at - w->bias, &end);
    if (!r && end == AGENT_END_NO_PAGE)
        return finish(w, end);
    if (put_word(w, w->pc | (__u64) w->exact << 56))
        return 1;
    w->frames++;
    if (!r)
        return finish(w, end);
    if (w->lang && at - w->process->lang_lo < w->process->lang_hi - w->process->lang_lo)
        lang_enter(w);
    return apply(w, r);
}

#endif
