/* SPDX-License-Identifier: Apache-2.0 */
/* Names addresses (file_names.h): Go's table first, then the symbol tables for the rest, which in a Go binary is its C
 * code. Symbols are visited once, for all addresses together. */
#include "agent/reader/file_names.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "demangle/demangle.h"
#include "elf/elf_symbols.h"
#include "elf/pclntab.h"

enum { NAMES_BYTES = 256 << 20 };

struct wanted {
    uint64_t address, start, size; /* start, size: of the best symbol so far */
    struct str name;               /* of that symbol; empty: none */
    uint32_t index;                /* of the address in the request */
};

struct name_work {
    struct symbol_answer *answer;
    struct wanted *v;
    size_t n;
    struct symbol_frame **go; /* by index: frames from Go's table, or NULL */
    uint32_t *n_go;
    struct map by_name; /* index in v of the first with the name: its demangled name is shared */
    struct str *simple; /* by index in v: demangled */
};

/* --- Go --- */
static int name_go(struct name_work *w, const struct elf_file *f, const uint64_t *addresses, uint32_t n)
{
    struct pclntab t;

    if (pclntab_open(f, &t, NULL) < 0)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        _uninit_ struct pclntab_frame at[PCLNTAB_FRAMES_MAX];
        struct pclntab_function fn;
        unsigned count;

        if (!pclntab_find(&t, addresses[i], &fn))
            continue;
        count = pclntab_frames(&t, &fn, addresses[i], at);
        w->go[i] = arena_zalloc_array(&w->answer->arena, count, sizeof **w->go);
        if (!w->go[i])
            return -ENOMEM;
        for (unsigned k = 0; k < count; k++)
            w->go[i][k] = (struct symbol_frame){.function = at[k].name,
                                                .system_name = at[k].name,
                                                .file = at[k].file,
                                                .line = MAX(at[k].line, 0),
                                                .start_line = at[k].start_line,
                                                .inlined = k + 1 < count};
        w->n_go[i] = count;
    }
    return 0;
}

/* --- symbol tables --- */
static int by_address(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

/* The first one at or after an address. */
static size_t first_at(const struct name_work *w, uint64_t address)
{
    size_t low = 0, high = w->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (w->v[mid].address < address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool covers_one(const void *arg, uint64_t address, uint64_t size)
{
    const struct name_work *w = arg;
    size_t i;

    if (address > w->v[w->n - 1].address || (address < w->v[0].address && w->v[0].address - address >= size))
        return false;
    i = first_at(w, address);
    return i < w->n && w->v[i].address - address < size;
}

/* The innermost symbol wins; of equal ones the last, as elf_symbols.h has it. */
static int on_symbol(void *arg, const struct elf_symbol *s)
{
    struct name_work *w = arg;

    for (size_t i = first_at(w, s->address); i < w->n && w->v[i].address - s->address < s->size; i++) {
        struct wanted *x = &w->v[i];

        if (x->name.n && (x->start > s->address || (x->start == s->address && x->size > s->size)))
            continue;
        x->start = s->address;
        x->size = s->size;
        x->name = s->name;
    }
    return 0;
}

/* Copies the name of v[i], because the tables are unmapped before the answer is used, and demangles it; equal names
 * once. */
static int keep_name(struct name_work *w, size_t i)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct str name = w->v[i].name;
    uint64_t h = hash64_str(name);

    for (struct map_pos p = map_find(&w->by_name, h); p.index != MAP_NONE; p = map_next(&w->by_name, p))
        if (str_eq(w->v[p.index].name, name)) {
            w->v[i].name = w->v[p.index].name;
            w->simple[i] = w->simple[p.index];
            return 0;
        }
    w->v[i].name = w->simple[i] = arena_str(&w->answer->arena, name);
    if (demangle_function(name, DEMANGLE_SIMPLE, &text) == 0 && text.n)
        w->simple[i] = arena_str(&w->answer->arena, buf_str(&text));
    if (!w->v[i].name.p || !w->simple[i].p)
        return -ENOMEM;
    return map_insert(&w->by_name, h, (uint32_t) i);
}

static int put_frames(struct name_work *w, uint32_t n)
{
    struct symbol_answer *a = w->answer;
    uint64_t total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += w->n_go[i];
    for (size_t i = 0; i < w->n; i++)
        total += w->v[i].name.n > 0;
    a->first = arena_zalloc_array(&a->arena, (size_t) n + 1, sizeof *a->first);
    a->frames = arena_zalloc_array(&a->arena, total + 1, sizeof *a->frames);
    if (!a->first || !a->frames)
        return -ENOMEM;
    for (size_t i = 0; i < w->n; i++) /* as many frames as Go's table has, or one */
        w->n_go[w->v[i].index] = w->v[i].name.n > 0;
    for (uint32_t i = 0; i < n; i++)
        a->first[i + 1] = a->first[i] + w->n_go[i];
    for (uint32_t i = 0; i < n; i++)
        if (w->go[i])
            memcpy(a->frames + a->first[i], w->go[i], w->n_go[i] * sizeof *a->frames);
    for (size_t i = 0; i < w->n; i++) {
        int r = w->v[i].name.n ? keep_name(w, i) : 0;

        if (r < 0)
            return r;
        if (w->v[i].name.n)
            a->frames[a->first[w->v[i].index]] =
                (struct symbol_frame){.function = w->simple[i], .system_name = w->v[i].name};
    }
    a->n_addresses = n;
    a->quality = SYMBOLS_NAMES;
    return 0;
}

static int name_all(struct name_work *w, const struct elf_file *f, const uint64_t *addresses, uint32_t n)
{
    _cleanup_(elf_freep) struct elf_file *more = NULL;
    int r = name_go(w, f, addresses, n);

    for (uint32_t i = 0; i < n; i++)
        if (!w->go[i])
            w->v[w->n++] = (struct wanted){.address = addresses[i], .index = i};
    qsort(w->v, w->n, sizeof *w->v, by_address);
    if (r == 0 && w->n)
        elf_symbols_each(f, true, &(struct elf_visitor){on_symbol, covers_one, w},
                         &more); /* what was found before damage is used */
    return r < 0 ? r : put_frames(w, n);
}

int file_names(const struct elf_file *f, const uint64_t *addresses, uint32_t n, struct symbol_answer **ret)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = mem_zalloc(sizeof *a);
    struct name_work w = {.answer = a, .by_name = MAP_INIT};
    int r = -ENOMEM;

    if (!a)
        return -ENOMEM;
    arena_init(&a->arena, NAMES_BYTES);
    w.v = mem_zalloc_array(n + 1u, sizeof *w.v);
    w.simple = mem_zalloc_array(n + 1u, sizeof *w.simple);
    w.go = mem_zalloc_array(n + 1u, sizeof(struct symbol_frame *));
    w.n_go = mem_zalloc_array(n + 1u, sizeof *w.n_go);
    if (w.v && w.simple && w.go && w.n_go)
        r = name_all(&w, f, addresses, n);
    map_done(&w.by_name);
    mem_free(w.v);
    mem_free(w.simple);
    mem_free(w.go);
    mem_free(w.n_go);
    if (r < 0)
        return r;
    *ret = TAKE(a);
    return 0;
}
