// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Walks user stacks with the rows of unwind/rows.h: a cpu-clock tick on each CPU, one program, bpf_loop over frames.
 *
 * Searches are free of branches, because the verifier follows each one: `x << k` of a bit, never an AND with 0 or -1, which
 * kernel 6.18 splits into two states. Kernel structures are declared here with the fields that are read.
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>

#include "agent/bpf/unwind_abi.h"

char LICENSE[] SEC("license") = "GPL";

struct task_struct; /* only handed through */

#define BARRIER(x) asm volatile("" : "+r"(x))

struct shard_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct unwind_shard);
} shard_0 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, UNWIND_SHARDS);
    __type(key, __u32);
    __array(values, struct shard_map);
} shards SEC(".maps") = {.values = {&shard_0}};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, UNWIND_RULES);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct unwind_rule);
} rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct unwind_page_key);
    __type(value, struct unwind_page_value);
} pages SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct unwind_process);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4 << 20);
} samples SEC(".maps");

/* The registers by DWARF number while no frame was left. */
struct scratch {
    struct unwind_sample sample;
    __u64 leaf[16];
    __u64 context[17];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

const volatile __u32 only_pid = 0; /* 0: all */

struct walk_state {
    struct scratch *s;
    struct unwind_process *process;
    __u64 pc, sp, fp, bx;
    __u32 exact, is_leaf;
};

static __always_inline __u32 find_mapping(struct unwind_process *p, __u64 pc)
{
    __u64 base = 0, n = p->n;

#pragma unroll
    for (int bit = 7; bit >= 0; bit--) {
        __u64 at = base + (1 << bit), in = (at - n) >> 63;
        __u64 below = (p->v[at & (UNWIND_MAPPINGS - 1)].start - pc - 1) >> 63; /* user addresses are below 2^63 */

        in &= below;
        BARRIER(in);
        base += in << bit;
    }
    return base & (UNWIND_MAPPINGS - 1);
}

/* The rule in force at an ELF address, NULL with the reason in *end. */
static __always_inline struct unwind_rule *find_rule(struct walk_state *w, __u32 file, __u64 address, __u32 *end)
{
    struct unwind_page_key key = {file, (__u32) (address >> UNWIND_PAGE_BITS)};
    struct unwind_page_value *page = bpf_map_lookup_elem(&pages, &key);
    __u32 zero = 0, shard_key, rule_key;
    struct unwind_shard *shard;
    __u64 base, last, low = address & 0xffff;
    void *inner;

    if (!page) {
        w->s->sample.missing_file = key.file;
        w->s->sample.missing_page = key.page;
        *end = UNWIND_END_NO_PAGE;
        return NULL;
    }
    *end = UNWIND_END_NO_RULE;
    shard_key = page->row / UNWIND_SHARD_ROWS;
    inner = bpf_map_lookup_elem(&shards, &shard_key);
    shard = inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
    if (!shard || !page->n)
        return NULL;
    base = page->row % UNWIND_SHARD_ROWS;
    last = base + page->n;
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
    rule_key += page->rules;
    return bpf_map_lookup_elem(&rules, &rule_key);
}

static __always_inline int read_word(__u64 at, __u64 *ret)
{
    return bpf_probe_read_user(ret, sizeof *ret, (void *) at);
}

/* ucontext at sp; gregs from +40: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. */
static __always_inline long signal_frame(struct walk_state *w)
{
    __u64 *g = w->s->context;

    if (bpf_probe_read_user(g, sizeof w->s->context, (void *) (w->sp + 40))) {
        w->s->sample.end = UNWIND_END_READ;
        return 1;
    }
    w->s->leaf[0] = g[13];
    w->s->leaf[1] = g[12];
    w->s->leaf[2] = g[14];
    w->s->leaf[4] = g[9];
    w->s->leaf[5] = g[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        w->s->leaf[8 + i] = g[i];
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
            *ret = w->s->leaf[r->reg & 15] + off;
        else
            return -1;
        return 0;
    }
    return -1;
}

static __always_inline long finish(struct walk_state *w, __u32 end)
{
    w->s->sample.end = end;
    return 1;
}

static __always_inline long apply(struct walk_state *w, struct unwind_rule *r)
{
    __u64 cfa = 0, ra = 0, fp = w->fp, bx = w->bx;

    if (r->cfa == UNWIND_CFA_END)
        return finish(w, UNWIND_END_ROOT);
    if (r->cfa == UNWIND_CFA_SIGNAL)
        return signal_frame(w);
    if (find_cfa(w, r, &cfa) || cfa < w->sp || (r->ra == UNWIND_RA_REG ? !w->is_leaf : cfa == w->sp))
        return finish(w, UNWIND_END_BAD);
    if (r->ra == UNWIND_RA_REG)
        ra = w->s->leaf[r->reg & 15];
    else if (read_word(cfa - 8, &ra))
        return finish(w, UNWIND_END_READ);
    if (r->flags & UNWIND_FP_SAVED && read_word((r->flags & UNWIND_FP_AT_FP ? w->fp : cfa) + (__s64) r->fp * 8, &fp))
        return finish(w, UNWIND_END_READ);
    if (r->flags & UNWIND_BX_SAVED && read_word((r->flags & UNWIND_BX_AT_FP ? w->fp : cfa) + (__s64) r->aux * 8, &bx))
        return finish(w, UNWIND_END_READ);
    if (!ra)
        return finish(w, UNWIND_END_ROOT);
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
        return finish(w, UNWIND_END_NO_RULE);
    if (!v[1])
        return finish(w, UNWIND_END_ROOT);
    if (v[0] && v[0] <= w->fp)
        return finish(w, UNWIND_END_NO_RULE);
    w->pc = v[1];
    w->sp = w->fp + 16;
    w->fp = v[0];
    w->exact = w->is_leaf = 0;
    return 0;
}

static long one_frame(__u32 i, struct walk_state *w)
{
    struct unwind_sample *s = &w->s->sample;
    __u32 n = s->n, end = UNWIND_END_NO_RULE;
    struct unwind_mapping *m;
    struct unwind_rule *r;
    __u64 at;

    if (n >= UNWIND_FRAMES)
        return finish(w, UNWIND_END_DEPTH);
    s->pc[n] = w->pc;
    s->n = n + 1;
    at = w->exact ? w->pc : w->pc - 1;
    m = &w->process->v[find_mapping(w->process, at)];
    if (at < m->start || at >= m->end)
        return by_frame_pointer(w);
    r = find_rule(w, m->file, at - m->bias, &end);
    if (!r)
        return finish(w, end);
    return apply(w, r);
}

static __always_inline void leaf_registers(struct scratch *s, const struct pt_regs *g)
{
    s->leaf[0] = g->rax;
    s->leaf[1] = g->rdx;
    s->leaf[2] = g->rcx;
    s->leaf[4] = g->rsi;
    s->leaf[5] = g->rdi;
    s->leaf[8] = g->r8;
    s->leaf[9] = g->r9;
    s->leaf[10] = g->r10;
    s->leaf[11] = g->r11;
    s->leaf[12] = g->r12;
    s->leaf[13] = g->r13;
    s->leaf[14] = g->r14;
    s->leaf[15] = g->r15;
}

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
    __u64 id = bpf_get_current_pid_tgid();
    __u32 pid = id >> 32, zero = 0;
    struct walk_state w = {.exact = 1, .is_leaf = 1};
    struct unwind_sample *out;
    struct pt_regs regs = {};

    if (!pid || (only_pid && pid != only_pid))
        return 0;
    w.s = bpf_map_lookup_elem(&scratches, &zero);
    if (!w.s)
        return 0;
    out = &w.s->sample;
    out->pid = pid;
    out->tid = (__u32) id;
    out->cpu = bpf_get_smp_processor_id();
    out->time_ns = bpf_ktime_get_ns();
    out->n = 0;
    out->end = UNWIND_END_NO_PROCESS;
    w.process = bpf_map_lookup_elem(&processes, &pid);
    /* the user's registers as the kernel saved them: right whether user or kernel code was interrupted */
    bpf_probe_read_kernel(&regs, sizeof regs,
                          (void *) bpf_task_pt_regs((struct task_struct *) bpf_get_current_task_btf()));
    w.pc = regs.rip;
    w.sp = regs.rsp;
    w.fp = regs.rbp;
    w.bx = regs.rbx;
    leaf_registers(w.s, &regs);
    if (w.process)
        bpf_loop(UNWIND_FRAMES + 1, one_frame, &w, 0);
    bpf_ringbuf_output(&samples, out, sizeof *out, BPF_RB_NO_WAKEUP);
    return 0;
}
