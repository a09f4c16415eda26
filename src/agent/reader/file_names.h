/* SPDX-License-Identifier: Apache-2.0 */
/* Names for addresses of a binary, from its symbol tables and Go's own table. */
#ifndef AGENT_READER_FILE_NAMES_H
#define AGENT_READER_FILE_NAMES_H

#include "elf/elf.h"
#include "model/symbolizer.h"

/* Names the addresses in one pass over the file's tables. A symbol covers only the addresses within its size; Go's table
 * has files, lines and inlined calls as well, whose strings are valid as long as f. *ret is to be freed with
 * symbol_answer_free(). */
int file_names(const struct elf_file *f, const uint64_t *addresses, uint32_t n, struct symbol_answer **ret);

#endif
