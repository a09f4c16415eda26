/* SPDX-License-Identifier: Apache-2.0 */
/* V8 assembles its builtins itself when it is built: they have frame pointers, but no call frame information. */
#ifndef AGENT_V8_BUILTINS_H
#define AGENT_V8_BUILTINS_H

#include <stdbool.h>

#include "elf/elf.h"

/* ELF addresses [*ret_lo, *ret_hi) of the builtins in a binary that may hold V8, judged by the name of its file, or by its variables. */
bool v8_builtins_find(const struct elf_file *f, const char *path, uint64_t *ret_lo, uint64_t *ret_hi);

#endif
