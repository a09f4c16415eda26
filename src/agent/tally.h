/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples since the last batch. Equal samples become one row with several times, equal stacks one stack; a frame is
 * (object, ELF address), a kernel address, JIT code, or a frame of a language. tally_batch() names the frames and makes
 * the batch. All tables are bounded: samples beyond the bounds are counted as lost. The agent's thread only.
 */
#ifndef AGENT_TALLY_H
#define AGENT_TALLY_H

#include <stdbool.h>

#include "agent/bpf/agent_abi.h"
#include "agent/process.h"
#include "base/err.h"

struct batch;
struct kernel_names;
struct perf_events;
struct tally;

struct tally_options {
    bool no_names;
    bool pprof;                       /* Go's types samples,cpu and no times: for files that pprof reads */
    bool ranges;                      /* mappings have address ranges, as pprof expects: object_place.h */
    bool mark_own;                    /* mark what processes send themselves, too (own_profiles.h) */
    const struct perf_events *events; /* the types of AGENT_EVENT_COUNTED; owned by the caller */
    size_t memory;
};

struct tally_sample {
    const struct agent_event *event; /* only its header is used, not its words */
    const uint64_t *words;
    uint32_t n_kernel, n_words;
    enum agent_end end;
    bool inferred;     /* a caller was found without call frame information */
    int64_t period_ns; /* of the clock, for on-CPU samples */
    bool weigh;        /* CPU samples are weighed (process_cpu.h) */
    struct str labels; /* AGENT_LABEL_WORDS words each (lang_abi.h) */
};

int tally_new(const struct tally_options *o, struct tally **ret);
void tally_free(struct tally *t);
/* p is NULL for kernel threads and for processes that could not be read. 0, -E2BIG when full, -ENOMEM. */
int tally_add(struct tally *t, struct process *p, const struct tally_sample *s);
/* Must be called before the process is freed: takes over what the batch needs of it. */
void tally_forget(struct tally *t, struct process *p);
bool tally_is_empty(const struct tally *t);

struct tally_scope { /* scope attributes of every batch, about the agent itself */
    int64_t rate, lost, cpu_ns;
    int64_t end_ns; /* of the monotonic clock: all samples up to here were added; the next batch begins here */
    const char *governor, *via, *why, *lacks; /* struct agent_counts */
};

/* Samples are taken from this time of the monotonic clock on. */
void tally_begin(struct tally *t, int64_t time_ns);
/* CPU time after this time of the monotonic clock does not count. */
void tally_until(struct tally *t, int64_t time_ns);
/* Before the batch is made: reads the CPU clocks of the processes with samples, checks what they send
 * themselves (own_profiles.h), and updates their identities. */
void tally_update(struct tally *t, uint64_t now_ns);
/* Looks up the names of all frames so far. */
void tally_name(struct tally *t, uint64_t now_ns);
/* Returns all samples since the last call with the names that are known, NULL when there are none, and empties the
 * tally. */
int tally_batch(struct tally *t, const struct tally_scope *scope, struct batch **ret, struct err *e);

struct tally_counts {
    uint64_t frames, frames_named, whole, cut, inferred;
    uint64_t also_sent; /* CPU samples that the processes send themselves, too */
};
void tally_counts(const struct tally *t, struct tally_counts *ret);

#endif
