/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the time in which a process sends CPU profiles itself. The agent samples it as well, because it cannot know
 * where the process sends them: what is of that time goes into profiles of its own, marked as such, which count only where
 * the process's own do not arrive (store/process_sources.h).
 *
 * libwick publishes the attribute "wick.profile.types" in the process context (process_context.h) while it exports: a
 * string of canonical types separated by commas ("cpu,heap"), or an array of strings. An empty value, or no attribute,
 * means that the process sends nothing; this is also the answer for other SDKs and for versions of libwick that do not
 * publish it. The SDK samples from the time of publication on. "wick.process" is in libwick's profiles, too: by it the
 * server knows that both are of one process, also in a container, which has names and numbers of its own.
 *
 * The agent looks for the context when libwick is mapped, and then often, because an SDK may start and stop at any
 * time; in other processes when a sampled process is NEW_NS old (most are gone by then), and then less and less often.
 * Once it was found, a check reads only its 32-byte header until that changes. Profiles of a process whose context was
 * not found have no marks: the server then counts one of the two sources.
 * The agent's thread only.
 */
#ifndef AGENT_OWN_PROFILES_H
#define AGENT_OWN_PROFILES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/process_context.h"

struct process;

enum { OWN_CPU = 1, OWN_ID_SIZE = 17 };

struct own_profiles {
    bool likely;                /* libwick is mapped: look at once */
    bool found;                 /* it has had a context */
    char id[OWN_ID_SIZE];       /* wick.process; empty: none */
    unsigned types, before;     /* OWN_*: now, and before since_ns */
    uint64_t since_ns;          /* CLOCK_MONOTONIC: when types became what they are */
    uint64_t before_ns;         /* the same for `before` */
    uint64_t next_ns, pause_ns; /* the next check, and how long to wait after that */
    uint64_t address;           /* of the context; 0: not found */
    uint64_t published_ns;      /* its time of publication at the last check */
};

/* The time on CLOCK_MONOTONIC of one on CLOCK_BOOTTIME, which runs on while the machine is suspended. */
uint64_t own_profiles_mono_of_boot(uint64_t boot_ns);
/* Sets the types that are sent from this time on. */
void own_profiles_take(struct own_profiles *o, unsigned types, uint64_t since_ns);
/* The types that the context names. */
unsigned own_profiles_types(const struct process_context *c);
/* Checks the process's context if a check is due. */
void own_profiles_check(struct process *p, uint64_t now_ns);
/* The same before its samples are sent: a process with libwick is checked in any case, so that what was sampled after
 * libwick started is known. */
void own_profiles_check_last(struct process *p, uint64_t now_ns);
/* False when the process cannot have a context yet, or was found to have none: it is not worth a search. */
bool own_profiles_may_have_context(const struct process *p, uint64_t now_ns);
/* New code was mapped, from this file (NULL: none): an SDK may have been loaded. */
void own_profiles_mapped(struct own_profiles *o, const char *path);
/* True when the process itself sends what was sampled at that time. kind: enum agent_kind. */
bool own_profiles_cover(const struct own_profiles *o, unsigned kind, uint64_t time_ns);
/* Narrows a time on CLOCK_MONOTONIC to the part of it in which the process sends CPU profiles. */
void own_profiles_narrow(const struct own_profiles *o, int64_t *from_ns, int64_t *to_ns);

#endif
