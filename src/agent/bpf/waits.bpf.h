// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Off-CPU samples: waits. One wait in off_cpu_n is sampled when it begins (on_switch): its stack is kept with the task,
 * and sent with the duration when the task runs again. Every second all tasks are visited (on_task, read by the user
 * side): a wait of more than a second counts with weight 1, whether it was sampled or not, and is reported slice by
 * slice while it lasts.
 *
 *   a wait that was            looked at                      missed
 *   shorter than that          weight n                       nothing
 *   seen by on_task            weight 1 from its begin        weight 1 from the middle between two looks
 *
 * so that sums are right in each column. A stack that does not fit into the task's storage, or cannot be walked
 * completely in BPF, is sent at once as AGENT_EVENT_WAIT, and later events of the wait refer to it.
 */
#ifndef AGENT_WAITS_BPF_H
#define AGENT_WAITS_BPF_H

static const __u64 LONG_NS = 1000000000;

/* A wait that has begun; since_ns 0: none. */
struct agent_wait {
    __u64 since_ns;               /* end of the time that was already reported */
    __u64 wait_ns;                /* identifies it, together with tid */
    __u64 switches;               /* of the task, when it began */
    __u64 seen_ns, seen_switches; /* set by on_task, for a wait that was not sampled */
    __u64 mm;
    __u32 pid, tid, weight;
    __u16 n_kernel, n_words;
    __u8 end, flags, is_long;
    __u64 words[AGENT_WAIT_WORDS];
    __u8 trace_id[16], span_id[8];
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct agent_wait);
} waits SEC(".maps");

/* on_task may be interrupted by the other programs. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct scratch);
} task_scratch SEC(".maps");

/* The languages' programs by number, set by the loader. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, LANGS);
    __type(key, __u32);
    __type(value, __u32);
} switch_langs SEC(".maps");

struct switch_arguments {
    __u64 preempt;
    struct task_struct *prev, *next;
};

static __always_inline int is_blocked(struct task_struct *task)
{
    return task->__state != 0;
}

/* Sends the stack as AGENT_EVENT_WAIT. The wait then keeps no words. */
static __always_inline void tell_ahead(struct walk_state *w, struct agent_wait *wait, struct agent_stats *st)
{
    struct agent_event *e = &w->s->event;

    e->kind = AGENT_EVENT_WAIT;
    e->wait_ns = wait->wait_ns;
    e->value_ns = wait->switches;
    e->weight = 1;
    send(e, st);
    wait->flags |= AGENT_EVENT_KEPT;
    wait->n_words = wait->n_kernel = 0;
}

static __always_inline void keep_words(struct agent_wait *wait, struct agent_event *e)
{
    __u32 n = e->n_words;

    if (n > AGENT_WAIT_WORDS)
        n = AGENT_WAIT_WORDS;
    read_kernel(wait->words, n * 8, sizeof wait->words, e->words);
    wait->n_words = n;
    wait->n_kernel = e->n_kernel;
}

/* Reports the time since the last report. */
static __always_inline void tell_wait(struct task_struct *task, struct agent_wait *wait, struct agent_event *e,
                                      struct agent_stats *st, __u64 now)
{
    __u32 n = wait->n_words;

    if (n > AGENT_WAIT_WORDS)
        n = AGENT_WAIT_WORDS;
    e->kind = AGENT_EVENT_OFFCPU;
    e->flags = wait->flags;
    e->end = wait->end;
    e->cpu = bpf_get_smp_processor_id();
    e->time_ns = wait->since_ns;
    e->wait_ns = wait->wait_ns;
    e->pid = wait->pid;
    e->tid = wait->tid;
    e->n_kernel = wait->n_kernel;
    e->n_words = n;
    e->weight = wait->weight;
    e->value_ns = now - wait->since_ns;
    e->mm = wait->mm;
    BPF_CORE_READ_INTO(&e->comm, task, comm);
    read_kernel(e->words, n * 8, sizeof wait->words, wait->words);
    if (wait->flags & AGENT_EVENT_SPAN) {
        __builtin_memcpy(e->trace_id, wait->trace_id, sizeof e->trace_id);
        __builtin_memcpy(e->span_id, wait->span_id, sizeof e->span_id);
    }
    send(e, st);
}

/* On a busy machine the program is not run for a few switches. If it missed the end of a wait, the wait ended before
 * the time that the task has run since. */
static __always_inline void end_unseen(struct task_struct *prev, struct agent_wait *wait, struct agent_event *e,
                                       struct agent_stats *st, __u64 now)
{
    __u64 end = now - (prev->se.sum_exec_runtime - prev->se.prev_sum_exec_runtime);

    if (wait->since_ns && wait->switches + 1 == prev->nvcsw + prev->nivcsw && end < now &&
        end >= wait->since_ns + control.off_cpu_min_ns)
        tell_wait(prev, wait, e, st, end);
}

/* Keeps the stack of the scratch buffer with the task. */
static __always_inline void keep_wait(struct walk_state *w, struct task_struct *prev, struct agent_wait *wait,
                                      struct agent_stats *st)
{
    struct agent_event *e = &w->s->event;

    st->frames += w->s->at.frames;
    wait->end = e->end;
    wait->flags = e->flags & ~AGENT_EVENT_RESUME;
    wait->mm = e->mm;
    wait->pid = e->pid;
    wait->tid = e->tid;
    wait->weight = e->weight;
    wait->switches = prev->nvcsw + prev->nivcsw;
    wait->wait_ns = e->time_ns;
    wait->is_long = 0;
    if (e->flags & AGENT_EVENT_SPAN) {
        __builtin_memcpy(wait->trace_id, e->trace_id, sizeof wait->trace_id);
        __builtin_memcpy(wait->span_id, e->span_id, sizeof wait->span_id);
    }
    if (is_unfinished(e))
        copy_stack(w, st);
    if (is_unfinished(e) || e->n_words > AGENT_WAIT_WORDS)
        tell_ahead(w, wait, st);
    else
        keep_words(wait, e);
    wait->since_ns = e->time_ns;
    st->switch_samples++;
}

/* Takes the stack of the task that is about to wait, and keeps it with the task. The program of a language continues
 * with on_switch_NAME. */
static __always_inline void begin_wait(void *ctx, struct task_struct *prev, struct agent_stats *st, __u64 now,
                                       __u32 drawn)
{
    struct walk_state w = {};
    __u64 id = current_pid_tgid();
    struct agent_event *e;
    struct agent_wait *wait;
    __u32 zero = 0, weight;

    weight = id >> 32 && prev->mm ? filter_weight(id >> 32) : 0;
    w.s = weight ? bpf_map_lookup_elem(&scratches, &zero) : NULL;
    wait = w.s ? bpf_task_storage_get(&waits, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) : NULL;
    if (!wait) { /* left out, or the kernel had no memory that can be allocated here */
        st->lost += w.s != NULL;
        return;
    }
    end_unseen(prev, wait, &w.s->event, st, now);
    e = begin_event(&w, AGENT_EVENT_OFFCPU, id, now);
    if (!control.no_kernel)
        kernel_frames(ctx, e, ARCH_TRACE_FRAMES);
    e->mm = (__u64) prev->mm;
    e->weight = drawn * weight;
    if (walk_begin(&w, prev, prev->ARCH_TP, false))
        bpf_loop(AGENT_STEPS, one_frame, &w, 0);
    if (w.lang)
        bpf_tail_call(ctx, &switch_langs, w.lang->number);
    keep_wait(&w, prev, wait, st);
}

/* The task runs again. */
static __always_inline void end_wait(struct task_struct *next, struct agent_wait *wait, struct agent_stats *st,
                                     __u64 now)
{
    __u32 zero = 0;
    struct scratch *s = bpf_map_lookup_elem(&scratches, &zero);

    if (s && wait->switches == next->nvcsw + next->nivcsw &&
        (wait->is_long || now - wait->since_ns >= control.off_cpu_min_ns))
        tell_wait(next, wait, &s->event, st, now);
    wait->since_ns = 0;
}

/* Samples one wait in n: the number of waits to skip is drawn at random with mean n. Returns the weight of this wait;
 * 0: it is skipped. */
static __always_inline __u32 choose_wait(struct agent_stats *st, __u32 n)
{
    __u32 drawn;

    if (st->left) {
        st->left--;
        return 0;
    }
    drawn = st->drawn ? st->drawn : 1;
    st->drawn = n;
    st->left = bpf_get_prandom_u32() % (2 * n - 1);
    return drawn;
}

SEC("tp_btf/sched_switch")
int on_switch(struct switch_arguments *ctx)
{
    struct task_struct *prev = ctx->prev, *next = ctx->next;
    __u32 zero = 0, n = control.off_cpu_n;
    struct agent_stats *st = bpf_map_lookup_elem(&stats, &zero);
    struct agent_wait *wait;
    __u32 drawn;
    __u64 now = 0;

    if (!st || !n)
        return 0;
    st->switches++;
    wait = next->bpf_storage ? bpf_task_storage_get(&waits, next, 0, 0) : NULL;
    if (wait && wait->since_ns) {
        now = bpf_ktime_get_ns();
        end_wait(next, wait, st, now);
    }
    drawn = !ctx->preempt && is_blocked(prev) && prev->pid ? choose_wait(st, n) : 0;
    if (drawn) {
        now = now ? now : bpf_ktime_get_ns();
        begin_wait(ctx, prev, st, now, drawn);
    }
    if (now)
        st->switch_ns += bpf_ktime_get_ns() - now;
    return 0;
}

/* The language's walk of the stack of a wait that begins. */
#define SWITCH_PROGRAM(program, walk)                                       \
    SEC("tp_btf/sched_switch")                                              \
    int program(struct switch_arguments *ctx)                               \
    {                                                                       \
        struct task_struct *prev = ctx->prev;                               \
        struct walk_state w = {};                                           \
        __u32 zero = 0;                                                     \
        struct agent_stats *st = bpf_map_lookup_elem(&stats, &zero);        \
        struct agent_wait *wait = bpf_task_storage_get(&waits, prev, 0, 0); \
                                                                            \
        if (!st || !wait || !walk_language(&w))                             \
            return 0;                                                       \
        if (w.lang)                                                         \
            walk(&w, false);                                                \
        keep_wait(&w, prev, wait, st);                                      \
        st->switch_ns += bpf_ktime_get_ns() - w.s->event.time_ns;           \
        return 0;                                                           \
    }
#define LANG(name) SWITCH_PROGRAM(on_switch_##name, name##_walk)
#include "agent/lang/langs.h"
#undef LANG

/* --- all tasks --- */
struct task_arguments { /* struct bpf_iter__task */
    void *meta;
    struct task_struct *task;
};

/* A long wait that was not sampled at its begin: the user side reads its stack. */
static __always_inline void begin_long(struct task_struct *task, struct agent_wait *wait, struct scratch *s,
                                       struct agent_stats *st, __u64 now)
{
    struct walk_state w = {.s = s};
    struct agent_event *e = &s->event;
    arch_regs regs = {};
    long n;

    wait->switches = wait->seen_switches;
    wait->since_ns = wait->seen_ns;
    wait->wait_ns = now;
    wait->mm = (__u64) task->mm;
    wait->pid = task->tgid;
    wait->tid = task->pid;
    wait->weight = wait->is_long = 1;
    wait->flags = 0;
    e->flags = AGENT_EVENT_ASK;
    e->end = wait->end = AGENT_END_NO_PROCESS;
    e->cpu = bpf_get_smp_processor_id();
    e->time_ns = now;
    e->pid = task->tgid;
    e->tid = task->pid;
    e->mm = wait->mm;
    e->n_kernel = e->n_words = 0;
    BPF_CORE_READ_INTO(&e->comm, task, comm);
    n = control.no_kernel ? 0 : bpf_get_task_stack(task, e->words, AGENT_KERNEL_FRAMES * 8, 0);
    if (n > 0)
        e->n_kernel = e->n_words = (n >> 3) & AGENT_KERNEL_FRAMES;
    read_user_regs(task, &regs, false);
    arch_begin(&w, &regs);
    e->resume.pc = s->at.pc;
    e->resume.sp = s->at.sp;
    e->resume.fp = s->at.fp;
    e->resume.bx = s->at.bx;
    e->resume.exact = s->at.exact;
    e->resume.is_leaf = 1;
    tell_ahead(&w, wait, st);
}

static __always_inline bool is_filtered_in(__u32 pid)
{
    __u32 *found = bpf_map_lookup_elem(&filter, &pid);

    return found ? *found : control.take_unknown;
}

SEC("iter/task")
int on_task(struct task_arguments *ctx)
{
    struct task_struct *task = ctx->task;
    __u64 now = bpf_ktime_get_ns(), switches;
    struct agent_wait *wait;
    struct agent_stats *st;
    struct scratch *s;
    __u32 zero = 0;

    if (!task || !task->mm || !is_blocked(task) || !is_filtered_in(task->tgid))
        return 0;
    s = bpf_map_lookup_elem(&task_scratch, &zero);
    st = bpf_map_lookup_elem(&stats, &zero);
    wait = s && st ? bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) : NULL;
    if (!wait)
        return 0;
    switches = task->nvcsw + task->nivcsw;
    if (!wait->since_ns || wait->switches != switches) {
        wait->since_ns = 0;
        if (wait->seen_switches != switches || !wait->seen_ns) {
            wait->seen_switches = switches;
            wait->seen_ns = control.last_look_ns ? now - (now - control.last_look_ns) / 2 : now;
            return 0;
        }
        begin_long(task, wait, s, st, now);
    }
    if (wait->is_long || now - wait->since_ns >= LONG_NS) {
        if (!wait->is_long)
            wait->weight = wait->is_long = 1;
        tell_wait(task, wait, &s->event, st, now);
        wait->since_ns = now;
    }
    return 0;
}

#endif
