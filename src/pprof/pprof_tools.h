/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that provide symbols and instructions to `wick pprof`: nm and objdump of LLVM or binutils, as in pprof,
 * and `go tool objdump` for Go binaries, in Go's own syntax. -tools (and PPROF_TOOLS) says where they are:
 * "nm:/folder,objdump:/folder,/folder-for-all".
 */
#ifndef PPROF_PPROF_TOOLS_H
#define PPROF_PPROF_TOOLS_H

#include "base/arena.h"
#include "base/buf.h"
#include "report/objects.h"

struct pprof_tools {
    struct str config;          /* value of -tools: must stay valid as long as this */
    struct buf nm, objdump, go; /* paths, empty if not found */
    bool objdump_asked, llvm_objdump;
    struct regex *nm_line, *asm_line, *file_line, *function, *llvm_function;
};

/* config: the value of -tools, not copied. A missing tool is not an error until it is needed. */
int pprof_tools_init(struct pprof_tools *t, struct str config, struct err *e);
void pprof_tools_done(struct pprof_tools *t);
/* Symbols of the file that match, in the order of nm -n. -ENOENT if there is no nm. */
int pprof_tools_symbols(struct pprof_tools *t, const char *file, const struct regex *name, uint64_t address,
                        struct arena *a, struct report_symbols *ret);
/* -symbolize=fastlocal: symbols with their sizes by address, as nm sorts them. Free v with mem_free(). -ENOENT without
 * nm. */
struct pprof_nm_symbol {
    uint64_t address, size;
    struct str name; /* in the arena */
    bool data;
};
struct pprof_nm {
    struct pprof_nm_symbol *v;
    size_t n, cap;
};
int pprof_tools_nm(struct pprof_tools *t, const char *file, struct arena *a, struct pprof_nm *ret);
/* The symbol at or before the address; a data symbol must cover it. NULL if there is none. */
const struct pprof_nm_symbol *pprof_nm_find(const struct pprof_nm *nm, uint64_t address);
/* The instructions of [start, end) of a file: by objdump, or by `go tool objdump`, which has no Intel syntax. */
struct pprof_code {
    const char *file;
    uint64_t start, end;
    bool intel;
};
int pprof_tools_disassemble(struct pprof_tools *t, const struct pprof_code *code, struct arena *a,
                            struct report_insts *ret, struct err *e);
int pprof_tools_disassemble_go(struct pprof_tools *t, const struct pprof_code *code, struct arena *a,
                               struct report_insts *ret, struct err *e);
/* The names of s that match: all of them if the requested address is in it. 1 if there are any, else 0. */
int pprof_match_symbol(const struct report_symbol *s, const struct regex *re, uint64_t address, struct arena *a,
                       struct report_symbol *ret);

#endif
