/* SPDX-License-Identifier: Apache-2.0 */
/* Function names from the symbol tables of an ELF file (name_query.h): one pass over .symtab and .dynsym that offers
 * each symbol to the sorted queries. */
#include "sdk/name_query.h"

#include <string.h>

#include "elf/elf.h"
#include "elf/elf_symbols.h"

enum { NO_SIZE_REACH = 4096 }; /* how far an address may be above a symbol without a size */

void name_query_sort(struct name_query *q, size_t n)
{
    for (size_t gap = n / 2; gap; gap /= 2) /* shell sort: needs no memory, and the lists are short */
        for (size_t i = gap; i < n; i++) {
            struct name_query x = q[i];
            size_t k = i;

            for (; k >= gap && q[k - gap].address > x.address; k -= gap)
                q[k] = q[k - gap];
            q[k] = x;
        }
}

/* Index of the first query at or above the address. */
static size_t lower(const struct name_query *q, size_t n, uint64_t address)
{
    size_t a = 0, z = n;

    while (a < z) {
        size_t mid = (a + z) / 2;

        if (q[mid].address < address)
            a = mid + 1;
        else
            z = mid;
    }
    return a;
}

/* Which symbol is better: one whose size covers the address before the nearest one below; global names before local
 * ones. */
static uint8_t rank_of(const Elf64_Sym *s)
{
    return (uint8_t) ((s->st_size ? 4 : 1) + (ELF64_ST_BIND(s->st_info) == STB_GLOBAL));
}

static void offer(struct name_query *q, size_t n, const Elf64_Sym *s, const struct elf_bytes *strings)
{
    uint64_t end = s->st_value + (s->st_size ? s->st_size : NO_SIZE_REACH);
    uint8_t rank = rank_of(s);

    for (size_t i = lower(q, n, s->st_value); i < n && q[i].address < end; i++) {
        const char *name;

        if (rank < q[i].rank || (rank == q[i].rank && s->st_value <= q[i].value) || s->st_name >= strings->n)
            continue;
        name = (const char *) strings->p + s->st_name;
        q[i].name = elf_symbol_plain(
            (struct str){name, (uint32_t) strnlen(name, MIN(strings->n - s->st_name, (size_t) 65535))});
        q[i].value = s->st_value;
        q[i].rank = rank;
    }
}

static void scan(const struct elf_file *f, const struct elf_section *s, struct name_query *q, size_t n)
{
    struct elf_bytes symbols = elf_bytes_of(f, s), strings;

    if (s->entry_size != sizeof(Elf64_Sym) || s->link >= f->n_sections)
        return;
    strings = elf_bytes_of(f, &f->sections[s->link]);
    for (size_t k = 1; strings.p && k < symbols.n / sizeof(Elf64_Sym); k++) {
        Elf64_Sym sym;
        uint8_t kind;

        memcpy(&sym, symbols.p + k * sizeof sym, sizeof sym);
        kind = ELF64_ST_TYPE(sym.st_info);
        if (sym.st_shndx == SHN_UNDEF || !sym.st_value || sym.st_value > q[n - 1].address)
            continue;
        if (kind == STT_FUNC || kind == STT_GNU_IFUNC || kind == STT_NOTYPE)
            offer(q, n, &sym, &strings);
    }
}

size_t name_query(const struct elf_file *f, struct name_query *q, size_t n)
{
    size_t found = 0;

    if (!n || !f->is64)
        return 0;
    for (uint32_t i = 0; i < f->n_sections; i++)
        if (f->sections[i].type == SHT_SYMTAB || f->sections[i].type == SHT_DYNSYM)
            scan(f, &f->sections[i], q, n);
    for (size_t i = 0; i < n; i++)
        found += q[i].name.n > 0;
    return found;
}
