/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule at an address straight from the object's own .eh_frame, for code that was loaded a moment ago and has no
 * table yet. It takes about a microsecond per frame instead of ten nanoseconds. May be called in a signal handler: it
 * takes no lock and allocates nothing (_dl_find_object is documented as async-signal-safe).
 */
#ifndef UNWIND_DIRECT_H
#define UNWIND_DIRECT_H

#include <stdbool.h>

#include "unwind/cfi.h"

/* False where the C library is too old for direct_rule(). */
bool direct_works(void);
/* pc: a run-time address in code of this process that is running, or that a call will return into (so it cannot be
 * unloaded in the meantime). False when no object holds it, when its object has no search table, or on a libc before
 * 2.35. */
bool direct_rule(uint64_t pc, enum cfi_arch arch, struct unwind_rule *ret);

#endif
