/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of single processes, which the server requests from its agent over the feed (agent_feed.h). A request is
 *
 *   u32  process id, little endian     u32  seconds     char[56]  address, zero-padded
 *
 * and two descriptors: for the answer, for error messages. With process id 0, the answer is the process that holds the
 * socket with this local address, as socket_owner_put() prints it; nothing when there is none.
 *
 * For each, a child of the agent's supervisor runs `wick record -p PID -F 99` with the rights of the agent. It ends with
 * the supervisor, or when the server closes its end of the profile.
 */
#ifndef HOST_AGENT_PROFILES_H
#define HOST_AGENT_PROFILES_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { AGENT_PROFILES_MAX = 8 };

struct agent_profiles {
    struct agent_profile {
        pid_t child;
        int out, words;
    } v[AGENT_PROFILES_MAX];
    unsigned n;
    /* Samples a process, writes the profile to stdout and messages to stderr, and returns an exit status. Called in a
     * child process. */
    int (*record)(uint32_t pid, uint32_t seconds);
};

/* The server's side: sends a request. ret: descriptors from which to read the profile and the error messages, owned by
 * the caller. */
int agent_profiles_ask(int feed, pid_t pid, unsigned seconds, int ret[2], struct err *e);

/* The server's side: asks who holds the socket with this local address, and what it is called. ret: as above. */
int agent_profiles_ask_owner(int feed, const char *address, bool named, int ret[2], struct err *e);

/* The side of the agent's supervisor, a process with a single thread. */
void agent_profiles_begin(struct agent_profiles *p, int feed); /* accepts the request that can be read from feed */
unsigned agent_profiles_poll(struct agent_profiles *p, struct pollfd *fds); /* descriptors to wait for */
void agent_profiles_tend(struct agent_profiles *p); /* cleans up children that are done, or whose reader is gone */

#endif
