/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the binaries of a profile and reads their symbols, lines and instructions (pprof_objects.h). There are two
 * kinds of binaries: Go's, if the `go` command is installed, are shown as `go tool pprof` does (Go syntax, lines of
 * Go's own table); all others as google/pprof does, with binutils or LLVM and inlined calls.
 */
#include "pprof/pprof_objects.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "elf/elf_base.h"
#include "elf/elf_id.h"
#include "elf/elf_symbols.h"
#include "elf/pclntab.h"
#include "pprof/pprof_tools.h"
#include "symbol/dwarf_symbolizer.h"

enum { OBJECTS_MAX = 65536 };

struct report_object {
    struct pprof_objects *all;
    struct report_object *next;
    char *path;
    struct elf_file *elf;
    struct elf_mapping mapping;
    char build_id[ELF_ID_MAX];
    bool has_base;
    int base_error; /* sticky, as in pprof */
    uint64_t base;
    struct pclntab go;
    struct pprof_nm nm;
    bool is_go, nm_tried;
};

struct pprof_objects {
    struct report_objects table;
    struct report_object *first;
    size_t n;
    struct symbolizer *symbolizer;
    struct pprof_tools tools;
    struct arena arena;
};

static void object_free(struct report_object *x)
{
    if (!x)
        return;
    elf_free(x->elf);
    mem_free(x->nm.v);
    mem_free(x->path);
    mem_free(x);
}
DEFINE_CLEANUP(struct report_object *, object_free)

static bool is_page(uint64_t v)
{
    return v % 4096 == 0;
}

/* Kernels are mapped by the address of a symbol, which is looked up in files that may be a kernel. */
static int find_kernel_symbol(struct report_object *x)
{
    struct elf_mapping *m = &x->mapping;
    struct elf_symbols s;
    const struct elf_symbol *found;
    int r;

    if (!strstr(x->path, "vmlinux") && is_page(m->start) && is_page(m->limit) && is_page(m->offset))
        return 0;
    r = elf_symbols_load(x->elf, false, &s);
    if (r < 0)
        return r;
    found = elf_symbols_named(&s, STR("_stext"));
    if (found) {
        m->has_kernel_symbol = true;
        m->kernel_symbol = found->address;
    }
    elf_symbols_done(&s);
    return 0;
}

static int object_open(struct pprof_objects *o, const struct report_mapping *m, struct report_object **ret,
                       struct err *e)
{
    _cleanup_(object_freep) struct report_object *x = mem_zalloc(sizeof(*x));
    struct stat st;
    int r;

    if (!x)
        return -ENOMEM;
    x->path = mem_zalloc((size_t) m->file.n + 1);
    if (!x->path)
        return -ENOMEM;
    if (m->file.n)
        memcpy(x->path, m->file.p, m->file.n);
    x->all = o;
    x->mapping = (struct elf_mapping){m->start, m->limit, m->offset};
    if (stat(x->path, &st) < 0)
        return err_set(e, -errno, "stat %s: %s", x->path,
                       errno == ENOENT ? "no such file or directory" : strerror(errno));
    r = elf_open(x->path, &x->elf, NULL);
    if (r < 0)
        return err_set(e, r, "unrecognized binary format: %s", x->path);
    r = find_kernel_symbol(x);
    if (r >= 0) {
        r = elf_base_check(x->elf, &x->mapping, e);
        if (r < 0)
            return err_prefix(e, r, "error reading ELF file %s: could not identify base for %s: ", x->path, x->path);
    }
    if (r < 0)
        return r;
    elf_gnu_build_id(x->elf, x->build_id);
    x->is_go = o->tools.go.n && pclntab_open(x->elf, &x->go, NULL) == 0;
    *ret = TAKE(x);
    return 0;
}

static int open_mapping(struct report_objects *table, const struct report_mapping *m, struct report_object **ret,
                        struct err *e)
{
    struct pprof_objects *o = container_of(table, struct pprof_objects, table);
    int r;

    for (struct report_object *x = o->first; x; x = x->next)
        if (str_is(m->file, x->path) && x->mapping.start == m->start && x->mapping.limit == m->limit &&
            x->mapping.offset == m->offset) {
            *ret = x;
            return 0;
        }
    if (o->n >= OBJECTS_MAX)
        return err_set(e, -E2BIG, "more than %d binaries", OBJECTS_MAX);
    r = object_open(o, m, ret, e);
    if (r < 0)
        return r;
    (*ret)->next = o->first;
    o->first = *ret;
    o->n++;
    return 0;
}

static int find_base(struct report_object *x, uint64_t address, struct err *e)
{
    if (!x->has_base) {
        x->base_error = elf_base_find(x->elf, &x->mapping, address, &x->base, e);
        x->has_base = true;
    }
    return x->base_error;
}

static int object_address(struct report_object *x, uint64_t address, uint64_t *ret)
{
    bool inside = address >= x->mapping.start && address < x->mapping.limit;
    int r;

    /* Ranges may extend slightly beyond the mapping; an address farther outside belongs to another mapping. */
    if (!inside && (address + 4096 < x->mapping.start || address > x->mapping.limit + 4096))
        return -ERANGE;
    r = find_base(x, inside ? address : x->mapping.start, NULL);
    if (r >= 0)
        *ret = address - x->base;
    return r;
}

/* --- symbols and instructions --- */

/* Go: every symbol with its size. Returns 1 if it matches the request. */
static int go_symbol(const struct elf_symbol *y, const struct regex *re, uint64_t address, struct arena *a,
                     struct report_symbol *ret)
{
    if ((re && !regex_search(re, y->name)) || (address && (address < y->address || address >= y->address + y->size)))
        return 0;
    ret->names = arena_zalloc(a, sizeof(*ret->names));
    if (!ret->names)
        return -ENOMEM;
    *ret->names = arena_str(a, y->name);
    if (!ret->names->p)
        return -ENOMEM;
    ret->n_names = 1;
    ret->start = y->address;
    ret->end = y->address + y->size - 1;
    return 1;
}

/* The symbol table that we read ourselves: for Go, or for all binaries if there is no nm; each symbol extends to the
 * next. */
static int own_symbols(struct report_object *x, const struct regex *re, uint64_t address, struct report_symbols *ret)
{
    struct arena *a = &x->all->arena;
    struct elf_symbols s;
    int r = elf_symbols_load(x->elf, false, &s);

    if (r < 0)
        return r;
    *ret = (struct report_symbols){arena_zalloc_array(a, (size_t) s.n + 1, sizeof(*ret->v)), 0};
    if (!ret->v)
        r = -ENOMEM;
    for (uint32_t i = 0; r >= 0 && i < s.n; i++) {
        const struct elf_symbol *y = &s.v[i];
        uint64_t end = (i + 1 < s.n ? y[1].address : 0) - 1;
        struct report_symbol *to = &ret->v[ret->n];
        struct str name = y->name;
        struct report_symbol one = {&name, 1, y->address, end};

        r = x->is_go ? go_symbol(y, re, address, a, to) : pprof_match_symbol(&one, re, address, a, to);
        ret->n += r > 0;
    }
    elf_symbols_done(&s);
    return r < 0 ? r : 0;
}

static int object_symbols(struct report_object *x, const struct regex *re, uint64_t address, struct report_symbols *ret)
{
    if (x->is_go || !x->all->tools.nm.n)
        return own_symbols(x, re, address, ret);
    return pprof_tools_symbols(&x->all->tools, x->path, re, address, &x->all->arena, ret);
}

static int object_disassemble(struct report_object *x, uint64_t start, uint64_t end, bool intel,
                              struct report_insts *ret, struct err *e)
{
    struct pprof_code code = {x->path, start, end, intel};

    if (x->is_go && !intel)
        return pprof_tools_disassemble_go(&x->all->tools, &code, &x->all->arena, ret, e);
    return pprof_tools_disassemble(&x->all->tools, &code, &x->all->arena, ret, e);
}

/* --- lines --- */

int pprof_object_resolve(struct report_object *x, const uint64_t *addresses, uint32_t n, struct symbol_answer **ret,
                         struct err *e)
{
    _cleanup_(mem_freep) uint64_t *v = mem_zalloc_array((size_t) n + 1, sizeof(*v));
    struct symbol_request q = {.path = str_from(x->path), .addresses = v, .n_addresses = n, .lines = true};
    int r = n ? find_base(x, addresses[0], e) : 0;

    if (!v)
        return -ENOMEM;
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < n; i++)
        v[i] = addresses[i] - x->base;
    return symbolizer_resolve(x->all->symbolizer, &q, ret, e);
}

int pprof_object_name(struct report_object *x, uint64_t address, struct str *ret)
{
    const struct pprof_nm_symbol *s;
    int r = find_base(x, address, NULL);

    *ret = STR("");
    if (r >= 0 && !x->nm_tried) {
        x->nm_tried = true;
        r = pprof_tools_nm(&x->all->tools, x->path, &x->all->arena, &x->nm);
    }
    if (r < 0)
        return r;
    s = pprof_nm_find(&x->nm, address - x->base);
    if (s)
        *ret = s->name;
    return 0;
}

const char *pprof_object_build_id(struct report_object *x)
{
    return x->build_id;
}

static int go_line(struct report_object *x, uint64_t address, struct report_frames *ret)
{
    struct pclntab_function fn;
    int32_t line;
    int r = find_base(x, address, NULL);

    if (r < 0)
        return r;
    if (!pclntab_find(&x->go, address - x->base, &fn))
        return -ENOENT;
    ret->v = arena_zalloc(&x->all->arena, sizeof(*ret->v));
    if (!ret->v)
        return -ENOMEM;
    ret->n = 1;
    pclntab_line(&x->go, &fn, address - x->base, &ret->v->file, &line);
    ret->v->function = fn.name;
    ret->v->line = line;
    return 0;
}

static int object_lines(struct report_object *x, uint64_t address, struct report_frames *ret)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *answer = NULL;
    struct arena *a = &x->all->arena;
    uint32_t n;
    int r;

    if (x->is_go) {
        r = go_line(x, address, ret);
        if (r != -ENOENT)
            return r;
    }
    r = pprof_object_resolve(x, &address, 1, &answer, NULL);
    if (r < 0)
        return r;
    n = answer->first[1];
    *ret = (struct report_frames){arena_zalloc_array(a, (size_t) n + 1, sizeof(*ret->v)), MAX(n, 1u)}; /* 1: nameless */
    if (!ret->v)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const struct symbol_frame *f = &answer->frames[i];

        ret->v[i] = (struct report_frame){arena_str(a, f->system_name), arena_str(a, f->file), f->line};
    }
    return 0;
}

int pprof_objects_new(struct str tools, struct pprof_objects **ret, struct err *e)
{
    _cleanup_(pprof_objects_freep) struct pprof_objects *o = mem_zalloc(sizeof(*o));
    int r;

    if (!o)
        return -ENOMEM;
    arena_init(&o->arena, 0);
    o->table = (struct report_objects){open_mapping, object_address, object_symbols, object_disassemble, object_lines};
    o->symbolizer = dwarf_symbolizer_new();
    if (!o->symbolizer)
        return -ENOMEM;
    r = pprof_tools_init(&o->tools, tools, e);
    if (r < 0)
        return r;
    *ret = TAKE(o);
    return 0;
}

void pprof_objects_free(struct pprof_objects *o)
{
    if (!o)
        return;
    for (struct report_object *x = o->first, *next; x; x = next) {
        next = x->next;
        object_free(x);
    }
    symbolizer_free(o->symbolizer);
    pprof_tools_done(&o->tools);
    arena_done(&o->arena);
    mem_free(o);
}

struct report_objects *pprof_objects_table(struct pprof_objects *o)
{
    return &o->table;
}
