/* SPDX-License-Identifier: Apache-2.0 */
/* Collects addresses of an object and names them in one pass over its symbol tables or Go's own table. */
#include "agent/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/debug_file.h"
#include "agent/object_guard.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "demangle/demangle.h"
#include "elf/elf_symbols.h"
#include "elf/pclntab.h"

enum {
    NAMES_MAX = 1 << 16, /* of one object */
    NAMES_BYTES = 8 << 20,
    MAP_BYTES = 16, /* of an entry in a map, about */
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
static void set_symbol(struct object_names *n, struct object_name *to, struct str system_name)
{
    uint64_t h = hash64_str(system_name);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct object_frame frame = {.name = system_name, .system_name = system_name};

    for (struct map_pos p = map_find(&n->by_symbol, h); p.index != MAP_NONE; p = map_next(&n->by_symbol, p))
        if (str_eq(n->symbols[p.index]->system_name, system_name)) {
            to->frames = n->symbols[p.index];
            to->n_frames = 1;
            return;
        }
    if (demangle_function(system_name, DEMANGLE_SIMPLE, &text) == 0 && text.n)
        frame.name = buf_str(&text);
    if (keep_frames(n, to, &frame, 1) < 0 || array_reserve(n->symbols, n->cap_symbols, n->n_symbols + 1, NAMES_MAX) < 0)
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

/* --- Go --- */
static int name_go(struct object_names *n, const struct elf_file *f)
{
    struct pclntab t;
    int r = pclntab_open(f, &t, NULL);

    for (size_t i = n->n_resolved; i < n->n && r == 0; i++) {
        _uninit_ struct pclntab_frame at[PCLNTAB_FRAMES_MAX];
        _uninit_ struct object_frame frames[PCLNTAB_FRAMES_MAX];
        struct pclntab_function fn;
        unsigned count;

        if (!pclntab_find(&t, n->v[i].address, &fn))
            continue;
        count = pclntab_frames(&t, &fn, n->v[i].address, at);
        for (unsigned k = 0; k < count; k++)
            frames[k] = (struct object_frame){at[k].name, at[k].name, at[k].file, MAX(at[k].line, 0), at[k].start_line};
        r = keep_frames(n, &n->v[i], frames, count);
    }
    return r;
}

/* --- symbol tables --- */
struct wanted {
    uint64_t address, start; /* start, size: of the best symbol so far */
    uint64_t size;
    struct str name;
    uint32_t index; /* in names */
};

struct search {
    struct wanted *v;
    size_t n;
};

static int by_address(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

/* The first one at or after an address. */
static size_t first_at(const struct search *s, uint64_t address)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (s->v[mid].address < address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The innermost symbol wins; of equal ones the last, as elf_symbols.h has it. */
static int on_symbol(void *arg, const struct elf_symbol *s)
{
    struct search *q = arg;

    for (size_t i = first_at(q, s->address); i < q->n && q->v[i].address - s->address < s->size; i++) {
        struct wanted *w = &q->v[i];

        if (w->name.n && (w->start > s->address || (w->start == s->address && w->size > s->size)))
            continue;
        w->start = s->address;
        w->size = s->size;
        w->name = s->name;
    }
    return 0;
}

static int name_symbols(struct object_names *n, const struct elf_file *f)
{
    struct search q = {0};
    _cleanup_(elf_freep) struct elf_file *more = NULL;
    int r;

    q.v = mem_zalloc_array(n->n - n->n_resolved, sizeof *q.v);
    if (!q.v)
        return -ENOMEM;
    for (size_t i = n->n_resolved; i < n->n; i++)
        if (!n->v[i].n_frames)
            q.v[q.n++] = (struct wanted){.address = n->v[i].address, .index = (uint32_t) i};
    qsort(q.v, q.n, sizeof *q.v, by_address);
    r = elf_symbols_each(f, true, on_symbol, &q, &more);
    for (size_t i = 0; i < q.n; i++)
        if (q.v[i].name.n)
            set_symbol(n, &n->v[q.v[i].index], q.v[i].name);
    mem_free(q.v);
    return r;
}

/* Go's own table has the same lines as its debug information, and C code in Go binaries is rare. */
static bool has_lines(const struct object *o, const struct elf_file *f)
{
    _cleanup_(elf_freep) struct elf_file *debug = NULL;
    char path[PATH_MAX];

    if (o->is_go || o->kind != OBJECT_FILE)
        return false;
    if (debug_file_has_lines(f))
        return true;
    debug = debug_file_open(o, f, path);
    return debug && debug_file_has_lines(debug);
}

static int resolve(void *arg)
{
    struct object *o = arg;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    int r = object_open_elf(o, &f, NULL);

    if (r < 0)
        return r;
    if (!o->names->n_resolved)
        o->has_lines = has_lines(o, f);
    if (o->is_go)
        name_go(o->names, f);
    return name_symbols(o->names, f); /* the rest: in a Go binary, its C code */
}

void object_names_resolve(struct object *o)
{
    if (!object_names_pending(o))
        return;
    object_guard(resolve, o);
    o->names->n_resolved = o->names->n;
}
