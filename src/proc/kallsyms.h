/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's functions, from /proc/kallsyms: "ffffffff81000000 T _stext", or followed by a tab and "[module]". Only
 * code is kept (types t, T, w, W). A function extends to the next symbol of any kind, but never further than
 * KALLSYMS_SIZE_MAX: an address after the last function has no name rather than a wrong one.
 */
#ifndef PROC_KALLSYMS_H
#define PROC_KALLSYMS_H

#include "base/err.h"
#include "proc/addr_names.h"

enum { KALLSYMS_FILE_MAX = 64 << 20, KALLSYMS_SIZE_MAX = 1 << 20 };

/* Names are "name", or "name [module]". */
int kallsyms_parse(struct str text, struct addr_names *t);
/* -EPERM, with an error message, when the kernel shows all addresses as zero (CAP_SYSLOG is missing). */
int kallsyms_read(const char *proc, struct addr_names *t, struct err *e);

#endif
