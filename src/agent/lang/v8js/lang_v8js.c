/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's user side: finds V8 in a process, and resolves the frames that v8js.bpf.h sends. What names a function comes with its first
 * sample; what did not is read from the process, and has a name only if its content (v8js_abi.h), the third word of its frames, is the
 * sample's before and after. Lines and inlined calls are always read later, and checked in the same way.
 */
#include <errno.h>

#include "agent/lang/lang.h"
#include "agent/lang/v8js/v8.h"
#include "agent/lang/v8js/v8js_abi.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

enum {
    FUNCTIONS_MAX = 65536, /* per process; when full, all are dropped */
    MEMORY_MAX = 16 << 20, /* likewise */
    SCRIPTS_MAX = 1024,
    LINES_MAX = 8 << 20,   /* of all scripts of a process */
    IMAGES = 32,           /* cached files with V8 */
    HOST_BYTES = 16 << 20, /* a program with V8 in it has at least this many */
};

struct known_function {
    uint64_t shared, content;
    struct v8_function f;
};

struct script {
    uint64_t object, id;
    struct v8_lines lines;
    uint32_t tries;
};

struct v8js_process {
    struct v8 v8;
    struct proc_memory memory;
    uint64_t stream_map;
    struct known_function *functions;
    size_t n, cap;
    struct map by_shared;
    struct arena arena;
    struct script *scripts;
    size_t n_scripts, cap_scripts, n_lines;
};

/* Searching a file is expensive: the result is cached by the object's number. The agent's thread only. */
static struct {
    uint32_t number;
    bool is_v8;
    struct v8_image image;
} images[IMAGES];
static unsigned next_image;

static bool probe(struct object *o, struct v8_image *ret)
{
    struct lang_question q = {0};
    int r;

    for (unsigned i = 0; i < IMAGES; i++)
        if (images[i].number == o->number) {
            *ret = images[i].image;
            return images[i].is_v8;
        }
    *ret = (struct v8_image){0};
    r = lang_ask(o, LANG_v8js, &q, ret, sizeof *ret);
    if (r == -EBUSY)
        return false;
    images[next_image % IMAGES].number = o->number;
    images[next_image % IMAGES].is_v8 = r == 1;
    images[next_image++ % IMAGES].image = *ret;
    return r == 1;
}

static struct v8_reader reader_of(struct v8js_process *s)
{
    return (struct v8_reader){&s->v8, &s->memory, &s->memory, &s->stream_map};
}

static uint16_t frame_type(int32_t v)
{
    return v > 0 ? (uint16_t) v : 0;
}

static void fill_record(struct process *p, const struct v8 *v8)
{
    const int32_t *v = v8->v;
    struct agent_v8js r = {
        .entry_lo = v8->entry.lo,
        .entry_hi = v8->entry.hi,
        .handlers_lo = v8->handlers.lo,
        .handlers_hi = v8->handlers.hi,
        .function_shared = (uint16_t) v[V8_FUNCTION_SHARED],
        .shared_name = (uint16_t) v[V8_SHARED_NAME],
        .shared_script = (uint16_t) v[V8_SHARED_SCRIPT],
        .shared_id = (uint16_t) (v[V8_SHARED_FLAGS] + 4),
        .script_name = (uint16_t) v[V8_SCRIPT_NAME],
        .map_type = (uint16_t) v[V8_MAP_TYPE],
        .string_length = (uint16_t) v[V8_STRING_LENGTH],
        .type_shared = (uint16_t) v[V8_TYPE_SHARED],
        .type_script = (uint16_t) v[V8_TYPE_SCRIPT],
        .type_scope = (uint16_t) v[V8_TYPE_SCOPE],
        .first_non_string = (uint16_t) v[V8_FIRST_NON_STRING],
        .encoding_mask = (uint16_t) v[V8_ENCODING_MASK],
        .representation_mask = (uint16_t) v[V8_REPRESENTATION_MASK],
        .scope_first = (uint16_t) v[V8_SCOPE_FIRST],
        .scope_locals = (uint16_t) v[V8_SCOPE_LOCALS],
        .frame_wasm = frame_type(v[V8_FRAME_WASM]),
        .frame_regexp = frame_type(v[V8_FRAME_REGEXP]),
    };

    _Static_assert(sizeof r <= sizeof p->lang_record.words, "the record has no more room");
    memcpy(p->lang_record.words, &r, sizeof r);
}

static bool is_candidate(const struct process *p, const struct process_mapping *m)
{
    const char *slash = m->path ? strrchr(m->path, '/') : NULL;

    if (!m->object || !slash)
        return false;
    return m->object == p->exe
               ? m->object->file.size >= HOST_BYTES
               : strstr(slash, "node") || strstr(slash, "v8") || strstr(slash, "electron") || strstr(slash, "chrom");
}

static int attach(struct process *p, struct err *e)
{
    struct v8_image image;
    struct v8js_process *s;
    struct v8 v8;
    int r;

    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct process_mapping *m = &p->mappings[i];
        struct proc_memory memory = proc_memory_of((int) p->pid);

        if (!is_candidate(p, m) || !probe(m->object, &image))
            continue;
        r = v8_read(&image, m->bias, &memory, &v8, e);
        if (r < 0)
            return r;
        s = mem_zalloc(sizeof *s);
        if (!s)
            return -ENOMEM;
        s->v8 = v8;
        s->memory = memory;
        arena_init(&s->arena, MEMORY_MAX);
        p->lang_state = s;
        fill_record(p, &v8);
        return 1;
    }
    return 0;
}

static void forget_functions(struct v8js_process *s)
{
    map_reset(&s->by_shared);
    arena_done(&s->arena);
    s->n = 0;
}

static void forget_scripts(struct v8js_process *s)
{
    for (size_t i = 0; i < s->n_scripts; i++)
        mem_free(s->scripts[i].lines.ends);
    s->n_scripts = s->n_lines = 0;
}

static void detach(struct process *p)
{
    struct v8js_process *s = p->lang_state;

    if (!s)
        return;
    forget_functions(s);
    forget_scripts(s);
    map_done(&s->by_shared);
    mem_free(s->functions);
    mem_free(s->scripts);
    mem_free(s);
    p->lang_state = NULL;
}

/* --- functions --- */
static uint64_t function_hash(uint64_t shared, uint64_t content)
{
    return hash64_u64(shared ^ content * 31);
}

static const struct v8_function *find_function(const struct v8js_process *s, uint64_t shared, uint64_t content)
{
    uint64_t h = function_hash(shared, content);

    for (struct map_pos i = map_find(&s->by_shared, h); i.index != MAP_NONE; i = map_next(&s->by_shared, i))
        if (s->functions[i.index].shared == shared && s->functions[i.index].content == content)
            return &s->functions[i.index].f;
    return NULL;
}

/* Reads a function and keeps it, if it has this content, before and after it is read; 0: any. */
static const struct v8_function *read_function(struct v8js_process *s, const struct v8_reader *r, uint64_t shared,
                                               uint64_t content)
{
    struct v8_function again, f;

    if (s->n == FUNCTIONS_MAX || s->arena.used > MEMORY_MAX / 2)
        forget_functions(s);
    if (array_reserve(s->functions, s->cap, s->n + 1, FUNCTIONS_MAX) < 0 ||
        v8_function_read(r, shared, &s->arena, &f) < 0 || (content && f.content != content) ||
        v8_function_read(r, shared, NULL, &again) < 0 || again.content != f.content)
        return NULL;
    s->functions[s->n] = (struct known_function){shared, f.content, f};
    if (map_insert(&s->by_shared, function_hash(shared, f.content), (uint32_t) s->n) < 0)
        return NULL;
    return &s->functions[s->n++].f;
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
    struct v8js_process *s = p->lang_state;
    uint64_t shared = memory->words[0] + 1, content = memory->words[2];
    struct v8_reader r;

    if (!s || find_function(s, shared, content))
        return;
    r = (struct v8_reader){&s->v8, &m, &s->memory, &s->stream_map};
    if (!memory->words[1]) /* else it is read later */
        read_function(s, &r, shared, content);
}

/* --- places --- */
static const struct v8_lines *lines_of(struct v8js_process *s, const struct v8_reader *r, const struct v8_function *f)
{
    struct v8_function again;
    struct v8_lines l;

    for (size_t i = 0; i < s->n_scripts; i++)
        if (s->scripts[i].object == f->script && s->scripts[i].id == f->script_id)
            return &s->scripts[i].lines;
    if (s->n_scripts == SCRIPTS_MAX || s->n_lines > LINES_MAX)
        forget_scripts(s);
    if (array_reserve(s->scripts, s->cap_scripts, s->n_scripts + 1, SCRIPTS_MAX) < 0 ||
        v8_lines_read(r, f->script, &l) < 0)
        return NULL;
    again.script_id = (uint32_t) (v8_field(r, f->script, s->v8.v[V8_SCRIPT_LINE_ENDS] + 8) >> 32);
    if (again.script_id != f->script_id) {
        mem_free(l.ends);
        return NULL;
    }
    s->scripts[s->n_scripts] = (struct script){f->script, f->script_id, l, 0};
    s->n_lines += l.n;
    return &s->scripts[s->n_scripts++].lines;
}

static void put_frame(struct v8js_process *s, const struct v8_reader *r, const struct v8_function *f, int32_t position,
                      struct arena *a, struct lang_frame *ret)
{
    const struct v8_lines *l = f->start >= 0 || position >= 0 ? lines_of(s, r, f) : NULL;

    *ret = (struct lang_frame){.function = f->name.n ? arena_str(a, f->name) : STR("(anonymous)"), .type = "v8js"};
    if (f->file.n)
        ret->file = arena_str(a, f->file);
    if (l) {
        ret->start_line = v8_line(l, f->start);
        ret->line = v8_line(l, position);
    }
}

static int resolve_other(const struct v8js_process *s, uint64_t word, struct lang_frame *ret)
{
    int32_t type = (int32_t) (AGENT_WORD_VALUE(word) >> V8_KIND_SHIFT);

    *ret = (struct lang_frame){.type = "v8js"};
    if (type == s->v8.v[V8_FRAME_WASM])
        ret->function = STR("(WebAssembly)");
    else if (type == s->v8.v[V8_FRAME_REGEXP])
        ret->function = STR("(regular expression)");
    else
        return -EBADMSG;
    return 1;
}

static uint32_t find_places(const struct v8_reader *r, uint64_t shared, const uint64_t *words,
                            struct v8_place places[V8_INLINED_MAX])
{
    uint32_t n = 0;

    places[0] = (struct v8_place){0, -1};
    if ((words[0] & V8_KINDS) == V8_KIND_BYTECODE)
        places[0].position = v8_bytecode_position(r, shared, words[1]);
    else
        n = v8_code_places(r, shared, words[1], (words[0] & V8_KINDS) == V8_KIND_LEAF, places);
    return MAX(n, 1u);
}

static int resolve(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret,
                   uint32_t max)
{
    uint64_t shared = (AGENT_WORD_VALUE(words[0]) & ~(uint64_t) V8_KINDS) + 1;
    struct v8js_process *s = p->lang_state;
    struct v8_place places[V8_INLINED_MAX];
    const struct v8_function *f;
    struct v8_function again;
    struct v8_reader r;
    uint32_t n, out = 0;

    if (!s)
        return -EBADMSG;
    if ((words[0] & V8_KINDS) == V8_KIND_OTHER)
        return resolve_other(s, words[0], ret);
    r = reader_of(s);
    f = words[2] ? find_function(s, shared, words[2]) : NULL;
    if (!f && words[2])
        f = read_function(s, &r, shared, words[2]);
    if (!f)
        return -EBADMSG;
    n = find_places(&r, shared, words, places);
    for (uint32_t i = 0; i < n - 1 && out < max - 1; i++) {
        const struct v8_function *inlined = read_function(s, &r, places[i].shared, 0);

        if (inlined)
            put_frame(s, &r, inlined, places[i].position, a, &ret[out++]);
    }
    f = find_function(s, shared, words[2]); /* reading others may have moved it */
    if (v8_function_read(&r, shared, NULL, &again) < 0 || again.content != words[2]) {
        out = 0; /* what was read is of another function */
        places[n - 1].position = -1;
    }
    if (!f)
        return -EBADMSG;
    put_frame(s, &r, f, places[n - 1].position, a, &ret[out++]);
    return (int) out;
}

/* --- walks --- */
/* Whether the code at an address runs in frames of the interpreter; *ret_builtin: it is V8's own. */
static bool runs_bytecode(const struct process *p, const struct v8 *v8, uint64_t pc, bool *ret_builtin)
{
    const struct process_mapping *m = process_mapping_at(p, pc);
    uint64_t elf = m ? pc - m->bias : 0;

    *ret_builtin = m && m->object;
    return *ret_builtin && (elf - v8->entry.lo < v8->entry.hi - v8->entry.lo ||
                            elf - v8->handlers.lo < v8->handlers.hi - v8->handlers.lo);
}

/* As v8js_frame() in BPF, with a stack that was copied before the objects are read: a function that cannot have this frame has no
 * content, so that it is not named. */
static bool frame(struct process *p, const struct proc_memory *stack, uint64_t word, uint64_t fp,
                  uint64_t words[AGENT_LANG_WORDS])
{
    struct v8js_process *s = p->lang_state;
    uint64_t v[V8_FRAME_BYTES / 8], shared, pc = AGENT_WORD_VALUE(word);
    struct v8_function f;
    struct v8_reader r;
    bool builtin;

    if (!s || proc_memory_read(stack, fp - V8_FRAME_BYTES, v, sizeof v) < 0)
        return false;
    words[0] = (uint64_t) (AGENT_WORD_LANG + LANG_v8js) << 56;
    words[1] = pc;
    words[2] = 0;
    if (v[4] && (v[4] == (uint64_t) frame_type(s->v8.v[V8_FRAME_WASM]) * 2 ||
                 v[4] == (uint64_t) frame_type(s->v8.v[V8_FRAME_REGEXP]) * 2)) {
        words[0] |= v[4] >> 1 << V8_KIND_SHIFT | V8_KIND_OTHER;
        return true;
    }
    r = reader_of(s);
    shared = v8_is_object(v[4]) && v8_is_object(v[3]) ? v8_shared_of(&r, v[3]) : 0;
    if (!shared || v8_function_read(&r, shared, NULL, &f) < 0)
        return false;
    if (runs_bytecode(p, &s->v8, pc, &builtin) && v8_is_object(v[1]) && !(uint32_t) v[0]) {
        words[0] |= V8_KIND_BYTECODE;
        words[1] = v[0] >> 32;
    } else if (AGENT_WORD_KIND(word) == AGENT_WORD_EXACT) {
        words[0] |= V8_KIND_LEAF;
    }
    words[0] |= AGENT_WORD_VALUE(shared - 1);
    if (v8_is_frame_of(&r, shared, pc, v[1]))
        words[2] = f.content;
    return true;
}

/* Whether the native word stays beside the function: a builtin that runs in the function's frame. */
static bool is_builtin(const struct process *p, const struct v8js_process *s, uint64_t word)
{
    bool builtin;

    return !runs_bytecode(p, &s->v8, AGENT_WORD_VALUE(word), &builtin) && builtin;
}

/* Each function's frame takes the place of its native word. */
static uint32_t merge(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole)
{
    static uint64_t native[AGENT_WORDS + AGENT_USER_FRAMES], js[LANG_WORDS_MAX]; /* one thread */
    const struct v8js_process *s = p->lang_state;
    uint32_t left = n - n_native, at = 0, out = n_kernel;

    memcpy(native, words, n_native * sizeof *native);
    memcpy(js, words + n_native, left * sizeof *js);
    for (uint32_t i = n_kernel; i < n_native; i++) {
        bool found = left - at >= AGENT_LANG_WORDS && js[at + 1] >> V8_PLACE_SHIFT == i;

        if (!found || is_builtin(p, s, native[i]))
            words[out++] = native[i];
        if (!found)
            continue;
        js[at + 1] &= V8_ADDRESS;
        memcpy(words + out, js + at, AGENT_LANG_WORDS * sizeof *words);
        out += AGENT_LANG_WORDS;
        at += AGENT_LANG_WORDS;
    }
    return out;
}

/* --- files --- */
static int read_file(const struct elf_file *f, const char *path, const struct lang_question *q, void *ret)
{
    return v8_image_find(f, ret);
}

static bool is_answer_valid(const struct lang_question *q, const void *answer)
{
    const struct v8_image *image = answer;

    return image->entry.lo <= image->entry.hi && image->handlers.lo <= image->handlers.hi;
}

const struct lang lang_v8js = {
    .name = "v8js",
    .in_bpf = "JavaScript frames",
    .has_jit = true,
    .attach = attach,
    .detach = detach,
    .merge = merge,
    .take_memory = take_memory,
    .resolve = resolve,
    .frame = frame,
    .read_file = read_file,
    .is_answer_valid = is_answer_valid,
};
