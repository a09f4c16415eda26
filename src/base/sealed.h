/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that one process hands to another as a sealed memory file: the receiver maps them read-only and can check them
 * in place, because they can no longer be changed or shortened, not even the sender.
 */
#ifndef BASE_SEALED_H
#define BASE_SEALED_H

#include <stddef.h>

#include "base/str.h"

/* Makes a sealed memory file with the parts, one after the other. *ret is the descriptor, the caller's. */
int sealed_new(const char *name, const struct str *parts, size_t n, int *ret);
/* Maps a sealed memory file of at most max bytes; to be unmapped with munmap(). *ret is NULL for an empty one. -EBADMSG
 * when the descriptor is anything else: a file that is not sealed, or not in memory, could still change. The descriptor
 * may be closed afterwards. */
int sealed_map(int fd, size_t max, void **ret, size_t *ret_n);

#endif
