/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a new process is read, with a limit on reads per second. */
#include "agent/read_gate.h"

#include "agent/governor.h"
#include "agent/process.h"
#include "base/clock.h"

static const uint64_t BURST_NS = NS_PER_S / 5; /* unused reads of this time may be used at once */

void read_gate_judge(struct read_gate *g, struct process *p, unsigned reads, uint64_t now_ns)
{
    if (p->identity && !p->brief)
        return;
    if (reads < GOVERNOR_READS && p->since_ns && now_ns < g->next_ns) {
        p->brief = true;
        return;
    }
    g->next_ns = MAX(g->next_ns + NS_PER_S / MAX(reads, 1u), now_ns > BURST_NS ? now_ns - BURST_NS : 0);
    p->brief = false;
}
