/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information: .eh_frame and .debug_frame read from untrusted bytes. Nothing is allocated; every access is
 * bounds-checked against the section. Handles x86-64 and arm64 files on any machine.
 */
#ifndef UNWIND_CFI_H
#define UNWIND_CFI_H

#include <stdbool.h>

#include "base/macros.h"
#include "unwind/rows.h"

enum cfi_arch { CFI_X86_64, CFI_ARM64 };

struct cfi_section {
    const uint8_t *p;
    size_t n;
    uint64_t vaddr; /* ELF address of p[0], for pc-relative pointers */
    bool debug;     /* .debug_frame */
};

struct cfi_fde {
    uint64_t start, end; /* ELF addresses [start, end) */
    uint32_t offset;     /* of the FDE in its section */
    uint32_t section;    /* for the caller */
};

/* The next FDE at or after *pos (begin with 0). 1 found, 0 at the end; damaged entries are skipped. */
int cfi_next(const struct cfi_section *s, enum cfi_arch arch, size_t *pos, struct cfi_fde *ret);

/* Runs the FDE's program: emit() is called with ascending pc for each change of the rule, the first time at its start.
 * 0, or what emit returned when that was negative. An unknown instruction ends the program: the rules up to there are
 * valid, and from there on the rule is UNWIND_CFA_NONE. */
typedef int cfi_emit(void *arg, uint64_t pc, const struct unwind_rule *rule);
int cfi_run(const struct cfi_section *s, enum cfi_arch arch, const struct cfi_fde *fde, cfi_emit *emit, void *arg);

#endif
