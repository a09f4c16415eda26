/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the rules (filter.h) to samples. A process is judged once, at its first sample; one that is left out, or of
 * which only a part of the samples is taken, is then filtered by BPF, which knows only its pid. After an exec the pid is
 * judged again. The agent's thread only.
 */
#ifndef AGENT_SAMPLE_FILTER_H
#define AGENT_SAMPLE_FILTER_H

#include <stdbool.h>

struct agent_event;
struct bpf_side;
struct filter;
struct process;

struct sample_filter {
    const struct filter *rules; /* NULL: every sample is wanted */
    struct bpf_side *bpf;       /* NULL: without BPF */
    bool only_pids;             /* BPF samples only the pids that it was given */
};

/* p: NULL for a kernel thread. */
bool sample_filter_wants(const struct sample_filter *f, struct process *p, const struct agent_event *e);
/* For processes_watch_exec(); filter is a struct sample_filter. */
void sample_filter_exec(void *filter, const struct process *before);

#endif
