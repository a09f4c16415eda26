/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host agent: samples every process, or some, from outside, and makes batches. It opens no socket and writes no
 * file; the caller does, and drives it like this:
 *
 *     agent_new(&options, &a, &e);
 *     while (...) {
 *         agent_poll(a, timeout_ms);      processes, samples, tables; returns when there was something to do
 *         every few seconds: agent_take(a, &batch, &e);
 *     }
 *     agent_free(a);
 *
 * One thread drives an agent. BPF programs are loaded by agent_new(), which needs CAP_BPF and CAP_PERFMON; privileges
 * may be dropped afterwards (agent_caps.h says which stay).
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/foreign.h"
#include "agent/perf_events.h"
#include "base/err.h"
#include "base/str.h"

struct agent;
struct batch;
struct file_reader;
struct filter;
struct objects;
struct symbolizer;

/* AGENT_VIA_OLD_BPF: as on kernels before 5.17, even if this kernel can do more. */
enum agent_via { AGENT_VIA_AUTO, AGENT_VIA_BPF, AGENT_VIA_OLD_BPF, AGENT_VIA_PERF };

struct agent_options {
    enum agent_via via;
    unsigned rate_hz;
    unsigned begin_rate_hz; /* for the first begin_ns; 0: the same as rate_hz */
    int64_t begin_ns;
    const pid_t *pids; /* only these and, with inherit, their children; n_pids == 0: all that the filter accepts */
    size_t n_pids;
    bool inherit;
    pid_t command;                 /* one of pids that is about to call exec: not sampled before that; 0: none */
    struct filter *filter;         /* filter.h; owned by the caller; NULL: all processes */
    bool off_cpu;                  /* sample waits, too */
    bool no_cpu;                   /* do not sample by the clock */
    struct perf_events events;     /* sample by these events, too */
    int64_t off_cpu_threshold_ns;  /* shorter waits are ignored */
    bool copy_stacks;              /* --unwind copy: registers and stack bytes, walked in user space */
    bool no_kernel;                /* leave kernel frames out */
    bool no_names;                 /* build ids and addresses only */
    struct file_reader *reader;    /* reads binaries (reader/file_reader.h); owned by the caller; NULL: this process */
    struct symbolizer *symbolizer; /* lines and inlined calls (object_lines.h); owned by the caller; NULL: only names */
    bool wait_for_lines;           /* agent_take() waits for all of them; else they come with a later batch */
    bool pprof;                    /* batches for pprof files: types samples,cpu, no times, no thread ids */
    bool ranges;                   /* mappings have address ranges, as in pprof; else addresses are ELF addresses */
    bool mark_own;                 /* mark CPU time that a process sends itself, too (own_profiles.h) */
    double cpu_budget;             /* part of the machine's CPU, 0.01 = 1 %; 0: no governor */
    size_t memory_budget;          /* bytes, kernel maps included; 0: default */
};

struct agent_counts {
    uint64_t cpu_ns, foreign_ns[FOREIGN_KINDS]; /* sampled; of that, in runtimes that are not shown (foreign.h) */
    uint64_t also_sent;                         /* CPU samples that the processes send themselves, too */
    uint64_t samples, lost, frames, frames_named, stacks_whole, stacks_cut;
    uint64_t stacks_inferred; /* of them all: a caller was found without call frame information */
    const char *
        cut_in; /* the file in whose code most stacks end that were cut for lack of it; NULL: none; valid until the next round */
    uint64_t stacks_uncopied;                     /* of those that were cut: the ring had no room for a copy */
    uint64_t bpf_runs, bpf_frames, stack_copies;  /* program runs that took a sample; frames walked there */
    uint64_t switches, switch_ns, switch_samples; /* off-CPU */
    uint64_t bpf_ns, own_cpu_ns;                  /* time spent in BPF and in this process since agent_new() */
    uint64_t processes_sampled, objects;
    uint64_t map_bytes, ring_bytes; /* kernel memory */
    uint64_t maps_left_out;         /* executable mappings of processes that have too many */
    uint64_t hangs;                 /* reads of a process or of a file that did not return */
    uint32_t hung;                  /* the process at which that last happened; 0: none */
    uint64_t hung_pause_ns;         /* it is left alone for so long */
    uint64_t reader_deaths;         /* times that a binary ended the process that reads them */
    unsigned rate_hz;
    uint64_t used_ns;  /* CPU time of the sampled processes, without BPF; 0: not known */
    bool by_perf;      /* without BPF */
    const char *via;   /* bpf, old-bpf or perf */
    const char *why;   /* why not a better way; "": it is the best one, or was asked for */
    const char *lacks; /* features that this kernel refuses: "no Python frames: …; no off-CPU time: …"; "": none */
    const char *governor; /* "", or what the governor did: "rate 49" */
};

int agent_new(const struct agent_options *o, struct agent **ret, struct err *e);
void agent_free(struct agent *a);
DEFINE_CLEANUP(struct agent *, agent_free)
/* Processes the kernel's records and samples. 0, or a negative errno when sampling cannot go on. */
int agent_poll(struct agent *a, int timeout_ms, struct err *e);
/* Returns everything sampled since the last call as a batch, NULL in *ret when there is nothing. */
int agent_take(struct agent *a, struct batch **ret, struct err *e);
/* Adds a process, from now on (the HTTP API's 30 seconds of a pid; a command about to exec). */
int agent_add_pid(struct agent *a, pid_t pid);
/* Samples that are taken later than this time of the monotonic clock do not count: on a busy machine the ones before may
 * be read later than that. */
void agent_until(struct agent *a, int64_t time_ns);
int agent_set_rate(struct agent *a, unsigned hz, struct err *e);
void agent_counts(struct agent *a, struct agent_counts *ret);
/* Returns the path of a file with symbols of sampled code; each file once. False when there is none at the moment. */
bool agent_next_file(struct agent *a, char ret[PATH_MAX]);
/* What was sampled; for debug_file.h. */
struct objects *agent_objects(struct agent *a);
/* Becomes readable when agent_poll() has something to do. */
int agent_fd(const struct agent *a);

#endif
