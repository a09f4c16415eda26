/* SPDX-License-Identifier: Apache-2.0 */
/* Samples a single process for /pid/N/debug/pprof/, because the server itself does not have the right to. */
#ifndef SERVER_PID_PROFILER_H
#define SERVER_PID_PROFILER_H

#include <sys/types.h>

#include "base/err.h"

struct pid_profiler {
    /* Starts sampling a process for this many seconds. ret[0] yields the profile (pprof, gzip), ret[1] an error message
     * if there is none; both reach end of file when sampling is done, and closing them stops it. Any thread. -ESHUTDOWN
     * with an error message if no agent can do it. */
    int (*start)(void *ctx, pid_t pid, unsigned seconds, int ret[2], struct err *e);
    void *ctx;
};

#endif
