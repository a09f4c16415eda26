/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a process as resource attributes: service.name and service.version, process.*, container.id,
 * host.*. It is read from /proc and the executable at the first sample of the process, and kept until the process is
 * gone, so that nothing is read again for each batch. The agent's thread only.
 *
 * A sample may come from the middle of exec, where the kernel has dropped the old image and not yet set the new command
 * line and environment: /proc shows both empty. On a busy machine the process may stay preempted there while the agent
 * reads it. Such an identity is read again at the next samples and before the batch is made.
 */
#ifndef AGENT_IDENTITY_H
#define AGENT_IDENTITY_H

#include <stdbool.h>

#include "base/err.h"

struct builder;
struct identity;
struct identity_rules;
struct process;

/* Reads the identity, soon after the first sample; what cannot be read is left out. 0 or -ENOMEM. */
int identity_new(const struct process *p, struct identity **ret, struct err *e);
void identity_free(struct identity *i);
/* Adds the attributes to the builder's last resource. */
void identity_put(const struct identity *i, struct builder *b);
/* Sets the renaming rules (identity_read.h) for identities that are read from now on. Owned by the caller; NULL:
 * none. */
void identity_set_rules(const struct identity_rules *r);
/* Reads p->identity if there is none yet, or if reading it again gives more: the process was not read at first
 * (process.brief), was read in the middle of exec, or has published its context since. Without memory, it is left as it
 * is. */
void identity_update(struct process *p);
/* True if identity_update() would read it again. */
bool identity_is_outdated(const struct identity *i, const struct process *p);
/* For filters and lists; never NULL. */
const char *identity_service(const struct identity *i);
/* The service's name of any process, and the first argument of its command line; "" when they cannot be read. Reads the process's
 * memory: for a process of its own, which can be left behind. Any thread. */
void identity_name(int pid, char *ret_service, size_t n, char *ret_command, size_t n_command);

#endif
