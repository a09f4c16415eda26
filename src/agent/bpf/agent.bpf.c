// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * On-CPU samples: a program runs at each cpu-clock tick on each CPU. Off-CPU samples are in waits.bpf.h. CPU time and
 * lost samples are counted in `stats`.
 *
 *   on_tick    the native walk; then, in a process with a language, a tail call to
 *   on_tick_NAME   the language's walk; it sends the sample
 *   on_counted   as on_tick, for events such as cycles
 *   old_tick, old_tick_part, old_step_NAME, old_tick_NAME   the same if the kernel has no bpf_loop: a walk is done in
 *                parts, and a language's steps in parts of their own, so that no language makes the native walk larger
 *
 * If the tail call to a language fails, the sample is sent without the language's frames.
 */
#include "agent/bpf/walk.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, __u32);
} filter SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct agent_stats);
} stats SEC(".maps");

const volatile __u64 pid_namespace_device = 0, pid_namespace_inode = 0; /* 0: the initial namespace */
const volatile __u32 kernel_stack = 16384;                              /* bytes */

static __always_inline __u64 current_pid_tgid(void)
{
    struct bpf_pidns_info ns = {};

    if (!pid_namespace_inode)
        return bpf_get_current_pid_tgid();
    if (bpf_get_ns_current_pid_tgid(pid_namespace_device, pid_namespace_inode, &ns, sizeof ns))
        return 0;
    return (__u64) ns.tgid << 32 | ns.pid;
}

/* The weight of the sample to be taken; 0: no sample is taken. */
static __always_inline __u32 filter_weight(__u32 pid)
{
    __u32 *found = bpf_map_lookup_elem(&filter, &pid), n;

    if (!found)
        return control.take_unknown;
    n = *found;
    if (n > 1 && bpf_get_prandom_u32() % n)
        return 0;
    return n;
}

static __always_inline void read_span(struct walk_state *w)
{
    struct agent_span *span = &w->process->span;
    struct agent_event *e = &w->s->event;
    __u64 at = w->s->at.tp, dtv = 0, block = 0, record = 0;
    __u8 valid = 0;

    if (span->kind == AGENT_SPAN_DTV) {
        if (read_word(w->s->at.tp + ARCH_DTV, &dtv) || read_word(dtv + 16 * (__u64) span->module, &block) ||
            block + 1 < 2)
            return;
        at = block;
    }
    if (read_word(at + span->offset, &record) || !record)
        return;
    if (bpf_probe_read_user(&valid, 1, (void *) (record + 24)) || valid != 1)
        return;
    if (bpf_probe_read_user(e->trace_id, 16, (void *) record) ||
        bpf_probe_read_user(e->span_id, 8, (void *) (record + 16)))
        return;
    e->flags |= AGENT_EVENT_SPAN;
}

/* True if the user side can continue the walk. */
static __always_inline bool is_unfinished(struct agent_event *e)
{
    return e->end == AGENT_END_NO_PROCESS || e->end == AGENT_END_NO_MAPPING || e->end == AGENT_END_NO_PAGE ||
           e->end == AGENT_END_CODE;
}

/* A css_set is the membership in the control groups of all hierarchies. Its address may be used again for another one:
 * with the number of the group in the unified hierarchy, which is not used again, this is rare. */
static __always_inline void read_task(struct agent_task *to)
{
    struct task_struct *task = (struct task_struct *) bpf_get_current_task();
    struct mm_struct *mm = BPF_CORE_READ(task, mm);

    __builtin_memset(to, 0, sizeof *to);
    to->uid = (__u32) bpf_get_current_uid_gid();
    if (bpf_core_field_exists(task->cgroups)) {
        struct css_set *set = BPF_CORE_READ(task, cgroups);

        to->groups = (__u64) set ^ BPF_CORE_READ(set, dfl_cgrp, kn, id) << 48;
    }
    if (!mm)
        return;
    to->arg_start = BPF_CORE_READ(mm, arg_start);
    to->arg_end = BPF_CORE_READ(mm, arg_end);
    to->env_start = BPF_CORE_READ(mm, env_start);
    to->env_end = BPF_CORE_READ(mm, env_end);
}

/* Copies `chunk` bytes, at most a page, from *at to bytes + *n, and advances both; false when *n is over `most` or the page
 * cannot be read. */
static __always_inline bool copy_chunk(struct agent_stack *c, __u32 *n, const __u32 most, __u64 chunk, __u64 *at)
{
    if (*n > most || read_user(step_bytes(c->bytes, *n, most), chunk, 4096, *at))
        return false;
    *n += chunk;
    *at += chunk;
    return true;
}

static __always_inline bool copy_args_page(struct agent_stack *c, __u32 *n, const __u32 most, __u64 *at, __u64 end)
{
    __u64 chunk = 4096 - (*at & 4095);

    if (end <= *at)
        return false;
    if (chunk > end - *at)
        chunk = end - *at;
    return copy_chunk(c, n, most, chunk, at);
}

/* Not a loop: clang 15 does not unroll it. */
_Static_assert(AGENT_ARGS_BYTES == 2 * 4096, "copy_args() copies two pages");

/* Copies the command line and the environment to bytes + n; returns the new number of bytes. The kernel leaves a gap of
 * random size between them and the first frame, so that most copies of a stack end before them. */
static __always_inline __u32 copy_args(struct agent_stack *c, __u32 n)
{
    __u64 at = c->task.arg_start, end = c->task.env_end;
    __u32 begin = n;

    if (!at)
        return n;
    if (copy_args_page(c, &n, AGENT_STACK_BYTES, &at, end))
        copy_args_page(c, &n, AGENT_STACK_BYTES + 4096, &at, end);
    c->task.n = n - begin;
    return n;
}

/* Copies the stack from sp on, page by page up to the first one that cannot be read. Only such a copy wakes the user
 * side. While the user side does not get its turn, a few copies would fill the ring and samples be lost: then stacks are
 * cut, and their time still counts. */
static __always_inline void copy_stack(struct walk_state *w, struct agent_stats *st)
{
    struct agent_event *e = &w->s->event;
    __u32 cpu = e->cpu, n = 0;
    struct agent_stack *c = bpf_map_lookup_elem(&stacks, &cpu);
    __u64 at = w->s->at.sp - AGENT_RED_ZONE, used;

    if (!c)
        return;
    used = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
    if (used > control.copy_room) {
        st->uncopied++;
        return;
    }
    read_task(&c->task);
    c->kind = AGENT_EVENT_STACK;
    c->cpu = cpu;
    c->time_ns = e->time_ns;
    c->sp = at;
    c->tid = e->tid;
#pragma unroll
    for (int i = 0; i < AGENT_STACK_BYTES / 4096; i++) {
        if (!copy_chunk(c, &n, AGENT_STACK_BYTES - 4096, 4096 - (at & 4095), &at))
            break;
    }
    c->n = n;
    n = copy_args(c, n);
    if (put_ring(&events, c, __builtin_offsetof(struct agent_stack, bytes) + n, sizeof *c,
                 control.wake || used > control.copy_room / 8 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP)) {
        st->lost++;
        return;
    }
    st->copies++;
    e->flags |= AGENT_EVENT_RESUME;
    e->resume.pc = w->s->at.pc;
    e->resume.sp = w->s->at.sp;
    e->resume.fp = w->s->at.fp;
    e->resume.bx = w->s->at.bx;
    e->resume.exact = w->s->at.exact;
    e->resume.is_leaf = w->s->at.is_leaf;
}

/* Reads the user registers as the kernel saved them; they are right whether user or kernel code was interrupted. Before
 * 5.15 no helper returns their address: they are at the top of the kernel stack. Later they need not be: x86-64 with FRED
 * leaves room above them. */
static __always_inline void read_user_regs(struct task_struct *task, arch_regs *ret, bool bounded)
{
    void *at;

    if (!bounded)
        at = (void *) bpf_task_pt_regs(task);
    else if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
        at = (void *) bpf_task_pt_regs(bpf_get_current_task_btf());
    else
        at = BPF_CORE_READ(task, stack) + kernel_stack - bpf_core_type_size(struct pt_regs);
    bpf_probe_read_kernel(ret, sizeof *ret, at);
}

/* Continues a walk in another program. False when the process is not loaded. */
static __always_inline bool walk_resume(struct walk_state *w)
{
    __u32 pid = w->s->event.pid;

    w->process = bpf_map_lookup_elem(&processes, &pid);
    if (!w->process || (w->process->mm && w->process->mm != w->s->event.mm))
        return false;
    return true;
}

static __always_inline struct agent_lang *find_lang(struct walk_state *w)
{
    __u32 pid = w->s->event.pid;

    return w->process->flags & AGENT_PROCESS_LANG ? bpf_map_lookup_elem(&langs, &pid) : NULL;
}

/* Begins a walk at the user registers of the task, which must be the current one. False when the walk cannot begin. */
static __always_inline bool walk_begin(struct walk_state *w, struct task_struct *task, __u64 tp, bool bounded)
{
    arch_regs regs = {};

    read_user_regs(task, &regs, bounded);
    __builtin_memset(&w->s->at, 0, sizeof w->s->at);
    w->s->at.is_leaf = 1;
    w->s->at.tp = tp;
    arch_begin(w, &regs);
    w->s->event.end = AGENT_END_NO_PROCESS;
    w->s->at.lang = w->s->at.steps = 0;
    if (!walk_resume(w))
        return false;
    w->lang = find_lang(w);
    if (bounded && w->lang) {
        w->s->at.lang = 1 + w->lang->number;
        w->s->at.steps = lang_has_step(w->lang->number) ? w->s->at.lang : 0;
    }
    if (w->process->span.kind)
        read_span(w);
    return !control.copy_all;
}

/* For the programs of languages: what the native walk left. False when the sample cannot be continued. */
static __always_inline bool walk_language(struct walk_state *w)
{
    __u32 zero = 0, pid;

    w->s = bpf_map_lookup_elem(&scratches, &zero);
    if (!w->s)
        return false;
    pid = w->s->event.pid;
    w->lang = bpf_map_lookup_elem(&langs, &pid);
    return true;
}

static __always_inline struct agent_event *begin_event(struct walk_state *w, __u32 kind, __u64 id, __u64 now)
{
    struct agent_event *e = &w->s->event;

    e->kind = kind;
    e->flags = 0;
    e->end = AGENT_END_NONE;
    e->cpu = bpf_get_smp_processor_id();
    e->time_ns = now;
    e->pid = id >> 32;
    e->tid = (__u32) id;
    e->n_kernel = e->n_words = 0;
    e->value_ns = 0;
    bpf_get_current_comm(e->comm, sizeof e->comm);
    return e;
}

/* skip: number of frames that belong to the caller of this program and not to the task. */
static __always_inline void kernel_frames(void *ctx, struct agent_event *e, __u64 skip)
{
    long n = bpf_get_stack(ctx, e->words, AGENT_KERNEL_FRAMES * 8, skip);

    if (n <= 0)
        return;
    n >>= 3;
    e->n_kernel = e->n_words = n & AGENT_KERNEL_FRAMES;
    if (n == AGENT_KERNEL_FRAMES)
        e->flags |= AGENT_EVENT_KERNEL_CUT;
}

static __always_inline void send(struct agent_event *e, struct agent_stats *st)
{
    st->samples++;
    if (put_ring(&events, e, __builtin_offsetof(struct agent_event, words) + e->n_words * 8, sizeof *e,
                 BPF_RB_NO_WAKEUP))
        st->lost++;
}

/* bounded: kernels before 5.11 have no helper for a typed pointer to the current task. */
static __always_inline bool begin_tick(struct bpf_perf_event_data *ctx, struct walk_state *w, __u32 kind, bool bounded)
{
    __u64 now = bpf_ktime_get_ns(), id = current_pid_tgid();
    struct task_struct *task;
    struct agent_event *e;
    __u32 zero = 0, weight;

    weight = id >> 32 ? filter_weight(id >> 32) : 0;
    w->s = weight ? bpf_map_lookup_elem(&scratches, &zero) : NULL;
    if (!w->s)
        return false;
    e = begin_event(w, kind, id, now);
    e->weight = weight;
    if ((__s64) ARCH_PC(&ctx->regs) < 0 && !control.no_kernel)
        kernel_frames(ctx, e, 0);
    task = bounded ? (struct task_struct *) bpf_get_current_task() : bpf_get_current_task_btf();
    e->mm = (__u64) (bounded ? BPF_CORE_READ(task, mm) : task->mm);
    w->s->at.walks = w->s->at.parts = 0;
    if (!e->mm)
        e->flags |= AGENT_EVENT_NO_USER;
    else
        w->s->at.walks = walk_begin(w, task, bounded ? BPF_CORE_READ(task, ARCH_TP) : task->ARCH_TP, bounded);
    return true;
}

/* Puts the rest of the stack into the ring if it could not be walked to its end. */
static __always_inline void end_tick(struct walk_state *w)
{
    struct agent_event *e = &w->s->event;
    __u32 zero = 0;
    struct agent_stats *st = bpf_map_lookup_elem(&stats, &zero);

    if (!st)
        return;
    if (!(e->flags & AGENT_EVENT_NO_USER))
        st->frames += w->s->at.frames;
    if (is_unfinished(e))
        copy_stack(w, st);
    send(e, st);
    st->ns += bpf_ktime_get_ns() - e->time_ns;
}

/* The languages' programs by number, set by the loader. */
struct lang_programs {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, LANGS);
    __type(key, __u32);
    __type(value, __u32);
} tick_langs SEC(".maps");

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
    struct walk_state w = {};

    if (!begin_tick(ctx, &w, AGENT_EVENT_CPU, false))
        return 0;
    if (w.process && w.s->at.walks) /* the verifier does not know that one implies the other */
        bpf_loop(AGENT_STEPS, one_frame, &w, 0);
    if (w.lang)
        bpf_tail_call(ctx, &tick_langs, w.lang->number);
    end_tick(&w);
    return 0;
}

/* The cookie is the number of the event. */
SEC("perf_event")
int on_counted(struct bpf_perf_event_data *ctx)
{
    struct walk_state w = {};

    if (!begin_tick(ctx, &w, AGENT_EVENT_COUNTED + bpf_get_attach_cookie(ctx), false))
        return 0;
    w.s->event.value_ns = ctx->sample_period;
    if (w.process && w.s->at.walks)
        bpf_loop(AGENT_STEPS, one_frame, &w, 0);
    if (w.lang)
        bpf_tail_call(ctx, &tick_langs, w.lang->number);
    end_tick(&w);
    return 0;
}

/* Without bpf_loop: the first program begins the walk; the others walk a part of the frames each, and tail-call the
 * program of the next part. Here are old_tick_part and, at 1 + its number, a language's old_step_NAME. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 1 + LANGS);
    __type(key, __u32);
    __type(value, __u32);
} tick_parts SEC(".maps");

static __always_inline bool begin_part(struct walk_state *w)
{
    __u32 zero = 0;

    w->s = bpf_map_lookup_elem(&scratches, &zero);
    return w->s;
}

/* A walk with more parts than there may be is left to the user side, as one that misses something. */
static __always_inline int end_part(struct bpf_perf_event_data *ctx, struct walk_state *w, long r)
{
    if (r != WALK_ENDED && ++w->s->at.parts < WALK_PARTS)
        bpf_tail_call(ctx, &tick_parts, r == WALK_STEPS ? w->s->at.steps : 0);
    if (w->s->at.lang)
        bpf_tail_call(ctx, &tick_langs, w->s->at.lang - 1);
    end_tick(w);
    return 0;
}

SEC("perf_event")
int old_tick(struct bpf_perf_event_data *ctx)
{
    struct walk_state w = {};

    if (begin_tick(ctx, &w, AGENT_EVENT_CPU, true))
        bpf_tail_call(ctx, &tick_parts, 0);
    return 0;
}

SEC("perf_event")
int old_tick_part(struct bpf_perf_event_data *ctx)
{
    struct walk_state w = {};

    if (!begin_part(&w))
        return 0;
    return end_part(ctx, &w, w.s->at.walks && walk_resume(&w) ? walk_part(&w) : WALK_ENDED);
}

#define STEP_PROGRAM(program, has_step, step)                                            \
    SEC("perf_event")                                                                    \
    int program(struct bpf_perf_event_data *ctx)                                         \
    {                                                                                    \
        struct walk_state w = {};                                                        \
                                                                                         \
        if (!has_step || !begin_part(&w))                                                \
            return 0;                                                                    \
        w.lang = walk_resume(&w) ? find_lang(&w) : NULL;                                 \
        return end_part(ctx, &w, w.lang ? WALK_CODE_PART(&w, step) : (long) WALK_ENDED); \
    }
#define LANG(name) STEP_PROGRAM(old_step_##name, name##_has_step, name##_step)
#include "agent/lang/langs.h"
#undef LANG

#define TICK_PROGRAM(program, walk, bounded)     \
    SEC("perf_event")                            \
    int program(struct bpf_perf_event_data *ctx) \
    {                                            \
        struct walk_state w = {};                \
                                                 \
        if (!walk_language(&w))                  \
            return 0;                            \
        if (w.lang)                              \
            walk(&w, bounded);                   \
        end_tick(&w);                            \
        return 0;                                \
    }
#define LANG(name)                                   \
    TICK_PROGRAM(on_tick_##name, name##_walk, false) \
    TICK_PROGRAM(old_tick_##name, name##_walk, true)
#include "agent/lang/langs.h"
#undef LANG

struct fork_arguments {
    struct task_struct *parent, *child;
};

/* Children of processes in the filter are added to it before they run. */
SEC("tp_btf/sched_process_fork")
int on_fork(struct fork_arguments *ctx)
{
    struct task_struct *parent = ctx->parent, *child = ctx->child;
    __u32 from = parent->tgid, to = child->tgid, *found;

    if (!control.inherit || from == to)
        return 0;
    found = bpf_map_lookup_elem(&filter, &from);
    if (found)
        bpf_map_update_elem(&filter, &to, found, BPF_ANY);
    return 0;
}

#include "agent/bpf/waits.bpf.h"
