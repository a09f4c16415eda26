/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HotSpot's user side: finds the Java virtual machine in a process, and resolves the frames that hotspot.bpf.h sends. Names are read
 * later than the samples: a frame has them only if what tells its method or its code from others at the address (hotspot_abi.h) is the
 * sample's before and after they were read. What was resolved once is kept: the same words are the same frame for ever.
 */
#include <errno.h>
#include <string.h>

#include "agent/lang/hotspot/hotspot.h"
#include "agent/lang/lang.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/java_name.h"

enum {
    KNOWN_MAX = 65536,     /* frames per process; when full, all are dropped */
    MEMORY_MAX = 16 << 20, /* likewise */
    IMAGES = 32,           /* cached files */
};

struct known_frame {
    uint64_t words[AGENT_LANG_WORDS];
    struct lang_frame *v;
    uint32_t n;
};

struct hotspot_process {
    struct hotspot h;
    struct proc_memory memory;
    struct known_frame *known;
    size_t n, cap;
    struct map by_words;
    struct arena arena;
};

/* Searching a file is expensive: the result is cached by the object's number. The agent's thread only. */
static struct {
    uint32_t number;
    bool is_jvm;
    struct hotspot_image image;
} images[IMAGES];
static unsigned next_image;

static bool probe(struct object *o, struct hotspot_image *ret)
{
    struct lang_question q = {0};
    int r;

    for (unsigned i = 0; i < IMAGES; i++)
        if (images[i].number == o->number) {
            *ret = images[i].image;
            return images[i].is_jvm;
        }
    *ret = (struct hotspot_image){0};
    r = lang_ask(o, LANG_hotspot, &q, ret, sizeof *ret);
    if (r == -EBUSY)
        return false;
    images[next_image % IMAGES].number = o->number;
    images[next_image % IMAGES].is_jvm = r == 1;
    images[next_image++ % IMAGES].image = *ret;
    return r == 1;
}

static bool is_candidate(const struct process_mapping *m)
{
    const char *slash = m->path ? strrchr(m->path, '/') : NULL;

    return m->object && slash && strcmp(slash, "/libjvm.so") == 0;
}

static int attach_to(struct process *p, const struct hotspot_image *image, uint64_t bias, struct err *e)
{
    struct hotspot_process *s = mem_zalloc(sizeof *s);
    int r;

    if (!s)
        return -ENOMEM;
    s->memory = proc_memory_of((int) p->pid);
    r = hotspot_read(image, bias, &s->memory, &s->h, e);
    if (r < 0) {
        mem_free(s);
        p->lang_again = r == -EAGAIN;
        return r == -EAGAIN ? 0 : r;
    }
    arena_init(&s->arena, MEMORY_MAX);
    p->lang_state = s;
    _Static_assert(sizeof s->h.at <= sizeof p->lang_record.words, "the record has no more room");
    memcpy(p->lang_record.words, &s->h.at, sizeof s->h.at);
    return 1;
}

static int attach(struct process *p, struct err *e)
{
    struct hotspot_image image;

    p->lang_again = false;
#if !defined(__x86_64__)
    return 0; /* other machines have other frames */
#endif
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct process_mapping *m = &p->mappings[i];

        if (is_candidate(m) && probe(m->object, &image))
            return attach_to(p, &image, m->bias, e);
    }
    return 0;
}

static void forget(struct hotspot_process *s)
{
    map_reset(&s->by_words);
    arena_done(&s->arena);
    s->n = 0;
}

static void detach(struct process *p)
{
    struct hotspot_process *s = p->lang_state;

    if (!s)
        return;
    forget(s);
    map_done(&s->by_words);
    mem_free(s->known);
    mem_free(s);
    p->lang_state = NULL;
}

/* --- frames that are known --- */
static uint64_t words_hash(const uint64_t words[AGENT_LANG_WORDS])
{
    return hash64(words, AGENT_LANG_WORDS * sizeof *words);
}

static const struct known_frame *find_known(const struct hotspot_process *s, const uint64_t words[AGENT_LANG_WORDS])
{
    uint64_t h = words_hash(words);

    for (struct map_pos i = map_find(&s->by_words, h); i.index != MAP_NONE; i = map_next(&s->by_words, i))
        if (memcmp(s->known[i.index].words, words, AGENT_LANG_WORDS * sizeof *words) == 0)
            return &s->known[i.index];
    return NULL;
}

static void keep(struct hotspot_process *s, const uint64_t words[AGENT_LANG_WORDS], const struct lang_frame *v,
                 uint32_t n)
{
    struct known_frame k = {.n = n};

    if (s->n == KNOWN_MAX || s->arena.used > MEMORY_MAX / 2)
        forget(s);
    memcpy(k.words, words, sizeof k.words);
    k.v = arena_dup(&s->arena, v, n * sizeof *v);
    if (!k.v || array_reserve(s->known, s->cap, s->n + 1, KNOWN_MAX) < 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        k.v[i].function = arena_str(&s->arena, v[i].function);
        k.v[i].file = v[i].file.n ? arena_str(&s->arena, v[i].file) : (struct str){0};
    }
    s->known[s->n] = k;
    if (map_insert(&s->by_words, words_hash(words), (uint32_t) s->n) == 0)
        s->n++;
}

/* --- names --- */
static bool put_method(const struct hotspot_reader *r, const struct hotspot_scope *at, struct arena *a,
                       struct lang_frame *ret)
{
    struct hotspot_method method;
    struct str class;

    if (hotspot_method_read(r, at->method, at->bci, a, &method) < 0)
        return false;
    class = java_class_name(method.class, a);
    *ret = (struct lang_frame){.function = str_from(arena_printf(a, "%.*s.%.*s", STR_FMT(class), STR_FMT(method.name))),
                               .file = method.file,
                               .line = method.line,
                               .start_line = method.start_line,
                               .type = "jvm"};
    return ret->function.n > 0;
}

static int resolve_code(const struct hotspot_reader *r, const uint64_t words[AGENT_LANG_WORDS], struct arena *a,
                        struct lang_frame *ret, uint32_t max)
{
    uint64_t blob = AGENT_WORD_VALUE(words[0]) & ~(uint64_t) HOTSPOT_KINDS, method;
    struct hotspot_scope scopes[HOTSPOT_INLINED_MAX];
    uint32_t n, out = 0;

    if (hotspot_code(r, blob, &method) != words[2])
        return -EBADMSG;
    n = hotspot_scopes(r, blob, words[1], (words[0] & HOTSPOT_KINDS) == HOTSPOT_LEAF, scopes);
    for (uint32_t i = n > max ? n - max : 0; i < n; i++)
        if (put_method(r, &scopes[i], a, &ret[out]))
            out++;
        else if (i == n - 1)
            return -EBADMSG;
    if (hotspot_code(r, blob, &method) != words[2])
        return -EBADMSG;
    return (int) out;
}

static int resolve_interpreted(const struct hotspot_reader *r, const uint64_t words[AGENT_LANG_WORDS], struct arena *a,
                               struct lang_frame *ret)
{
    struct hotspot_scope at = {AGENT_WORD_VALUE(words[0]) & ~(uint64_t) HOTSPOT_KINDS, -1};

    if (words[1] < HOTSPOT_NO_BCI)
        at.bci = (int32_t) words[1];
    if (!words[2] || hotspot_content(r, at.method) != words[2] || !put_method(r, &at, a, ret) ||
        hotspot_content(r, at.method) != words[2])
        return -EBADMSG;
    return 1;
}

static int resolve(struct process *p, const uint64_t words[AGENT_LANG_WORDS], struct arena *a, struct lang_frame *ret,
                   uint32_t max)
{
    struct hotspot_process *s = p->lang_state;
    const struct known_frame *known = s ? find_known(s, words) : NULL;
    struct hotspot_reader r;
    int n;

    if (!s)
        return -EBADMSG;
    if (known) {
        memcpy(ret, known->v, MIN(known->n, max) * sizeof *ret);
        return (int) MIN(known->n, max);
    }
    r = (struct hotspot_reader){&s->h, &s->memory};
    if ((words[0] & HOTSPOT_KINDS) == HOTSPOT_STUB) {
        *ret = (struct lang_frame){.type = "jvm"};
        n = hotspot_stub_read(&r, AGENT_WORD_VALUE(words[0]) & ~(uint64_t) HOTSPOT_KINDS, words[1], words[2], a,
                              &ret->function);
        n = n < 0 ? n : 1;
    } else if ((words[0] & HOTSPOT_KINDS) == HOTSPOT_INTERPRETED) {
        n = resolve_interpreted(&r, words, a, ret);
    } else {
        n = resolve_code(&r, words, a, ret, max);
    }
    if (n > 0)
        keep(s, words, ret, (uint32_t) n);
    return n;
}

/* Each frame takes the place of its native word. */
static uint32_t merge(struct process *p, uint64_t *words, uint32_t n_kernel, uint32_t n_native, uint32_t n, bool whole)
{
    static uint64_t native[AGENT_WORDS + AGENT_USER_FRAMES], java[LANG_WORDS_MAX]; /* one thread */
    uint32_t left = n - n_native, at = 0, out = n_kernel;

    memcpy(native, words, n_native * sizeof *native);
    memcpy(java, words + n_native, left * sizeof *java);
    for (uint32_t i = n_kernel; i < n_native; i++) {
        if (left - at < AGENT_LANG_WORDS || java[at + 1] >> HOTSPOT_PLACE_SHIFT != i) {
            words[out++] = native[i];
            continue;
        }
        java[at + 1] &= HOTSPOT_ADDRESS;
        memcpy(words + out, java + at, AGENT_LANG_WORDS * sizeof *words);
        out += AGENT_LANG_WORDS;
        at += AGENT_LANG_WORDS;
    }
    return out;
}

/* --- files --- */
static int read_file(const struct elf_file *f, const char *path, const struct lang_question *q, void *ret)
{
    return hotspot_image_find(f, ret);
}

static bool is_answer_valid(const struct lang_question *q, const void *answer)
{
    return true; /* addresses, at which anything may be */
}

static struct str version(struct process *p, struct arena *a)
{
    const struct hotspot_process *s = p->lang_state;

    return str_from(arena_printf(a, "HotSpot %s", s->h.release));
}

_Static_assert(sizeof(struct hotspot_image) <= LANG_ANSWER_BYTES, "the answer has room for what is found in a file");

const struct lang lang_hotspot = {
    .name = "jvm",
    .in_bpf = "Java frames",
    .has_jit = true,
    .attach = attach,
    .detach = detach,
    .merge = merge,
    .resolve = resolve,
    .read_file = read_file,
    .is_answer_valid = is_answer_valid,
    .version = version,
};
