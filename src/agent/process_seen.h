/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes with a copied stack about its process: the command line, the environment, the user and the control groups
 * (struct agent_task). A process that is sampled once and then gone is identified by this, without a system call. A child
 * that was forked and has not called exec has the command line of its parent. The agent's thread only.
 */
#ifndef AGENT_PROCESS_SEEN_H
#define AGENT_PROCESS_SEEN_H

#include <stdint.h>

#include "base/str.h"

struct agent_stack;
struct process;

struct process_seen {
    uint32_t refs;
    struct str command;     /* as in /proc/PID/cmdline */
    struct str environment; /* of /proc/PID/environ only the variables OTEL_*; p NULL: it was not copied */
    char bytes[];
};

/* Takes what the copy has and p does not know yet. */
void process_seen_take(struct process *p, const struct agent_stack *s);
/* For a child that was forked. */
void process_seen_inherit(struct process *p, const struct process *parent);
void process_seen_unref(struct process_seen *s);

#endif
