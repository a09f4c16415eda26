/* SPDX-License-Identifier: Apache-2.0 */
/* Decides by the rules whether a sample is wanted, and passes the decision to BPF (sample_filter.h). */
#include "agent/sample_filter.h"

#include <string.h>

#include "agent/bpf_side.h"
#include "agent/filter.h"
#include "agent/identity.h"
#include "agent/process.h"

/* Kernel threads have only a name and a pid. */
static bool wants_thread(const struct sample_filter *f, const struct agent_event *e)
{
    struct process thread = {.pid = e->pid};
    uint32_t weight;

    memcpy(thread.comm, e->comm, sizeof thread.comm);
    weight = filter_weight(f->rules, &thread);
    if (weight != 1 && f->bpf)
        bpf_side_filter(f->bpf, e->pid, weight);
    return weight > 0;
}

bool sample_filter_wants(const struct sample_filter *f, struct process *p, const struct agent_event *e)
{
    if (!f->rules)
        return true;
    if (!p)
        return wants_thread(f, e);
    if (p->verdict < 0) {
        uint32_t weight = filter_weight(f->rules, p);

        if (p->identity && identity_is_outdated(p->identity, p))
            return weight > 0; /* it was read in the middle of exec: the next sample decides */
        p->verdict = (int) weight;
        if (p->verdict != 1 && f->bpf)
            bpf_side_filter(f->bpf, p->pid, weight);
    }
    return p->verdict > 0;
}

void sample_filter_exec(void *filter, const struct process *before)
{
    const struct sample_filter *f = filter;

    if (!f->bpf || !f->rules || before->verdict == 1)
        return;
    if (f->only_pids)
        bpf_side_filter(f->bpf, before->pid, 1);
    else
        bpf_side_unfilter(f->bpf, before->pid);
}
