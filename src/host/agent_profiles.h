/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of single processes, which the server asks its agent for over the feed (agent_feed.h). A request is
 *
 *   u32  process id, little endian     u32  seconds     and two descriptors: for the profile, for words
 *
 * A child of the agent takes each, with the agent's rights and none besides: `wick record -p PID -F 99`. It ends with the
 * agent, or when the server closes its side of the profile.
 */
#ifndef HOST_AGENT_PROFILES_H
#define HOST_AGENT_PROFILES_H

#include <poll.h>
#include <sys/types.h>

#include "base/err.h"

enum { AGENT_PROFILES_MAX = 8 };

struct agent_profiles {
    struct agent_profile {
        pid_t child;
        int out, words;
    } v[AGENT_PROFILES_MAX];
    unsigned n;
};

/* The server's side: asks. ret: where the profile and the words come from, the caller's. */
int agent_profiles_ask(int feed, pid_t pid, unsigned seconds, int ret[2], struct err *e);

/* The agent's side, on one thread without others beside it. */
void agent_profiles_begin(struct agent_profiles *p, int feed); /* takes the request that can be read from feed */
unsigned agent_profiles_poll(struct agent_profiles *p, struct pollfd *fds); /* what to wait for; how many */
void agent_profiles_tend(struct agent_profiles *p); /* those that are done, or nobody waits for any more */

#endif
