/* SPDX-License-Identifier: Apache-2.0 */
/* Stops the threads of a process and lets them continue, with ptrace. Used by dump.c; the same thread must do both. */
#ifndef AGENT_DUMP_STOP_H
#define AGENT_DUMP_STOP_H

#include "agent/dump/dump.h"
#include "unwind/remote.h"

struct stopped_thread {
    int tid;
    char state;   /* with only_list: the state from /proc */
    bool stopped; /* false: it ended, or another process traces it */
    struct remote_regs regs;
    uint64_t thread_pointer;
};

struct stopped {
    struct stopped_thread *v;
    size_t n, cap;
};

/* Stops every thread, including those that start in the meantime; only_list: lists the threads and stops none. -EPERM
 * with an error message when none may be stopped. stopped_release() must also be called after a failure. */
int stopped_take(int pid, bool only_list, struct stopped *ret, struct err *e);
void stopped_release(struct stopped *s);
void stopped_done(struct stopped *s);

#endif
