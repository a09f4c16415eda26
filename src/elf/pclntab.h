/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's own table of functions, files and lines (.gopclntab), which is in every Go binary, stripped or not: Go 1.2 to
 * 1.26. It gives the function, file and line of an address, and since Go 1.18 also the calls that were inlined there.
 */
#ifndef ELF_PCLNTAB_H
#define ELF_PCLNTAB_H

#include "elf/elf.h"

enum pclntab_version { PCLNTAB_1_2, PCLNTAB_1_16, PCLNTAB_1_18, PCLNTAB_1_20 };

struct pclntab {
    struct elf_bytes data; /* the whole table; everything below points into it */
    enum pclntab_version version;
    uint8_t quantum, pointer_size;
    uint32_t n_functions, n_files;
    uint64_t text; /* the address that function entries are relative to, since 1.18 */
    struct elf_bytes names, units, files, pc_values, functions;
    struct elf_bytes calls; /* go:func.*, where trees of inlined calls are; none when it was not found */
};

struct pclntab_frame {
    struct str name, file;
    int32_t line, start_line; /* 0 when unknown */
};

enum { PCLNTAB_FRAMES_MAX = 64 };

struct pclntab_function {
    uint64_t entry, end;
    struct str name;
    uint32_t at; /* of its record, in t->functions */
};

/* -ENODATA when the binary has none (it is not a Go binary), -EBADMSG when it cannot be read. f must outlive the
 * table. */
int pclntab_open(const struct elf_file *f, struct pclntab *ret, struct err *e);
/* The table in these bytes; text: the address of runtime.text, used when the table does not have it. */
int pclntab_parse(struct elf_bytes data, uint64_t text, struct pclntab *ret, struct err *e);
/* The function with the address, or false. */
bool pclntab_find(const struct pclntab *t, uint64_t address, struct pclntab_function *ret);
/* Function number i < n_functions. */
bool pclntab_function(const struct pclntab *t, uint32_t i, struct pclntab_function *ret);
/* File and line of an address inside the function; line -1 (or 0) and an empty file when unknown. */
void pclntab_line(const struct pclntab *t, const struct pclntab_function *fn, uint64_t address, struct str *ret_file,
                  int32_t *ret_line);
/* The frames at an address inside the function, innermost inlined call first, the function itself last; returns their
 * number, at least one. */
unsigned pclntab_frames(const struct pclntab *t, const struct pclntab_function *fn, uint64_t address,
                        struct pclntab_frame ret[PCLNTAB_FRAMES_MAX]);
/* The line that the function begins on, 0 when the table does not say (before 1.20). */
int32_t pclntab_start_line(const struct pclntab *t, const struct pclntab_function *fn);
/* How far the stack pointer has moved down from where the function was entered: f is called with ascending start for
 * each range of the function with one value, until it returns a value other than 0, which is returned. */
int pclntab_each_sp(const struct pclntab *t, const struct pclntab_function *fn,
                    int (*f)(void *data, uint64_t start, int32_t value), void *data);

#endif
