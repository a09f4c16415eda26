/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a process of its own beside a server, joined by a socket pair. What it sends is frames:
 *
 *   u32  length, little endian     u8[length]  an OTLP request (protobuf)
 *
 * An agent that cannot go on says why in its last frame: bit 31 of the length is set, and its bytes are the command that
 * helps, a newline, the reason.
 *
 * The agent is two processes: one that samples, and one that starts it again when it dies. What the server asks it for is
 * told in agent_profiles.h.
 *
 * The child has the agent's capabilities and no listener; the server has none of them.
 */
#ifndef HOST_AGENT_FEED_H
#define HOST_AGENT_FEED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct agent_feed;
struct sink;

enum { AGENT_FRAME_MAX = 64 << 20, AGENT_WORDS_MAX = 2000 };

/* The server's side. Starts `wick agent` as a child, before rights are dropped and before threads run; it keeps itself
 * alive. args: more words for its command line, NULL-terminated, or NULL. */
int agent_feed_start(char *const *args, struct agent_feed **ret, struct err *e);
/* Hands what the agent sends to sink, from a thread of its own. */
int agent_feed_run(struct agent_feed *f, struct sink *sink, struct err *e);
/* True when the agent sends no more: it had not the rights, or gave up. Then why, in its own words, and the command that
 * helps; NULL when it said nothing. They live as long as the feed, which is the ctx of struct ui_info. */
bool agent_feed_ended(void *feed, const char **ret_reason, const char **ret_fix);
/* For struct pid_profiler, with the feed as ctx. */
int agent_feed_profile(void *feed, pid_t pid, unsigned seconds, int ret[2], struct err *e);
/* What came of the batches that the agent sent. */
struct agent_feed_counts {
    uint64_t taken_batches, taken_samples; /* that the store acknowledged */
    uint64_t lost_batches, lost_samples;   /* that it refused: the agent does not send them again */
};
void agent_feed_counts(struct agent_feed *f, struct agent_feed_counts *ret);
uint64_t agent_feed_lost(void *feed); /* lost_samples, for struct ui_info */
/* Ends the agent and waits for the store's answers; NULL is allowed. */
void agent_feed_free(struct agent_feed *f);

/* The agent's side: a sink that writes frames to fd. What the server does not take in time is dropped. */
struct sink *agent_feed_sink(int fd);
/* The last frame: r is the error that ends the agent, reason its words. */
void agent_feed_last_words(int fd, int r, const char *reason);
/* Returns in a child that is to do the work; the caller itself stays in here and starts another when one dies, until the
 * server is gone or a child ends by itself. */
void agent_feed_keep(int fd);
/* After the work ended without an error: true when the server is still there. Then the process that kept this one alive was
 * killed, and the caller takes its place with agent_feed_keep(). */
bool agent_feed_must_go_on(int fd);

#endif
