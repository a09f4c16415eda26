/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record that Go's runtime keeps of a binary (runtime.firstmoduledata), of Go 1.20 to 1.26: found without symbols by
 * its first words, which point at the line table and at the names in it.
 */
#ifndef ELF_GO_MODULE_H
#define ELF_GO_MODULE_H

#include "elf/elf.h"

struct go_module {
    uint64_t text;          /* the address that function entries are relative to */
    struct elf_bytes calls; /* go:func.*, up to the end of its segment */
};

/* pclntab: the line table's bytes. False when there is no such record, or one of another layout. */
bool go_module_find(const struct elf_file *f, struct elf_bytes pclntab, struct go_module *ret);

#endif
