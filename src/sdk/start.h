/* SPDX-License-Identifier: Apache-2.0 */
/* What the preload library does beyond the API; libwick.so has an empty one. */
#ifndef SDK_START_H
#define SDK_START_H

#include <stddef.h>

struct err;
struct wick_provider;

/* In a forked child: its output file gets a name of its own. */
void start_child_file(struct wick_provider *p);
/* Puts hooks for core.types where they are not yet: at start, and when objects were loaded. */
void start_hooks(void);
/* A profile whose file cannot be written, because the process may not: -ENOTCONN if nobody else takes it. */
int start_send_part(const char *type, const void *p, size_t n, struct err *e);
/* An export or a file failed: the preload library says so once, on standard error. */
void start_tell(const char *words);

#endif
