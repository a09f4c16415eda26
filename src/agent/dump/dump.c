/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the stacks of all threads of a process (dump.h). Files are read and unwind tables made before the process is
 * stopped; names are looked up after it continues. */
#include "agent/dump/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/dump/dump_modules.h"
#include "agent/dump/dump_stop.h"
#include "agent/lang/python/python.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

enum { MEMORY_MAX = 512 << 20 };

struct taking {
    struct dump *s;
    struct dump_maps maps;
    struct stopped stopped;
    struct proc_memory memory;
    struct python python;
    bool has_python;
    struct {
        uint64_t state, thread_id;
    } * states; /* Python's threads */
    size_t n_states, cap_states;
    struct python_frame *python_frames; /* of the current thread */
    struct dump_frame *native;
};

static int add_state(void *data, uint64_t state, uint64_t thread_id)
{
    struct taking *t = data;
    int r = array_reserve(t->states, t->cap_states, t->n_states + 1, PYTHON_THREADS_MAX);

    if (r < 0)
        return r;
    t->states[t->n_states].state = state;
    t->states[t->n_states++].thread_id = thread_id;
    return 0;
}

static void find_loops(struct taking *t)
{
    struct python_loops l;
    uint64_t instr;

    if (!python_loops_wanted(&t->python) || python_shim_instr(&t->python, &t->memory, &instr) < 0)
        return;
    python_loops_find(t->maps.python_file, instr, &l);
    if (l.n)
        python_loops_set(&t->python, &l);
}

static void attach_python(struct taking *t)
{
    struct dump *s = t->s;
    struct err e = {0};
    unsigned v;

    if (!t->maps.has_python)
        return;
    if (python_attach(&t->memory, &t->maps.python, t->maps.python_bias, &t->python, &e) < 0) {
        s->warning = arena_str(&s->arena, str_from(e.message));
        return;
    }
    t->has_python = true;
    find_loops(t);
    v = t->python.version;
    s->runtime = str_from(v & 0xffff ? arena_printf(&s->arena, "CPython 3.%u.%u", v >> 16 & 255, v >> 8 & 255)
                                     : arena_printf(&s->arena, "CPython 3.%u", v >> 16 & 255));
}

/* --- native --- */
static enum remote_result step_without(struct taking *t, const struct dump_map *m, uint64_t at, struct remote_regs *w)
{
    enum dump_end end = m ? dump_end(t->s, m, at) : DUMP_BY_FRAME_POINTER;

    return end == DUMP_BY_FRAME_POINTER ? remote_step_fp(w, &t->memory)
           : end == DUMP_START          ? REMOTE_ROOT
                                        : REMOTE_NO_RULE;
}

static uint32_t walk_native(struct taking *t, const struct stopped_thread *from, bool *ret_whole)
{
    struct remote_regs w = from->regs;
    uint32_t n = 0;

    *ret_whole = false;
    while (n < DUMP_FRAMES_MAX) {
        uint64_t at = w.exact ? w.pc : w.pc - 1;
        const struct dump_map *m = dump_maps_find(&t->maps, at);
        const struct unwind_rule *rule = m ? dump_rule(t->s, m, at) : NULL;
        enum remote_result r;

        if (!m && n) /* not code: the step before was wrong */
            break;
        t->native[n++] = (struct dump_frame){.kind = DUMP_NATIVE,
                                             .exact = w.exact,
                                             .address = w.pc,
                                             .module = m ? m->module : -1,
                                             .elf = m ? at - m->bias : 0};
        r = rule ? remote_step(&w, rule, &t->memory) : step_without(t, m, at, &w);
        if (r == REMOTE_STEPPED)
            continue;
        *ret_whole = r == REMOTE_ROOT;
        break;
    }
    return n;
}

/* --- Python --- */
static uint32_t read_python(struct taking *t, uint64_t thread_id)
{
    uint32_t n = 0;

    for (size_t i = 0; i < t->n_states; i++)
        if (t->states[i].thread_id == thread_id) {
            python_frames(&t->python, &t->memory, t->states[i].state, t->python_frames, DUMP_FRAMES_MAX, &n);
            break;
        }
    return n;
}

static struct dump_frame python_frame(struct taking *t, const struct python_frame *p)
{
    struct dump_frame f = {.kind = DUMP_PYTHON, .address = p->code, .module = -1};
    struct python_code code;

    if (python_code_read(&t->python, &t->memory, p->code, &t->s->arena, &code) < 0) {
        f.function = STR("[a code object that cannot be read]");
        return f;
    }
    f.function = code.qualname;
    f.file = code.filename;
    f.line = python_code_line(&t->python, &code, p->instr);
    return f;
}

static bool is_eval(const struct taking *t, const struct dump_frame *f)
{
    uint64_t at = f->address - !f->exact;

    return python_loops_have(&t->python.loops, at);
}

/* Counts the native frames of the loop without a Python frame: a loop that is just being entered or left has none. Can
 * only be determined for a complete stack. */
static uint32_t count_bare(const struct taking *t, uint32_t n_native, uint32_t n_python, bool whole)
{
    uint32_t evals = 0, entries = 0;

    for (uint32_t i = 0; i < n_native; i++)
        evals += is_eval(t, &t->native[i]);
    for (uint32_t i = 0; i < n_python; i++)
        entries += t->python_frames[i].entry;
    return whole && evals > entries ? evals - entries : 0;
}

/* Merges leaf first: a native frame of the loop is replaced by its Python frames; Python frames that are left over go
 * to the end. */
static int merge(struct taking *t, struct dump_thread *th, uint32_t n_native, uint32_t n_python, bool no_native)
{
    uint32_t bare = count_bare(t, n_native, n_python, th->whole), p = 0, n = 0;
    struct dump_frame *out = arena_zalloc_array(&t->s->arena, n_native + n_python, sizeof *out);

    if (!out)
        return n_native + n_python ? -ENOMEM : 0;
    for (uint32_t i = 0; i < n_native; i++) {
        bool more = is_eval(t, &t->native[i]) && p < n_python;

        if (more && bare) {
            bare--;
            more = false;
        }
        if (!more && !(no_native && n_python))
            out[n++] = t->native[i];
        while (more) {
            more = !t->python_frames[p].entry && p + 1 < n_python;
            out[n++] = python_frame(t, &t->python_frames[p++]);
        }
    }
    while (p < n_python)
        out[n++] = python_frame(t, &t->python_frames[p++]);
    th->frames = out;
    th->n_frames = n;
    return 0;
}

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

static int read_labels(struct taking *t, struct dump_thread *th, uint64_t thread_pointer)
{
    struct go_label v[GO_LABELS_MAX];
    uint32_t n = go_labels_read(&t->maps.go, &t->memory, thread_pointer, &t->s->arena, v);

    th->labels = arena_zalloc_array(&t->s->arena, MAX(n, 1u), sizeof *th->labels);
    if (!th->labels)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        th->labels[i] = (struct dump_label){v[i].key, v[i].value};
    th->n_labels = n;
    return 0;
}

static int walk_threads(struct taking *t, const struct dump_options *o)
{
    struct dump *s = t->s;
    int r = 0;

    if (t->has_python)
        python_each_thread(&t->python, &t->memory, add_state, t);
    for (size_t i = 0; i < t->stopped.n && r == 0; i++) {
        struct stopped_thread *from = &t->stopped.v[i];
        struct dump_thread *th = &s->threads[i];
        uint32_t n_native, n_python;

        th->tid = from->tid;
        if (!from->stopped)
            continue;
        n_native = walk_native(t, from, &th->whole);
        n_python = t->has_python ? read_python(t, from->thread_pointer) : 0;
        r = merge(t, th, n_native, n_python, o->no_native);
        if (r == 0 && t->maps.has_go)
            r = read_labels(t, th, from->thread_pointer);
    }
    return r;
}

/* Without registers the thread of a Python thread state is unknown: the states are listed on their own, in Python's
 * order. */
static int walk_states(struct taking *t)
{
    struct dump *s = t->s;
    int r = 0;

    python_each_thread(&t->python, &t->memory, add_state, t);
    s->threads = arena_zalloc_array(&s->arena, MAX(t->n_states, (size_t) 1), sizeof *s->threads);
    if (!s->threads)
        return -ENOMEM;
    for (size_t i = 0; i < t->n_states && r == 0; i++) {
        struct dump_thread *th = &s->threads[s->n_threads++];
        uint32_t n = read_python(t, t->states[i].thread_id);

        th->state = '?';
        snprintf(th->name, sizeof th->name, "0x%" PRIx64, t->states[i].thread_id);
        r = merge(t, th, 0, n, false);
    }
    return r;
}

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

static int take_stopped(struct taking *t, const struct dump_options *o, struct err *e)
{
    struct dump *s = t->s;
    struct stopped before = {0};
    int64_t start;
    int r;

    read_states(t, &before); /* the states before we stop the threads */
    start = clock_mono();
    r = stopped_take(s->pid, false, &t->stopped, e);
    if (r < 0) {
        stopped_done(&before);
        return r;
    }
    s->n_threads = (uint32_t) t->stopped.n;
    s->threads = arena_zalloc_array(&s->arena, t->stopped.n, sizeof *s->threads);
    r = s->threads ? walk_threads(t, o) : -ENOMEM;
    stopped_release(&t->stopped);
    s->stopped_ns = clock_mono() - start;
    for (uint32_t i = 0; i < s->n_threads && r == 0; i++) {
        read_task(s, &s->threads[i]);
        for (size_t k = 0; k < before.n; k++)
            if (before.v[k].tid == s->threads[i].tid)
                s->threads[i].state = before.v[k].state;
        for (uint32_t k = 0; k < s->threads[i].n_frames; k++)
            if (s->threads[i].frames[k].kind == DUMP_NATIVE)
                dump_name(s, &t->maps, &s->threads[i].frames[k]);
    }
    stopped_done(&before);
    return r;
}

static int take(struct taking *t, const struct dump_options *o, struct err *e)
{
    struct dump *s = t->s;
    bool running = o->nonblocking;
    int r = dump_maps_read(s, &t->maps, e);

    if (r < 0)
        return r;
    t->memory = proc_memory_of(s->pid);
    attach_python(t);
    t->native = mem_zalloc_array(DUMP_FRAMES_MAX, sizeof *t->native);
    t->python_frames = mem_zalloc_array(DUMP_FRAMES_MAX, sizeof *t->python_frames);
    if (!t->native || !t->python_frames)
        return -ENOMEM;
    if (running && !t->has_python)
        return err_set(e, -ENOTSUP, "process %d does not run Python: it must be stopped to be dumped", s->pid);
    if (!running) {
        r = take_stopped(t, o, e);
        if (r != -EPERM || !t->has_python)
            return r;
        s->warning = arena_str(&s->arena, str_from(e->message));
    }
    return walk_states(t);
}

int dump_take(int pid, const struct dump_options *o, struct dump **ret, struct err *e)
{
    _cleanup_(dump_freep) struct dump *s = mem_zalloc(sizeof *s);
    struct taking t = {.s = s, .maps = {.jit = ADDR_NAMES_INIT}};
    struct err words = {0};
    int r;

    if (!s)
        return -ENOMEM;
    s->pid = pid;
    arena_init(&s->arena, MEMORY_MAX);
    r = take(&t, o, e ? e : &words);
    stopped_done(&t.stopped);
    dump_maps_done(&t.maps);
    mem_free(t.states);
    mem_free(t.native);
    mem_free(t.python_frames);
    if (r < 0)
        return r;
    *ret = TAKE(s);
    return 0;
}

void dump_free(struct dump *s)
{
    if (!s)
        return;
    dump_modules_done(s);
    arena_done(&s->arena);
    mem_free(s);
}
