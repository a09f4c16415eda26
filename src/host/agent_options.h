/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands the options of an agent from a server to the agent that it starts. The agent is a new program (exec), so that it
 * shares no secrets and no address layout with the server, which reads what strangers send; pointers do not survive that. The
 * options cross as they are, in a sealed memory file: both sides are the same binary.
 *
 *   struct agent_run_options                                     with pointers that mean nothing but NULL or not
 *   for each text that is not NULL, then for each text of each list, in the order of agent_options.c: bytes, NUL
 */
#ifndef HOST_AGENT_OPTIONS_H
#define HOST_AGENT_OPTIONS_H

#include "base/arena.h"
#include "base/err.h"

struct agent_run_options;

/* *ret_fd is the memory file, the caller's. */
int agent_options_send(const struct agent_run_options *o, int *ret_fd, struct err *e);
/* Reads the options that were sent, and closes fd. feed_fd keeps its value in *ret, texts are in the arena. */
int agent_options_receive(int fd, struct arena *a, struct agent_run_options *ret, struct err *e);

#endif
