/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in which the preload library and libwick.so differ: preload.c and linked.c each implement them. */
#ifndef SDK_START_H
#define SDK_START_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct wick_provider;

/* In a forked child: gives its output file a name of its own. */
void start_child_file(struct wick_provider *p);
/* Installs hooks for core.types where they are missing: at the start, and after objects were loaded. */
void start_hooks(void);
/* Sends a profile whose file the process has no permission to write: -ENOTCONN if there is no receiver. */
int start_send_part(const char *type, const void *p, size_t n, struct err *e);
/* Reports a failed export or file: the preload library prints it once, on standard error. */
void start_report(const char *message);
/* Reports the protocol that was chosen for an endpoint: the preload library prints it, in the command itself. */
void start_chose(const char *text);

/* Memory that is not from what is hooked: the preload library says so once, on standard error. */
void start_unseen(int64_t bytes);

#endif
