/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces functions in global offset tables (got.h). Called with the loader's list locked (dl_iterate_phdr), so that
 * no object can be unloaded at the same time. */
#include "sdk/got.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macros.h"
#include "sdk/core.h"

#if defined(__x86_64__)
enum { R_SLOT = R_X86_64_JUMP_SLOT, R_DATA = R_X86_64_GLOB_DAT };
#else
enum { R_SLOT = R_AARCH64_JUMP_SLOT, R_DATA = R_AARCH64_GLOB_DAT };
#endif

struct patching {
    const struct got_hook *hooks;
    size_t n;
    const void *skip;
    int changed;
};

struct tables {
    const ElfW(Rela) * plt, *rela;
    size_t plt_n, rela_n;
    const ElfW(Sym) * symbols;
    const char *strings;
};

/* ld.so has relocated the addresses in the dynamic section of most objects; those of the vdso are still offsets. */
static uint64_t address(const struct dl_phdr_info *info, uint64_t v)
{
    return v < info->dlpi_addr ? v + info->dlpi_addr : v;
}

static bool read_dynamic(const struct dl_phdr_info *info, struct tables *t)
{
    const ElfW(Dyn) *d = NULL;

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const ElfW(Dyn) *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        uint64_t at = address(info, d->d_un.d_ptr);

        if (d->d_tag == DT_JMPREL)
            t->plt = (const ElfW(Rela) *) at;
        else if (d->d_tag == DT_PLTRELSZ)
            t->plt_n = d->d_un.d_val / sizeof(ElfW(Rela));
        else if (d->d_tag == DT_RELA)
            t->rela = (const ElfW(Rela) *) at;
        else if (d->d_tag == DT_RELASZ)
            t->rela_n = d->d_un.d_val / sizeof(ElfW(Rela));
        else if (d->d_tag == DT_SYMTAB)
            t->symbols = (const ElfW(Sym) *) at;
        else if (d->d_tag == DT_STRTAB)
            t->strings = (const char *) at;
    }
    return t->symbols && t->strings;
}

/* A page that was made read-only after relocation is made writable only for the write. */
static bool is_read_only(const struct dl_phdr_info *info, uint64_t at)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t lo = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_GNU_RELRO && at >= (lo & ~0xfffull) && at < lo + p->p_memsz)
            return true;
    }
    return false;
}

static void write_slot(const struct dl_phdr_info *info, uint64_t *slot, void *hook)
{
    long page = sysconf(_SC_PAGESIZE);
    void *start = (void *) ((uintptr_t) slot & ~(uintptr_t) (page - 1));
    bool closed = is_read_only(info, (uint64_t) (uintptr_t) slot);

    if (closed && mprotect(start, (size_t) page, PROT_READ | PROT_WRITE) < 0)
        return;
    __atomic_store_n(slot, (uint64_t) (uintptr_t) hook, __ATOMIC_RELEASE);
    if (closed)
        mprotect(start, (size_t) page, PROT_READ);
}

static void patch(const struct dl_phdr_info *info, const struct tables *t, const ElfW(Rela) * r, size_t n,
                  struct patching *p)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t type = ELF64_R_TYPE(r[i].r_info), symbol = ELF64_R_SYM(r[i].r_info);
        uint64_t *slot = (uint64_t *) (info->dlpi_addr + r[i].r_offset);
        const char *name;

        if ((type != R_SLOT && type != R_DATA) ||
            !symbol) /* also references to symbols that the object defines itself: libc's own malloc() calls */
            continue;
        name = t->strings + t->symbols[symbol].st_name;
        for (size_t k = 0; k < p->n; k++)
            if (strcmp(name, p->hooks[k].name) == 0 && *slot != (uint64_t) (uintptr_t) p->hooks[k].hook) {
                write_slot(info, slot, p->hooks[k].hook);
                p->changed++;
            }
    }
}

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct patching *p = arg;
    struct tables t = {0};
    const char *base = strrchr(info->dlpi_name, '/');

    base = base ? base + 1 : info->dlpi_name;
    if (strncmp(base, "ld-linux", 8) == 0 || strncmp(base, "linux-vdso", 10) == 0)
        return 0;
#if defined(__SANITIZE_THREAD__) /* TSan's run-time library calls libc before its threads may run instrumented code */
    if (strncmp(base, "libc.", 5) == 0 || strncmp(base, "libtsan", 7) == 0)
        return 0;
#endif
    for (int i = 0; i < info->dlpi_phnum; i++) { /* ourselves, and the object that the caller excludes */
        uint64_t lo = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

        if (info->dlpi_phdr[i].p_type == PT_LOAD && (core.self_lo - lo < info->dlpi_phdr[i].p_memsz ||
                                                     (uint64_t) (uintptr_t) p->skip - lo < info->dlpi_phdr[i].p_memsz))
            return 0;
    }
    if (!read_dynamic(info, &t))
        return 0;
    patch(info, &t, t.plt, t.plt ? t.plt_n : 0, p);
    patch(info, &t, t.rela, t.rela ? t.rela_n : 0, p);
    return 0;
}

static const struct got_hook *kept;
static size_t n_kept;

void got_keep(const struct got_hook *hooks, size_t n)
{
    n_kept = n;
    __atomic_store_n(&kept, hooks, __ATOMIC_RELEASE);
}

void got_install_kept(void)
{
    const struct got_hook *hooks = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);

    if (hooks)
        got_install(hooks, n_kept, NULL);
}

int got_install(const struct got_hook *hooks, size_t n, const void *skip)
{
    struct patching p = {hooks, n, skip, 0};

    dl_iterate_phdr(on_object, &p);
    return p.changed;
}
