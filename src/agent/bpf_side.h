/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel side of the agent: loads and attaches its BPF programs and hides libbpf from the rest. The agent's
 * thread only.
 */
#ifndef AGENT_BPF_SIDE_H
#define AGENT_BPF_SIDE_H

#include <stdbool.h>

#include "agent/bpf/agent_abi.h"
#include "agent/bpf/lang_abi.h"
#include "agent/row_store.h"
#include "base/err.h"

struct bpf_side;
struct perf_events;

struct bpf_side_options {
    size_t ring_bytes; /* a power of two of pages */
    bool off_cpu;
    bool counts;     /* for bpf_side_count() */
    bool old_kernel; /* load the programs for kernel 5.10, even if this kernel can do more */
};

/* Loads the programs; nothing is attached. A program that the kernel refuses costs only its own feature
 * (bpf_side_lacks()), except those that walk stacks. -EPERM with an error message that says which rights are missing. */
int bpf_side_new(const struct bpf_side_options *o, struct bpf_side **ret, struct err *e);
void bpf_side_free(struct bpf_side *b);
/* True if the programs without bpf_loop are loaded, as on kernels before 5.17. */
bool bpf_side_is_old(const struct bpf_side *b);
/* Features that this kernel does not provide, and why, joined by "; ": "no Python frames: …". "" if there are all. */
const char *bpf_side_lacks(const struct bpf_side *b);
/* Whether waits can be sampled: requested, and not refused by the kernel. */
bool bpf_side_has_off_cpu(const struct bpf_side *b);
/* Begins to sample every online CPU at this rate, or changes the rate. */
int bpf_side_sample(struct bpf_side *b, unsigned hz, struct err *e);
/* Begins to sample by these events, in addition to the clock or instead of it; called once. */
int bpf_side_count(struct bpf_side *b, const struct perf_events *events, unsigned hz, struct err *e);
/* Children of processes in the filter join it before they run, unless the kernel lacks it. */
int bpf_side_follow_forks(struct bpf_side *b, struct err *e);
/* Starts sampling waits; control->off_cpu_n sets how many. */
int bpf_side_off_cpu(struct bpf_side *b, struct err *e);
/* Visits all threads and reports long waits. After bpf_side_off_cpu(). */
void bpf_side_look(struct bpf_side *b);
struct agent_control *bpf_side_control(struct bpf_side *b);
struct row_store_maps bpf_side_row_maps(struct bpf_side *b);
/* Readable when something was missed: bpf_side_drain() soon. */
int bpf_side_fd(const struct bpf_side *b);
/* Calls f for each available event; returns their number. */
int bpf_side_drain(struct bpf_side *b, int (*f)(void *arg, void *event, size_t n), void *arg);
int bpf_side_load_process(struct bpf_side *b, uint32_t pid, const struct agent_process *p,
                          const struct agent_lang *lang);
void bpf_side_forget(struct bpf_side *b, uint32_t pid);
int bpf_side_filter(struct bpf_side *b, uint32_t pid, uint32_t weight);
void bpf_side_unfilter(struct bpf_side *b, uint32_t pid);
/* Sums over CPUs since the start. */
int bpf_side_stats(struct bpf_side *b, struct agent_stats *ret);
/* Kernel memory of its maps in bytes, as the kernel counts it, without shards. Each map is a file to read:
 * the sum may be 10 s old. */
size_t bpf_side_memory(struct bpf_side *b);

#endif
