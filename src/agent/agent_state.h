/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent consists of: for agent.c, and for agent_counts.c, which only reads it. */
#ifndef AGENT_AGENT_STATE_H
#define AGENT_AGENT_STATE_H

#include "agent/agent.h"
#include "agent/bpf/agent_abi.h"
#include "agent/copy_walk.h"
#include "agent/governor.h"
#include "agent/lang/lang.h"
#include "agent/sample_filter.h"

struct agent {
    struct agent_options options;
    struct bpf_side *bpf;   /* NULL without BPF; then there are no rows and no sideband either */
    struct perf_side *perf; /* instead */
    struct objects *objects;
    struct processes *processes;
    struct row_store *rows;
    struct sideband *sideband;
    struct tally *tally;
    struct waits *waits;        /* NULL when they are not sampled */
    struct object_lines *lines; /* NULL: only names */
    char why[ERR_MESSAGE_MAX];  /* why a better way of sampling is not used; "": it is, or this one was asked for */
    int epoll_fd, timer_fd;
    unsigned hz;
    size_t ring_bytes;
    uint64_t until_ns; /* later samples are not taken; 0: all are */
    uint64_t now_ns, next_sweep_ns;
    uint64_t begin_until_ns; /* options.begin_rate_hz applies until then; 0: no longer */
    uint64_t cpu_ns, foreign_ns[FOREIGN_KINDS];
    uint64_t samples, refused, processes_sampled; /* refused: samples that the tally had no room for */
    int64_t cpu_start_ns;
    bool copied;                /* a stack was copied in this round */
    struct agent_stack *stacks; /* the last copy of each CPU */
    int n_cpus;
    uint64_t words[AGENT_WORDS + AGENT_USER_FRAMES]; /* of the current sample */
    uint64_t fps[AGENT_WORDS + AGENT_USER_FRAMES];   /* their frame pointers, of what was copied */
    uint64_t lang_words[LANG_WORDS_MAX];             /* without BPF: the language's */
    struct str labels;                               /* of the current sample, in the ring */
    bool inferred;                                   /* its stack has a caller that no table says */
    struct code_memo memo;
    uint64_t last_lost;
    unsigned long records_lost; /* records about processes that the kernel lost */
    struct process_loader *loader;
    struct governor governor;
    struct sample_filter filter;
    uint64_t records_ns;              /* when records about processes were last read */
    uint64_t bpf_ns;                  /* as last read from BPF */
    uint64_t n_files, hurry_until_ns; /* files seen so far: a new one may belong to a process that is soon gone */
};

/* CPU time of this process since agent_new(), and of those that read for it. */
uint64_t agent_own_cpu_ns(const struct agent *a);
/* Time spent in BPF. */
uint64_t agent_bpf_ns(const struct agent_stats *st);

#endif
