/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of senders: what each sender of each tenant sent, and what of it was refused. A sender is identified by its
 * resource and scope: service, version, host, process, and the library that made the profiles.
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

struct ack_result;
struct batch;
struct senders;
struct sink_context;

enum { SENDERS_MAX = 10000 };

int senders_new(struct senders **ret);
void senders_free(struct senders *s);
DEFINE_CLEANUP(struct senders *, senders_free)
/* Counts a batch that arrived. */
void senders_count(struct senders *s, const struct batch *b, const struct sink_context *ctx);
/* Counts what was not stored of a batch that was counted before, and keeps the reason. */
void senders_refused(struct senders *s, const struct batch *b, const char *tenant, const struct ack_result *result);
/* How many profiles of a service arrived, and how many of them were refused. */
struct alert_losses;
void senders_losses(struct senders *s, const char *tenant, struct str service, struct alert_losses *ret);
/* {"senders":[{"service":…,"lastSeen":"ns",…},…]} of one tenant, the latest first. */
int senders_json(struct senders *s, const char *tenant, int64_t now, struct buf *out);

#endif
