/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of /proc/PID/stat. */
#ifndef PROC_PROC_STAT_H
#define PROC_PROC_STAT_H

#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    char state; /* R, S, D, T, … */
    pid_t parent;
    uint64_t start_ticks; /* since the host started; with the pid, it identifies a process */
};

/* -ENOENT when the process is gone, -EBADMSG when the file is not as expected. */
int proc_stat_read(pid_t pid, struct proc_stat *ret);

#endif
