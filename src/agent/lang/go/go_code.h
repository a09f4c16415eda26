/* SPDX-License-Identifier: Apache-2.0 */
/* What go_runtime.c reads off the machine code of the runtime's functions, for each architecture. */
#ifndef AGENT_LANG_GO_CODE_H
#define AGENT_LANG_GO_CODE_H

#include "elf/elf.h"

enum { GO_CODE_OFFSET_MAX = 4096 };

/* arm64. Offsets within structures are 0 when they are not found. */
uint32_t go_arm64_curg(struct elf_bytes systemstack);
uint32_t go_arm64_labels(struct elf_bytes set_label);
uint32_t go_arm64_status(struct elf_bytes allgadd);
/* The addresses that instructions load from or store to (8 bytes), or that they form (lea); each once. */
uint32_t go_arm64_addresses(struct elf_bytes code, bool lea, uint64_t *ret, uint32_t max);

#endif
