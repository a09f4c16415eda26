/* SPDX-License-Identifier: Apache-2.0 */
/* Who samples a single process for /pid/N/debug/pprof/: the server itself has no right to. */
#ifndef SERVER_PID_PROFILER_H
#define SERVER_PID_PROFILER_H

#include <sys/types.h>

#include "base/err.h"

struct pid_profiler {
    /* Begins to sample a process for so long. ret[0] gives the profile (pprof, gzip), ret[1] words when there is none;
     * both end when it is done, and closing them ends it. Any thread. -ESHUTDOWN with words when nobody can. */
    int (*start)(void *ctx, pid_t pid, unsigned seconds, int ret[2], struct err *e);
    void *ctx;
};

#endif
