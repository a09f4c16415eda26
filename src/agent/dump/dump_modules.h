/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a process has mapped: where their code is, their unwind tables, their names. Used by dump.c only. */
#ifndef AGENT_DUMP_MODULES_H
#define AGENT_DUMP_MODULES_H

#include "agent/dump/dump.h"
#include "agent/lang/go/go_runtime.h"
#include "agent/lang/python/python.h"
#include "proc/addr_names.h"
#include "proc/proc_maps.h"

struct unwind_rule;

struct dump_map {
    uint64_t start, end, bias; /* ELF address = address - bias */
    int32_t module;            /* of still.modules; -1: code of no file */
};

struct dump_maps {
    struct dump_map *v; /* executable mappings sorted by start, including those without a file */
    size_t n, cap;
    struct python_image python;         /* of the module that holds an interpreter */
    const struct elf_file *python_file; /* the module's */
    uint64_t python_bias;
    bool has_python;
    struct addr_names jit;
    bool jit_tried;
    struct str executable; /* path of the main program */
    struct go_runtime go;
    bool has_go; /* go is set */
};

/* Reads the process's maps and opens its files. */
int dump_maps_read(struct dump *s, struct dump_maps *ret, struct err *e);
void dump_maps_done(struct dump_maps *m);
void dump_modules_done(struct dump *s);
const struct dump_map *dump_maps_find(const struct dump_maps *m, uint64_t address);
/* The rule at an address, NULL when nothing is known. */
const struct unwind_rule *dump_rule(struct dump *s, const struct dump_map *m, uint64_t address);
/* What to do at an address without a rule: code without tables is walked by frame pointers; a stack that ends in the
 * start code of a program is complete; any other is not. */
enum dump_end { DUMP_BY_FRAME_POINTER, DUMP_START, DUMP_NO_RULE };
enum dump_end dump_end(struct dump *s, const struct dump_map *m, uint64_t address);
/* Fills in the function of a native frame, from tables of its file or of the JIT. */
void dump_name(struct dump *s, struct dump_maps *m, struct dump_frame *f);

#endif
