/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are sampled. Rules in order; the first that matches decides, and what none matches is taken unless there
 * is an include rule. A rule is FIELD=PATTERN or FIELD~REGEXP, with "/N" behind it for one sample in N:
 *
 *   pid=1234  name=nginx  exe=/usr/bin/node  cgroup~kubepods.*  user=postgres  service~check.*  ppid=1
 *
 * Asked once per process, at its first sample; the answer goes into the BPF map, so that nothing is walked in vain.
 */
#ifndef AGENT_FILTER_H
#define AGENT_FILTER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct filter;
struct process;

int filter_new(struct filter **ret);
void filter_free(struct filter *f);
DEFINE_CLEANUP(struct filter *, filter_free)
/* include: take what matches; else leave it out. -EINVAL with words. */
int filter_add(struct filter *f, bool include, struct str rule, struct err *e);
/* 0: leave it; else the process's samples count this much each, and one in so many is taken. */
uint32_t filter_weight(const struct filter *f, struct process *p);

#endif
