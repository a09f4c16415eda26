/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watched process: one image of one pid, from its exec (or fork) to the next exec or its exit. A pid that execs gets a
 * new struct process; the old one stays until samples of its time cannot come any more. Samples find theirs by pid and
 * time. The agent's thread only.
 *
 * Mappings are the executable ones, sorted by start, kept up to date by the kernel's mmap records; /proc/PID/maps is read
 * for processes that ran before the agent did, and when a sample hits an address that nobody knows.
 */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include <stdbool.h>

#include "agent/bpf/agent_abi.h"
#include "agent/bpf/lang_abi.h"
#include "agent/object.h"
#include "base/err.h"
#include "base/str.h"

struct identity;
struct lang;
struct process;

struct process_mapping {
    uint64_t start, end, offset, bias;
    struct object *object; /* NULL: code of no file, or of a file that cannot be read */
    struct object_key key;
    char *path;     /* as the kernel tells it; NULL for anonymous memory */
    bool anonymous; /* a JIT's: no file, walked by frame pointers */
    bool tried;     /* object was looked for */
};

struct process {
    struct process *next; /* older image of the same pid, newest first */
    uint32_t pid, ppid;
    uint64_t since_ns, until_ns; /* monotonic; 0 = from the start; UINT64_MAX = it lives */
    uint64_t start_ticks;        /* field 22 of /proc/PID/stat: tells a pid from its reuse; 0 when not read */
    uint64_t mm;                 /* task->mm, told by its first event; 0 = not yet */
    char comm[16];               /* of the main thread, last known */
    struct process_mapping *mappings;
    uint32_t n_mappings;
    size_t cap_mappings;
    struct object *exe; /* of the main executable; a reference; NULL when unknown */
    char *exe_path;     /* as seen inside the process's root */
    bool maps_read;     /* mappings were complete at some time: from /proc, or followed since exec */
    bool loaded;        /* the BPF map has its record */
    bool stale;         /* mappings changed since it was loaded */
    bool exited;
    uint64_t last_sample_ns, samples;

    /* identity.c: what the resource says. NULL until the first export; made once and again after an exec. */
    struct identity *identity;
    /* lang.h: the runtime found in it. */
    const struct lang *lang;
    void *lang_state;
    bool lang_tried;
    struct agent_lang lang_record;
    struct agent_span span;
    uint64_t lang_lo, lang_hi;
    struct perf_map *perf_map; /* perf_map.h: names of a JIT's code; NULL until asked for */
};

/* The mapping with the address, or NULL. */
struct process_mapping *process_mapping_at(const struct process *p, uint64_t address);
/* Reads memory of the process; the number of bytes, or a negative errno. */
ssize_t process_read(const struct process *p, uint64_t address, void *ret, size_t n);
/* Opens a file as the process sees it (its root, its mount namespace), regular files only. */
int process_open(const struct process *p, const char *path);

#endif
