/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that no hook sees: of an allocator inside of the program, of a garbage collector, of mmap(). A process that has more
 * anonymous memory than was ever allocated by what is hooked has such memory; at least the difference is named in its heap
 * profile, as the frame "[unseen]".
 */
#ifndef SDK_HEAP_UNSEEN_H
#define SDK_HEAP_UNSEEN_H

#include <stdint.h>

/* Allocations are seen from here on. */
void heap_unseen_begin(void);
/* main() has ended: what there is now counts. Any thread. */
void heap_unseen_main_ended(void);
/* Bytes, 0 if they are few; allocated: by what is hooked. */
int64_t heap_unseen(int64_t allocated);

#endif
