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

int elf_table_new(const struct elf_file *f, const struct elf_file *debug, struct unwind_table **ret, struct err *e)
{
    struct cfi_section v[4];
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
    return unwind_table_new(v, n, f->machine == EM_AARCH64 ? CFI_ARM64 : CFI_X86_64, ret);
}
