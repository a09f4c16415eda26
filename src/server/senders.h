/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends profiles: a sink in front of the store that counts what passes, per tenant and sender. A sender is what its
 * resource and scope say it is: service, version, host, process, and the library that made the profiles.
 *
 * Rates are means over about two minutes. What wick's own senders say about themselves in their profiles' attributes
 * (wick.rate, wick.lost, wick.cpu_ns, wick.governor) is kept as last said. The table is bounded: the sender that was
 * silent for the longest makes room. Any thread.
 */
#ifndef SERVER_SENDERS_H
#define SERVER_SENDERS_H

#include "base/buf.h"
#include "base/err.h"
#include "model/sink.h"

struct senders;

enum { SENDERS_MAX = 10000 };

/* next is the caller's and outlives it. */
int senders_new(struct sink *next, struct senders **ret);
/* When nothing is sent any more and every ack came back. */
void senders_free(struct senders *s);
DEFINE_CLEANUP(struct senders *, senders_free)
struct sink *senders_sink(struct senders *s);
/* {"senders":[{"service":…,"lastSeen":"ns",…},…]} of one tenant, the latest first. */
int senders_json(struct senders *s, const char *tenant, int64_t now, struct buf *out);

#endif
