/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread-local variable of a file is, for readers outside of the process. The compiler addresses it in one of
 * four ways, and the file's relocations show which:
 *
 *   local exec      in an executable: a fixed distance from the thread pointer (below it on x86-64, above it on arm64), known
 *                   from the file alone
 *   initial exec    R_X86_64_TPOFF64: the slot holds the distance
 *   general         R_X86_64_DTPMOD64 and DTPOFF64: two slots hold the number of the module and the offset in its block
 *   descriptor      R_X86_64_TLSDESC: two slots hold a function and its argument, which is the distance when the block is in
 *                   the static area, else points to {module, offset}
 *
 * arm64 has the same four: R_AARCH64_TLS_TPREL, TLS_DTPMOD, TLSDESC.
 *
 * The loader fills slots when it loads the file.
 */
#ifndef ELF_TLS_SYMBOL_H
#define ELF_TLS_SYMBOL_H

#include "elf/elf.h"
#include "proc/proc_memory.h"

enum tls_access { TLS_NO_SLOT, TLS_INITIAL_EXEC, TLS_GENERAL, TLS_DESCRIPTOR };

struct tls_symbol {
    uint64_t value; /* offset of the variable in the file's block */
    int64_t exec;   /* distance from the thread pointer, if the file is the executable */
    enum tls_access access;
    uint64_t slot; /* ELF address */
};

/* False when the file does not define the variable. */
bool tls_symbol_find(const struct elf_file *f, struct str name, struct tls_symbol *ret);

struct tls_place {
    bool is_static;  /* at thread pointer + offset; else in block `module` of the thread's dtv, at offset */
    uint64_t module; /* as in dtv[module] */
    int64_t offset;
};

/* Reads the slots in a process. executable: the file is the program itself. 0, -EAGAIN when the loader has not filled
 * them yet, -EFAULT, -ENOTSUP. */
int tls_symbol_place(const struct tls_symbol *s, bool executable, const struct proc_memory *m, uint64_t bias,
                     struct tls_place *ret);

#endif
