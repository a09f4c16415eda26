/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running server: store, OTLP, API and the agent of this machine in one. Order of starting: the agent (which needs
 * rights), then the rights are given up, store, listeners; of stopping: listeners (requests under way are answered),
 * workers, store. A port that is taken does not stop the rest: the API takes the next one, OTLP is off with a line that
 * says so.
 */
#ifndef SERVE_SERVE_RUN_H
#define SERVE_SERVE_RUN_H

#include "base/err.h"

struct serve;
struct serve_args;

/* args must outlive the server. data_dir: where tokens are, and the store unless one is configured. Called before any thread
 * runs; the caller blocks the signals that it waits for. *ret is to be freed with serve_stop(). */
int serve_start(struct serve_args *args, const char *data_dir, struct serve **ret, struct err *e);
void serve_stop(struct serve *s);
/* Reads configuration and certificates again: what can change while running does, the rest is named in the log. */
void serve_reload(struct serve *s);
/* Whether the configuration can be used, without starting anything. */
int serve_check(struct serve_args *args, struct err *e);
/* Where the API listens, with its scheme. */
const char *serve_url(const struct serve *s, char *ret, size_t size);

#endif
