/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, files and lines of addresses in binaries, which may be untrusted uploads. A few binaries are kept open; their
 * number and their address space are bounded in total and per owner.
 */
#include "symbol/dwarf_symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "demangle/demangle.h"
#include "elf/elf_id.h"
#include "elf/elf_symbols.h"
#include "elf/pclntab.h"
#include "symbol/dwarf_file.h"

enum { BINARIES_MAX = 16, OWNER_MAX = 4, ANSWER_MAX = 1 << 30 };
/* Debug information that inflates to more is not read; open files together take about as much address space. */
enum { INFLATED_MAX = 512 << 20, CACHE_MAX = 512 << 20 };

struct binary {
    char *path, *owner;
    struct elf_file *elf;
    struct elf_symbols symbols;
    struct dwarf_file *dwarf; /* NULL: none found, or not tried */
    bool dwarf_tried;
    struct pclntab go; /* Go's own table, when has_go */
    bool has_go;
    char build_id[ELF_ID_MAX];
    uint64_t used; /* number of the request that last used it */
    int fd;        /* -1: opened by its path */
};

struct dwarf_symbolizer {
    struct symbolizer base;
    struct binary *binaries[BINARIES_MAX];
    uint64_t requests;
};

static void binary_free(struct binary *b)
{
    if (!b)
        return;
    dwarf_file_free(b->dwarf);
    elf_symbols_done(&b->symbols);
    elf_free(b->elf);
    fd_close(b->fd);
    mem_free(b->path);
    mem_free(b->owner);
    mem_free(b);
}
DEFINE_CLEANUP(struct binary *, binary_free)

static int binary_open(const char *path, const struct symbol_request *q, struct binary **ret, struct err *e)
{
    _cleanup_(binary_freep) struct binary *b = mem_zalloc(sizeof(*b));
    struct str owner = q->owner;
    int r;

    if (!b)
        return -ENOMEM;
    b->fd = q->fd ? fcntl(*q->fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (q->fd && b->fd < 0)
        return err_set(e, -errno, "cannot keep '%s' open: %m", path);
    b->path = mem_strdup(path);
    b->owner = mem_zalloc((size_t) owner.n + 1);
    if (!b->path || !b->owner)
        return -ENOMEM;
    if (owner.n)
        memcpy(b->owner, owner.p, owner.n);
    r = b->fd >= 0 ? elf_open_fd(b->fd, &b->elf, e) : elf_open(path, &b->elf, e);
    if (r < 0 && b->fd >= 0)
        return err_prefix(e, r, "'%s': ", path);
    if (r >= 0)
        r = elf_symbols_load(b->elf, false, &b->symbols);
    if (r < 0)
        return r;
    if (!elf_gnu_build_id(b->elf, b->build_id) && !elf_go_build_id(b->elf, b->build_id))
        elf_htlhash(b->elf, b->build_id);
    b->has_go = pclntab_open(b->elf, &b->go, NULL) == 0;
    *ret = TAKE(b);
    return 0;
}

/* True if the requested file, by fd or at b's path, is still the one that was opened. */
static bool is_fresh(const struct binary *b, const int *fd)
{
    struct stat st;

    return (fd ? fstat(*fd, &st) : stat(b->path, &st)) == 0 && st.st_dev == b->elf->device &&
           st.st_ino == b->elf->inode &&
           (int64_t) st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == b->elf->mtime_ns &&
           (size_t) st.st_size == b->elf->size;
}

/* The approximate address space of a binary. elfutils maps the file a second time. */
static uint64_t cost(const struct binary *b)
{
    uint64_t n = b->elf->size + b->symbols.n * sizeof *b->symbols.v + (b->symbols.more ? b->symbols.more->size : 0);

    return b->dwarf ? n + b->elf->size + elf_inflated_size(b->elf) : n;
}

static void drop(struct binary **b)
{
    binary_free(*b);
    *b = NULL;
}

/* The least recently used binary, of one owner or, for NULL, of all. NULL if there is none besides `keep`. */
static struct binary **oldest(struct dwarf_symbolizer *s, const char *owner, const struct binary *keep)
{
    struct binary **found = NULL;

    for (size_t i = 0; i < BINARIES_MAX; i++) {
        struct binary **b = &s->binaries[i];

        if (*b && *b != keep && (!owner || strcmp((*b)->owner, owner) == 0) && (!found || (*b)->used < (*found)->used))
            found = b;
    }
    return found;
}

/* Closes files until all of them fit: uploads of one tenant do not close those of another for lack of slots, and cannot
 * use up the address space of the process. */
static void make_fit(struct dwarf_symbolizer *s, const struct binary *keep)
{
    for (;;) {
        struct binary **victim = oldest(s, NULL, keep);
        uint64_t total = 0;

        for (size_t i = 0; i < BINARIES_MAX; i++)
            total += s->binaries[i] ? cost(s->binaries[i]) : 0;
        if (!victim || total <= CACHE_MAX)
            return;
        drop(victim);
    }
}

/* A free slot. If an owner has used up its share, its own oldest file is closed. */
static struct binary **free_slot(struct dwarf_symbolizer *s, const char *owner)
{
    struct binary **empty = NULL;
    size_t n = 0;

    for (size_t i = 0; i < BINARIES_MAX; i++) {
        n += *owner && s->binaries[i] && strcmp(s->binaries[i]->owner, owner) == 0;
        if (!s->binaries[i])
            empty = &s->binaries[i];
    }
    if (n >= OWNER_MAX)
        empty = oldest(s, owner, NULL);
    else if (!empty)
        empty = oldest(s, NULL, NULL);
    drop(empty);
    return empty;
}

static struct binary *find_open(struct dwarf_symbolizer *s, const char *path, const int *fd)
{
    for (size_t i = 0; i < BINARIES_MAX; i++) {
        struct binary **b = &s->binaries[i];

        if (*b && strcmp((*b)->path, path) == 0) {
            if (is_fresh(*b, fd))
                return *b;
            drop(b);
            return NULL;
        }
    }
    return NULL;
}

/* *ret belongs to the cache or, for a request that only inspects the file, is also stored in *ret_own, which belongs to
 * the caller. */
static int find_binary(struct dwarf_symbolizer *s, const struct symbol_request *q, const char *path,
                       struct binary **ret, struct binary **ret_own, struct err *e)
{
    int r;

    *ret = find_open(s, path, q->fd);
    if (*ret)
        return 0;
    r = binary_open(path, q, ret, e);
    if (r < 0)
        return r;
    if (q->n_addresses)
        *free_slot(s, (*ret)->owner) = *ret;
    else
        *ret_own = *ret;
    return 0;
}

/* Opens the debug information, if it exists and is not too large. */
static int open_lines(struct dwarf_symbolizer *s, struct binary *b)
{
    b->dwarf_tried = true;
    if (elf_inflated_size(b->elf) > INFLATED_MAX)
        return 0;
    return dwarf_file_open(b->path, b->fd, &b->dwarf, NULL) == -ENOMEM ? -ENOMEM : 0;
}

static int path_of(const struct symbol_request *q, char *ret, size_t n, struct err *e)
{
    int len;

    if (q->path.n)
        len = snprintf(ret, n, "%.*s", STR_FMT(q->path));
    else if (q->build_id.n > 2)
        len = snprintf(ret, n, "/usr/lib/debug/.build-id/%.2s/%.*s.debug", q->build_id.p, (int) q->build_id.n - 2,
                       q->build_id.p + 2);
    else
        return err_set(e, -EINVAL, "neither a path nor a build id was given");
    return len < 0 || (size_t) len >= n ? err_set(e, -ENAMETOOLONG, "the binary's path is too long") : 0;
}

struct answering {
    struct symbol_answer *a;
    size_t n, cap; /* frames */
    struct symbol_frame *frames;
    struct buf name;
};

static int copy_text(struct answering *x, const char *s, size_t n, struct str *ret)
{
    *ret = STR("");
    if (!s || n == 0)
        return 0;
    *ret = arena_str(&x->a->arena, (struct str){s, (uint32_t) n});
    return ret->p ? 0 : -ENOMEM;
}

static int copy_file(struct answering *x, const struct dwarf_frame *f, struct str *ret)
{
    size_t n = f->dir ? strlen(f->dir) : 0;

    if (!f->file || n == 0)
        return copy_text(x, f->file, f->file ? strlen(f->file) : 0, ret);
    buf_reset(&x->name);
    buf_puts(&x->name, f->dir);
    if (f->dir[n - 1] != '/')
        buf_putc(&x->name, '/');
    buf_puts(&x->name, f->file);
    return buf_error(&x->name) ? buf_error(&x->name) : copy_text(x, x->name.p, x->name.n, ret);
}

static int add_frame(struct answering *x, struct str name, const struct dwarf_frame *f, bool inlined)
{
    struct symbol_frame *to;
    int r = array_reserve(x->frames, x->cap, x->n + 1, UINT32_MAX / 2);

    if (r < 0)
        return r;
    to = &x->frames[x->n];
    *to = (struct symbol_frame){.line = f->line, .column = f->column, .start_line = f->start_line, .inlined = inlined};
    buf_reset(&x->name);
    r = copy_text(x, name.p, name.n, &to->system_name);
    if (r >= 0)
        r = demangle_function(name, DEMANGLE_SIMPLE, &x->name);
    if (r >= 0)
        r = copy_text(x, x->name.p, x->name.n, &to->function);
    if (r >= 0)
        r = copy_file(x, f, &to->file);
    if (r >= 0)
        x->n++;
    return r;
}

/* A stripped Go binary: its own table has the functions and the lines. */
static int resolve_go(struct answering *x, struct binary *b, uint64_t address)
{
    struct pclntab_frame frames[PCLNTAB_FRAMES_MAX];
    struct pclntab_function fn;
    char text[4096];
    unsigned n;
    int r = 0;

    if (!pclntab_find(&b->go, address, &fn))
        return 0;
    n = pclntab_frames(&b->go, &fn, address, frames);
    for (unsigned i = 0; i < n && r >= 0; i++) {
        struct dwarf_frame f = {.line = frames[i].line, .start_line = frames[i].start_line};

        snprintf(text, sizeof(text), "%.*s", STR_FMT(frames[i].file));
        f.file = *text ? text : NULL;
        r = add_frame(x, frames[i].name, &f, i < n - 1);
    }
    return r;
}

/* The name of the outermost frame is taken from the symbol table, which has the suffixes that compilers add; a frame
 * without debug information may get its file from there, too. */
static int resolve_one(struct answering *x, struct binary *b, uint64_t address)
{
    const struct elf_symbol *symbol = elf_symbols_find(&b->symbols, address);
    struct dwarf_frame frames[DWARF_FRAMES_MAX];
    char file[256];
    int n = b->dwarf ? dwarf_file_lookup(b->dwarf, address, frames) : 0;

    if (n < 0)
        return n;
    if (n == 0 && b->has_go && !b->dwarf)
        return resolve_go(x, b, address);
    if (n == 0 && !symbol)
        return 0;
    if (n == 0)
        frames[n++] = (struct dwarf_frame){0};
    if (symbol && symbol->file.n && symbol->file.n < sizeof(file) && !frames[n - 1].file) {
        memcpy(file, symbol->file.p, symbol->file.n);
        file[symbol->file.n] = 0;
        frames[n - 1].file = file;
    }
    for (int i = 0; i < n; i++) {
        struct str name = i == n - 1 && symbol ? symbol->name : str_from(frames[i].name);
        int r = add_frame(x, name, &frames[i], i < n - 1);

        if (r < 0)
            return r;
    }
    return 0;
}

static int resolve_all(struct answering *x, struct binary *b, const struct symbol_request *q)
{
    struct symbol_answer *a = x->a;

    a->first = arena_zalloc_array(&a->arena, (size_t) q->n_addresses + 1, sizeof(*a->first));
    if (!a->first)
        return -ENOMEM;
    for (uint32_t i = 0; i < q->n_addresses; i++) {
        int r = resolve_one(x, b, q->addresses[i]);

        if (r < 0)
            return r;
        a->first[i + 1] = (uint32_t) x->n;
    }
    a->n_addresses = q->n_addresses;
    a->frames = arena_zalloc_array(&a->arena, x->n + 1, sizeof(*a->frames));
    if (!a->frames)
        return -ENOMEM;
    if (x->n)
        memcpy(a->frames, x->frames, x->n * sizeof(*a->frames));
    a->quality = b->dwarf || b->has_go ? SYMBOLS_LINES : b->symbols.n ? SYMBOLS_NAMES : SYMBOLS_NONE;
    return copy_text(x, b->build_id, strlen(b->build_id), &a->build_id);
}

static int resolve(struct symbolizer *base, const struct symbol_request *q, struct symbol_answer **ret, struct err *e)
{
    struct dwarf_symbolizer *s = container_of(base, struct dwarf_symbolizer, base);
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(binary_freep) struct binary *own = NULL;
    struct answering x = {0};
    struct binary *b;
    char path[4096];
    int r = path_of(q, path, sizeof(path), e);

    if (r >= 0)
        r = find_binary(s, q, path, &b, &own, e);
    if (r < 0)
        return r;
    b->used = ++s->requests;
    if (q->path.n && q->build_id.n && !str_is(q->build_id, b->build_id))
        return err_set(e, -ENOENT, "'%s' has build id %s, not %.*s", path, b->build_id, STR_FMT(q->build_id));
    if (q->lines && !b->dwarf_tried) {
        make_fit(s, b); /* first, so that elfutils can use the memory that the others release */
        r = open_lines(s, b);
        if (r < 0)
            return r;
    }
    make_fit(s, b);
    a = mem_zalloc(sizeof(*a));
    if (!a)
        return -ENOMEM;
    arena_init(&a->arena, ANSWER_MAX);
    x.a = a;
    r = resolve_all(&x, b, q);
    mem_free(x.frames);
    buf_done(&x.name);
    if (r < 0)
        return r;
    *ret = TAKE(a);
    return 0;
}

static void symbolizer_done(struct symbolizer *base)
{
    struct dwarf_symbolizer *s = container_of(base, struct dwarf_symbolizer, base);

    for (size_t i = 0; i < BINARIES_MAX; i++)
        binary_free(s->binaries[i]);
    mem_free(s);
}

struct symbolizer *dwarf_symbolizer_new(void)
{
    struct dwarf_symbolizer *s = mem_zalloc(sizeof(*s));

    if (!s)
        return NULL;
    s->base = (struct symbolizer){.resolve = resolve, .free = symbolizer_done};
    return &s->base;
}
