/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the size of the ring buffer (sample_ring.h). Stacks that do not fit into it are truncated.
 *
 * With a budget, the agent reads files slowly and leaves processes out that it has no time for: a small ring is enough.
 * Without one, somebody waits for the profile of a few seconds, on a machine that may be busy with other things: the
 * agent's turn may come late. When all processes are sampled, all of their files have to be read in the first seconds,
 * and the ring has to hold the stacks that are copied in the meantime.
 */
#include "agent/sample_ring.h"

#include <unistd.h>

#include "agent/agent.h"

enum {
    BYTES_MIN = 1 << 22,
    BYTES_MAX = 1 << 24,
    BYTES_ALL = 1 << 26, /* all processes, without a budget */
    BYTES_PER_CPU = 256 << 10,
    MEMORY_PART = 64, /* more than BYTES_MAX only up to this part of the machine's memory */
};

size_t sample_ring_bytes(const struct agent_options *o, int n_cpus)
{
    size_t memory = (size_t) sysconf(_SC_PHYS_PAGES) * (size_t) sysconf(_SC_PAGESIZE);
    size_t n = o->cpu_budget > 0 ? BYTES_MIN : o->n_pids ? BYTES_MAX : BYTES_ALL;

    while (n > BYTES_MAX && n > memory / MEMORY_PART)
        n /= 2;
    while (n < (size_t) n_cpus * BYTES_PER_CPU && n < BYTES_MAX)
        n *= 2;
    return n;
}

bool sample_ring_less(size_t *bytes)
{
    if (*bytes <= BYTES_MIN)
        return false;
    *bytes /= 2;
    return true;
}
