/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that may never return: reading a page of another process that its user-space pager never supplies, or a
 * file of a file system whose server does not answer (FUSE, NFS). The kernel waits for these without a timeout, and only
 * the end of the process ends the wait.
 *
 * A helper process makes them. It shares the memory and the descriptors of this process, so that a call costs two switches
 * and nothing is copied between processes, but it can be killed alone: a call that has not returned after FAR_DEADLINE_MS
 * fails with -ETIMEDOUT, its helper is killed and left behind, and the next call starts another one. The helper runs only
 * code in this file, and writes only to memory that belongs to it until the kernel reports its end.
 *
 * What a call is for (far_target()) is set aside when it did not return: further calls for it fail at once with -ETIMEDOUT,
 * for a time that doubles with each attempt. One thread, the one that called far_start(), makes such calls; those of other
 * threads, and of processes without a helper, are made directly.
 */
#ifndef PROC_FAR_CALL_H
#define PROC_FAR_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

enum { FAR_DEADLINE_MS = 500 };
/* Targets other than processes: a file that several use, by its number, and all others. */
#define FAR_FILE 0x80000000u
#define FAR_FILES UINT32_MAX

struct far_counts {
    uint64_t hangs;    /* calls that did not return */
    uint32_t aside;    /* targets that are set aside now */
    uint32_t last;     /* the one that was set aside last; a pid, FAR_FILES, or 0 */
    uint64_t pause_ns; /* and for how long */
    uint64_t refused;  /* calls for targets that had used their part of the budget */
};

/* From now on, calls of this thread through fd_ops and proc_memory are made by a helper while there is a target. Without
 * effect if there is no helper to be had. */
void far_start(void);
void far_stop(void);
/* The process for which the following calls are made, FAR_FILES for files that belong to several, or 0: calls are made
 * directly. Returns the one before. */
uint32_t far_target(uint32_t pid);
/* The same until the end of the block. */
#define FAR_FOR(target) _cleanup_(far_restore) _unused_ uint32_t far_before_ = far_target(target)
static inline void far_restore(uint32_t *before)
{
    far_target(*before);
}
/* What all calls together, and what is spent on their results, may cost in a minute, about; 0: no limit. A target that has
 * used its part, which is smaller the more targets there are, waits for the next minute: its calls fail with -EDQUOT. */
void far_budget(int64_t ns);
/* Adds to what the target has used; false when it may use no more. */
bool far_spend(int64_t ns);
/* The process has ended: its number may be that of another one soon. */
void far_forget(uint32_t pid);
/* Reads memory of another process, up to the first page that cannot be read. Returns a count or a negative errno. */
ssize_t far_read_memory(int pid, uint64_t address, void *p, size_t n);
/* CPU time of all helpers so far. */
int64_t far_cpu_ns(void);
void far_counts(struct far_counts *ret);

#endif
