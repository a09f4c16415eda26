/* SPDX-License-Identifier: Apache-2.0 */
/* The descendants of processes, from /proc/PID/stat. */
#ifndef PROC_PROC_CHILDREN_H
#define PROC_PROC_CHILDREN_H

#include <stddef.h>
#include <sys/types.h>

/* Appends to pids, which holds *n process ids and has room for max, all running processes that descend from them, each
 * once. 0 or a negative errno; then pids is unchanged. What does not fit is left out. */
int proc_add_descendants(pid_t *pids, size_t *n, size_t max);

#endif
