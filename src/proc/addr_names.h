/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of address ranges that are in no ELF file: the kernel's functions (kallsyms.h) and code of JITs (jit_names.h).
 * A table is filled, sorted once, then read-only.
 */
#ifndef PROC_ADDR_NAMES_H
#define PROC_ADDR_NAMES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

struct addr_name {
    uint64_t start;
    uint32_t size; /* 0: up to the next one */
    uint32_t name; /* in the pool: u16 length, bytes */
};

struct addr_names {
    struct addr_name *v;
    size_t n, cap;
    struct buf pool;
};

enum { ADDR_NAMES_MAX = 1 << 21, ADDR_NAMES_POOL_MAX = 128 << 20, ADDR_NAME_MAX = 4096 };

#define ADDR_NAMES_INIT ((struct addr_names){.pool = {.limit = ADDR_NAMES_POOL_MAX}})

/* 0, -ENOMEM, -E2BIG, -EFBIG. Names longer than ADDR_NAME_MAX are truncated. */
int addr_names_add(struct addr_names *t, uint64_t start, uint64_t size, struct str name);
/* Sorts the table; of overlapping ranges only the last added one is kept. To be called once, before
 * addr_names_find(). */
void addr_names_sort(struct addr_names *t);
void addr_names_order(struct addr_names *t); /* the same, but keeps all; equal starts in the order of adding */
/* Sorts v[n_old] to v[n - 1] into those before, which are sorted; of ranges that overlap the one whose name has the larger
 * number is kept. Returns how many are left. */
size_t addr_names_merge(struct addr_name *v, size_t n_old, size_t n);
/* The one that has the address, or NULL. */
const struct addr_name *addr_names_at(const struct addr_name *v, size_t n, uint64_t address);
void addr_names_done(struct addr_names *t);
/* False when no range has the address. The name lives as long as the table. */
bool addr_names_find(const struct addr_names *t, uint64_t address, struct str *ret_name, uint64_t *ret_start);

#endif
