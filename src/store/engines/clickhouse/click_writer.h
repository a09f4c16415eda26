/* SPDX-License-Identifier: Apache-2.0 */
/* Inserts what was appended; see click.h. */
#ifndef CLICKHOUSE_CLICK_WRITER_H
#define CLICKHOUSE_CLICK_WRITER_H

#include "base/err.h"
#include "model/sink.h"

struct batch;
struct click;
struct click_writer;
struct store_spool;
struct store_stats;

/* problem: why ClickHouse cannot be reached; the writer makes the tables when it answers. NULL: they exist. */
int click_writer_new(struct click *c, const char *problem, struct click_writer **ret, struct err *e);
/* Completes every ack. */
void click_writer_free(struct click_writer *w);
void click_writer_append(struct click_writer *w, struct batch *b, const struct sink_context *ctx, struct ack *ack);
void click_writer_stats(struct click_writer *w, struct store_stats *ret);
/* What waits in the spool; all 0 without one. Any thread. */
void click_spool_stats(struct click_writer *w, struct store_spool *ret);

#endif
