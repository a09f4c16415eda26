/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Go runtime keeps of goroutines: the pprof labels of the one that a thread runs, and the list of all
 * (go_goroutines.h).
 *
 *   thread pointer + g  ─►  g  ─► m (at 48) ─► curg ─► labels        arm64: g is in x28
 *
 * Where things are depends on the version, and is read off the code that uses it, which every binary has, stripped or
 * not: systemstack compares with m.curg and loads g, runtime_setProfLabel writes g.labels, allgadd reads g.atomicstatus
 * and appends to allgs, goroutineheader reads the names of wait reasons. A binary without runtime_setProfLabel sets no
 * labels.
 *
 * Labels, Go 1.24 and later: a slice {pointer, length, capacity} of {key pointer, length, value pointer, length}.
 * Before: a pointer to a map with one bucket of 8 as long as there are no more:
 *
 *   map      count (8) | flags (1) | B: log2 of buckets (1) | … | buckets at 16
 *   bucket   8 bytes of tops (0, 1: empty) | 8 keys {pointer, length} | 8 values | overflow
 */
#ifndef AGENT_LANG_GO_RUNTIME_H
#define AGENT_LANG_GO_RUNTIME_H

#include "base/arena.h"
#include "elf/elf.h"
#include "proc/proc_memory.h"

enum { GO_TABLES_MAX = 32 };

struct go_runtime {
    unsigned minor;
    int64_t g;             /* from the thread pointer; 0: in a register (arm64) */
    uint32_t curg, labels; /* in m, in g; labels 0: it sets none */
    uint64_t allgs;        /* ELF address of the list of goroutines; 0: not found */
    uint32_t status;       /* in g; 0: not found */
    uint32_t n_tables;
    uint64_t tables[GO_TABLES_MAX]; /* ELF addresses, one of which is of runtime.waitReasonStrings */
    uint8_t is_slice;               /* a byte and not a bool: it crosses from an untrusted process */
};

struct go_label {
    struct str key, value;
};

enum { GO_LABELS_MAX = 16, GO_LABEL_BYTES = 256, GO_G_M = 48 };

/* False when it is not a Go binary, or its code is not recognised. */
bool go_runtime_probe(const struct elf_file *f, struct go_runtime *ret);
/* The goroutine that the thread runs: the address of its g; 0 when there is none. */
uint64_t go_current(const struct go_runtime *g, const struct proc_memory *m, uint64_t thread_pointer, uint64_t x28);
/* Reads the labels of a goroutine, into the arena; returns their number, 0 when there are none or they cannot be
 * read. */
uint32_t go_labels_read(const struct go_runtime *g, const struct proc_memory *m, uint64_t goroutine, struct arena *a,
                        struct go_label ret[GO_LABELS_MAX]);

#endif
