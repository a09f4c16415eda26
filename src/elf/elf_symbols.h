/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbols of a binary by address: .symtab when there is one, else .dynsym and the functions in .gnu_debugdata
 * (elf_debugdata.h); only symbols in loaded sections. Sorted by address; of several symbols at one address the largest
 * is kept, and of equally large ones the last in the table. These are the rules of llvm-symbolizer, which pprof uses
 * for names.
 */
#ifndef ELF_ELF_SYMBOLS_H
#define ELF_ELF_SYMBOLS_H

#include "elf/elf.h"

struct elf_symbol {
    uint64_t address, size;
    struct str name;    /* into the file, or into `more`: valid as long as both the file and the symbols */
    struct str file;    /* the source file that a local symbol is of, without its folder, or "" */
    uint32_t index;     /* in the table */
    uint8_t type, bind; /* STT_*, STB_* */
};

struct elf_symbols {
    struct elf_symbol *v;
    uint32_t n;
    struct elf_file *more; /* what was in .gnu_debugdata, or NULL */
};

enum { ELF_SYMBOLS_MAX = 20 << 20, ELF_NAME_MAX = 1 << 20 }; /* longer names are truncated */

/* Fills *ret, to be freed with elf_symbols_done(). A missing table is not an error, nor is an unreadable
 * .gnu_debugdata. functions: only symbols of code. */
int elf_symbols_load(const struct elf_file *f, bool functions, struct elf_symbols *ret);
void elf_symbols_done(struct elf_symbols *s);
struct elf_visitor {
    int (*visit)(void *arg, const struct elf_symbol *s);
    /* Whether a symbol with this address and size is visited at all; NULL: all are. Finding the ends of names takes most of
     * the time of a pass over a table. */
    bool (*wants)(const void *arg, uint64_t address, uint64_t size);
    void *arg;
};

/* Calls visit for each symbol in the order of the tables, until it returns a value other than 0, which is returned: for
 * callers that need a few symbols and not the whole table. Names in *ret_more (.gnu_debugdata, or NULL) are valid until
 * the caller frees it with elf_free(). */
int elf_symbols_each(const struct elf_file *f, bool functions, const struct elf_visitor *v, struct elf_file **ret_more);
/* The last symbol at or before the address, if its size covers the address; a symbol without a size extends to the next
 * one. */
const struct elf_symbol *elf_symbols_find(const struct elf_symbols *s, uint64_t address);
/* The name without the version that linkers append in .symtab: clock_nanosleep@@GLIBC_2.17 is clock_nanosleep. The other
 * functions return names like this, so that a function has the same name in every table that lists it. */
static inline struct str elf_symbol_plain(struct str name)
{
    for (uint32_t i = 1; i < name.n; i++)
        if (name.p[i] == '@')
            return str_slice(name, 0, i);
    return name;
}
/* By name, linear. */
const struct elf_symbol *elf_symbols_named(const struct elf_symbols *s, struct str name);

#endif
