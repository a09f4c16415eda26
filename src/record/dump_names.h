/* SPDX-License-Identifier: Apache-2.0 */
/* What the symbolizer knows about the addresses of a dump: functions, lines and inlined calls. */
#ifndef RECORD_DUMP_NAMES_H
#define RECORD_DUMP_NAMES_H

#include <stdint.h>

struct dump;
struct dump_frame;
struct symbol_answer;
struct symbol_frame;

struct dump_names {
    struct symbol_answer **v; /* by module; NULL: not known */
    uint64_t **addresses;     /* sorted, as requested */
    uint32_t *n;
    uint32_t n_modules;
};

/* Asks for all frames, in a confined process. *ret stays empty if that fails: the names of symbol tables remain. */
void dump_names_ask(const struct dump *s, struct dump_names *ret);
/* The frames of an address, innermost inlined call first; 0 if only the symbol table's name is known. */
uint32_t dump_names_find(const struct dump_names *a, const struct dump_frame *f, const struct symbol_frame **ret);
void dump_names_done(struct dump_names *a);

#endif
