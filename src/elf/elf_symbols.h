/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of a binary by address. .symtab when there is one, else .dynsym; functions and untyped code symbols, or
 * everything, as asked. Sorted by address; among those of one address the one that people mean comes last (global over
 * local, sized over unsized, a function over an untyped one), which is the one that elf_symbols_find() returns.
 */
#ifndef ELF_ELF_SYMBOLS_H
#define ELF_ELF_SYMBOLS_H

#include "elf/elf.h"

struct elf_symbol {
    uint64_t address, size;
    struct str name;    /* into the file */
    uint8_t type, bind; /* STT_*, STB_* */
    uint16_t section;
};

struct elf_symbols {
    struct elf_symbol *v;
    uint32_t n;
};

enum { ELF_SYMBOLS_MAX = 20 << 20 };

/* Fills *ret, to be freed with elf_symbols_done(). No table is no error. functions: only those that hold code. */
int elf_symbols_load(const struct elf_file *f, bool functions, struct elf_symbols *ret);
void elf_symbols_done(struct elf_symbols *s);
/* The symbol that has the address inside its size; one without a size reaches up to the next symbol. Or NULL. */
const struct elf_symbol *elf_symbols_find(const struct elf_symbols *s, uint64_t address);
/* By name, linear. */
const struct elf_symbol *elf_symbols_named(const struct elf_symbols *s, struct str name);

#endif
