/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the call frame information of an object that the dynamic loader has mapped into this process. */
#ifndef UNWIND_LOADED_H
#define UNWIND_LOADED_H

#include <link.h>
#include <stdbool.h>

#include "unwind/cfi.h"

/* Finds .eh_frame through PT_GNU_EH_FRAME; its bytes are those in memory. False when the object has none. */
bool loaded_eh_frame(const struct dl_phdr_info *info, struct cfi_section *ret);
/* The addresses [*lo, *hi) of its executable segments, as they are in memory. */
bool loaded_text(const struct dl_phdr_info *info, uint64_t *lo, uint64_t *hi);

#endif
