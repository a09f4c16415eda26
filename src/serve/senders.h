/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of senders: a sink in front of the store that counts what passes, per tenant and sender. A sender is
 * identified by its resource and scope: service, version, host, process, and the library that made the profiles.
 *
 * Rates are means over about two minutes. What wick's own senders report about themselves in attributes of their
 * profiles (wick.rate, wick.lost, wick.cpu_ns, wick.governor) is kept as last reported. The table is bounded: the
 * sender that has been silent for the longest is removed first. Any thread.
 */
#ifndef SERVE_SENDERS_H
#define SERVE_SENDERS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/sink.h"

struct senders;

enum { SENDERS_MAX = 10000 };

/* next is owned by the caller and must outlive it. */
int senders_new(struct sink *next, struct senders **ret);
/* Call it after the last batch was sent and every ack has come back. */
void senders_free(struct senders *s);
DEFINE_CLEANUP(struct senders *, senders_free)
struct sink *senders_sink(struct senders *s);
/* How many profiles of a service arrived, and how many of them were refused. */
struct alert_losses;
void senders_losses(struct senders *s, const char *tenant, struct str service, struct alert_losses *ret);
/* {"senders":[{"service":…,"lastSeen":"ns",…},…]} of one tenant, the latest first. */
int senders_json(struct senders *s, const char *tenant, int64_t now, struct buf *out);

#endif
