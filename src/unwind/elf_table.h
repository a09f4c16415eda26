/* SPDX-License-Identifier: Apache-2.0 */
/* The unwind table of an ELF file, from whatever it has: pclntab, .eh_frame, .debug_frame. */
#ifndef UNWIND_ELF_TABLE_H
#define UNWIND_ELF_TABLE_H

#include "base/err.h"
#include "elf/elf.h"
#include "unwind/table.h"

/* debug: the separate debug file, whose .debug_frame is used as well; NULL when there is none. A file without any of
 * these gives a table without rows. -ENOTSUP for an unknown machine. */
int elf_table_new(const struct elf_file *f, const struct elf_file *debug, struct unwind_table **ret, struct err *e);

#endif
