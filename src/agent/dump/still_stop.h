/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping the threads of a process and letting them go, by ptrace. For still.c; one thread does both. */
#ifndef AGENT_STILL_STOP_H
#define AGENT_STILL_STOP_H

#include "agent/dump/still.h"
#include "unwind/remote.h"

struct stopped_thread {
    int tid;
    char state;   /* for who only lists them: of /proc */
    bool stopped; /* false: it ended, or is somebody else's */
    struct remote_regs regs;
    uint64_t thread_pointer;
};

struct stopped {
    struct stopped_thread *v;
    size_t n, cap;
};

/* Stops every thread, also those that start meanwhile; only_list: finds them, and stops none. -EPERM with words when none may be stopped. stopped_release() is
 * needed also after a failure. */
int stopped_take(int pid, bool only_list, struct stopped *ret, struct err *e);
void stopped_release(struct stopped *s);
void stopped_done(struct stopped *s);

#endif
