/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the mappings of a process and opens the mapped files, for unwinding and names. Files are opened below the
 * process's root. A file that was replaced since it was mapped is not used in place of the old one: it is opened
 * through /proc/PID/map_files, if the user may. */
#include "agent/dump/dump_modules.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "agent/v8_builtins.h"
#include "base/fd.h"
#include "base/mem.h"
#include "demangle/demangle.h"
#include "elf/elf_id.h"
#include "elf/elf_load.h"
#include "elf/elf_symbols.h"
#include "elf/go_build.h"
#include "elf/pclntab.h"
#include "proc/jit_names.h"
#include "proc/proc_memory.h"
#include "unwind/elf_table.h"

enum { VDSO_MAX = 1 << 20, START_BYTES = 128 };

static int open_file(struct dump *s, const struct proc_map *p, char path[128])
{
    char root[64];
    char name[4096];
    struct stat st;
    int fd = -ENOENT;

    snprintf(root, sizeof root, "/proc/%d/root", s->pid);
    snprintf(name, sizeof name, "%.*s", STR_FMT(p->path));
    if (!p->deleted)
        fd = fd_open_in_root(root, name);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_ino != p->inode)) {
        fd_close(fd);
        fd = -ESTALE;
    }
    snprintf(path, 128, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, s->pid, p->start, p->end);
    if (fd < 0)
        fd = fd_open_regular(path);
    else if (p->path.n + strlen(root) < 128)
        snprintf(path, 128, "%s%.*s", root, STR_FMT(p->path));
    return fd;
}

/* The vDSO has no file: its image is read from memory. */
static int read_vdso(struct dump *s, const struct proc_map *p, struct elf_file **ret)
{
    struct proc_memory m = proc_memory_of(s->pid);
    size_t n = p->end - p->start;
    void *bytes = n <= VDSO_MAX ? mem_alloc(n) : NULL;
    int r = bytes ? proc_memory_read(&m, p->start, bytes, n) : -ENOMEM;

    if (r == 0)
        r = elf_from_bytes(bytes, n, true, ret, NULL);
    if (r < 0)
        mem_free(bytes);
    return r;
}

static void load_module(struct dump *s, const struct proc_map *p, struct dump_module *m)
{
    char id[ELF_ID_MAX], name[4096];
    struct pclntab go;
    int r;

    if (str_is(p->path, "[vdso]")) {
        r = read_vdso(s, p, &m->file);
    } else {
        _cleanup_(fd_closep) int fd = open_file(s, p, m->open_path);

        r = fd < 0 ? fd : elf_open_fd(fd, &m->file, NULL);
    }
    if (r < 0)
        return;
    if (elf_gnu_build_id(m->file, id))
        m->build_id = arena_str(&s->arena, str_from(id));
    m->is_go = pclntab_open(m->file, &go, NULL) == 0;
    elf_table_new(m->file, NULL, &m->table, NULL);
    snprintf(name, sizeof name, "%.*s", STR_FMT(p->path));
    v8_builtins_find(m->file, name, &m->fp_lo, &m->fp_hi);
}

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

/* The module of a path, added when new; -1 when there are too many. */
static int find_module(struct dump *s, const struct proc_map *p)
{
    struct dump_module *m;

    for (uint32_t i = 0; i < s->n_modules; i++)
        if (str_eq(s->modules[i].path, p->path))
            return (int) i;
    if (s->n_modules == DUMP_MODULES_MAX)
        return -1;
    m = &s->modules[s->n_modules];
    *m = (struct dump_module){.path = arena_str(&s->arena, p->path)};
    if (!m->path.p)
        return -1;
    load_module(s, p, m);
    return (int) s->n_modules++;
}

static void look_for_runtimes(struct dump *s, struct dump_maps *ret, const struct dump_map *m, bool exe)
{
    const struct dump_module *mod = &s->modules[m->module];
    struct go_build go;

    if (!mod->file)
        return;
    if (!ret->has_python && (exe || str_find(base_name(mod->path), STR("python")) >= 0) &&
        python_probe(mod->file, mod->path, &ret->python)) {
        ret->has_python = true;
        ret->python_file = mod->file;
        ret->python_bias = m->bias;
    }
    if (exe && !s->runtime.n && go_build_read(mod->file, &go))
        s->runtime = arena_str(&s->arena, go.version);
    if (exe && mod->is_go && !ret->has_go)
        ret->has_go = go_runtime_probe(mod->file, &ret->go);
}

static int add_map(struct dump *s, struct dump_maps *ret, const struct proc_map *p)
{
    struct dump_map m = {p->start, p->end, 0, -1};
    const struct elf_file *f;
    int r;

    if (p->path.n && (p->path.p[0] == '/' || str_is(p->path, "[vdso]")))
        m.module = find_module(s, p);
    f = m.module >= 0 ? s->modules[m.module].file : NULL;
    if (f && !elf_load_bias(f->segments, f->n_segments, p->start, p->end, p->offset, &m.bias))
        m.module = -1; /* code from a file that a JIT writes */
    r = array_push(ret->v, ret->n, ret->cap, PROC_MAPS_MAX, m);
    if (r < 0)
        return r;
    if (m.module >= 0)
        look_for_runtimes(s, ret, &m, str_eq(p->path, ret->executable));
    return 0;
}

int dump_maps_read(struct dump *s, struct dump_maps *ret, struct err *e)
{
    struct proc_maps maps = {0};
    char link[64], exe[4096];
    ssize_t n;
    int r = proc_maps_read(s->pid, true, &maps, e);

    *ret = (struct dump_maps){.jit = ADDR_NAMES_INIT};
    snprintf(link, sizeof link, "/proc/%d/exe", s->pid);
    n = readlink(link, exe, sizeof exe);
    if (n > 0)
        ret->executable = arena_str(&s->arena, (struct str){exe, (uint32_t) n});
    if (r == 0 && !(s->modules = mem_zalloc_array(DUMP_MODULES_MAX, sizeof *s->modules)))
        r = -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < maps.n; i++)
        r = add_map(s, ret, &maps.v[i]);
    if (maps.left_out) {
        char text[128];

        snprintf(text, sizeof text, "process %d has too many executable mappings: %u of them were not read", s->pid,
                 maps.left_out);
        s->warning = arena_str(&s->arena, str_from(text));
    }
    proc_maps_done(&maps);
    return r;
}

void dump_modules_done(struct dump *s)
{
    for (uint32_t i = 0; i < s->n_modules; i++) {
        if (s->modules[i].symbols)
            elf_symbols_done(s->modules[i].symbols);
        mem_free(s->modules[i].symbols);
        unwind_table_free(s->modules[i].table);
        elf_free(s->modules[i].file);
    }
    mem_free(s->modules);
}

void dump_maps_done(struct dump_maps *m)
{
    mem_free(m->v);
    addr_names_done(&m->jit);
}

const struct dump_map *dump_maps_find(const struct dump_maps *m, uint64_t address)
{
    size_t a = 0, z = m->n;

    while (a < z) {
        size_t mid = (a + z) / 2;

        if (m->v[mid].start <= address)
            a = mid + 1;
        else
            z = mid;
    }
    return a && address < m->v[a - 1].end ? &m->v[a - 1] : NULL;
}

const struct unwind_rule *dump_rule(struct dump *s, const struct dump_map *m, uint64_t address)
{
    const struct unwind_table *t = m->module >= 0 ? s->modules[m->module].table : NULL;

    return t ? unwind_find(t, address - m->bias) : NULL;
}

enum dump_end dump_end(struct dump *s, const struct dump_map *m, uint64_t address)
{
    const struct dump_module *o = m->module >= 0 ? &s->modules[m->module] : NULL;
    uint64_t at = address - m->bias;

    if (!o || !o->table || at - o->fp_lo < o->fp_hi - o->fp_lo)
        return DUMP_BY_FRAME_POINTER;
    return o->file && o->file->entry && at - o->file->entry < START_BYTES ? DUMP_START : DUMP_NO_RULE;
}

/* --- names --- */
static struct str demangled(struct dump *s, struct str name)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (demangle(name, DEMANGLE_NO_CLONES, &b) < 0)
        return arena_str(&s->arena, name);
    return arena_str(&s->arena, buf_str(&b));
}

/* NULL when there is no file or no memory. */
static const struct elf_symbols *symbols_of(struct dump_module *m)
{
    if (m->symbols || !m->file)
        return m->symbols;
    m->symbols = mem_zalloc(sizeof *m->symbols);
    if (m->symbols)
        elf_symbols_load(m->file, true, m->symbols);
    return m->symbols;
}

static void name_by_file(struct dump *s, struct dump_frame *f)
{
    struct dump_module *m = &s->modules[f->module];
    struct pclntab_function fn;
    const struct elf_symbols *symbols;
    const struct elf_symbol *y;
    struct pclntab go;
    int32_t line;

    if (m->is_go && pclntab_open(m->file, &go, NULL) == 0 && pclntab_find(&go, f->elf, &fn)) {
        pclntab_line(&go, &fn, f->elf, &f->file, &line);
        f->function = fn.name;
        f->line = line;
        return;
    }
    symbols = symbols_of(m);
    y = symbols ? elf_symbols_find(symbols, f->elf) : NULL;
    if (y)
        f->function = demangled(s, y->name);
}

void dump_name(struct dump *s, struct dump_maps *m, struct dump_frame *f)
{
    struct str name;
    const char *hint;

    if (f->module >= 0) {
        name_by_file(s, f);
        return;
    }
    if (!m->jit_tried) {
        m->jit_tried = true;
        jit_names_read("/proc", s->pid, &m->jit, NULL);
    }
    if (addr_names_find(&m->jit, f->address - !f->exact, &name, NULL))
        f->function = arena_str(&s->arena, name);
    else if ((hint = jit_names_hint(base_name(m->executable), m->jit.n > 0)))
        f->function = str_from(hint);
}
