/* SPDX-License-Identifier: Apache-2.0 */
/* The walker (py_walk.h). Everything below walk() runs in signal handlers: it reads memory through peek.h, calls
 * pthread_getspecific() and nothing else outside of this package. */
#include "py_walk.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "code_names.h"
#include "cpython_layout.h"
#include "peek.h"
#include "py_frames.h"
#include "py_span.h"
#include "py_task.h"
#include "sdk/sys.h"

enum { RANGES_MAX = 16, KNOWN = 4096, LIST_LIMIT = 16384 };

struct range {
    uint64_t lo, hi;
};

static struct {
    enum py_native native;
    pthread_key_t key; /* under which the interpreter keeps a thread's state */
    bool have_key;
    PyInterpreterState *interpreter;
    size_t tid_offset;              /* of the thread id in the C library's struct of a thread; 0: not known */
    struct range eval;              /* the evaluation loop */
    struct range glue[RANGES_MAX];  /* code of the interpreter and of the C library */
    uint32_t n_glue, n_interpreter; /* the first n_interpreter ranges are the interpreter's */
} walk_state;

/* --- frames of the interpreter --- */
/* How many calls of the evaluation loop the chain has; 0 if there is no Python frame. */
static uint32_t count_loops(uint64_t tstate, bool other, bool *ret_broken)
{
    py_frame head;
    uint32_t loops = 0, frames = 0;
    struct py_frames c;

    py_frames_begin(&c, tstate, other);
    while (py_frames_next(&c, &head)) {
        frames += !PY_FRAME_IS_SHIM(&head);
        loops += PY_FRAME_IS_ENTRY(&head) ? 1 : 0;
    }
    *ret_broken = c.broken;
    return !frames ? 0 : loops ? loops : 1;
}

/* --- native frames --- */
static bool in_glue(uint64_t pc, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (pc >= walk_state.glue[i].lo && pc < walk_state.glue[i].hi)
            return true;
    return false;
}

/*
 * Reduces the native frames, in place, to those that are kept and a 0 for each evaluation loop. A run of frames between
 * two loops is kept if it has a frame outside the interpreter and the C library; without those of the interpreter.
 */
static uint32_t reduce(uint64_t *pc, uint32_t n, uint32_t *ret_loops)
{
    uint32_t out = 0, from = 0;

    *ret_loops = 0;
    for (uint32_t i = 0; i <= n; i++) {
        uint64_t at = i < n ? pc[i] - 1 : 0;
        bool loop = i < n && at >= walk_state.eval.lo && at < walk_state.eval.hi, keep = false;

        if (i < n && !loop)
            continue;
        for (uint32_t k = from; k < i && !keep; k++) /* the run before this loop, or before the root */
            keep = !in_glue(pc[k] - 1, walk_state.n_glue);
        if (walk_state.native == PY_NATIVE_OFF)
            keep = false;
        if (walk_state.native == PY_NATIVE_ALL && from == 0 && i < n)
            keep = true;
        for (uint32_t k = from; k < i && keep; k++)
            if (walk_state.native == PY_NATIVE_ALL || !in_glue(pc[k] - 1, walk_state.n_interpreter))
                pc[out++] = pc[k];
        if (loop) {
            pc[out++] = 0;
            (*ret_loops)++;
        }
        from = i + 1;
    }
    return out;
}

/* --- merging --- */
struct output {
    uint64_t *frames;
    uint32_t n, limit; /* the room before what is still to be read */
    bool full;
};

static void put(struct output *o, uint64_t frame)
{
    if (!frame)
        return;
    if (o->n < o->limit)
        o->frames[o->n++] = frame;
    else
        o->full = true;
}

/* Frames up to the end of one call of the loop, or all of them. Reads on when there is no more room, so that `full` is
 * right. */
static void put_python(struct output *o, struct py_frames *c, bool all)
{
    py_frame head;

    while (!o->full && py_frames_next(c, &head)) {
        put(o, py_frames_number(&c->peek, &head));
        if (!all && PY_FRAME_IS_ENTRY(&head))
            break;
    }
}

static void merge(struct wick_ext_stack *s, uint64_t tstate, bool aligned)
{
    struct output o = {.frames = s->frames};
    uint32_t n = s->n, start = s->max - n;
    struct py_frames c;

    /* What was kept moves to the end of the buffer; the result grows towards it. */
    memmove(s->frames + start, s->frames, n * sizeof *s->frames);
    py_frames_begin(&c, tstate, s->tid != 0);
    for (uint32_t i = start; i < s->max && !o.full; i++) {
        uint64_t native = s->frames[i];

        o.limit = i + 1;
        if (native)
            put(&o, native);
        else if (aligned)
            put_python(&o, &c, false);
        else
            break;
    }
    if (!o.full) {
        o.limit = s->max;
        put_python(&o, &c, true);
    }
    s->n = o.n;
    s->cut = o.full || c.broken;
}

/* The thread's state of the interpreter, if it has one. */
static uint64_t own_state(void)
{
    return walk_state.have_key ? (uint64_t) (uintptr_t) pthread_getspecific(walk_state.key) : 0;
}

/* --- states of other threads; wick's own thread only --- */
static struct {
    int tid;
    uint64_t tstate;
} known[KNOWN];

static int tid_of_state(struct peek *p, uint64_t tstate)
{
#if PY_VERSION_HEX >= 0x030b0000
    uint64_t tid = 0;

    return peek_u64(p, tstate + offsetof(PyThreadState, native_thread_id), &tid) ? (int) tid : -1;
#else
    uint64_t thread = 0;
    int tid = 0;

    if (!walk_state.tid_offset || !peek_u64(p, tstate + offsetof(PyThreadState, thread_id), &thread) ||
        !peek_copy(p, thread + walk_state.tid_offset, &tid, sizeof tid))
        return -1;
    return tid;
#endif
}

/* The list is read once for all threads: it may have thousands. */
static uint64_t other_state(int tid)
{
    uint64_t at = (uint64_t) (uintptr_t) PyInterpreterState_ThreadHead(walk_state.interpreter), found = 0;
    unsigned slot = (unsigned) tid % KNOWN;
    struct peek p;

    peek_init(&p, true);
    if (known[slot].tid == tid && tid_of_state(&p, known[slot].tstate) == tid)
        return known[slot].tstate;
    for (unsigned i = 0; at && i < LIST_LIMIT; i++) {
        int one = tid_of_state(&p, at);

        if (one > 0 && (one == tid || !found || (unsigned) one % KNOWN != slot)) {
            known[(unsigned) one % KNOWN].tid = one;
            known[(unsigned) one % KNOWN].tstate = at;
        }
        if (one == tid)
            found = at;
        if (!peek_u64(&p, at + offsetof(PyThreadState, next), &at))
            break;
    }
    return found;
}

static void walk(struct wick_ext_stack *s)
{
    bool cut = s->cut || s->n == s->max, broken;
    uint32_t loops = 0, calls;
    uint64_t tstate;

    if (s->tid)
        peek_forget();
    tstate = s->tid ? other_state(s->tid) : own_state();
    calls = tstate ? count_loops(tstate, s->tid != 0, &broken) : 0;
    if (!calls) /* not a thread of Python */
        return;
    s->n = reduce(s->frames, s->n, &loops);
    merge(s, tstate, loops == calls || (cut && loops < calls));
    py_span_find(s, tstate);
    py_task_find(s, tstate);
}

uint32_t py_walk_here(uint64_t *frames, uint32_t max)
{
    struct output o = {.frames = frames, .limit = max};
    struct py_frames c;

    py_frames_begin(&c, own_state(), false);
    put_python(&o, &c, true);
    return o.n;
}

/* --- start --- */
static void find_key(void)
{
    void *mine = PyGILState_GetThisThreadState();

    for (pthread_key_t k = 0; mine && k < 1024 && !walk_state.have_key; k++)
        if (pthread_getspecific(k) == mine) {
            walk_state.key = k;
            walk_state.have_key = true;
        }
}

/* Where the C library keeps the id of a thread: only for versions whose thread states do not have it. */
static void find_tid_offset(void)
{
    const char *self = (const char *) (uintptr_t) pthread_self();
    int tid = sys_gettid();

    for (size_t i = 256; i < 1536 && !walk_state.tid_offset; i += sizeof tid)
        if (memcmp(self + i, &tid, sizeof tid) == 0)
            walk_state.tid_offset = i;
}

static void find_eval(void)
{
    void *f = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!f || !dladdr1(f, &info, (void **) &symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    walk_state.eval.lo = (uint64_t) (uintptr_t) f;
    walk_state.eval.hi = walk_state.eval.lo + symbol->st_size;
}

/* Adds the code of the object that has the address *arg. */
static int add_object(struct dl_phdr_info *o, size_t size, void *arg)
{
    uint64_t inside = *(const uint64_t *) arg;
    bool match = false;

    for (unsigned i = 0; i < o->dlpi_phnum && !match; i++)
        match = o->dlpi_phdr[i].p_type == PT_LOAD && inside >= o->dlpi_addr + o->dlpi_phdr[i].p_vaddr &&
                inside < o->dlpi_addr + o->dlpi_phdr[i].p_vaddr + o->dlpi_phdr[i].p_memsz;
    for (unsigned i = 0; match && i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];

        if (h->p_type == PT_LOAD && h->p_flags & PF_X && walk_state.n_glue < RANGES_MAX)
            walk_state.glue[walk_state.n_glue++] =
                (struct range){o->dlpi_addr + h->p_vaddr, o->dlpi_addr + h->p_vaddr + h->p_memsz};
    }
    return 0;
}

static void add_glue(uint64_t inside)
{
    if (inside)
        dl_iterate_phdr(add_object, &inside);
}

/* The program python3 is glue too where the interpreter is in libpython: it only calls Py_BytesMain(). Another program
 * that embeds Python stays visible. */
static bool is_python_program(void)
{
    char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    const char *name;

    if (n <= 0)
        return false;
    path[n] = 0;
    name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    return strncmp(name, "python", 6) == 0;
}

static void add_vdso(uint64_t at)
{
    if (at && walk_state.n_glue < RANGES_MAX)
        walk_state.glue[walk_state.n_glue++] = (struct range){at, at + 2 * 4096};
}

static void find_glue(void)
{
    walk_state.n_glue = 0;
    add_glue((uint64_t) (uintptr_t) PyObject_Malloc);
    if (is_python_program())
        add_glue(getauxval(AT_ENTRY));
    add_glue((uint64_t) (uintptr_t) py_walk_stop); /* this module: its functions call what they replace */
    walk_state.n_interpreter = walk_state.n_glue;
    add_glue(getauxval(AT_BASE));                                           /* the loader */
    add_vdso(getauxval(AT_SYSINFO_EHDR));                                   /* clocks */
    add_glue((uint64_t) (uintptr_t) dlsym(RTLD_DEFAULT, "nanosleep"));      /* the C library */
    add_glue((uint64_t) (uintptr_t) dlsym(RTLD_DEFAULT, "pthread_create")); /* libpthread, before glibc 2.34 */
    add_glue((uint64_t) (uintptr_t) dlsym(RTLD_DEFAULT, "floor"));          /* libm */
}

int py_walk_start(enum py_native native, const char **ret_message)
{
    walk_state.native = native;
    walk_state.interpreter = PyThreadState_Get()->interp;
    find_key();
    find_tid_offset();
    find_eval();
    find_glue();
    if (!walk_state.have_key) {
        *ret_message = "the thread state of this interpreter was not found";
        return -1;
    }
    if (code_names_start() < 0) {
        *ret_message = "out of memory for the table of function names";
        return -1;
    }
    wick_ext_set_walker(walk);
    return 0;
}

void py_walk_stop(void)
{
    wick_ext_set_walker(NULL);
}
