/* SPDX-License-Identifier: Apache-2.0 */
/* Collects addresses of an object, and keeps the names that the process that reads binaries returns for them. */
#include "agent/names.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/debug_file.h"
#include "agent/reader/file_reader.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sealed.h"
#include "model/symbol_wire.h"
#include "proc/far_call.h"

enum {
    NAMES_MAX = 1 << 16, /* of one object */
    NAMES_BYTES = 8 << 20,
    MAP_BYTES = 16, /* of an entry in a map, about */
    FRAMES_MAX = 64 /* of one address */
};

struct object_names {
    struct object_name *v;
    size_t n, cap, n_resolved, n_lined;  /* n_lined: for the addresses up to here lines were requested */
    struct str *texts;                   /* each once */
    const struct object_frame **symbols; /* from tables without lines: one for all addresses of a function */
    size_t n_texts, cap_texts, n_symbols, cap_symbols;
    struct map by_address, by_text, by_symbol;
    struct arena arena;
};

void object_names_free(struct object_names *n)
{
    if (!n)
        return;
    map_done(&n->by_address);
    map_done(&n->by_text);
    map_done(&n->by_symbol);
    arena_done(&n->arena);
    mem_free(n->v);
    mem_free(n->texts);
    mem_free(n->symbols);
    mem_free(n);
}

size_t object_names_memory(const struct object *o)
{
    const struct object_names *n = o->names;

    return n ? sizeof *n + n->arena.used + n->cap * sizeof *n->v + n->cap_texts * sizeof *n->texts +
                   n->cap_symbols * sizeof *n->symbols + (n->n + n->n_texts + n->n_symbols) * MAP_BYTES
             : 0;
}

static struct object_name *find(const struct object_names *n, uint64_t address)
{
    for (struct map_pos p = map_find(&n->by_address, hash64_u64(address)); p.index != MAP_NONE;
         p = map_next(&n->by_address, p))
        if (n->v[p.index].address == address)
            return &n->v[p.index];
    return NULL;
}

const struct object_name *object_names_find(const struct object *o, uint64_t address)
{
    return o->names ? find(o->names, address) : NULL;
}

size_t object_names_missing(const struct object *o, size_t *ret_all)
{
    size_t n = 0;

    *ret_all = o->names ? o->names->n : 0;
    for (size_t i = 0; i < *ret_all; i++)
        n += !o->names->v[i].n_frames;
    return n;
}

bool object_names_pending(const struct object *o)
{
    return o->names && o->names->n_resolved < o->names->n;
}

int object_names_want(struct object *o, uint64_t address)
{
    struct object_names *n;

    if (object_names_find(o, address))
        return 0;
    if (o->names && o->names->n == NAMES_MAX) { /* start over: names that are still needed will be requested again */
        object_names_free(o->names);
        o->names = NULL;
    }
    if (!o->names) {
        o->names = mem_zalloc(sizeof *o->names);
        if (!o->names)
            return -ENOMEM;
        arena_init(&o->names->arena, NAMES_BYTES);
    }
    n = o->names;
    if (array_reserve(n->v, n->cap, n->n + 1, NAMES_MAX) < 0 ||
        map_insert(&n->by_address, hash64_u64(address), (uint32_t) n->n) < 0)
        return -ENOMEM;
    n->v[n->n++] = (struct object_name){.address = address};
    return 0;
}

/* --- what is kept --- */
static struct str keep(struct object_names *n, struct str s)
{
    uint64_t h = hash64_str(s);
    struct str copy;

    if (!s.n)
        return (struct str){0};
    for (struct map_pos p = map_find(&n->by_text, h); p.index != MAP_NONE; p = map_next(&n->by_text, p))
        if (str_eq(n->texts[p.index], s))
            return n->texts[p.index];
    copy = arena_str(&n->arena, s);
    if (!copy.p || array_reserve(n->texts, n->cap_texts, n->n_texts + 1, NAMES_MAX * 4) < 0)
        return copy;
    n->texts[n->n_texts] = copy;
    if (map_insert(&n->by_text, h, (uint32_t) n->n_texts) == 0)
        n->n_texts++;
    return copy;
}

static int keep_frames(struct object_names *n, struct object_name *to, const struct object_frame *frames,
                       uint32_t count)
{
    struct object_frame *copy = arena_zalloc_array(&n->arena, count, sizeof *copy);

    if (!copy)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        copy[i] = (struct object_frame){keep(n, frames[i].name), keep(n, frames[i].system_name),
                                        keep(n, frames[i].file), frames[i].line, frames[i].start_line};
    to->frames = copy;
    to->n_frames = count;
    return 0;
}

/* The name of a symbol, shared between addresses of one function. */
static void set_symbol(struct object_names *n, struct object_name *to, const struct object_frame *frame)
{
    uint64_t h = hash64_str(frame->system_name);

    for (struct map_pos p = map_find(&n->by_symbol, h); p.index != MAP_NONE; p = map_next(&n->by_symbol, p))
        if (str_eq(n->symbols[p.index]->system_name, frame->system_name)) {
            to->frames = n->symbols[p.index];
            to->n_frames = 1;
            return;
        }
    if (keep_frames(n, to, frame, 1) < 0 || array_reserve(n->symbols, n->cap_symbols, n->n_symbols + 1, NAMES_MAX) < 0)
        return;
    n->symbols[n->n_symbols] = to->frames;
    if (map_insert(&n->by_symbol, h, (uint32_t) n->n_symbols) == 0)
        n->n_symbols++;
}

int object_names_set(struct object *o, uint64_t address, const struct object_frame *frames, uint32_t n)
{
    struct object_name *to = o->names ? find(o->names, address) : NULL;

    return to && n ? keep_frames(o->names, to, frames, n) : 0;
}

bool object_names_has_unlined(const struct object *o)
{
    return o->names && o->names->n_lined < o->names->n_resolved;
}

uint32_t object_names_unlined(struct object *o, uint64_t *ret, uint32_t max)
{
    uint32_t count = 0;

    while (object_names_has_unlined(o) && count < max)
        ret[count++] = o->names->v[o->names->n_lined++].address;
    return count;
}

/* --- names --- */
static void take(struct object_names *n, size_t first, const struct symbol_answer *a)
{
    _uninit_ struct object_frame frames[FRAMES_MAX];

    for (uint32_t i = 0; i < a->n_addresses; i++) {
        const struct symbol_frame *f = a->frames + a->first[i];
        uint32_t count = MIN(a->first[i + 1] - a->first[i], (uint32_t) FRAMES_MAX);

        for (uint32_t k = 0; k < count; k++)
            frames[k] = (struct object_frame){f[k].function, f[k].system_name, f[k].file, (int32_t) f[k].line,
                                              (int32_t) f[k].start_line};
        if (count == 1 && !frames[0].file.n)
            set_symbol(n, &n->v[first + i], &frames[0]);
        else if (count)
            keep_frames(n, &n->v[first + i], frames, count);
    }
}

static int decode(struct object *o, int fd, uint32_t n, struct symbol_answer **ret)
{
    void *p = NULL;
    size_t size = 0;
    int r = sealed_map(fd, FILE_NAMES_MAX, &p, &size);

    if (r == 0)
        r = symbol_wire_get_answer((struct str){p, (uint32_t) size}, n, ret, NULL);
    if (p)
        munmap(p, size);
    if (r == -EBADMSG)
        file_reader_distrust(o->reader);
    return r;
}

/* Names up to FILE_ADDRESSES_MAX of the addresses that wait. */
static int resolve_some(struct object *o)
{
    struct object_names *n = o->names;
    size_t first = n->n_resolved;
    uint32_t count = (uint32_t) MIN(n->n - first, (size_t) FILE_ADDRESSES_MAX);
    _cleanup_(symbol_answer_freep) struct symbol_answer *answer = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = mem_zalloc_array(count, sizeof *addresses);
    _cleanup_(fd_closep) int fd = -1;
    struct file_request q = {.op = FILE_NAMES, .n_addresses = count, .addresses = addresses};
    struct file_answer a;
    int r;

    if (!addresses)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        addresses[i] = n->v[first + i].address;
    r = object_ask(o, &q, -1, &a, &fd);
    if (r == -EBUSY)
        return r;
    n->n_resolved += count; /* names that cannot be found are not asked for again */
    if (r == 0)
        r = decode(o, fd, count, &answer);
    if (r == 0)
        take(n, first, answer);
    return 0;
}

/* Go's own table has the same lines as its debug information, and C code in Go binaries is rare. */
static bool has_lines(const struct object *o, uint64_t *ret_bytes)
{
    _cleanup_(fd_closep) int fd = -1;
    struct debug_file debug;
    struct stat st;

    *ret_bytes = (uint64_t) o->file.size;
    if (o->is_go || o->kind != OBJECT_FILE)
        return false;
    if (o->has_own_lines)
        return true;
    fd = debug_file_open(o, &debug);
    if (fd < 0 || !debug.has_lines)
        return false;
    if (fd_stat(fd, &st) == 0)
        *ret_bytes = (uint64_t) st.st_size;
    return true;
}

void object_names_resolve(struct object *o)
{
    FAR_FOR(FAR_FILE | o->number);

    if (!object_names_pending(o))
        return;
    if (!o->names->n_resolved)
        o->has_lines = has_lines(o, &o->lines_bytes);
    while (object_names_pending(o) && resolve_some(o) == 0)
        ;
}
