/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the stacks of all threads of a process (dump.h). Files are read and unwind tables made before the process is
 * stopped; names are looked up after it continues. */
#include "agent/dump/dump.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/dump/dump_java.h"
#include "agent/dump/dump_stop.h"
#include "agent/dump/dump_walk.h"
#include "agent/java_names.h"
#include "agent/lang/lang.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proc/far_call.h"
#include "proc/proc_maps.h"

enum { MEMORY_MAX = 512 << 20, TABLES_MAX = 1 << 30, STACK_MAX = 64 << 10 };

struct taking {
    struct dump *s;
    struct stopped stopped;
    struct proc_memory memory;
    uint64_t *words;   /* of the current stack: native ones, then the language's */
    uint8_t *stack;    /* STACK_MAX bytes of a task's stack */
    uint64_t *running; /* by thread: the key of the task that it runs */
    size_t cap_tasks;
};

/* --- threads --- */
static void read_task(struct dump *s, struct dump_thread *th)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[96];
    struct str text;
    uint32_t a = 0, z;

    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", s->pid, th->tid);
    th->state = '?';
    if (fd_read_file(path, 65536, &b, NULL) < 0)
        return;
    text = buf_str(&b);
    while (a < text.n && text.p[a] != '(')
        a++;
    z = text.n;
    while (z > a && text.p[z - 1] != ')')
        z--;
    if (z <= a + 1 || z + 1 >= text.n)
        return;
    snprintf(th->name, sizeof th->name, "%.*s", (int) (z - a - 2), text.p + a + 1);
    th->state = text.p[z + 1];
}

static int copy_labels(struct dump *s, const struct lang_label *v, uint32_t n, struct dump_stack *ret)
{
    ret->labels = arena_zalloc_array(&s->arena, MAX(n, 1u), sizeof *ret->labels);
    if (!ret->labels)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        ret->labels[i] = (struct dump_label){v[i].key, v[i].value};
    ret->n_labels = n;
    return 0;
}

/* Drops the native words. */
static uint32_t only_language(uint64_t *words, uint32_t n)
{
    uint32_t out = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = AGENT_WORD_KIND(words[i]) >= AGENT_WORD_LANG ? MIN((uint32_t) AGENT_LANG_WORDS, n - i) : 0;

        memmove(words + out, words + i, count * sizeof *words);
        out += count;
        i += count ? count - 1 : 0;
    }
    return out;
}

static uint64_t x28_of(const struct remote_regs *regs)
{
#if defined(__aarch64__)
    return regs->leaf[28];
#else
    return 0;
#endif
}

/* The frames of a thread whose native words are in t->words. *ret_task: the task that it runs. */
static int add_language(struct taking *t, const struct stopped_thread *from, uint32_t n, bool no_native,
                        struct dump_stack *st, uint64_t *ret_task)
{
    struct process *p = t->s->process;
    struct lang_thread th = {.words = t->words + n, .x28 = x28_of(&from->regs)};
    int r;

    if (p->lang && p->lang->thread) {
        p->lang->thread(p, from->thread_pointer, &t->s->arena, &th);
        *ret_task = th.task;
    }
    th.n_words = lang_frames(p, &(struct lang_stack){&t->memory, t->words, t->s->fps, 0, n}, th.n_words);
    if (th.n_words) {
        n = p->lang->merge(p, t->words, 0, n, n + th.n_words, st->whole);
        n = no_native ? only_language(t->words, n) : n;
    }
    r = copy_labels(t->s, th.labels, th.n_labels, st);
    return r < 0 ? r : dump_frames(t->s, t->words, n, st);
}

static int walk_threads(struct taking *t, const struct dump_options *o)
{
    struct dump *s = t->s;
    int r = 0;

    for (size_t i = 0; i < t->stopped.n && r == 0; i++) {
        struct stopped_thread *from = &t->stopped.v[i];
        struct dump_thread *th = &s->threads[i];
        uint32_t n;

        th->tid = from->tid;
        if (!from->stopped)
            continue;
        n = dump_walk(s, &from->regs, &t->memory, t->words, &th->stack.whole);
        r = add_language(t, from, n, o->no_native, &th->stack, &t->running[i]);
    }
    return r;
}

/* --- the language's tasks --- */
/* Memory with a copy of the upper part of a stack: a walk reads many words of it. */
struct cached_memory {
    const struct proc_memory *below;
    uint64_t start;
    size_t n;
    const uint8_t *bytes;
};

static int read_cached(const struct proc_memory *m, uint64_t at, void *ret, size_t n)
{
    const struct cached_memory *c = m->data;

    if (at < c->start || at - c->start > c->n || n > c->n - (at - c->start))
        return proc_memory_read(c->below, at, ret, n);
    memcpy(ret, c->bytes + (at - c->start), n);
    return 0;
}

static uint32_t walk_task(struct taking *t, const struct lang_task *task, struct dump_stack *st)
{
    struct cached_memory c = {&t->memory, task->regs.sp, 0, t->stack};
    struct proc_memory m = {.read = read_cached, .data = &c};

    if (task->stack_end > task->regs.sp)
        c.n = MIN(task->stack_end - task->regs.sp, (uint64_t) STACK_MAX);
    if (c.n && proc_memory_read(&t->memory, task->regs.sp, t->stack, c.n) < 0)
        c.n = 0;
    return dump_walk(t->s, &task->regs, &m, t->words, &st->whole);
}

static struct dump_thread *thread_of(struct taking *t, uint64_t key)
{
    for (uint32_t i = 0; key && i < t->s->n_threads; i++)
        if (t->running[i] == key)
            return &t->s->threads[i];
    return NULL;
}

static int on_task(void *arg, const struct lang_task *task)
{
    struct taking *t = arg;
    struct dump *s = t->s;
    struct dump_thread *th = thread_of(t, task->key);
    struct dump_task d = {.id = task->id, .state = task->state, .wait_ns = -1};
    uint64_t none;
    int r = s->n_tasks == DUMP_TASKS_MAX ? -E2BIG : 0;

    if (r < 0) {
        s->tasks_left_out++;
        return 0;
    }
    if (task->wait_since_ns > 0)
        d.wait_ns = MAX(clock_mono() - task->wait_since_ns, (int64_t) 0);
    if (th) {
        d.tid = th->tid;
        d.stack = th->stack;
        th->task_id = task->id;
    } else if (task->thread_pointer) {
        r = add_language(t, &(struct stopped_thread){.thread_pointer = task->thread_pointer}, 0, false, &d.stack,
                         &none);
    } else if (!task->is_running) {
        r = dump_frames(s, t->words, walk_task(t, task, &d.stack), &d.stack);
        if (r == 0)
            r = copy_labels(s, task->labels, task->n_labels, &d.stack);
    }
    return r < 0 ? r : array_push(s->tasks, s->n_tasks, t->cap_tasks, DUMP_TASKS_MAX, d);
}

static int walk_tasks(struct taking *t)
{
    struct process *p = t->s->process;
    struct err e = {0};
    int r = p->lang->tasks(p, &t->s->arena, on_task, t, &e);

    if (r >= 0 || r == -ENOMEM)
        return r < 0 ? r : 0;
    t->s->warning = arena_str(&t->s->arena, str_from(e.message));
    return 0;
}

/* Goroutines of the runtime itself are those that one of its functions started, except for main's. */
static void mark_system(struct dump_task *t)
{
    for (uint32_t i = t->stack.n_frames; i > 0; i--) {
        const struct dump_frame *f = &t->stack.frames[i - 1];
        struct str name = f->n_lines ? f->lines[f->n_lines - 1].function : (struct str){0};

        if (str_starts(name, STR("runtime.goexit")))
            continue;
        t->is_system = str_starts(name, STR("runtime.")) && !str_is(name, "runtime.main");
        return;
    }
}

/* --- the process --- */
/* Reads the states of the threads, which stopping them would change. */
static void read_states(struct taking *t, struct stopped *ret)
{
    if (stopped_take(t->s->pid, true, ret, NULL) < 0)
        return;
    for (size_t i = 0; i < ret->n; i++) {
        struct dump_thread th = {.tid = ret->v[i].tid};

        read_task(t->s, &th);
        ret->v[i].state = th.state;
    }
}

static int walk_stopped(struct taking *t, const struct dump_options *o)
{
    struct dump *s = t->s;
    const struct lang *lang = s->process->lang;
    int r;

    s->threads = arena_zalloc_array(&s->arena, t->stopped.n, sizeof *s->threads);
    t->running = arena_zalloc_array(&s->arena, t->stopped.n, sizeof *t->running);
    if (!s->threads || !t->running)
        return -ENOMEM;
    s->n_threads = (uint32_t) t->stopped.n;
    if (lang && lang->look)
        lang->look(s->process, &s->arena);
    r = walk_threads(t, o);
    if (r == 0 && lang && lang->tasks && !lang->are_tasks_threads)
        r = walk_tasks(t);
    return r;
}

static int take_stopped(struct taking *t, const struct dump_options *o, struct err *e)
{
    struct dump *s = t->s;
    struct stopped before = {0};
    int64_t start;
    int r;

    read_states(t, &before); /* the states before we stop the threads */
    start = clock_mono();
    r = stopped_take(s->pid, false, &t->stopped, e);
    if (r == 0)
        r = walk_stopped(t, o);
    stopped_release(&t->stopped);
    s->stopped_ns = clock_mono() - start;
    for (uint32_t i = 0; i < s->n_threads && r == 0; i++) {
        read_task(s, &s->threads[i]);
        for (size_t k = 0; k < before.n; k++)
            if (before.v[k].tid == s->threads[i].tid)
                s->threads[i].state = before.v[k].state;
    }
    stopped_done(&before);
    return r;
}

/* What the language knows while the process runs. */
static int take_running(struct taking *t, struct err *e)
{
    struct dump *s = t->s;
    const struct lang *lang = s->process->lang;

    if (java_names_is_java(s->process))
        return 0; /* it is asked later */
    if (!lang || !lang->tasks)
        return err_set(e, -ENOTSUP, "process %d runs neither Python, Go nor Java: it must be stopped to be dumped",
                       s->pid);
    lang->look(s->process, &s->arena);
    return walk_tasks(t);
}

/* Says why the process cannot be read: it is gone, or belongs to another user. */
static int no_mappings(int pid, struct err *e)
{
    struct proc_maps maps = {0};
    int r = proc_maps_read(pid, true, &maps, e);

    proc_maps_done(&maps);
    return r < 0 ? r
                 : err_set(e, -ESRCH, "process %d has no executable mappings: it has ended or is a kernel thread", pid);
}

static int find_process(struct dump *s, struct file_reader *reader, struct err *e)
{
    struct err why = {0};
    int r = objects_new(TABLES_MAX, reader, &s->objects);

    if (r == 0)
        r = processes_new(s->objects, &s->processes);
    if (r < 0)
        return r;
    s->process = processes_get(s->processes, (uint32_t) s->pid, (uint64_t) clock_mono());
    if (!s->process || !s->process->n_mappings)
        return no_mappings(s->pid, e);
    if (s->process->maps_left_out)
        s->warning =
            str_from(arena_printf(&s->arena, "process %d has too many executable mappings: %u of them were not read",
                                  s->pid, s->process->maps_left_out));
    dump_walk_prepare(s);
    if (lang_find(s->process, &why) < 0)
        s->warning = arena_str(&s->arena, str_from(why.message));
    return 0;
}

/* A Java program is asked when it runs again. */
static void take_java(struct dump *s)
{
    struct err e = {0};

    if (!java_names_is_java(s->process) || dump_java_take(s, &e) == 0)
        return;
    if (!s->warning.n)
        s->warning = str_from(arena_printf(&s->arena, "Java's threads are not shown: %s", err_message(&e, -EPROTO)));
}

static int take(struct taking *t, const struct dump_options *o, struct err *e)
{
    struct dump *s = t->s;
    const struct lang *lang;
    int r = find_process(s, o->reader, e);

    if (r < 0)
        return r;
    t->memory = proc_memory_of(s->pid);
    t->words = mem_zalloc_array(DUMP_FRAMES_MAX + LANG_WORDS_MAX, sizeof *t->words);
    t->stack = mem_zalloc(STACK_MAX);
    s->modules = mem_zalloc_array(DUMP_MODULES_MAX, sizeof *s->modules);
    s->fps = mem_zalloc_array(DUMP_FRAMES_MAX + LANG_WORDS_MAX, sizeof *s->fps);
    if (!t->words || !t->stack || !s->modules || !s->fps)
        return -ENOMEM;
    lang = s->process->lang;
    if (lang && lang->version)
        s->runtime = lang->version(s->process, &s->arena);
    else if (s->process->exe && s->process->exe->go)
        s->runtime = arena_str(&s->arena, str_from(s->process->exe->go->version));
    if (lang && lang->look)
        lang->look(s->process, &s->arena);
    if (lang && lang->tasks)
        s->task_word = lang->task_word;
    r = o->nonblocking ? -EPERM : take_stopped(t, o, e);
    if (r == -EPERM && (o->nonblocking || (lang && lang->tasks))) {
        if (!o->nonblocking)
            s->warning = arena_str(&s->arena, str_from(e->message));
        s->n_threads = 0;
        r = take_running(t, e);
    }
    if (r < 0)
        return r;
    dump_names(s);
    take_java(s);
    for (uint32_t i = 0; i < s->n_tasks; i++)
        if (!s->tasks[i].own_moment)
            mark_system(&s->tasks[i]);
    return 0;
}

int dump_take(int pid, const struct dump_options *o, struct dump **ret, struct err *e)
{
    _cleanup_(dump_freep) struct dump *s = mem_zalloc(sizeof *s);
    struct taking t = {.s = s};
    struct err own = {0};
    int r;

    if (!s)
        return -ENOMEM;
    s->pid = pid;
    arena_init(&s->arena, MEMORY_MAX);
    far_start();
    far_target((uint32_t) pid);
    r = take(&t, o, e ? e : &own);
    far_stop();
    stopped_done(&t.stopped);
    mem_free(t.words);
    mem_free(t.stack);
    if (r < 0)
        return r;
    *ret = TAKE(s);
    return 0;
}

void dump_free(struct dump *s)
{
    if (!s)
        return;
    mem_free(s->modules);
    mem_free(s->fps);
    mem_free(s->tasks);
    processes_free(s->processes);
    objects_free(s->objects);
    arena_done(&s->arena);
    mem_free(s);
}
