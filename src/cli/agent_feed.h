/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a process of its own beside a server, joined by a socket pair. What it sends is frames:
 *
 *   u32  length, little endian     u8[length]  an OTLP request (protobuf)
 *
 * The child has the agent's capabilities and no listener; the server has none of them.
 */
#ifndef CLI_AGENT_FEED_H
#define CLI_AGENT_FEED_H

#include "base/err.h"

struct agent_feed;
struct sink;

enum { AGENT_FRAME_MAX = 64 << 20 };

/* The server's side: starts `wick agent` as a child, hands what it sends to sink, starts it again when it dies (after a
 * pause, which grows). args: more words for its command line, NULL-terminated, or NULL. */
int agent_feed_new(struct sink *sink, char *const *args, struct agent_feed **ret, struct err *e);
void agent_feed_free(struct agent_feed *f);

/* The agent's side: a sink that writes frames to fd. What the server does not take in time is dropped. */
struct sink *agent_feed_sink(int fd);

#endif
