/* SPDX-License-Identifier: Apache-2.0 */
/* Internal header of weblist: what source_web.c collects and source_web_html.c writes. */
#ifndef REPORT_SOURCE_WEB_H
#define REPORT_SOURCE_WEB_H

#include "base/map.h"
#include "report/source.h"
#include "report/source_reader.h"

/* An address with samples. */
struct web_place {
    uint64_t address;
    int64_t flat, cum;
    uint32_t location; /* the first that had it */
    bool interesting;
    struct report_object *object; /* of an interesting one; NULL when its binary cannot be read */
};

struct web_inst {
    uint64_t address, object_address, length;
    struct str text, file; /* text "" for an address without a binary */
    int64_t line, flat, cum;
};

struct web_call {
    struct str file;
    int64_t line;
};

/* An instruction (insts[inst]) to be shown at a line, and the calls that were inlined between the two, caller first. */
struct web_use {
    int64_t line;
    struct str function;
    uint32_t inst, first_call, n_calls, order;
};

struct web_file {
    struct str name;
    struct web_use *uses; /* by line, then in the order they were found */
    size_t n, cap;
    int64_t flat; /* of all its instructions, each once; only where files are ordered by it */
};

struct web_names { /* a set of strings */
    struct str *v;
    struct str *other; /* for `pretty`: the name of each */
    size_t n, cap, cap_other;
    struct map map;
};

struct web {
    struct report *r;
    struct report_objects *objects;
    struct source_reader reader;
    struct web_place *places;
    struct web_inst *insts;
    struct web_call *calls;
    struct web_file *files;
    size_t n_places, cap_places, n_insts, cap_insts, n_calls, cap_calls, n_files, cap_files;
    struct map place_map, inst_map;
    struct web_names interest, pretty; /* pretty: system name -> name */
    uint64_t next_made_up;             /* addresses for locations that have none */
    uint64_t *made_up;                 /* per location */
    struct arena arena;
};

const struct web_inst *web_find_inst(const struct web *w, uint64_t address);
/* Writes the page of what was collected; uses are sorted. */
int web_print(struct web *w, struct buf *out);
uint32_t web_names_find(const struct web_names *s, struct str name); /* MAP_NONE when it is absent */

#endif
