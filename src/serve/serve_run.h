/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running server: store, OTLP, API and the agent of this machine in one. It starts the agent (which needs
 * privileges), then drops its privileges and starts the store and, last, the listeners. It stops in the reverse order;
 * requests in progress are answered. A port that is in use does not prevent the start: the API
 * takes the next one, and OTLP is turned off with a log message.
 */
#ifndef SERVE_SERVE_RUN_H
#define SERVE_SERVE_RUN_H

#include <stdbool.h>

#include "base/err.h"

struct serve;
struct serve_args;

/* args must outlive the server. Called before any thread is started; the caller blocks the signals that it waits for. *ret is freed with serve_stop(). */
int serve_start(struct serve_args *args, struct serve **ret, struct err *e);
void serve_stop(struct serve *s);
/* Reads configuration and certificates again: applies what can change at runtime and logs the names of the other
 * changes. */
void serve_reload(struct serve *s);
/* Checks that the configuration is valid, without starting anything. */
int serve_check(struct serve_args *args, struct err *e);
/* True if every event loop has answered since the last call; asks them again. */
bool serve_pulse(struct serve *s);
/* The URL that the API listens on. */
const char *serve_url(const struct serve *s, char *ret, size_t size);

#endif
