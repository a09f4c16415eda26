/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a process is, as resource attributes: service.name and service.version, process.*, container.id, host.*.
 * Made from /proc and the executable at the first export that holds the process, and kept until it is gone: nothing is
 * read again for each batch. The agent's thread only.
 */
#ifndef AGENT_IDENTITY_H
#define AGENT_IDENTITY_H

#include <stdbool.h>

#include "base/err.h"

struct builder;
struct identity;
struct identity_rules;
struct process;

/* Reads all that can be read now, soon after the first sample; what cannot be read is left out. 0 or -ENOMEM. */
int identity_new(const struct process *p, struct identity **ret, struct err *e);
void identity_free(struct identity *i);
/* The attributes of the builder's last resource. */
void identity_put(const struct identity *i, struct builder *b);
/* Renaming of services (identity_read.h), for all that are made from now on. Stays the caller's; NULL: none. */
void identity_set_rules(const struct identity_rules *r);
/* Made of a process that was not read (process.brief): from its executable alone. */
bool identity_is_brief(const struct identity *i);
/* For filters and lists; never NULL. */
const char *identity_service(const struct identity *i);

#endif
