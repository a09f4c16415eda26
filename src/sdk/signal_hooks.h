/* SPDX-License-Identifier: Apache-2.0 */
/* What the preload library does when the program is about to end, or to give up the system calls that wick needs. */
#ifndef SDK_SIGNAL_HOOKS_H
#define SDK_SIGNAL_HOOKS_H

#include <stdint.h>

/* From now on a process that is ended by SIGTERM, SIGINT or SIGHUP writes and sends its profiles first. root is the pid
 * of the command itself: its children get less time for that, because a shell can start thousands of them. */
void signal_hooks_start(uint64_t root);

/* preload.c: the program's main(). */
__attribute__((visibility("hidden"))) extern int (*preload_main)(int, char **, char **);

#endif
