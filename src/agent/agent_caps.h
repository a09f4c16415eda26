/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities that the agent keeps after it has started, and what does not work without each of them. */
#ifndef AGENT_AGENT_CAPS_H
#define AGENT_AGENT_CAPS_H

#include <stdbool.h>

#include "base/err.h"

struct agent_cap {
    int number;
    const char *name, *loss; /* loss: what does not work without it */
    bool required;           /* without it BPF cannot be used at all */
};

extern const struct agent_cap agent_caps[]; /* ends with an entry whose name is NULL */

/* Whether this process has it. */
bool agent_cap_has(int number);

#endif
