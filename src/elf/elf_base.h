/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts addresses of a process to addresses in its binary: finds the base to subtract, given where a part of the
 * file was mapped. The rules, including those for kernels, are pprof's.
 */
#ifndef ELF_ELF_BASE_H
#define ELF_ELF_BASE_H

#include "elf/elf.h"

struct elf_mapping {
    uint64_t start, limit, offset; /* of the mapping, as in a profile */
    bool has_kernel_symbol;
    uint64_t kernel_symbol; /* value of _stext (or _text) in the binary, when it was looked up */
};

/* Whether a base can be found at all, before any address is known. */
int elf_base_check(const struct elf_file *f, const struct elf_mapping *m, struct err *e);
/* The base to subtract, found with one address of the mapping (which may identify its segment). */
int elf_base_find(const struct elf_file *f, const struct elf_mapping *m, uint64_t address, uint64_t *ret,
                  struct err *e);

#endif
