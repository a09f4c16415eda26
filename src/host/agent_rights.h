/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the agent is while it samples: not root, with the few capabilities that sampling needs (agent/agent_caps.h) and
 * without the right to gain others, limited to the system calls of a daemon and those of BPF and perf.
 */
#ifndef HOST_AGENT_RIGHTS_H
#define HOST_AGENT_RIGHTS_H

#include <stdbool.h>

#include "base/err.h"

/* Called once, before threads and children. Started as root it becomes user `wick-agent` where that exists, else a uid that
 * no account has. keep_caps: only no_new_privs and the filter of calls. */
int agent_rights_drop(bool keep_caps, struct err *e);

#endif
