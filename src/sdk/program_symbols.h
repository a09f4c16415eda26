/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the program by its own table of symbols, also those that no other object can see. */
#ifndef SDK_PROGRAM_SYMBOLS_H
#define SDK_PROGRAM_SYMBOLS_H

#include <stdint.h>

#include "base/str.h"

/* Calls f for each function, where it is in memory: [lo, hi). Names are cut after 255 bytes. Nothing for a stripped program. */
void program_symbols(void (*f)(void *arg, struct str name, uint64_t lo, uint64_t hi), void *arg);

#endif
