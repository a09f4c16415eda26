/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time of a process is counted once when two sources send it: this host's agent and an SDK inside of the process, or
 * the agents of two vendors. A process is known by its host, its pid, the name of its program and, where both sources say
 * it, its start time; a source by what made its profiles. Pid 1 is not enough: many containers of a host have one. A number
 * that both sources send (wick.process) tells it also where they have other names for it, as inside and outside of a
 * container.
 *
 * One source leads, the one with the highest rank (enum sources_rank): one with spans, else one whose sum is the CPU time
 * that the process used. Of two with spans, the one that samples more often: a span of two milliseconds says little with a
 * sample of 50; else what is sent rather than what is scraped from the same profiler. Of two with the same rank it is otherwise always the same one, whichever came first. It leads until it was
 * silent for SOURCES_SILENCE. The profiles of the others are not counted.
 *
 * A source may lead only after profiles of another one were counted: a scrape of four seconds arrives before the agent's
 * first profile. What was counted for the time that a profile of the leader covers is subtracted from it, so that
 * the sum is the leader's in any order of arrival. Subtracting values, not time, is right also where a source rounds its
 * times to seconds or has gaps.
 *
 * wick's agent sends the time in which it found libwick at work as profiles of its own. All else it marks as a complement: it
 * counts beside libwick, and is never subtracted.
 *
 * What is not counted is stored as well, under a type of its own (types.h: cpu_also), which no question for the type
 * finds. One thread.
 */
#ifndef STORE_PROCESS_SOURCES_H
#define STORE_PROCESS_SOURCES_H

#include <stdbool.h>

#include "base/hash.h"
#include "base/map.h"

#define SOURCES_SILENCE (60 * NS_PER_S)
/* No profile is taken to cover more: a wrong duration must not keep other sources out for years. */
#define SOURCES_DURATION_MAX (3600 * NS_PER_S)

struct batch;
struct resource;
struct scope;

struct sources_process;

struct sources {
    struct sources_process *v;
    size_t n, cap, n_numbers;
    struct map map; /* by names, and by number */
};

enum sources_rank {
    SOURCES_SCRAPED, /* neither a scope nor an SDK is named: scraped, with gaps, or pushed by an older SDK */
    SOURCES_SDK,     /* an SDK: some measure wall-clock time or have gaps */
    SOURCES_AGENT,   /* an agent of the host */
    SOURCES_LIBWICK, /* libwick */
    SOURCES_SPANS,   /* a source of any kind whose samples have spans */
};

struct sources_profile {
    struct id128 process, source;
    struct id128 number;     /* of the process, wick.process; zero: none */
    struct id128 complement; /* the source without whose time this profile is, so that both count; zero: none */
    int64_t start, end;
    int64_t started;              /* when the process was started; 0: unknown */
    int64_t value;                /* its sum */
    int64_t period;               /* ns of CPU time between two samples; 0: unknown */
    enum sources_rank rank, kind; /* kind: the rank without spans, which decides between two that have them */
};

/* The process, the source and its rank, without regard to spans, of a scope's profiles; false when the resource does not
 * say which process it is. */
bool sources_identify(struct id128 tenant, const struct resource *r, const struct scope *s, struct str type,
                      struct sources_profile *ret);
/* Whose snapshots of a gauge are averaged: the process, whichever source they are from, since the source that leads may change. Two
 * processes that containers give the same names differ by their container or pod. A resource that does not name its process is an
 * instance of its own. */
struct id128 sources_instance(const struct resource *r);
/* Whether this profile is counted, and how much of its value (0 to value). Without memory, all of it is. */
bool sources_count(struct sources *s, const struct sources_profile *p, int64_t *ret);
void sources_done(struct sources *s);

#endif
