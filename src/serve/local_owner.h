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

#include <stdbool.h>

#include "base/err.h"
#include "proc/socket_owner.h"
#include "server/workers.h"

struct agent_feed;
struct batch;
struct local_owner;

/* A batch that waits for the name of its process. The caller sets the first two. */
struct local_question {
    struct batch *batch; /* its reference; replaced by one that names the process, if that is found */
    void (*answered)(struct local_question *q); /* on the thread of the questions */
    struct worker_job job;
    struct local_owner *owner;
    char address[SOCKET_ADDRESS_MAX];
    bool scraped;
};

/* agent: NULL: nothing is ever asked. */
int local_owner_new(struct agent_feed *agent, struct local_owner **ret);
/* Starts the thread of the questions; before it runs and after it stopped, nothing is asked. */
int local_owner_start(struct local_owner *o, struct err *e);
/* Answers what is waiting. No other thread may ask meanwhile. */
void local_owner_stop(struct local_owner *o);
void local_owner_free(struct local_owner *o);
/* Asks for the process of a batch from this peer: true if answered() will be called, false if there is nothing to wait for. */
bool local_owner_ask(struct local_owner *o, struct local_question *q, const char *peer);

#endif
