/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gnu_debugdata ("MiniDebugInfo"): an ELF file with the names of functions that are not exported, compressed with xz,
 * which Fedora and related distributions put into stripped binaries.
 */
#ifndef ELF_ELF_DEBUGDATA_H
#define ELF_ELF_DEBUGDATA_H

#include "elf/elf.h"

/* The maximum inflated size of such a file, and the maximum additional memory for inflating it. */
enum { ELF_DEBUGDATA_MAX = 256 << 20, ELF_DEBUGDATA_WORK_MAX = 128 << 20 };

/* *ret is owned by the caller, and does not need f. -ENODATA when there is none, -EBADMSG when it is damaged, -EFBIG
 * when it is too large, -ENOEXEC when its content is not an ELF file. */
int elf_debugdata_open(const struct elf_file *f, struct elf_file **ret, struct err *e);

#endif
