/* SPDX-License-Identifier: Apache-2.0 */
/* Names of code that a JIT of this process compiled, from the perf map that it writes (proc/jit_names.h). Background thread
 * only. */
#ifndef SDK_JIT_FRAMES_H
#define SDK_JIT_FRAMES_H

#include "base/str.h"

/* Reads the map of this process, if there is one and it was not read within the last 100 ms. */
void jit_frames_refresh(void);
/* The name of the code at the address; what to do to get one if it is not known; or empty. Valid until the next refresh. */
struct str jit_frames_find(uint64_t address);

#endif
