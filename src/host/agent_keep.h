/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the agent of a server running (agent_feed.h). It is three processes:
 *
 *   the starter      does nothing but start the others again when all of them were killed. It keeps the rights that
 *                    this takes, and reads nothing from anyone
 *   the supervisor   answers the server's requests, and starts the sampler again when it was killed
 *   the sampler      takes the place of a supervisor that was killed
 *
 * Supervisor and sampler show that they work by counting in memory that all share. One that has stopped counting is
 * killed, and so replaced.
 */
#ifndef HOST_AGENT_KEEP_H
#define HOST_AGENT_KEEP_H

#include <stdbool.h>
#include <stdint.h>

/* Forks and returns in the child, to be called before rights are dropped. The calling process becomes the starter and does
 * not return. all_rights: it drops none. */
void agent_keep_start(int fd, bool all_rights);
/* Forks and returns in the child, which is the sampler. The calling process is the supervisor and does not return: it ends
 * when the server is gone or a sampler exits by itself. record: as in struct agent_profiles. */
void agent_keep(int fd, int (*record)(uint32_t pid, uint32_t seconds));
/* To be called after the work ended without an error. True when the server is still there: then the supervisor was
 * killed, and the caller takes its place with agent_keep(). */
bool agent_keep_must_go_on(int fd);
/* The sampler works. */
void agent_keep_beat(void);

#endif
