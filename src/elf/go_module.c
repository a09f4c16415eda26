/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds runtime.moduledata without symbols. Its layout, in words of pointer size:
 *
 *      0  address of the line table      1  address of its names, length, capacity     ...     22  text
 *     39  rodata                         40  go:func.*        (37 and 38 before 1.20)
 *
 * In a position-independent binary the words are zero in the file, and relocations say what they will be.
 */
#include "elf/go_module.h"

enum { WORD_NAMES = 1, WORD_TEXT = 22, WORD_RODATA = 39, WORD_RODATA_1_18 = 37, HEADER_NAMES = 3, RELATIVE_X86 = 8 };
enum { RELATIVE_ARM64 = 1027 };

struct module_search {
    const struct elf_file *f;
    struct elf_bytes table;
    size_t word;
    uint64_t names; /* address */
};

static uint64_t load(const struct module_search *s, const uint8_t *p)
{
    uint64_t v = 0;

    memcpy(&v, p, s->word);
    return v;
}

/* The n-th relocation of a section that says "this word is the load address plus addend". */
static bool relocation(const struct module_search *s, struct elf_bytes b, size_t n, uint64_t *ret_at,
                       uint64_t *ret_addend)
{
    Elf64_Rela r;
    uint32_t type;

    if (s->word != 8)
        return false;
    memcpy(&r, b.p + n * sizeof(r), sizeof(r));
    type = ELF64_R_TYPE(r.r_info);
    *ret_at = r.r_offset;
    *ret_addend = (uint64_t) r.r_addend;
    return type == (s->f->machine == EM_AARCH64 ? RELATIVE_ARM64 : RELATIVE_X86);
}

/* The first relocation of this place (or, with at 0, to this value): both. */
static bool find_relocation(const struct module_search *s, uint64_t *at, uint64_t *value)
{
    for (uint32_t i = 0; i < s->f->n_sections; i++) {
        struct elf_bytes b = elf_bytes_of(s->f, &s->f->sections[i]);

        if (s->f->sections[i].type != SHT_RELA)
            continue;
        for (size_t k = 0; k < b.n / sizeof(Elf64_Rela); k++) {
            uint64_t place, addend;

            if (relocation(s, b, k, &place, &addend) && (*at ? place == *at : addend == *value)) {
                *at = place;
                *value = addend;
                return true;
            }
        }
    }
    return false;
}

static uint64_t word_of(const struct module_search *s, uint64_t module, unsigned i)
{
    uint64_t at = module + i * s->word, value = 0;
    const uint8_t *p = elf_at_address(s->f, at, s->word);

    if (p && load(s, p))
        return load(s, p);
    return find_relocation(s, &at, &value) ? value : 0;
}

/* The address of the record among the words of the file. */
static uint64_t find_in_data(const struct module_search *s)
{
    for (uint32_t i = 0; i < s->f->n_sections; i++) {
        const struct elf_section *x = &s->f->sections[i];
        struct elf_bytes b = elf_bytes_of(s->f, x);

        if (x->type != SHT_PROGBITS || !(x->flags & SHF_ALLOC) || (x->flags & SHF_EXECINSTR))
            continue;
        for (size_t at = 0; at + 2 * s->word <= b.n; at += s->word)
            if (load(s, b.p + at) == s->table.address && load(s, b.p + at + s->word) == s->names)
                return b.address + at;
    }
    return 0;
}

static uint64_t find_in_relocations(const struct module_search *s)
{
    uint64_t at = 0, value = s->table.address;

    return s->word == 8 && find_relocation(s, &at, &value) && word_of(s, at, WORD_NAMES) == s->names ? at : 0;
}

static struct elf_bytes rest_of_segment(const struct elf_file *f, uint64_t address)
{
    for (uint32_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *p = &f->segments[i];
        struct elf_bytes b = elf_segment_bytes(f, p);

        if (p->type == PT_LOAD && address >= p->vaddr && address - p->vaddr < b.n)
            return (struct elf_bytes){b.p + (address - p->vaddr), b.n - (address - p->vaddr), address};
    }
    return (struct elf_bytes){0};
}

bool go_module_find(const struct elf_file *f, struct elf_bytes pclntab, struct go_module *ret)
{
    struct module_search s = {.f = f, .table = pclntab, .word = f->is64 ? 8 : 4};
    uint32_t magic;
    uint64_t module, calls;
    unsigned rodata;

    if (pclntab.n < 8 + 8 * s.word)
        return false;
    memcpy(&magic, pclntab.p, sizeof(magic));
    if (magic != 0xfffffff0 && magic != 0xfffffff1) /* 1.18; 1.20 and later */
        return false;
    rodata = magic == 0xfffffff0 ? WORD_RODATA_1_18 : WORD_RODATA;
    s.names = pclntab.address + load(&s, pclntab.p + 8 + HEADER_NAMES * s.word);
    module = find_in_data(&s);
    if (!module)
        module = find_in_relocations(&s);
    if (!module)
        return false;
    calls = word_of(&s, module, rodata + 1);
    if (calls < word_of(&s, module, rodata))
        return false;
    *ret = (struct go_module){word_of(&s, module, WORD_TEXT), rest_of_segment(f, calls)};
    return ret->text && ret->calls.n;
}
