/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: one JSON object per line for each request that changes something or tries to (settings, data, symbols, logins; not
 * profiles that are sent), with the time, who asked, from where, and how it ended. Written by a thread of its own, so that event loops
 * do not wait for the disk. At 16 MiB the file is renamed to FILE.1, over the one before. Safe from any thread.
 */
#ifndef SERVER_AUDIT_H
#define SERVER_AUDIT_H

#include "base/err.h"
#include "server/auth.h"

struct audit;
struct http_request;

int audit_open(const char *path, struct audit **ret, struct err *e);
/* Writes what is left. NULL is allowed. */
void audit_free(struct audit *a);
/* NULL is allowed. status: of the answer. */
void audit_note(struct audit *a, const struct http_request *q, const struct auth_identity *who, int status);

#endif
