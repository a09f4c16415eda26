/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function names for a few addresses of a file. The file is mapped only during one query, and its symbol tables are
 * read once from beginning to end, so that no memory is used except for the names.
 */
#ifndef SDK_NAME_QUERY_H
#define SDK_NAME_QUERY_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct elf_file;

struct name_query {
    uint64_t address; /* ELF address; queries are sorted by it */
    struct str name;  /* set by name_query(): points into the file, valid until it is closed */
    uint64_t value;   /* where that function begins */
    uint32_t index;   /* for the caller */
    uint8_t rank;
};

void name_query_sort(struct name_query *q, size_t n);
/* Fills in names from .symtab and .dynsym. Returns how many have one. */
size_t name_query(const struct elf_file *f, struct name_query *q, size_t n);

#endif
