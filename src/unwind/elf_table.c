/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the unwind table of an ELF file from Go's pclntab or its call frame sections. */
#include "unwind/elf_table.h"

#include <errno.h>

#include "unwind/go_table.h"

/* Finds .eh_frame through PT_GNU_EH_FRAME, for files without section headers: the section ends at its terminator. */
static struct elf_bytes eh_frame_by_header(const struct elf_file *f)
{
    for (uint32_t i = 0; i < f->n_segments; i++) {
        struct elf_bytes h, all;
        uint64_t address;
        int32_t rel;

        if (f->segments[i].type != PT_GNU_EH_FRAME)
            continue;
        h = elf_segment_bytes(f, &f->segments[i]);
        if (h.n < 8 || h.p[0] != 1 || h.p[1] != 0x1b)
            continue;
        memcpy(&rel, h.p + 4, sizeof rel);
        address = f->segments[i].vaddr + 4 + (uint64_t) (int64_t) rel;
        for (uint32_t k = 0; k < f->n_segments; k++) {
            all = elf_segment_bytes(f, &f->segments[k]);
            if (f->segments[k].type == PT_LOAD && address >= f->segments[k].vaddr &&
                address - f->segments[k].vaddr < all.n)
                return (struct elf_bytes){all.p + (address - f->segments[k].vaddr),
                                          all.n - (address - f->segments[k].vaddr), address};
        }
    }
    return (struct elf_bytes){0};
}

static void add_section(struct cfi_section *v, uint32_t *n, struct elf_bytes b, bool debug)
{
    if (b.n)
        v[(*n)++] = (struct cfi_section){b.p, b.n, b.address, debug};
}

/* What has no call frame information on arm64: the table of calls into libraries, whose code keeps the return address in its
 * register, and the vDSO: of the trampoline to which handlers of signals return never, of the rest in many
 * kernels. It is known by the trampoline's name, in a table of few symbols. Its functions have a frame record or are leaves; which
 * one shows in their first instructions. */
enum { VDSO_SYMBOLS = 32, VDSO_PROLOGUE = 16 };

struct bare_code {
    struct unwind_source source;
    struct bare_function {
        uint64_t start, end, framed; /* framed: where it has a frame record; 0: nowhere */
        bool is_trampoline;
    } v[VDSO_SYMBOLS + 1];
};

static bool bare_range(const struct unwind_source *s, uint32_t i, uint64_t *ret_start, uint64_t *ret_end)
{
    const struct bare_function *f = &container_of(s, const struct bare_code, source)->v[i];

    *ret_start = f->start;
    *ret_end = f->end;
    return true;
}

static int bare_run(const struct unwind_source *s, uint32_t i, cfi_emit *emit, void *arg)
{
    const struct bare_function *f = &container_of(s, const struct bare_code, source)->v[i];
    struct unwind_rule rule = {.cfa = UNWIND_CFA_SIGNAL}, leaf = {.cfa = UNWIND_CFA_SP, .ra = UNWIND_RA_REG};
    struct unwind_rule framed = {
        .cfa = UNWIND_CFA_FP, .cfa_off = 16, .flags = UNWIND_FP_SAVED, .fp = -2, .ra = UNWIND_RA_OFFSET, .aux = -1};
    int r = emit(arg, f->start, f->is_trampoline ? &rule : &leaf);

    return r == 0 && f->framed ? emit(arg, f->framed, &framed) : r;
}

/* stp x29, x30, [sp, #-N]!; mov x29, sp */
static uint64_t frame_begins(const struct elf_file *f, uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at + 8 <= end && at < start + VDSO_PROLOGUE; at += 4) {
        const void *p = elf_at_address(f, at, 4);
        uint32_t v = 0;

        if (p)
            memcpy(&v, p, sizeof v);
        if ((v & 0xffe07fff) == (0xa9a07bfd & 0xffe07fff))
            return at + 8;
    }
    return 0;
}

/* Sets the functions if this is the vDSO. The address to which a handler returns is the trampoline's first: looked up as that of
 * a call, it is before it. */
static void read_vdso(const struct elf_file *f, struct bare_code *ret)
{
    static const char trampoline[] = "__kernel_rt_sigreturn";
    const struct elf_section *table = elf_find_section(f, ".dynsym");
    struct elf_bytes symbols = table ? elf_bytes_of(f, table) : (struct elf_bytes){0}, strings = {0};
    bool found = false;

    if (!symbols.n || symbols.n > VDSO_SYMBOLS * sizeof(Elf64_Sym))
        return;
    if (table->link < f->n_sections)
        strings = elf_bytes_of(f, &f->sections[table->link]);
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.n; at += sizeof(Elf64_Sym)) {
        struct bare_function *fn = &ret->v[ret->source.n];
        Elf64_Sym s;

        memcpy(&s, symbols.p + at, sizeof s);
        if (s.st_value < 4 || !s.st_size || s.st_size > UINT16_MAX)
            continue;
        *fn = (struct bare_function){s.st_value, s.st_value + s.st_size, 0, false};
        fn->is_trampoline = s.st_name < strings.n && strings.n - s.st_name >= sizeof trampoline &&
                            memcmp(strings.p + s.st_name, trampoline, sizeof trampoline) == 0;
        if (fn->is_trampoline)
            fn->start -= 4;
        else
            fn->framed = frame_begins(f, fn->start, fn->end);
        found |= fn->is_trampoline;
        ret->source.n++;
    }
    if (!found)
        ret->source.n = 0;
}

static void read_bare_code(const struct elf_file *f, struct bare_code *ret)
{
    const struct elf_section *plt = elf_find_section(f, ".plt");

    *ret = (struct bare_code){.source = {.range = bare_range, .run = bare_run}};
    if (f->machine != EM_AARCH64)
        return;
    read_vdso(f, ret);
    if (plt && plt->size && plt->address && plt->address + plt->size > plt->address)
        ret->v[ret->source.n++] = (struct bare_function){plt->address, plt->address + plt->size, 0, false};
}

int elf_table_new(const struct elf_file *f, const struct elf_file *debug, struct unwind_table **ret, struct err *e)
{
    struct cfi_section v[4];
    struct bare_code bare;
    uint32_t n = 0;
    int r = go_table_new(f, ret, NULL);

    if (r != -ENODATA)
        return r;
    if (!f->is64 || (f->machine != EM_X86_64 && f->machine != EM_AARCH64))
        return err_set(e, -ENOTSUP, "code of machine %u", f->machine);
    add_section(v, &n, elf_section_bytes(f, ".eh_frame"), false);
    if (!n)
        add_section(v, &n, eh_frame_by_header(f), false);
    add_section(v, &n, elf_section_bytes(f, ".debug_frame"), true);
    if (debug)
        add_section(v, &n, elf_section_bytes(debug, ".debug_frame"), true);
    read_bare_code(f, &bare);
    return unwind_table_new_from(&bare.source, v, n, f->machine == EM_AARCH64 ? CFI_ARM64 : CFI_X86_64, ret);
}
