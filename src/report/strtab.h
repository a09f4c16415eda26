/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings as numbers: equal strings have the same id, so later steps compare names by id. Id 0 is the empty string.
 * Strings given to strtab_id() must outlive the table (they point into a batch); strtab_copy() keeps its own copy.
 * Errors are sticky: after the first failed allocation every call returns 0 and strtab_error() returns the error.
 */
#ifndef REPORT_STRTAB_H
#define REPORT_STRTAB_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"

struct strtab {
    struct str *v;
    size_t n, cap;
    struct map map;
    struct arena arena;
    int err;
};

int strtab_init(struct strtab *t);
void strtab_done(struct strtab *t);
uint32_t strtab_id(struct strtab *t, struct str s);
uint32_t strtab_copy(struct strtab *t, struct str s);

static inline struct str strtab_get(const struct strtab *t, uint32_t id)
{
    return t->v[id];
}

static inline int strtab_error(const struct strtab *t)
{
    return t->err;
}

#endif
