/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTEL_CTX (OTEP 4719): attributes that a process publishes for profilers, in a mapping of that name.
 *
 *   header, 32 bytes   0   char[8]  "OTEL_CTX"
 *                      8   u32      version, 2
 *                      12  u32      bytes of the payload, 1 to PROCESS_CONTEXT_MAX
 *                      16  u64      when it was published (CLOCK_BOOTTIME); 0 while it is being changed
 *                      24  u64      address of the payload
 *   payload            protobuf ProcessContext { Resource resource = 1; repeated KeyValue attributes = 2; }
 *
 * The process may change it at any time: the reader reads header, payload, and header again, and the times must be
 * equal.
 */
#ifndef AGENT_PROCESS_CONTEXT_H
#define AGENT_PROCESS_CONTEXT_H

#include "base/arena.h"
#include "base/err.h"
#include "model/batch.h"
#include "proc/proc_maps.h"
#include "proc/proc_memory.h"

enum { PROCESS_CONTEXT_MAX = 65536 };

struct process_context {
    struct kvs resource;   /* service.name, ... */
    struct kvs attributes; /* threadlocal.* */
    uint64_t published_ns;
};

/* Everything in ret lives in the arena. -EBADMSG when the payload is malformed. */
int process_context_decode(struct str payload, struct arena *a, struct process_context *ret);
/* Finds the mapping and reads it. -ENOENT when the process publishes nothing. */
int process_context_read(const struct proc_maps *maps, const struct proc_memory *m, struct arena *a,
                         struct process_context *ret);
/* Reads when the context at this address was published; 0 while it is being changed. -EBADMSG when there is no
 * context. */
int process_context_time(const struct proc_memory *m, uint64_t address, uint64_t *ret);
/* The mapping, or NULL. */
const struct proc_map *process_context_find(const struct proc_maps *maps);

#endif
