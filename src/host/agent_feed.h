/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a separate process next to a server, connected by a socket pair. The agent sends frames:
 *
 *   u32  length, little endian     u8[length]  an OTLP request (protobuf)
 *
 * An agent that cannot go on sends the reason in a last frame: bit 31 of the length is set, and the bytes are the
 * command that helps, a newline, and the reason.
 *
 * The agent is two processes: one that samples, and one that starts it again when it dies. Requests from the server to
 * the agent are described in agent_profiles.h.
 *
 * The child has the agent's capabilities and no listener; the server has none of them.
 */
#ifndef HOST_AGENT_FEED_H
#define HOST_AGENT_FEED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct agent_feed;
struct agent_run_options;
struct sink;

enum { AGENT_FRAME_MAX = 64 << 20, AGENT_WORDS_MAX = 2000 };

/* The server's side. Starts `wick agent` with these options as a child, before rights are dropped and before threads run;
 * the child restarts itself when it dies. */
int agent_feed_start(const struct agent_run_options *o, struct agent_feed **ret, struct err *e);
/* Starts a thread that passes what the agent sends to sink. */
int agent_feed_run(struct agent_feed *f, struct sink *sink, struct err *e);
/* True when the agent sends no more: it lacks rights, or gave up. Then *ret_reason is its error message and the other
 * output the command that helps; NULL when it reported nothing. Both are valid as long as the feed, which is the ctx of
 * struct ui_info. */
bool agent_feed_ended(void *feed, const char **ret_reason, const char **ret_fix);
/* For struct pid_profiler, with the feed as ctx. */
int agent_feed_profile(void *feed, pid_t pid, unsigned seconds, int ret[2], struct err *e);
/* Asks which process holds the socket with this local address (agent_profiles.h): fails at once when the agent has ended. */
int agent_feed_owner(struct agent_feed *f, const char *address, int ret[2], struct err *e);
/* What happened to the batches that the agent sent. */
struct agent_feed_counts {
    uint64_t taken_batches, taken_samples; /* acknowledged by the store */
    uint64_t lost_batches, lost_samples;   /* refused by the store: the agent does not send them again */
};
void agent_feed_counts(struct agent_feed *f, struct agent_feed_counts *ret);
uint64_t agent_feed_lost(void *feed); /* lost_samples, for struct ui_info */
/* Ends the agent and waits for the store's answers; NULL is allowed. */
void agent_feed_free(struct agent_feed *f);

/* The agent's side: a sink that writes frames to fd. Frames that the server does not read in time are dropped. */
struct sink *agent_feed_sink(int fd);
/* Sends the last frame: r is the error that ends the agent, reason its error message. */
void agent_feed_last_words(int fd, int r, const char *reason);
/* Forks and returns in a child, which does the work. The calling process does not return: it starts another child when
 * one dies, until the server is gone or a child exits by itself. Meanwhile it answers the server's requests
 * (agent_profiles.h): they are answered at once, however busy the child is. record: as in struct agent_profiles. */
void agent_feed_keep(int fd, int (*record)(uint32_t pid, uint32_t seconds));
/* To be called after the work ended without an error. True when the server is still there: then the supervising process
 * was killed, and the caller takes its place with agent_feed_keep(). */
bool agent_feed_must_go_on(int fd);

#endif
