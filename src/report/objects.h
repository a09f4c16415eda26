/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weblist and disasm need to know about the binaries of a profile. Reports do not depend on ELF; the command gives
 * them this table of functions. Addresses are those of the profile, except for the object's addresses, which are those
 * in the file.
 *
 * Everything that is returned is valid until the table's owner frees it, after the report.
 */
#ifndef REPORT_OBJECTS_H
#define REPORT_OBJECTS_H

#include "base/err.h"
#include "base/regex.h"
#include "base/str.h"

struct report_inst {
    uint64_t address; /* the object's */
    struct str text, function, file;
    int64_t line;
};

struct report_insts {
    struct report_inst *v;
    uint32_t n;
};

struct report_symbol {
    struct str *names; /* n_names >= 1: of one address */
    uint32_t n_names;
    uint64_t start, end; /* the object's; end is the last byte */
};

struct report_symbols {
    struct report_symbol *v;
    uint32_t n;
};

struct report_frame {
    struct str function, file;
    int64_t line;
};

struct report_frames {
    struct report_frame *v; /* innermost first */
    uint32_t n;
};

struct report_mapping {
    struct str file;
    uint64_t start, limit, offset;
};

struct report_object; /* a binary, mapped somewhere */

struct report_objects {
    /* Opens the binary of a mapping. -ENOENT and so on with an error message when it cannot be read. */
    int (*open)(struct report_objects *o, const struct report_mapping *m, struct report_object **ret, struct err *e);
    /* The object's address of one of the profile's. */
    int (*address)(struct report_object *x, uint64_t address, uint64_t *ret);
    /* Symbols whose name (as it is, or demangled) matches, or that have the object's address, if it is not 0. */
    int (*symbols)(struct report_object *x, const struct regex *name, uint64_t address, struct report_symbols *ret);
    /* Instructions of [start, end), the object's. */
    int (*disassemble)(struct report_object *x, uint64_t start, uint64_t end, bool intel, struct report_insts *ret,
                       struct err *e);
    /* The source position of an address. */
    int (*lines)(struct report_object *x, uint64_t address, struct report_frames *ret);
};

#endif
