/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_dump FILE: the unwind table of an ELF file as text, for comparing with other readers of the same sections:
 * a line "pages rows rules bytes unknown", then one line per row: address, CFA, where fp and rbx were saved; for arm64
 * where fp and the return address were.
 */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "unwind/table.h"

static uint32_t find_sections(const struct buf *b, struct cfi_section *out, enum cfi_arch *arch)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *) b->p;
    const Elf64_Shdr *sh;
    const char *names;
    uint32_t n = 0;

    if (b->n < sizeof *h || memcmp(h->e_ident, ELFMAG, 4) || h->e_shoff + h->e_shnum * sizeof *sh > b->n)
        return 0;
    *arch = h->e_machine == EM_AARCH64 ? CFI_ARM64 : CFI_X86_64;
    sh = (const Elf64_Shdr *) (b->p + h->e_shoff);
    names = b->p + sh[h->e_shstrndx].sh_offset;
    for (int want = 0; want < 2; want++)
        for (int i = 0; i < h->e_shnum; i++)
            if (sh[i].sh_type != SHT_NOBITS && !strcmp(names + sh[i].sh_name, want ? ".debug_frame" : ".eh_frame"))
                out[n++] = (struct cfi_section){(const uint8_t *) b->p + sh[i].sh_offset, sh[i].sh_size, sh[i].sh_addr,
                                                want == 1};
    return n;
}

static void print_saved(const char *name, bool saved, bool at_fp, int units)
{
    if (!saved)
        printf(" %s=u", name);
    else
        printf(" %s=%c%+d", name, at_fp ? 'e' : 'c', units * 8);
}

static void print_rule(uint64_t pc, const struct unwind_rule *r, enum cfi_arch arch)
{
    static const char *const names[] = {"none", "sp", "fp", "reg", "plt", "derefsp", "dereffp", "signal", "end"};

    printf("%" PRIx64 " %s", pc, names[r->cfa]);
    if (r->cfa == UNWIND_CFA_REG)
        printf("%u", r->reg);
    printf("%+d", r->cfa_off);
    print_saved("fp", r->flags & UNWIND_FP_SAVED, r->flags & UNWIND_FP_AT_FP, r->fp);
    if (arch == CFI_ARM64)
        print_saved("ra", r->ra == UNWIND_RA_OFFSET, false, r->aux);
    else
        print_saved("bx", r->flags & UNWIND_BX_SAVED, r->flags & UNWIND_BX_AT_FP, r->aux);
    printf("\n");
}

int main(int argc, char **argv)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
    struct cfi_section s[2];
    enum cfi_arch arch = CFI_X86_64;
    uint32_t n;

    if (argc < 2 || fd_read_file(argv[1], 1ull << 30, &b, NULL) < 0)
        return 2;
    n = find_sections(&b, s, &arch);
    if (unwind_table_new(s, n, arch, &t) < 0)
        return 1;
    printf("%u %u %u %zu %u\n", t->n_pages, t->n_rows, t->n_rules, unwind_table_memory(t), t->n_unknown);
    for (uint32_t p = 0; p < t->n_pages && argc == 2; p++)
        for (uint32_t i = 0; i < t->pages[p].n; i++) {
            const struct unwind_row *row = &t->rows[t->pages[p].row + i];

            print_rule(((t->first_page + p) << UNWIND_PAGE_BITS) | row->pc, &t->rules[row->rule], arch);
        }
    return 0;
}
