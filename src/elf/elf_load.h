/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a file is mapped in a process: the only place that converts addresses of a process to ELF addresses, for code
 * that reads /proc/PID/maps or the kernel's mmap records (agent, record, dump). libwick asks the loader instead
 * (dl_iterate_phdr), with the same result.
 */
#ifndef ELF_ELF_LOAD_H
#define ELF_ELF_LOAD_H

#include <stdbool.h>

#include "elf/elf.h"

/*
 * ELF address = address - *ret, for addresses of the mapping [start, end) of the file from this offset on. segments:
 * any of a file's program headers. False when no loaded segment covers this part of the file.
 *
 * The mapping begins at a page boundary, so its first bytes may be the end of the segment before: what counts is the
 * segment that fills most of it, one with code before any other.
 */
bool elf_load_bias(const struct elf_segment *segments, uint32_t n, uint64_t start, uint64_t end, uint64_t offset,
                   uint64_t *ret);

#endif
