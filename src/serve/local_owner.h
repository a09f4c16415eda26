/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the process to profiles from this machine that do not name it: those of Pyroscope's SDKs, and scraped ones. The
 * process is the one that holds the sender's socket, or the scraped one, over loopback; the agent finds it
 * (proc/socket_owner.h), because the server does not have the right to look. With it, CPU time that the agent samples as
 * well is counted once (store/process_sources.h).
 *
 * A batch that has to wait for an answer waits on a thread of its own; others are passed on at once. A process that is
 * not found in time leaves its profiles as they are.
 */
#ifndef SERVE_LOCAL_OWNER_H
#define SERVE_LOCAL_OWNER_H

#include "base/err.h"

struct agent_feed;
struct local_owner;
struct sink;

/* agent: NULL: nothing is added. next must outlive it. */
int local_owner_new(struct agent_feed *agent, struct sink *next, struct local_owner **ret, struct err *e);
struct sink *local_owner_sink(struct local_owner *o);
/* Passes on what is waiting and stops the thread; afterwards everything is passed on unchanged. */
void local_owner_stop(struct local_owner *o);
void local_owner_free(struct local_owner *o);

#endif
