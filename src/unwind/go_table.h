/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind rows for Go code, which has no .eh_frame: .gopclntab says for each instruction how far the stack pointer
 * moved, in every binary, stripped or not. C code linked in (cgo) has its own call frame information and keeps it.
 *
 * Where the runtime switches stacks (systemstack, asmcgocall) the frame pointer is still the caller's: the walk
 * continues there, and misses the one frame that requested the switch. A goroutine's stack ends at goexit, a thread's
 * at mstart.
 */
#ifndef UNWIND_GO_TABLE_H
#define UNWIND_GO_TABLE_H

#include "base/err.h"
#include "elf/elf.h"
#include "unwind/table.h"

/* -ENODATA when the file is not a Go binary, -ENOTSUP for an unknown machine. */
int go_table_new(const struct elf_file *f, struct unwind_table **ret, struct err *e);

#endif
