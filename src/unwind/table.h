/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind table of one ELF file: rows (rows.h) compiled from its call frame information. Immutable once made; any
 * number of threads and signal handlers may read it. unwind_find() takes no lock and calls nothing.
 */
#ifndef UNWIND_TABLE_H
#define UNWIND_TABLE_H

#include "base/macros.h"
#include "unwind/cfi.h"
#include "unwind/rows.h"

struct unwind_table {
    uint64_t first_page; /* ELF address >> 16 of pages[0] */
    uint32_t n_pages, n_rows, n_rules;
    uint64_t covered;   /* bytes of code that the functions described have */
    uint32_t n_unknown; /* rows that are UNWIND_CFA_NONE inside a function: unsupported rules */
    struct unwind_page *pages;
    uint16_t *blocks; /* UNWIND_PAGE_BLOCKS per page */
    struct unwind_row *rows;
    struct unwind_rule *rules;
    void *map; /* table_share.h: the mapped file that the four arrays are in; NULL: they are allocated */
    size_t map_size;
};

/* Limits of a table, so that a hostile file cannot exhaust memory. */
enum { UNWIND_ROWS_MAX = 1 << 24, UNWIND_PAGES_MAX = 1 << 15 };

/* Compiles the sections of one file; if two describe an address, the first one is used. *ret is to be freed with
 * unwind_table_free(). A file without call frame information gives a table without rows. 0, -ENOMEM, -E2BIG. */
int unwind_table_new(const struct cfi_section *sections, uint32_t n, enum cfi_arch arch, struct unwind_table **ret);
/* Functions that are described by something else than call frame information (Go's pclntab). If a section describes the
 * same address, the source is used. */
struct unwind_source {
    uint32_t n;
    bool (*range)(const struct unwind_source *s, uint32_t i, uint64_t *ret_start,
                  uint64_t *ret_end);                                                 /* false: left out */
    int (*run)(const struct unwind_source *s, uint32_t i, cfi_emit *emit, void *arg); /* as cfi_run() */
};
int unwind_table_new_from(const struct unwind_source *source, const struct cfi_section *sections, uint32_t n,
                          enum cfi_arch arch, struct unwind_table **ret);
void unwind_table_free(struct unwind_table *t);
DEFINE_CLEANUP(struct unwind_table *, unwind_table_free)
size_t unwind_table_memory(const struct unwind_table *t);

/* The rule at an ELF address; NULL if there is none. */
static inline const struct unwind_rule *unwind_find(const struct unwind_table *t, uint64_t address)
{
    uint64_t page = (address >> UNWIND_PAGE_BITS) - t->first_page;
    uint32_t low = address & 0xffff, b = low >> UNWIND_BLOCK_BITS, a, z;
    const struct unwind_row *rows;
    const uint16_t *block;

    if (page >= t->n_pages || !t->pages[page].n)
        return NULL;
    rows = t->rows + t->pages[page].row;
    block = t->blocks + page * UNWIND_PAGE_BLOCKS + b;
    a = block[0];
    z = b + 1 < UNWIND_PAGE_BLOCKS ? block[1] : t->pages[page].n - 1;
    while (a < z) {
        uint32_t mid = (a + z + 1) / 2;

        if (rows[mid].pc <= low)
            a = mid;
        else
            z = mid - 1;
    }
    return rows[a].rule ? &t->rules[rows[a].rule] : NULL;
}

#endif
