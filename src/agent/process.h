/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watched process: one image of one pid, from its exec (or fork) to the next exec or its exit. A pid that calls exec
 * gets a new struct process; the old one is kept until no more samples of its time can arrive. The process of a sample
 * is found by pid and time. The agent's thread only.
 *
 * Mappings are the executable ones, sorted by start, kept up to date by the kernel's mmap records; /proc/PID/maps is
 * read for processes that started before the agent, and when a sample hits an address in no known mapping.
 */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include <stdbool.h>

#include "agent/bpf/agent_abi.h"
#include "agent/bpf/lang_abi.h"
#include "agent/foreign.h"
#include "agent/object.h"
#include "agent/own_profiles.h"
#include "agent/process_cpu.h"
#include "agent/process_seen.h"
#include "base/err.h"
#include "base/str.h"

struct file_reader;
struct identity;
struct lang;
struct process;

struct process_mapping {
    uint64_t start, end, offset, bias;
    struct object *object; /* NULL: code of no file, or of a file that cannot be read */
    struct object_key key;
    char *path;     /* as the kernel reports it; NULL for anonymous memory */
    bool anonymous; /* JIT code: no file, walked by frame pointers */
    bool deleted;   /* the path is that of another file now, or of none */
    bool tried;     /* object was looked for */
    bool hit;       /* a walk passed through it: it has priority in the BPF map */
};

struct process {
    struct process *next; /* of the same bucket; images of one pid newest first */
    uint32_t pid, ppid;
    uint64_t since_ns, until_ns; /* monotonic; 0 = since before the agent; UINT64_MAX = still running */
    uint64_t start_ns;           /* monotonic: when the process was forked; 0 = before the agent */
    uint64_t start_ticks;        /* field 22 of /proc/PID/stat, for one that started before the agent; 0 when not
                                  * read */
    uint64_t mm;                 /* task->mm, from its first event; 0 = not known yet */
    char comm[16];               /* of the main thread, last known */
    struct process_mapping *mappings;
    uint32_t n_mappings;
    size_t cap_mappings;
    struct object *exe;     /* of the main executable; a reference; NULL when unknown */
    char *exe_path;         /* as seen inside the process's root */
    uint32_t maps_left_out; /* executable mappings beyond the limits of proc_maps.h */
    bool maps_read;         /* mappings are complete: read from /proc, or followed since exec */
    bool loaded;            /* the BPF map has its record */
    bool stale;             /* mappings changed since it was loaded */
    bool exited;
    uint64_t last_sample_ns, samples;
    struct process_cpu cpu;    /* its CPU time, as the kernel counts it */
    struct process_seen *seen; /* its command line and environment; NULL: no copy of its stack had them */
    uint64_t groups;           /* agent_task.groups; 0: not known */
    uint32_t uid;
    bool has_uid;
    uint64_t number; /* counts images: distinguishes this struct from a later one at the same address */
    int verdict;     /* filter.h: < 0: not evaluated yet; else the weight */
    bool brief;      /* no budget to read it: only what the kernel's records and copied stacks say is used */

    /* identity.h: its resource attributes. NULL until the first export; read once, and again after an exec. */
    struct identity *identity;
    /* lang.h: the runtime found in it. */
    const struct lang *lang;
    void *lang_state;
    bool lang_refused; /* it has a runtime of a version that is not supported */
    bool lang_in_bpf;  /* the language's programs run in it */
    bool lang_again;   /* its runtime is not ready yet: look again */
    bool lang_seen;    /* a sample had frames of it */
    struct agent_lang lang_record;
    struct agent_span span;
    bool span_again;            /* it will have one later: look again */
    enum foreign foreign;       /* a runtime whose functions are not shown */
    struct own_profiles own;    /* profiles that it sends itself */
    struct file_reader *reader; /* reads its files */
    int64_t java_asked_ns;      /* java_names.h: when it was last asked for names */
    uint8_t java_asks;          /* and how often */
    int64_t java_named_ns;      /* when its code was last given names */
    struct perf_map *perf_map;  /* perf_map.h: names of a JIT's code; NULL until asked for */
};

/* The mapping with the address, or NULL. */
struct process_mapping *process_mapping_at(const struct process *p, uint64_t address);
/* Reads memory of the process; the number of bytes, or a negative errno. */
ssize_t process_read(const struct process *p, uint64_t address, void *ret, size_t n);
/* Opens a file as the process sees it (its root, its mount namespace), regular files only. */
int process_open(const struct process *p, const char *path);

struct processes;

int processes_new(struct objects *objects, struct processes **ret);
void processes_free(struct processes *s);
/* The image of the pid at a time; NULL when it is not known. */
struct process *processes_find(struct processes *s, uint32_t pid, uint64_t time_ns);
/* The same; an unknown process is read from /proc (or copied from its parent). NULL when it is gone or memory is
 * exhausted. */
struct process *processes_get(struct processes *s, uint32_t pid, uint64_t time_ns);
/* Reads all processes that run now. The kernel's records begin later than they did, and one may be gone when its first
 * sample is read. */
void processes_read_running(struct processes *s);
/* Calls f for the image before each exec. */
void processes_watch_exec(struct processes *s, void (*f)(void *arg, const struct process *before), void *arg);
/* The kernel's records, in order of time; a fork may come after the exec that followed it. */
void processes_fork(struct processes *s, uint32_t pid, uint32_t ppid, uint64_t time_ns);
void processes_exec(struct processes *s, uint32_t pid, const char *comm, uint64_t time_ns);
void processes_comm(struct processes *s, uint32_t pid, const char *comm, uint64_t time_ns);
void processes_exit(struct processes *s, uint32_t pid, uint64_t time_ns);
/* m's path is copied. */
void processes_mmap(struct processes *s, uint32_t pid, const struct process_mapping *m, uint64_t time_ns);
/* Reads /proc/PID/maps again. 0, or a negative errno when the process is gone. */
int processes_refresh(struct processes *s, struct process *p);
/* Finds the mapping's object; tried once per mapping. */
void processes_resolve(struct processes *s, struct process *p, struct process_mapping *m);
/* Finds p->exe. */
void processes_resolve_exe(struct processes *s, struct process *p);
/* Fills in its record for the BPF map. */
void processes_record(struct processes *s, struct process *p, struct agent_process *ret);
/* Frees images that ended some time ago, after calling forget() for each. */
void processes_sweep(struct processes *s, uint64_t now_ns, void (*forget)(void *arg, struct process *p), void *arg);
/* Records were lost: the mappings of all processes are read again when they are next needed. */
void processes_distrust(struct processes *s);
/* Calls f for each image. */
void processes_each(struct processes *s, void (*f)(void *arg, struct process *p), void *arg);
/* Mappings of running processes that are beyond the limits. */
uint64_t processes_maps_left_out(const struct processes *s);
/* Processes that there was no room for. */
uint64_t processes_refused(const struct processes *s);

#endif
