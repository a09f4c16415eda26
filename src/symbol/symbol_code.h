/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine code of one function of a binary, for a disassembler. Binaries are untrusted: `wick serve` runs this in a
 * confined process (`wick symbolize --code`), whose output is
 *
 *     machine address end name "\n"      (ELF's number, two hexadecimal numbers, the symbol's name, which may be empty)
 *     bytes                              (end - address of them)
 *
 * or "!" and an error message.
 */
#ifndef SYMBOL_SYMBOL_CODE_H
#define SYMBOL_SYMBOL_CODE_H

#include "base/buf.h"
#include "base/err.h"

enum { SYMBOL_CODE_MAX = 64 << 10, SYMBOL_CODE_NAME_MAX = 4096 };

struct elf_file;

struct symbol_code_request {
    struct str build_id;   /* the file's GNU, Go or OpenTelemetry ID; empty: any */
    uint64_t address, end; /* of the function; end is used where no symbol tells the function's size */
};

/* Appends the code of the function that contains the address, at most SYMBOL_CODE_MAX bytes. -ESTALE if the file has
 * another build ID, -ENOENT if it has no code there, as files that contain only debug information. */
int symbol_code_find(const struct elf_file *f, const struct symbol_code_request *q, struct buf *out, struct err *e);
/* The same of a file. */
int symbol_code(int fd, const struct symbol_code_request *q, struct buf *out, struct err *e);

#endif
