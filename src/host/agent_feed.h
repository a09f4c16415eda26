/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a separate process next to a server, connected by a socket pair. The agent sends frames:
 *
 *   u32  length, little endian     u8[length]  an OTLP request (protobuf)
 *
 * An agent that cannot go on sends the reason in a last frame: bit 31 of the length is set, and the bytes are the
 * command that helps, a newline, and the reason.
 *
 * While it samples, it tells its state every second: bit 30 of the length is set, and the bytes are a struct agent_pulse.
 *
 * The processes of the agent are described in agent_keep.h, requests from the server to it in agent_profiles.h.
 *
 * The child has the agent's capabilities and no listener; the server has none of them.
 */
#ifndef HOST_AGENT_FEED_H
#define HOST_AGENT_FEED_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/agent_loss.h"
#include "base/err.h"

struct agent_feed;
struct agent_run_options;
struct buf;
struct sink;

enum { AGENT_FRAME_MAX = 64 << 20, AGENT_WORDS_MAX = 2000 };

/* The server's side. Starts `wick agent` with these options as a child, before rights are dropped and before threads run;
 * the child restarts itself when it dies. */
int agent_feed_start(const struct agent_run_options *o, struct agent_feed **ret, struct err *e);
/* Starts a thread that passes what the agent sends to sink. */
int agent_feed_run(struct agent_feed *f, struct sink *sink, struct err *e);
/* What the agent tells of itself while it samples. */
struct agent_pulse {
    uint64_t losses[AGENT_LOSSES]; /* agent_loss.h */
    uint64_t hung_pause_s;
    uint32_t hung;      /* the process that was set aside last; 0: none */
    char hung_comm[16]; /* its name */
};

/* starting, running, hung or failed; why it does not sample and what helps, which live as long as f, else NULL. */
const char *agent_feed_state(struct agent_feed *f, const char **ret_reason, const char **ret_fix);
/* The state of the agent as members of a JSON object: state (starting, running, hung, failed), reason, fix, lostSamples,
 * problems. The feed is the ctx of struct ui_info. */
void agent_feed_json(void *feed, struct buf *out);
/* The same as lines, only what is not as it should be. */
void agent_feed_lines(void *feed, struct buf *out);
/* For struct pid_profiler, with the feed as ctx. */
int agent_feed_profile(void *feed, pid_t pid, unsigned seconds, int ret[2], struct err *e);
/* Asks which process holds the socket with this local address (agent_profiles.h): fails at once when the agent has ended. */
int agent_feed_owner(struct agent_feed *f, const char *address, bool named, int ret[2], struct err *e);
/* What happened to the batches that the agent sent. */
struct agent_feed_counts {
    uint64_t taken_batches, taken_samples; /* acknowledged by the store */
    uint64_t lost_batches, lost_samples;   /* refused by the store: the agent does not send them again */
};
void agent_feed_counts(struct agent_feed *f, struct agent_feed_counts *ret);
/* What the agent itself lost, by kind, and whether it samples. */
bool agent_feed_pulse(struct agent_feed *f, struct agent_pulse *ret);
/* Ends the agent and waits for the store's answers. An agent that does not end is left to its starter. NULL is allowed. */
void agent_feed_free(struct agent_feed *f);

/* The agent's side: a sink that writes frames to fd. Frames that the server does not read in time are dropped. */
struct sink *agent_feed_sink(int fd);
/* Tells the state; left out when the server does not read. */
void agent_feed_tell(int fd, const struct agent_pulse *p);
/* Sends the last frame: r is the error that ends the agent, reason its error message. */
void agent_feed_last_words(int fd, int r, const char *reason);

#endif
