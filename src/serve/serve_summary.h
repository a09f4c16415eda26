/* SPDX-License-Identifier: Apache-2.0 */
/* What a person who starts a server wants to know first, in four lines after the address. */
#ifndef SERVE_SERVE_SUMMARY_H
#define SERVE_SERVE_SUMMARY_H

#include <signal.h>

#include "base/buf.h"

struct serve;

/* Waits up to 5 s until the agent samples or has said why it cannot, but not while a signal of the set, which is blocked, is pending. */
void serve_summary_wait(const struct serve *s, const sigset_t *set);
/* Appends: what it receives, what it samples, what it keeps, and what it lacks with the command that gives it. */
void serve_summary(const struct serve *s, struct buf *out);

#endif
