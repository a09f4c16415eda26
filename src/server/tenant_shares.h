/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each tenant uses of the server at a time: calls that wait or run, and memory of responses that it has not read.
 * Every tenant that asks has an entry, which lives as long as the table. Safe from any thread.
 */
#ifndef SERVER_TENANT_SHARES_H
#define SERVER_TENANT_SHARES_H

#include <stdatomic.h>

#include "net/server.h"
#include "server/auth.h"
#include "server/workers.h"

struct tenant_share {
    struct http_share answers;
    struct workers_flow queries, operation; /* calls of routes of both kinds (front.h) */
    _Atomic int64_t calls;                  /* that count for limits.tenant_queries */
    unsigned own_threads;                   /* calls with threads of their own; protected by the front's lock */
    char name[AUTH_TENANT_SIZE];
};

struct tenant_shares;

/* answers: bytes of responses that a tenant may leave unread; 0: no limit. */
int tenant_shares_new(size_t answers, struct tenant_shares **ret);
void tenant_shares_free(struct tenant_shares *s);
DEFINE_CLEANUP(struct tenant_shares *, tenant_shares_free)
/* NULL without memory. */
struct tenant_share *tenant_shares_of(struct tenant_shares *s, const char *tenant);

#endif
