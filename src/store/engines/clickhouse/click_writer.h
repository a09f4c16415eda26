/* SPDX-License-Identifier: Apache-2.0 */
/* Inserts what was appended; see click.h. */
#ifndef CLICKHOUSE_CLICK_WRITER_H
#define CLICKHOUSE_CLICK_WRITER_H

#include "base/err.h"
#include "model/sink.h"

struct batch;
struct click;
struct click_writer;
struct store_stats;

/* ready: the tables exist; else the writer makes them when ClickHouse answers. */
int click_writer_new(struct click *c, bool ready, struct click_writer **ret, struct err *e);
/* Completes every ack. */
void click_writer_free(struct click_writer *w);
void click_writer_append(struct click_writer *w, struct batch *b, const struct sink_context *ctx, struct ack *ack);
void click_writer_stats(struct click_writer *w, struct store_stats *ret);

#endif
