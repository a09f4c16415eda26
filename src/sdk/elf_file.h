/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The little of an ELF file that libwick reads: sections by name, and function names for addresses. Files are mapped for
 * the time of one question, so that symbol tables cost no memory; everything is bounds-checked.
 */
#ifndef SDK_ELF_FILE_H
#define SDK_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct elf_file {
    const uint8_t *p;
    size_t n;
    bool mapped;
};

int elf_file_open(struct elf_file *f, const char *path); /* 0 or negative errno; -EINVAL: not a 64-bit ELF file */
int elf_file_memory(struct elf_file *f, const void *p, size_t n);
void elf_file_close(struct elf_file *f);
/* By name; false when absent, empty or compressed. */
bool elf_file_section(const struct elf_file *f, const char *name, const uint8_t **ret, size_t *ret_n);

struct elf_query {
    uint64_t address; /* ELF address; queries are sorted by it */
    struct str name;  /* set by elf_file_names(): into the file, valid until it is closed */
    uint64_t value;   /* where that function begins */
    uint32_t index;   /* for the caller */
    uint8_t rank;
};
/* Fills in names from .symtab and .dynsym. Returns how many have one. */
size_t elf_file_names(const struct elf_file *f, struct elf_query *q, size_t n);

#endif
