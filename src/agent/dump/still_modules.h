/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a process has mapped: where their code is, their unwind tables, their names. Used by still.c only. */
#ifndef AGENT_STILL_MODULES_H
#define AGENT_STILL_MODULES_H

#include "agent/dump/still.h"
#include "proc/addr_names.h"
#include "proc/proc_maps.h"
#include "unwind/lang/go/go_runtime.h"
#include "unwind/lang/python/python.h"

struct unwind_rule;

struct still_map {
    uint64_t start, end, bias; /* ELF address = address - bias */
    int32_t module;            /* of still.modules; -1: code of no file */
};

struct still_maps {
    struct still_map *v; /* executable mappings sorted by start, including those without a file */
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
int still_maps_read(struct still *s, struct still_maps *ret, struct err *e);
void still_maps_done(struct still_maps *m);
void still_modules_done(struct still *s);
const struct still_map *still_maps_find(const struct still_maps *m, uint64_t address);
/* The rule at an address, NULL when nothing is known. */
const struct unwind_rule *still_rule(struct still *s, const struct still_map *m, uint64_t address);
/* What to do at an address without a rule: code without tables is walked by frame pointers; a stack that ends in the
 * start code of a program is complete; any other is not. */
enum still_end { STILL_BY_FRAME_POINTER, STILL_START, STILL_NO_RULE };
enum still_end still_end(struct still *s, const struct still_map *m, uint64_t address);
/* Fills in the function of a native frame, from tables of its file or of the JIT. */
void still_name(struct still *s, struct still_maps *m, struct still_frame *f);

#endif
