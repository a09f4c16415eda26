/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses which processes are sampled. Rules are evaluated in order and the first match decides; a process that no
 * rule matches is sampled unless there is an include rule. A rule is FIELD=PATTERN or FIELD~REGEXP, followed by "/N"
 * for one sample in N:
 *
 *   pid=1234  name=nginx  exe=/usr/bin/node  cgroup~kubepods.*  user=postgres  service~check.*  ppid=1
 *
 * The rules are evaluated once per process, at its first sample; the result goes into the BPF map, so that stacks of
 * excluded processes are not walked.
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
/* include: sample processes that match; else exclude them. -EINVAL with an error message. */
int filter_add(struct filter *f, bool include, struct str rule, struct err *e);
/* 0: the process is excluded; else one sample in this many is taken, and counts this many times. */
uint32_t filter_weight(const struct filter *f, struct process *p);

#endif
