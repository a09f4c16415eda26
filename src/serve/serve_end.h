/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that was asked to stop ends within ten seconds, whatever hangs: a disk, a peer, a child, a log that is being read. A
 * thread ends the process if it has not ended by then. What was acknowledged is on the disk, as for a crash.
 */
#ifndef SERVE_SERVE_END_H
#define SERVE_SERVE_END_H

#include <stdbool.h>

#include "base/err.h"

/* Starts the thread: after rights were dropped, since it must not have more than the others. */
int serve_end_watch(struct err *e);
/* The server runs: from here on, its main thread takes the signals that ask it to stop. */
void serve_end_started(void);
/* It stops now. */
void serve_end_begin(void);
/* Whether a signal to stop waits: during the start none is taken. */
bool serve_end_is_asked(void);

#endif
