/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of the agent while it samples: it is not root, has only the capabilities that sampling needs
 * (agent/agent_caps.h), cannot gain others, and is limited to the system calls of a daemon and those of BPF and perf.
 */
#ifndef HOST_AGENT_RIGHTS_H
#define HOST_AGENT_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* The user that agent_rights_drop() switches to when it is started as root. */
uid_t agent_rights_uid(void);
/* To be called once, before threads and children are started. A process started as root becomes user `wick-agent` if it
 * exists, else a uid without an account. keep_caps: only set no_new_privs and the filter of system calls. */
int agent_rights_drop(bool keep_caps, struct err *e);

/* Of the process that starts the agent again (agent_keep.h): drops all that a new agent does not need. */
int agent_rights_starter(void);

#endif
