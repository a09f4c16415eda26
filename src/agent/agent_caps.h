/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent may do: the capabilities it keeps after it has started, and what is lost without each. */
#ifndef AGENT_AGENT_CAPS_H
#define AGENT_AGENT_CAPS_H

#include <stdbool.h>

#include "base/err.h"

struct agent_cap {
    int number;
    const char *name, *loss; /* loss: what does not work without it */
    bool required;           /* for BPF at all */
};

extern const struct agent_cap agent_caps[]; /* name NULL ends it */

/* Whether this process has it. */
bool agent_cap_has(int number);

#endif
