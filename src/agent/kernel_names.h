/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernel code, from /proc/kallsyms (needs CAP_SYSLOG; without it all addresses are zero). */
#ifndef AGENT_KERNEL_NAMES_H
#define AGENT_KERNEL_NAMES_H

#include "base/err.h"
#include "base/str.h"

struct kernel_names;

struct kernel_name {
    struct str name, module; /* module is empty for the kernel proper */
    uint64_t start;
};

/* Whether a readable copy of the list is given (WICK_KALLSYMS_DIR), so that CAP_SYSLOG is not needed. */
bool kernel_names_given(void);
/* Reads the list. -EPERM with an error message when addresses are hidden. */
int kernel_names_new(struct kernel_names **ret, struct err *e);
void kernel_names_free(struct kernel_names *k);
/* Finds the function at the address; false when unknown. To find modules and BPF programs that were loaded later, the
 * list is read again, at most once a minute. */
bool kernel_names_find(struct kernel_names *k, uint64_t address, struct kernel_name *ret);
/* The GNU build id of the running kernel, in hex; empty when not known. */
const char *kernel_build_id(void);

#endif
