/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of state (rules, notes, states of alerts, …) that cannot be read. Such a file is set aside: it is renamed to
 * NAME.unreadable-TIME in its directory, never deleted, so that the program starts and works without it. Each is logged
 * once, and listed for the status of the server for as long as the process lives.
 *
 * The list is one per process. Safe from any thread.
 */
#ifndef BASE_ASIDE_H
#define BASE_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#define ASIDE_MARK ".unreadable-"
enum { ASIDE_LISTED_MAX = 64 }; /* further files are renamed, logged and counted */

struct aside_file {
    const char *tenant; /* NULL: of the whole server */
    const char *path;   /* where it is now, or still, if it could not be renamed */
    const char *why;
    int64_t time_ns;
};

/* Renames the file `name` of the open directory. 0, or a negative errno if it could not be renamed; it is then logged and listed,
 * too. */
int aside_put(int dirfd, const char *name, const char *tenant, const char *why);
/* Calls fn for each file that is listed; it must not call back. */
void aside_each(void (*fn)(void *arg, const struct aside_file *f), void *arg);
uint64_t aside_count(void); /* files set aside since the start */

#endif
