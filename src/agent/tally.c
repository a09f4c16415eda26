/* SPDX-License-Identifier: Apache-2.0 */
/* Collects samples in tables of processes, frames, stacks and rows. Numbers in these tables are valid until the next
 * tally_batch(). */
#include "agent/tally.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/identity.h"
#include "agent/java_names.h"
#include "agent/kernel_names.h"
#include "agent/lang/lang.h"
#include "agent/names.h"
#include "agent/perf_map.h"
#include "agent/tally_tables.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "proc/far_call.h"
#include "proc/jit_names.h"

enum {
    FRAMES_MAX = 1 << 19,
    STACKS_MAX = 1 << 18,
    ROWS_MAX = 1 << 20,
    TIMES_MAX = 1 << 22,
    LIST_MAX = 1 << 23,
    FIRST_SAMPLES = 64 /* of a process, in which its language is found */
};

int tally_new(const struct tally_options *o, struct tally **ret)
{
    struct tally *t = mem_zalloc(sizeof *t);

    if (!t)
        return -ENOMEM;
    t->options = *o;
    arena_init(&t->arena, o->memory);
    t->begin_mono_ns = (uint64_t) clock_mono();
    *ret = t;
    return 0;
}

void tally_clear(struct tally *t)
{
    for (size_t i = 0; i < t->n_frames; i++)
        object_unref(t->frames[i].object);
    for (size_t i = 0; i < t->n_processes; i++) {
        identity_free(t->processes[i].identity);
        object_unref(t->processes[i].exe);
    }
    t->n_frames = t->n_stacks = t->n_processes = t->n_rows = t->n_times = t->n_list = 0;
    map_reset(&t->by_frame);
    map_reset(&t->by_stack);
    map_reset(&t->by_process);
    map_reset(&t->by_row);
    arena_done(&t->arena);
}

void tally_begin(struct tally *t, int64_t time_ns)
{
    t->begin_mono_ns = (uint64_t) time_ns;
}

void tally_until(struct tally *t, int64_t time_ns)
{
    t->until_ns = (uint64_t) time_ns;
}

void tally_free(struct tally *t)
{
    if (!t)
        return;
    tally_clear(t);
    map_done(&t->by_frame);
    map_done(&t->by_stack);
    map_done(&t->by_process);
    map_done(&t->by_row);
    mem_free(t->frames);
    mem_free(t->stacks);
    mem_free(t->processes);
    mem_free(t->rows);
    mem_free(t->times);
    mem_free(t->list);
    kernel_names_free(t->kernel);
    mem_free(t);
}

bool tally_is_empty(const struct tally *t)
{
    return !t->n_rows;
}

void tally_counts(const struct tally *t, struct tally_counts *ret)
{
    *ret = t->counts;
}

/* --- processes --- */
/* All kernel threads are one process: their names and ids are attributes of samples. */
static uint64_t owner_number(const struct process *p, const struct agent_event *e)
{
    if (p)
        return p->number;
    return e->flags & AGENT_EVENT_NO_USER ? UINT64_MAX : (uint64_t) e->pid << 32; /* image numbers stay below this */
}

static int process_number(struct tally *t, struct process *p, const struct agent_event *e)
{
    uint64_t number = owner_number(p, e);
    struct tally_process *x;

    for (struct map_pos i = map_find(&t->by_process, hash64_u64(number)); i.index != MAP_NONE;
         i = map_next(&t->by_process, i))
        if (t->processes[i.index].number == number) {
            if (p)
                identity_update(p);
            return (int) i.index;
        }
    if (array_reserve(t->processes, t->cap_processes, t->n_processes + 1, 1 << 16) < 0 ||
        map_insert(&t->by_process, hash64_u64(number), (uint32_t) t->n_processes) < 0)
        return -ENOMEM;
    if (p)
        identity_update(p);
    x = &t->processes[t->n_processes];
    *x = (struct tally_process){.number = number, .pid = e->pid, .process = p, .kernel = number == UINT64_MAX};
    memcpy(x->comm, p ? p->comm : e->comm, sizeof x->comm);
    return (int) t->n_processes++;
}

void tally_forget(struct tally *t, struct process *p)
{
    for (struct map_pos i = map_find(&t->by_process, hash64_u64(p->number)); i.index != MAP_NONE;
         i = map_next(&t->by_process, i)) {
        struct tally_process *x = &t->processes[i.index];

        if (x->number != p->number)
            continue;
        x->identity = TAKE(p->identity);
        x->own = p->own;
        x->foreign = p->foreign;
        x->exe = p->exe ? object_ref(p->exe) : NULL;
        x->used_ns += process_cpu_stop(p);
        x->balance_ns = p->cpu.balance_ns;
        x->process = NULL;
    }
}

void tally_update(struct tally *t, uint64_t now_ns)
{
    for (size_t i = 0; i < t->n_processes; i++) {
        struct process *p = t->processes[i].process;

        if (p)
            t->processes[i].used_ns += process_cpu_settle(p, t->until_ns);
        if (p && t->options.mark_own)
            own_profiles_check_last(p, now_ns);
        if (p)
            identity_update(p);
    }
}

/* --- frames --- */
static uint64_t frame_hash(const struct tally_frame *f)
{
    struct {
        uint64_t kind, object, address, owner, words[AGENT_LANG_WORDS];
    } key = {f->kind, (uint64_t) (uintptr_t) f->object, f->address, f->owner, {0}};

    memcpy(key.words, f->words, sizeof key.words);
    return hash64(&key, sizeof key);
}

static bool frame_eq(const struct tally_frame *a, const struct tally_frame *b)
{
    return a->kind == b->kind && a->object == b->object && a->address == b->address && a->owner == b->owner &&
           memcmp(a->words, b->words, sizeof a->words) == 0;
}

static struct str keep(struct tally *t, struct str s)
{
    return s.n ? arena_str(&t->arena, s) : (struct str){0};
}

/* Names JIT code; without a name, all JIT code is one frame whose name says how to get names. */
static void name_jit(struct tally *t, struct process *p, struct tally_frame *f)
{
    struct str name;
    FAR_FOR(p->pid);

    f->type = "jit";
    if (!p->perf_map)
        perf_map_new(p, &p->perf_map, NULL);
    if (p->perf_map && perf_map_find(p->perf_map, p, f->address, &name))
        f->function = keep(t, name);
    else
        java_names_ask(p);
}

static void name_lang(struct tally *t, struct process *p, struct tally_frame *f)
{
    struct lang_frame got[LANG_INLINED_MAX] = {{.line = 0}};
    struct arena a;
    int n;
    FAR_FOR(p->pid);

    f->type = p->lang ? p->lang->name : "unknown";
    arena_init(&a, 1 << 16);
    n = p->lang ? p->lang->resolve(p, f->words, &a, got, LANG_INLINED_MAX) : 0;
    for (int i = 0; i < n; i++) {
        got[i].function = keep(t, got[i].function);
        got[i].file = keep(t, got[i].file);
    }
    if (n > 0) {
        const struct lang_frame *own = &got[n - 1];

        f->function = own->function;
        f->file = own->file;
        f->line = own->line;
        f->start_line = own->start_line;
        f->type = own->type ? own->type : f->type;
    }
    if (n > 1)
        f->inlined = arena_dup(&t->arena, got, (size_t) (n - 1) * sizeof *got);
    f->n_inlined = f->inlined ? (uint32_t) (n - 1) : 0;
    arena_done(&a);
}

/* The number of an equal frame, which is added if it is new. */
static int intern_frame(struct tally *t, struct process *p, const struct tally_frame *want)
{
    uint64_t h = frame_hash(want);
    struct tally_frame *f;

    for (struct map_pos i = map_find(&t->by_frame, h); i.index != MAP_NONE; i = map_next(&t->by_frame, i))
        if (frame_eq(&t->frames[i.index], want))
            return (int) i.index;
    if (array_reserve(t->frames, t->cap_frames, t->n_frames + 1, FRAMES_MAX) < 0 ||
        map_insert(&t->by_frame, h, (uint32_t) t->n_frames) < 0)
        return -ENOMEM;
    f = &t->frames[t->n_frames];
    *f = *want;
    if (f->object)
        object_ref(f->object)->sampled = true;
    if (f->kind == FRAME_OBJECT && !t->options.no_names)
        object_names_want(f->object, f->address);
    if (f->kind == FRAME_JIT)
        name_jit(t, p, f);
    if (f->kind == FRAME_LANG)
        name_lang(t, p, f);
    return (int) t->n_frames++;
}

static int mark(struct tally *t, const char *text)
{
    struct tally_frame f = {.kind = FRAME_MARK, .type = "native"};
    int i;

    f.words[0] = hash64_str(str_from(text));
    i = intern_frame(t, NULL, &f);
    if (i >= 0 && !t->frames[i].function.n)
        t->frames[i].function = keep(t, str_from(text));
    return i;
}

/* One frame for all code of a runtime without names; its name says how to get them. Where the functions are frames of a language, this
 * is something else, or it came before the language was found; without any such frame, the kernel has no programs for them. */
static int unnamed_jit(struct tally *t, struct process *p)
{
    const char *exe = p->exe_path ? strrchr(p->exe_path, '/') : NULL, *hint;
    char text[200];

    if (p->lang && p->lang->has_jit && (p->lang_seen || p->samples < FIRST_SAMPLES || p->lang->frame))
        return mark(t, "[unknown]");
    exe = exe ? exe + 1 : p->comm;
    hint = jit_names_hint(str_from(exe), p->perf_map && perf_map_count(p->perf_map));
    if (hint)
        return mark(t, hint);
    snprintf(text, sizeof text, "[JIT code without names: %.40s writes no perf map]", exe);
    return mark(t, text);
}

/* Memory of a JIT is used again: the same address may be another function a moment later, which is another frame. */
static uint64_t code_at(struct process *p, uint64_t address)
{
    if (!p->perf_map)
        return 0;
    perf_map_refresh(p->perf_map, p);
    return perf_map_place(p->perf_map, address);
}

static int user_frame(struct tally *t, struct process *p, uint64_t word)
{
    uint64_t pc = AGENT_WORD_VALUE(word), at = AGENT_WORD_KIND(word) == AGENT_WORD_EXACT ? pc : pc - 1;
    struct process_mapping *m = process_mapping_at(p, at);
    int i;

    if (m && m->object)
        return intern_frame(t, p,
                            &(struct tally_frame){.kind = FRAME_OBJECT,
                                                  .type = m->object->is_go ? "go" : "native",
                                                  .object = m->object,
                                                  .address = at - m->bias});
    if (m && !m->anonymous) {
        char text[200];
        const char *base = m->path ? strrchr(m->path, '/') : NULL;

        snprintf(text, sizeof text, "[%.150s: cannot be read]", base ? base + 1 : "file");
        return mark(t, text);
    }
    i = intern_frame(
        t, p, &(struct tally_frame){.kind = FRAME_JIT, .address = at, .owner = p->number, .words = {code_at(p, at)}});
    if (i < 0 || t->frames[i].function.n || p->java_asks || (p->perf_map && perf_map_count(p->perf_map)))
        return i; /* its name may come later */
    return unnamed_jit(t, p);
}

/* Java code has its name only after the program was asked for it. */
static void name_late(struct tally *t, struct process *p)
{
    int64_t now = clock_mono();

    if (now - p->java_named_ns < NS_PER_S)
        return;
    p->java_named_ns = now;
    for (size_t i = 0; i < t->n_frames; i++) {
        struct tally_frame *f = &t->frames[i];

        if (f->kind == FRAME_JIT && f->owner == p->number && !f->function.n)
            name_jit(t, p, f);
    }
}

/* Code may run before its name is in the perf map: what has none yet is looked up again before a batch is made. */
void tally_name_jit(struct tally *t)
{
    struct process *last = NULL;

    for (size_t i = 0; i < t->n_frames; i++) {
        struct tally_frame *f = &t->frames[i];
        struct map_pos at;
        struct process *p;

        if (f->kind != FRAME_JIT || f->function.n)
            continue;
        at = map_find(&t->by_process, hash64_u64(f->owner));
        while (at.index != MAP_NONE && t->processes[at.index].number != f->owner)
            at = map_next(&t->by_process, at);
        p = at.index != MAP_NONE ? t->processes[at.index].process : NULL;
        if (!p || !p->perf_map)
            continue;
        if (p != last)
            perf_map_expire(p->perf_map);
        last = p;
        name_jit(t, p, f);
    }
}

static int kernel_frame(struct tally *t, uint64_t address, bool leaf)
{
    return intern_frame(
        t, NULL,
        &(struct tally_frame){.kind = FRAME_KERNEL, .type = "kernel", .address = leaf ? address : address - 1});
}

static int put_frame(struct tally *t, uint32_t first, int frame)
{
    if (frame < 0)
        return frame;
    if (t->n_list > first && t->list[t->n_list - 1] == (uint32_t) frame && t->frames[frame].kind == FRAME_MARK)
        return 0; /* a run of equal frames becomes one */
    if (array_push(t->list, t->n_list, t->cap_list, LIST_MAX, (uint32_t) frame) < 0)
        return -E2BIG;
    return 0;
}

/* Appends the frames of the sample to `list`. */
static int put_frames(struct tally *t, struct process *p, const struct tally_sample *s)
{
    uint32_t first = (uint32_t) t->n_list;
    int r = 0;

    for (uint32_t i = 0; i < s->n_kernel && r == 0; i++)
        r = put_frame(t, first, kernel_frame(t, s->words[i], i == 0 && s->event->kind != AGENT_EVENT_OFFCPU));
    for (uint32_t i = s->n_kernel; i < s->n_words && r == 0; i++) {
        if (AGENT_WORD_KIND(s->words[i]) >= AGENT_WORD_LANG) {
            struct tally_frame f = {.kind = FRAME_LANG, .owner = p ? p->number : 0};

            if (!p || s->n_words - i < AGENT_LANG_WORDS)
                break;
            memcpy(f.words, s->words + i, sizeof f.words);
            r = put_frame(t, first, intern_frame(t, p, &f));
            i += AGENT_LANG_WORDS - 1;
        } else if (p) {
            r = put_frame(t, first, user_frame(t, p, s->words[i]));
        }
    }
    if (r == 0 && s->end != AGENT_END_ROOT && s->end != AGENT_END_NONE)
        r = put_frame(t, first, mark(t, p ? "[truncated]" : "[process gone before it was read]"));
    return r;
}

/* --- stacks and rows --- */
static int stack_number(struct tally *t, uint32_t process, struct process *p, const struct tally_sample *s)
{
    size_t first = t->n_list;
    uint64_t h;
    int r = put_frames(t, p, s);

    if (r < 0) {
        t->n_list = first;
        return r;
    }
    h = hash64(t->list + first, (t->n_list - first) * sizeof *t->list) ^ hash64_u64(process);
    for (struct map_pos i = map_find(&t->by_stack, h); i.index != MAP_NONE; i = map_next(&t->by_stack, i)) {
        const struct tally_stack *x = &t->stacks[i.index];

        if (x->process == process && x->n == t->n_list - first &&
            memcmp(t->list + x->first, t->list + first, x->n * sizeof *t->list) == 0) {
            t->n_list = first;
            return (int) i.index;
        }
    }
    if (array_reserve(t->stacks, t->cap_stacks, t->n_stacks + 1, STACKS_MAX) < 0 ||
        map_insert(&t->by_stack, h, (uint32_t) t->n_stacks) < 0) {
        t->n_list = first;
        return -E2BIG;
    }
    t->stacks[t->n_stacks] = (struct tally_stack){process, (uint32_t) first, (uint32_t) (t->n_list - first)};
    return (int) t->n_stacks++;
}

bool tally_label(struct str labels, uint32_t i, struct str *ret_key, struct str *ret_value)
{
    const char *p = labels.p + (size_t) i * AGENT_LABEL_WORDS * 8;

    if (((size_t) i + 1) * AGENT_LABEL_WORDS * 8 > labels.n)
        return false;
    *ret_key = (struct str){p, (uint32_t) strnlen(p, AGENT_LABEL_KEY)};
    *ret_value = (struct str){p + AGENT_LABEL_KEY, (uint32_t) strnlen(p + AGENT_LABEL_KEY, AGENT_LABEL_VALUE)};
    return true;
}

static bool row_eq(const struct tally_row *a, const struct tally_row *b)
{
    return a->stack == b->stack && a->tid == b->tid && a->cpu == b->cpu && a->kind == b->kind &&
           a->period_ns == b->period_ns && a->has_span == b->has_span && a->inferred == b->inferred &&
           memcmp(a->comm, b->comm, sizeof a->comm) == 0 && memcmp(a->trace_id, b->trace_id, sizeof a->trace_id) == 0 &&
           memcmp(a->span_id, b->span_id, sizeof a->span_id) == 0 && str_eq(a->labels, b->labels);
}

static int row_number(struct tally *t, const struct tally_row *want)
{
    uint64_t h = hash64_u64((uint64_t) want->stack << 32 | want->tid) ^ hash64(want->trace_id, 24) ^ want->cpu ^
                 (want->labels.n ? hash64_str(want->labels) : 0);

    for (struct map_pos i = map_find(&t->by_row, h); i.index != MAP_NONE; i = map_next(&t->by_row, i))
        if (row_eq(&t->rows[i.index], want))
            return (int) i.index;
    if (array_reserve(t->rows, t->cap_rows, t->n_rows + 1, ROWS_MAX) < 0 ||
        map_insert(&t->by_row, h, (uint32_t) t->n_rows) < 0)
        return -E2BIG;
    t->rows[t->n_rows] = *want;
    if (want->labels.n)
        t->rows[t->n_rows].labels = keep(t, want->labels);
    return (int) t->n_rows++;
}

static int add_time(struct tally *t, struct tally_row *row, uint64_t mono_ns, int64_t value)
{
    if (t->options.pprof)
        return 0;
    if (array_push(t->times, t->n_times, t->cap_times, TIMES_MAX, (struct tally_time){mono_ns, value, 0}) < 0)
        return -E2BIG;
    if (row->last)
        t->times[row->last - 1].next = (uint32_t) t->n_times;
    else
        row->first = (uint32_t) t->n_times;
    row->last = (uint32_t) t->n_times;
    return 0;
}

/* n bytes of hexadecimal digits; false when the text is anything else. */
static bool take_hex(struct str s, uint8_t *ret, uint32_t n)
{
    return s.n == 2 * n && hex_decode(s, ret) == 0;
}

/* If a program has the ids of its span among its labels (trace_id, span_id), they become the link of the sample. */
static void span_of_labels(struct tally_row *row)
{
    bool trace = false, span = false;
    struct str key, value;

    for (uint32_t i = 0; tally_label(row->labels, i, &key, &value); i++) {
        trace |= str_is(key, "trace_id") && take_hex(value, row->trace_id, sizeof row->trace_id);
        span |= str_is(key, "span_id") && take_hex(value, row->span_id, sizeof row->span_id);
    }
    row->has_span = span;
    if (!span)
        memset(row->trace_id, 0, sizeof row->trace_id);
    if (!trace)
        memset(row->trace_id, 0, sizeof row->trace_id);
}

static void count_cpu(struct tally *t, struct tally_process *x, const struct tally_sample *s, int64_t value)
{
    x->plain_ns += value;
    x->step_ns = MAX(x->step_ns, value);
    x->used_ns += s->weigh && x->process ? process_cpu_add(x->process, s->event->time_ns, value, t->until_ns) : value;
}

int tally_add(struct tally *t, struct process *p, const struct tally_sample *s)
{
    const struct agent_event *e = s->event;
    bool cpu = e->kind == AGENT_EVENT_CPU;
    struct tally_row want = {
        .tid = e->tid, .kind = e->kind, .period_ns = cpu ? s->period_ns : 1, .inferred = s->inferred};
    int64_t value = cpu ? s->period_ns * e->weight : (int64_t) (e->value_ns * e->weight);
    int process = process_number(t, p, e), stack, row, r;

    if (process < 0)
        return process;
    stack = stack_number(t, (uint32_t) process, p, s);
    if (stack < 0)
        return stack;
    if (p && p->java_asks)
        name_late(t, p);
    want.process = (uint32_t) process;
    want.stack = (uint32_t) stack;
    if (t->options.pprof)
        want.tid = 0;
    else
        want.cpu = cpu ? e->cpu : 0;
    memcpy(want.comm, e->comm, sizeof want.comm);
    want.comm[15] = 0;
    if (e->flags & AGENT_EVENT_SPAN) {
        want.has_span = true;
        memcpy(want.trace_id, e->trace_id, sizeof want.trace_id);
        memcpy(want.span_id, e->span_id, sizeof want.span_id);
    }
    want.labels = s->labels;
    if (!want.has_span)
        span_of_labels(&want);
    row = row_number(t, &want);
    if (row < 0)
        return row;
    r = add_time(t, &t->rows[row], e->time_ns, value);
    if (r < 0)
        return r;
    t->rows[row].count += e->weight;
    t->rows[row].value += value;
    if (cpu)
        count_cpu(t, &t->processes[process], s, value);
    t->counts.whole += s->end == AGENT_END_ROOT || s->end == AGENT_END_NONE;
    t->counts.cut += s->end != AGENT_END_ROOT && s->end != AGENT_END_NONE;
    t->counts.inferred += s->inferred;
    return 0;
}
