/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's user side: finds the interpreter of a process, and resolves the frames that python.bpf.h sends. What names a
 * code object comes with its first sample; what did not is read from the process, and has a name only if its content
 * (python_abi.h), the third word of its frames, is still what the sample saw.
 */
#include <errno.h>

#include "agent/lang/lang.h"
#include "agent/lang/python/python.h"
#include "agent/lang/python/python_abi.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

enum {
    CODES_MAX = 65536,     /* per process; when full, all are dropped */
    MEMORY_MAX = 16 << 20, /* likewise */
    IMAGES = 32,           /* cached files with interpreters */
    THREAD_STACK_MAX = 1 << 30,
    LOOP_TRIES = 16, /* samples of a process for which a shim frame is looked for */
};

/* The list of threads, which is read for samples without BPF, is used for this long; and is read again no sooner than
 * this for a thread that is not in it. */
#define LIST_NS (1 * NS_PER_S)
#define AGAIN_NS (20 * NS_PER_MS)

/* Questions about a file: its struct python_image; its struct python_loops, the argument is the instruction of a shim. */
enum { ASK_IMAGE, ASK_LOOPS };

struct code {
    uint64_t address, content;
    struct python_code code;
};

struct python_process {
    struct python python;
    struct object *object; /* of the interpreter; a reference */
    unsigned tries;        /* remaining attempts to find the loop */
    struct proc_memory memory;
    struct code *codes;
    size_t n, cap;
    struct map by_address;
    struct arena arena;
    struct thread_state {
        uint64_t state, thread_pointer, tid; /* tid: 0 up to 3.10, which do not keep it */
    } * states;                              /* set by look() */
    size_t n_states, cap_states;
    int64_t looked_ns; /* when they were read */
};

/* Searching a file is expensive: the result is cached by the object's number. The agent's thread only. */
static struct {
    uint32_t number;
    bool is_python;
    struct python_image image;
} images[IMAGES];
static unsigned next_image;

static bool probe(struct object *o, struct python_image *ret)
{
    struct lang_question q = {.op = ASK_IMAGE};
    int r;

    for (unsigned i = 0; i < IMAGES; i++)
        if (images[i].number == o->number) {
            *ret = images[i].image;
            return images[i].is_python;
        }
    *ret = (struct python_image){0};
    r = lang_ask(o, LANG_python, &q, ret, sizeof *ret);
    if (r == -EBUSY)
        return false;
    images[next_image % IMAGES].number = o->number;
    images[next_image % IMAGES].is_python = r == 1;
    images[next_image++ % IMAGES].image = *ret;
    return r == 1;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void fill_record(struct process *p, const struct python *py)
{
    struct agent_python record;

    python_record(py, &record);
    memcpy(p->lang_record.words, &record, sizeof record);
}

static int attach(struct process *p, struct err *e)
{
    struct python_image image;
    struct python_process *s;
    struct python py;
    int r;

    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct process_mapping *m = &p->mappings[i];
        struct proc_memory memory = proc_memory_of((int) p->pid);

        if (!m->object || !m->path || (m->object != p->exe && !strstr(base_name(m->path), "python")) ||
            !probe(m->object, &image))
            continue;
        r = python_attach(&memory, &image, m->bias, &py, e);
        if (r < 0)
            return r;
        s = mem_zalloc(sizeof *s);
        if (!s)
            return -ENOMEM;
        s->python = py;
        s->object = object_ref(m->object);
        s->tries = LOOP_TRIES;
        s->memory = memory;
        arena_init(&s->arena, MEMORY_MAX);
        p->lang_state = s;
        fill_record(p, &py);
        return 1;
    }
    return 0;
}

static void forget_codes(struct python_process *s)
{
    map_reset(&s->by_address);
    arena_done(&s->arena);
    s->n = 0;
}

static void detach(struct process *p)
{
    struct python_process *s = p->lang_state;

    if (!s)
        return;
    forget_codes(s);
    map_done(&s->by_address);
    object_unref(s->object);
    mem_free(s->codes);
    mem_free(s->states);
    mem_free(s);
    p->lang_state = NULL;
}

static uint64_t code_hash(uint64_t address, uint64_t content)
{
    return hash64_u64(address ^ content * 31);
}

static const struct code *find_code(const struct python_process *s, uint64_t address, uint64_t content)
{
    uint64_t h = code_hash(address, content);

    for (struct map_pos i = map_find(&s->by_address, h); i.index != MAP_NONE; i = map_next(&s->by_address, i))
        if (s->codes[i.index].address == address && s->codes[i.index].content == content)
            return &s->codes[i.index];
    return NULL;
}

/* Room for one that is not known. */
static struct code *new_code(struct python_process *s, uint64_t address, uint64_t content)
{
    if (s->n == CODES_MAX || s->arena.used > MEMORY_MAX / 2)
        forget_codes(s);
    if (array_reserve(s->codes, s->cap, s->n + 1, CODES_MAX) < 0)
        return NULL;
    s->codes[s->n] = (struct code){.address = address, .content = content};
    return &s->codes[s->n];
}

static const struct code *keep_code(struct python_process *s, const struct code *c)
{
    if (map_insert(&s->by_address, code_hash(c->address, c->content), (uint32_t) s->n) < 0)
        return NULL;
    s->n++;
    return c;
}

/* Reads a code object that is still what the sample saw. */
static const struct code *read_code(struct python_process *s, uint64_t address, uint64_t content)
{
    struct code *c = new_code(s, address, content);

    if (!c || python_code_read_if(&s->python, &s->memory, address, content, &s->arena, &c->code) < 0)
        return NULL;
    return keep_code(s, c);
}

static int read_pieces(const struct proc_memory *m, uint64_t address, void *ret, size_t n)
{
    const struct agent_memory *from = m->data;
    const uint8_t *at = from->bytes;

    for (int i = 0; i < AGENT_PIECES; at += from->pieces[i++].n) {
        uint64_t off = address - from->pieces[i].address;

        if (off < from->pieces[i].n && from->pieces[i].n - off >= n) {
            memcpy(ret, at + off, n);
            return 0;
        }
    }
    return -EFAULT;
}

static void take_memory(struct process *p, const struct agent_memory *memory)
{
    struct proc_memory m = {.read = read_pieces, .data = memory};
    struct python_process *s = p->lang_state;
    uint64_t address = memory->words[0], content = memory->words[2];
    struct code *c = s && !find_code(s, address, content) ? new_code(s, address, content) : NULL;

    if (c && python_code_read(&s->python, &m, address, &s->arena, &c->code) == 0)
        keep_code(s, c);
}

/* Done once per file: the result is kept with it. */
static void look_for_loops(struct python_process *s)
{
    struct lang_question q = {.op = ASK_LOOPS};
    struct python_loops loops;

    s->tries--;
    if (!python_loops_wanted(&s->python)) {
        s->tries = 0;
        return;
    }
    if (python_shim_instr(&s->python, &s->memory, &q.argument) < 0)
        return;
    s->tries = 0;
    if (lang_ask(s->object, LANG_python, &q, &loops, sizeof loops) < 0 || !loops.n)
        return;
    python_loops_set(&s->python, &loops);
    for (unsigned i = 0; i < IMAGES; i++)
        if (images[i].number == s->object->number)
            images[i].image.loops = loops;
}

static bool is_eval(const struct process *p, uint64_t word)
{
    const struct python_process *s = p->lang_state;
    uint64_t at = AGENT_WORD_VALUE(word) - (AGENT_WORD_KIND(word) != AGENT_WORD_EXACT);

    return python_loops_have(&s->python.loops, at);
}

/* Counts the native frames of the loop without a Python frame: a loop that was just entered, or is being left, has
 * none. Can only be determined for a complete stack. */
static uint32_t count_bare(const struct process *p, const uint64_t *words, uint32_t n_kernel, uint32_t n_native,
                           uint32_t n)
{
    uint32_t evals = 0, entries = 0;

    for (uint32_t i = n_kernel; i < n_native; i++)
        evals += is_eval(p, words[i]);
    for (uint32_t i = n_native; i + AGENT_LANG_WORDS <= n; i += AGENT_LANG_WORDS)
        entries += words[i] & AGENT_PYTHON_ENTRY;
    return evals > entries ? evals - entries : 0;
}

/* Replaces each native frame of the loop by its Python frames; Python frames that are left over go to the end. */
static uint32_t merge(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole)
{
    static uint64_t native[AGENT_WORDS + AGENT_USER_FRAMES], python[LANG_WORDS_MAX]; /* one thread */
    struct python_process *s = p->lang_state;
    uint32_t count = n_native - n_kernel, left = n - n_native, at = 0, out = n_kernel, bare;

    if (s->tries)
        look_for_loops(s);
    bare = whole ? count_bare(p, words, n_kernel, n_native, n) : 0;
    memcpy(native, words + n_kernel, count * sizeof *native);
    memcpy(python, words + n_native, left * sizeof *python);
    for (uint32_t i = 0; i < count; i++) {
        bool more = is_eval(p, native[i]) && left - at >= AGENT_LANG_WORDS;

        if (more && bare) {
            bare--;
            more = false;
        }
        if (!more)
            words[out++] = native[i];
        while (more) {
            more = !(python[at] & AGENT_PYTHON_ENTRY) && left - at >= 2 * AGENT_LANG_WORDS;
            memcpy(words + out, python + at, AGENT_LANG_WORDS * sizeof *words);
            words[out] &= ~(uint64_t) AGENT_PYTHON_ENTRY;
            out += AGENT_LANG_WORDS;
            at += AGENT_LANG_WORDS;
        }
    }
    for (; left - at >= AGENT_LANG_WORDS; at += AGENT_LANG_WORDS, out += AGENT_LANG_WORDS) {
        memcpy(words + out, python + at, AGENT_LANG_WORDS * sizeof *words);
        words[out] &= ~(uint64_t) AGENT_PYTHON_ENTRY;
    }
    return out;
}

static int resolve(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret,
                   uint32_t max)
{
    struct python_process *s = p->lang_state;
    uint64_t address = AGENT_WORD_VALUE(words[0]);
    const struct code *c = s ? find_code(s, address, words[2]) : NULL;

    if (s && !c)
        c = read_code(s, address, words[2]);
    if (!c)
        return -EBADMSG;
    ret->function = arena_str(a, c->code.name);
    ret->file = arena_str(a, c->code.filename);
    ret->line = python_code_line(&s->python, &c->code, (int64_t) words[1]);
    ret->start_line = c->code.first_line;
    ret->type = "cpython";
    return ret->function.p && ret->file.p ? 1 : -ENOMEM;
}

static int read_file(const struct elf_file *f, const char *path, const struct lang_question *q, void *ret)
{
    switch (q->op) {
    case ASK_IMAGE:
        return (strstr(path, "python") || elf_find_section(f, ".PyRuntime")) && python_probe(f, str_from(path), ret);
    case ASK_LOOPS:
        python_loops_find(f, q->argument, ret);
        return 0;
    default:
        return -EINVAL;
    }
}

static bool is_answer_valid(const struct lang_question *q, const void *answer)
{
    const struct python_image *image = answer;
    const struct python_loops *loops = answer;

    return (q->op == ASK_IMAGE ? image->loops.n : loops->n) <= PYTHON_LOOPS_MAX;
}

/* --- wick dump --- */
static struct str version(struct process *p, struct arena *a)
{
    const struct python_process *s = p->lang_state;
    unsigned v = s->python.version;

    return str_from(v & 0xffff ? arena_printf(a, "CPython 3.%u.%u", v >> 16 & 255, v >> 8 & 255)
                               : arena_printf(a, "CPython 3.%u", v >> 16 & 255));
}

static int add_state(void *arg, uint64_t state, uint64_t thread_id)
{
    struct python_process *s = arg;
    struct thread_state t = {state, thread_id, 0};

    if (s->python.at.minor >= 11) /* native_thread_id follows thread_id */
        proc_memory_u64(&s->memory, state + s->python.at.thread_id + 8, &t.tid);
    return array_push(s->states, s->n_states, s->cap_states, PYTHON_THREADS_MAX, t);
}

static void look(struct process *p, struct arena *a)
{
    struct python_process *s = p->lang_state;

    if (s->tries)
        look_for_loops(s);
    s->n_states = 0;
    s->looked_ns = clock_mono();
    python_each_thread(&s->python, &s->memory, add_state, s);
}

/* Up to 3.10: a thread's descriptor is above its stack, in the same mapping; the main thread's is not, and its state is
 * the oldest. */
static const struct thread_state *state_by_stack(const struct python_process *s, uint64_t sp)
{
    const struct thread_state *best = s->n_states ? &s->states[s->n_states - 1] : NULL;
    uint64_t distance = THREAD_STACK_MAX;

    for (size_t i = 0; i < s->n_states; i++)
        if (s->states[i].thread_pointer - sp < distance) {
            distance = s->states[i].thread_pointer - sp;
            best = &s->states[i];
        }
    return best;
}

static uint64_t thread_pointer_of(struct process *p, uint32_t tid, uint64_t sp)
{
    struct python_process *s = p->lang_state;

    for (int pass = 0; pass < 2; pass++) {
        const struct thread_state *t = s->python.at.minor < 11 ? state_by_stack(s, sp) : NULL;

        for (size_t i = 0; i < s->n_states && !t; i++)
            if (s->states[i].tid == tid)
                t = &s->states[i];
        if (t && t->state && clock_mono() - s->looked_ns < LIST_NS)
            return t->thread_pointer;
        if (pass == 0 && clock_mono() - s->looked_ns >= (t ? LIST_NS : AGAIN_NS))
            look(p, NULL);
        else
            return t ? t->thread_pointer : 0;
    }
    return 0;
}

static void thread(struct process *p, uint64_t thread_pointer, struct arena *a, struct lang_thread *ret)
{
    struct python_process *s = p->lang_state;
    struct python_frame *v = NULL;
    uint32_t n = 0;
    uint64_t id;

    for (size_t i = 0; i < s->n_states && !v; i++) {
        if (!python_is_thread(s->states[i].thread_pointer, thread_pointer) ||
            !proc_memory_u64(&s->memory, s->states[i].state + s->python.at.thread_id, &id) ||
            id != s->states[i].thread_pointer)
            continue;
        v = mem_zalloc_array(LANG_FRAMES_MAX, sizeof *v);
        if (!v)
            return;
        python_frames(&s->python, &s->memory, s->states[i].state, v, LANG_FRAMES_MAX, &n);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *w = ret->words + ret->n_words;

        if (python_is_internal(&s->python, &s->memory, v[i].code))
            continue;
        w[0] = (uint64_t) (AGENT_WORD_LANG + LANG_python) << 56 | AGENT_WORD_VALUE(v[i].code) |
               (v[i].entry ? AGENT_PYTHON_ENTRY : 0);
        w[1] = (uint64_t) v[i].instr;
        w[2] = python_content(&s->python, &s->memory, v[i].code);
        if (!find_code(s, v[i].code, w[2])) /* the process goes on: now rather than in resolve() */
            read_code(s, v[i].code, w[2]);
        ret->n_words += AGENT_LANG_WORDS;
    }
    mem_free(v);
}

static int tasks(struct process *p, struct arena *a, lang_task_fn *f, void *arg, struct err *e)
{
    struct python_process *s = p->lang_state;
    int r = 0;

    for (size_t i = 0; i < s->n_states && r == 0; i++) {
        struct lang_task t = {.id = s->states[i].thread_pointer, .thread_pointer = s->states[i].thread_pointer};

        r = f(arg, &t);
    }
    return r;
}

_Static_assert((int) LANG_WORDS_MAX >= (int) AGENT_WORDS, "merge() has room for the words of an event");
_Static_assert(sizeof(struct python_image) <= LANG_ANSWER_BYTES, "the answer has room for what is found in a file");
_Static_assert(sizeof(struct agent_python) <= sizeof((struct agent_lang){0}.words), "the record has room for it");

const struct lang lang_python = {
    .name = "cpython",
    .in_bpf = "Python frames",
    .attach = attach,
    .detach = detach,
    .merge = merge,
    .take_memory = take_memory,
    .resolve = resolve,
    .read_file = read_file,
    .is_answer_valid = is_answer_valid,
    .version = version,
    .look = look,
    .thread = thread,
    .thread_pointer = thread_pointer_of,
    .tasks = tasks,
    .task_word = "thread",
    .are_tasks_threads = true,
};
