/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that can be moved to a file while others read it: its pages are replaced, at the same addresses, by equal pages of
 * the file, which the kernel reads when they are used and drops when memory is needed. A page that is written to afterwards
 * is in memory again; the file does not change.
 */
#ifndef BASE_PAGED_H
#define BASE_PAGED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/macros.h"

/* Smaller blocks come from the heap and cannot be moved. */
enum { PAGED_MIN = 16 << 10 };

/* Cleared memory, to be freed with paged_put() and the same size. NULL when memory runs out. */
void *paged_get(size_t size);
void paged_put(void *p, size_t size);

/* Whole pages: how many bytes of a file the block takes. */
size_t paged_length(size_t size);
/* Writes the block to the file, at a multiple of the size of a page. Returns 0 or a negative errno. */
int paged_write(int fd, off_t at, const void *p, size_t size);
/* Replaces the block by what was written of it. To be called while no thread writes to the block: -EAGAIN if one did since,
 * and then it stays as it is. */
int paged_swap(int fd, off_t at, void *p, size_t size);

#endif
