/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of loaded objects and their unwind tables (modules.h). Tables are made once per (path, build id) and kept: a
 * program that loads and unloads the same plug-in pays for its table once. Sets are freed one generation late and after
 * core_grace().
 */
#include "sdk/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/mem.h"
#include "elf/elf.h"
#include "elf/elf_id.h"
#include "proc/proc_path.h"
#include "unwind/direct.h"
#include "unwind/loaded.h"
#include "unwind/walk.h"

static const char LOADED[] = "/proc/thread-self/exe"; /* the program that runs, whatever is at its path now */

enum { FILES_MAX = 8192, KEPT = 4 };

static struct module_file *files;
static size_t n_files, cap_files;
static struct module_set *kept[KEPT]; /* by generation % KEPT; the newest is published */
static uint32_t generation;
static uint64_t seen_adds, seen_subs;
static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;

void modules_fork_prepare(void)
{
    pthread_mutex_lock(&loader_lock);
}

void modules_fork_done(void)
{
    pthread_mutex_unlock(&loader_lock);
}

const struct module_file *modules_file(uint32_t i)
{
    return i < n_files ? &files[i] : NULL;
}

uint32_t modules_files(void)
{
    return (uint32_t) n_files;
}

const struct module_set *modules_generation(uint32_t g)
{
    struct module_set *s = kept[g % KEPT];

    return s && s->generation == g ? s : NULL;
}

const struct module *modules_find(const struct module_set *set, uint64_t pc)
{
    for (uint32_t a = 0, z = set->n; a < z;) {
        uint32_t mid = (a + z) / 2;

        if (pc < set->v[mid].lo)
            z = mid;
        else if (pc >= set->v[mid].hi)
            a = mid + 1;
        else
            return &set->v[mid];
    }
    return NULL;
}

/* --- identity --- */
static void find_build_id(const struct dl_phdr_info *info, struct module_file *f)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uint8_t *n = (const uint8_t *) (info->dlpi_addr + p->p_vaddr), *end = n + p->p_memsz;

        if (p->p_type != PT_NOTE || p->p_align > 8)
            continue;
        while ((size_t) (end - n) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) h;
            uint64_t name, desc;

            memcpy(&h, n, sizeof h);
            name = ALIGN_UP((uint64_t) h.n_namesz, 4ul);
            desc = ALIGN_UP((uint64_t) h.n_descsz, 4ul);
            n += sizeof h;
            if (name + desc > (uint64_t) (end - n))
                break;
            if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(n, "GNU", 4)) {
                f->build_id_n = MIN(h.n_descsz, (uint32_t) BUILD_ID_MAX);
                memcpy(f->build_id, n + name, f->build_id_n);
                return;
            }
            n += name + desc;
        }
    }
}

static bool same_file(const struct module_file *a, const char *path, const struct module_file *b)
{
    return a->path && !strcmp(a->path, path) && a->build_id_n == b->build_id_n &&
           !memcmp(a->build_id, b->build_id, a->build_id_n);
}

static const char *path_of(const struct dl_phdr_info *info, bool first, char *buf, size_t n)
{
    if (info->dlpi_name && info->dlpi_name[0])
        return info->dlpi_name;
    return first ? proc_path_of_exe(LOADED, buf, n).p : "";
}

/* --- files --- */
/* A program without a build id is recognised by its inode. */
static bool is_replaced(const struct module_file *f)
{
    struct stat now, loaded;

    return f->is_program && stat(LOADED, &loaded) == 0 &&
           (stat(f->path, &now) < 0 || now.st_ino != loaded.st_ino || now.st_dev != loaded.st_dev);
}

/* A file that was replaced since it was loaded has the names of other code. */
static bool is_the_same(const struct module_file *f, const struct elf_file *elf)
{
    char id[ELF_ID_MAX], mine[2 * BUILD_ID_MAX];

    if (!f->build_id_n || !elf_gnu_build_id(elf, id))
        return true;
    hex_write(mine, f->build_id, f->build_id_n);
    return memcmp(id, mine, 2ul * f->build_id_n) == 0;
}

static int open_same(const struct module_file *f, const char *path, struct elf_file **ret)
{
    _cleanup_(elf_freep) struct elf_file *elf = NULL;
    int r = path == f->path && !f->build_id_n && is_replaced(f) ? -ESTALE : elf_open(path, &elf, NULL);

    if (r == 0 && !is_the_same(f, elf))
        r = -ESTALE;
    if (r == 0)
        *ret = TAKE(elf);
    return r;
}

/* --- tables --- */
/* .debug_frame is not loaded: it is read from the file if .eh_frame describes less than half of the code. */
static void make_table(struct module_file *f, const struct dl_phdr_info *info)
{
    struct cfi_section s[2];
    uint32_t n = loaded_eh_frame(info, &s[0]) ? 1 : 0;
    _cleanup_(elf_freep) struct elf_file *elf = NULL;
    struct elf_bytes debug;

    if (n && unwind_table_new(s, n, WALK_ARCH, &f->table) < 0)
        f->table = NULL;
    if ((f->table && f->table->covered >= (f->hi - f->lo) / 2) || f->memory || open_same(f, f->path, &elf) < 0)
        return;
    debug = elf_section_bytes(elf, ".debug_frame");
    if (debug.p) {
        struct unwind_table *both;

        s[n] = (struct cfi_section){debug.p, debug.n, 0, true};
        if (unwind_table_new(s, n + 1, WALK_ARCH, &both) == 0) {
            unwind_table_free(f->table);
            f->table = both;
        }
    }
}

static uint64_t text_offset(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
            return info->dlpi_phdr[i].p_offset;
    return 0;
}

static bool tables_later;

static int64_t add_file(const struct dl_phdr_info *info, bool first)
{
    struct module_file f = {.is_program = first};
    char buf[4096];
    const char *path = path_of(info, first, buf, sizeof buf);
    size_t i;

    loaded_text(info, &f.lo, &f.hi);
    find_build_id(info, &f);
    for (i = 1; i < n_files && !same_file(&files[i], path, &f); i++)
        ;
    if (i == n_files) {
        if (array_reserve(files, cap_files, n_files + 1, FILES_MAX) < 0)
            return -ENOMEM;
        f.path = mem_strdup(path);
        if (!f.path)
            return -ENOMEM;
        if (strncmp(path, "linux-vdso", 10) == 0 || strncmp(path, "linux-gate", 10) == 0) {
            f.memory = (const uint8_t *) info->dlpi_addr;
            f.memory_size = 2 * WALK_PAGE;
        }
        files[n_files++] = f;
    }
    if (!tables_later && !files[i].table_made) {
        files[i].table_made = true;
        make_table(&files[i], info);
    }
    files[i].lo = f.lo;
    files[i].hi = f.hi;
    files[i].bias = info->dlpi_addr;
    files[i].offset = text_offset(info);
    return (int64_t) i;
}

/* --- reading them --- */
int modules_open(const struct module_file *f, struct elf_file **ret)
{
    int r;

    if (f->memory)
        return elf_from_bytes(f->memory, f->memory_size, false, ret, NULL);
    r = open_same(f, f->path, ret);
    if (r < 0 && f->is_program)
        r = open_same(f, LOADED, ret);
    return r;
}

const char *modules_path(const struct module_file *f, char *buf, size_t n)
{
    _cleanup_(elf_freep) struct elf_file *at_path = NULL, *loaded = NULL;

    if (!f->path || f->memory)
        return NULL;
    if (open_same(f, f->path, &at_path) == 0)
        return f->path;
    if (!f->is_program || open_same(f, LOADED, &loaded) < 0)
        return NULL;
    snprintf(buf, n, "/proc/%d/exe", (int) getpid());
    return buf;
}

/* --- the set --- */
struct making {
    struct module_set *set;
    uint32_t cap; /* capacity of set->v */
    bool first;
    bool full; /* there was no room for an object */
    int error;
};

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct making *m = arg;
    uint64_t lo, hi;
    int64_t file;
    uint32_t i;
    bool first = m->first;

    m->first = false;
    if (!loaded_text(info, &lo, &hi))
        return 0;
    if (m->set->n == m->cap) { /* other threads loaded objects after they were counted */
        m->full = true;
        return 1;
    }
    file = add_file(info, first);
    if (file < 0) {
        m->error = (int) file;
        return 0;
    }
    for (i = m->set->n; i > 0 && m->set->v[i - 1].lo > lo; i--)
        m->set->v[i] = m->set->v[i - 1];
    m->set->v[i] = (struct module){lo, hi, info->dlpi_addr, files[file].table, (uint32_t) file};
    m->set->n++;
    return 0;
}

static int on_count(struct dl_phdr_info *info, size_t size, void *arg)
{
    uint64_t *counts = arg;

    counts[0] = info->dlpi_adds;
    counts[1] = info->dlpi_subs;
    return 1;
}

static int on_number(struct dl_phdr_info *info, size_t size, void *arg)
{
    ++*(uint32_t *) arg;
    return 0;
}

/* Frees the old set after all handlers have left it; if that takes too long, the set is leaked. */
static void retire(uint32_t g)
{
    struct module_set *old = kept[g % KEPT];

    if (!old)
        return;
    if (core_grace())
        mem_free(old);
    kept[g % KEPT] = NULL;
}

/* Objects may be loaded between the count and the second pass: then both are repeated with more room. */
static int make_set(struct making *m)
{
    uint32_t room = 16;

    do {
        uint32_t n = 0;

        dl_iterate_phdr(on_number, &n);
        *m = (struct making){.first = true, .cap = MIN(n + room, (uint32_t) CORE_MODULES_MAX)};
        m->set = mem_zalloc(sizeof *m->set + m->cap * sizeof m->set->v[0]);
        if (!m->set)
            return -ENOMEM;
        dl_iterate_phdr(on_object, m);
        room *= 8;
        if (!m->full || m->cap == CORE_MODULES_MAX)
            return 0;
        mem_free(m->set);
    } while (true);
}

static int publish(void)
{
    struct making m;
    int r;

    if (n_files == 0) {
        if (array_reserve(files, cap_files, 1, FILES_MAX) < 0)
            return -ENOMEM;
        files[n_files++] = (struct module_file){0};
    }
    r = make_set(&m);
    if (r < 0)
        return r;
    retire(generation + 1);
    m.set->generation = ++generation;
    kept[generation % KEPT] = m.set;
    atomic_store_explicit(&core.modules, m.set, memory_order_release);
    return m.error;
}

static int refresh(bool make_tables)
{
    uint64_t counts[2] = {0};
    int r = 0;

    pthread_mutex_lock(&loader_lock);
    dl_iterate_phdr(on_count, counts);
    atomic_store(&core.modules_stale, false);
    if (make_tables)
        tables_later = false;
    if (!generation || make_tables || counts[0] != seen_adds || counts[1] != seen_subs) {
        seen_adds = counts[0];
        seen_subs = counts[1];
        r = publish();
        r = r < 0 ? r : 1;
    }
    pthread_mutex_unlock(&loader_lock);
    return r;
}

int modules_refresh(void)
{
    return refresh(false);
}

void modules_tables_later(void)
{
    tables_later = direct_works();
}

int modules_make_tables(void)
{
    return tables_later ? refresh(true) : 0;
}
