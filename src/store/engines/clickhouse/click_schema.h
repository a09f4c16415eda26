/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema: creates the database and the tables, and checks their version. With a cluster, each table NAME is a
 * Distributed one over the replicated NAME_local of every shard; the macros {shard} and {replica} of the servers'
 * configuration must be set. Codecs and LowCardinality are used where the server has them (20.1 and later).
 */
#ifndef CLICKHOUSE_CLICK_SCHEMA_H
#define CLICKHOUSE_CLICK_SCHEMA_H

#include "store/engines/clickhouse/click_http.h"

/* 1: `samples` had the columns trace and span. 2: it has `linked` instead. 3: other codecs. 4: keys of `profiles`
 * expire, and tables that are created have times and attributes as LowCardinality. */
enum { CLICK_SCHEMA_VERSION = 4 };

/* Called for each statement, in order. */
typedef int (*click_statement_fn)(void *ctx, struct str sql, struct err *e);

/* Asks for the server's version, as major * 100 + minor. */
int click_server_version(struct click_http *h, uint32_t *ret, struct err *e);
/* *ret = the version of the schema that the database has; 0 when there is none. */
int click_schema_version(struct click_http *h, uint32_t *ret, struct err *e);
/* Reports the statements that bring the schema from version `from` to the present one; none if there is nothing to do. */
int click_schema_plan(const struct click_url *u, uint32_t server, uint32_t from, click_statement_fn fn, void *ctx,
                      struct err *e);
/* Creates the schema if there is none; -EPROTO if it has another version. */
int click_schema_ensure(struct click_http *h, bool create, struct err *e);

#endif
