/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernel code, from /proc/kallsyms (needs CAP_SYSLOG; all zero without). */
#ifndef AGENT_KERNEL_NAMES_H
#define AGENT_KERNEL_NAMES_H

#include "base/err.h"
#include "base/str.h"

struct kernel_names;

struct kernel_name {
    struct str name, module; /* module is empty for the kernel proper */
    uint64_t start;
};

/* Reads the list. -EPERM with words when addresses are hidden. */
int kernel_names_new(struct kernel_names **ret, struct err *e);
void kernel_names_free(struct kernel_names *k);
/* The function with the address; false when unknown. Modules and BPF programs that came later are read again, at most
 * once a minute. */
bool kernel_names_find(struct kernel_names *k, uint64_t address, struct kernel_name *ret);
/* The GNU build id of the running kernel, in hex; empty when not known. */
const char *kernel_build_id(void);

#endif
