/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gnu_debugdata ("MiniDebugInfo"): an ELF file with the names of functions that are not exported, compressed with xz,
 * that Fedora and its kin leave inside binaries they have stripped.
 */
#ifndef ELF_ELF_DEBUGDATA_H
#define ELF_ELF_DEBUGDATA_H

#include "elf/elf.h"

/* The size that such a file may have when it is inflated, and the memory that inflating it may take beside. */
enum { ELF_DEBUGDATA_MAX = 256 << 20, ELF_DEBUGDATA_WORK_MAX = 128 << 20 };

/* *ret is the caller's, and does not need f. -ENODATA when there is none, -EBADMSG when it is damaged, -EFBIG when it is
 * too large, -ENOEXEC when what is inside is no ELF file. */
int elf_debugdata_open(const struct elf_file *f, struct elf_file **ret, struct err *e);

#endif
