/* SPDX-License-Identifier: Apache-2.0 */
/* Code of another file for call_places.c: it calls nothing, and is inlined right after the calls of that file. */
#include <stdint.h>

static volatile uint64_t innocent_work;

static inline __attribute__((always_inline)) void innocent(void)
{
    innocent_work++;
}
