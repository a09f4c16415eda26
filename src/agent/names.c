/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/object_guard.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "elf/demangle.h"
#include "elf/elf_symbols.h"
#include "elf/pclntab.h"

enum { NAMES_MAX = 1 << 16, NAMES_BYTES = 8 << 20 }; /* of one object */

struct object_names {
    struct object_name *v;
    size_t n, cap, n_resolved;
    struct map by_address, by_name; /* by_name: one that has an equal system name */
    struct arena arena;
};

void object_names_free(struct object_names *n)
{
    if (!n)
        return;
    map_done(&n->by_address);
    map_done(&n->by_name);
    arena_done(&n->arena);
    mem_free(n->v);
    mem_free(n);
}

const struct object_name *object_names_find(const struct object *o, uint64_t address)
{
    const struct object_names *n = o->names;

    if (!n)
        return NULL;
    for (struct map_pos p = map_find(&n->by_address, hash64_u64(address)); p.index != MAP_NONE;
         p = map_next(&n->by_address, p))
        if (n->v[p.index].address == address)
            return &n->v[p.index];
    return NULL;
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
    if (o->names && o->names->n == NAMES_MAX) { /* begin again: what is still needed will be asked for */
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
    if (mem_grow((void **) &n->v, &n->cap, n->n + 1, sizeof *n->v, NAMES_MAX) < 0 ||
        map_insert(&n->by_address, hash64_u64(address), (uint32_t) n->n) < 0)
        return -ENOMEM;
    n->v[n->n++] = (struct object_name){.address = address};
    return 0;
}

/* The strings of a name, shared between addresses of one function. */
static void set_name(struct object_names *n, struct object_name *to, struct str system_name)
{
    uint64_t h = hash64_str(system_name);
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    for (struct map_pos p = map_find(&n->by_name, h); p.index != MAP_NONE; p = map_next(&n->by_name, p))
        if (str_eq(n->v[p.index].system_name, system_name)) {
            to->system_name = n->v[p.index].system_name;
            to->name = n->v[p.index].name;
            return;
        }
    to->system_name = arena_str(&n->arena, system_name);
    to->name = to->system_name;
    if (demangle_function(system_name, DEMANGLE_SIMPLE, &text) == 0 && text.n && !str_eq(buf_str(&text), system_name))
        to->name = arena_str(&n->arena, buf_str(&text));
    if (to->system_name.n)
        map_insert(&n->by_name, h, (uint32_t) (to - n->v));
}

/* --- Go --- */
static int name_go(struct object_names *n, const struct elf_file *f)
{
    struct pclntab t;
    int r = pclntab_open(f, &t, NULL);

    if (r < 0)
        return r;
    for (size_t i = n->n_resolved; i < n->n; i++) {
        struct object_name *x = &n->v[i];
        struct pclntab_function fn;
        struct str file = {0};
        int32_t line = 0;

        if (!pclntab_find(&t, x->address, &fn))
            continue;
        set_name(n, x, fn.name);
        pclntab_line(&t, &fn, x->address, &file, &line);
        x->file = arena_str(&n->arena, file);
        x->line = MAX(line, 0);
        x->start_line = pclntab_start_line(&t, &fn);
    }
    return 0;
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

/* The first one at or behind an address. */
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
        if (!n->v[i].system_name.n)
            q.v[q.n++] = (struct wanted){.address = n->v[i].address, .index = (uint32_t) i};
    qsort(q.v, q.n, sizeof *q.v, by_address);
    r = elf_symbols_each(f, true, on_symbol, &q, &more);
    for (size_t i = 0; i < q.n; i++)
        if (q.v[i].name.n)
            set_name(n, &n->v[q.v[i].index], q.v[i].name);
    mem_free(q.v);
    return r;
}

static int resolve(void *arg)
{
    struct object *o = arg;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    int r = object_open_elf(o, &f, NULL);

    if (r < 0)
        return r;
    if (o->is_go)
        name_go(o->names, f);
    return name_symbols(o->names, f); /* what is left: of Go, its C code */
}

void object_names_resolve(struct object *o)
{
    if (!object_names_pending(o))
        return;
    object_guard(resolve, o);
    o->names->n_resolved = o->names->n;
}
