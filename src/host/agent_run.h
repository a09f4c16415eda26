/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick agent: the host profiler as a program. It samples continuously within a budget and sends OTLP every few seconds, to an
 * endpoint or to the server whose child it is (agent_feed.h).
 */
#ifndef HOST_AGENT_RUN_H
#define HOST_AGENT_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "conf/args.h"
#include "host/watch.h"

/* A new field that is a text or a list has a line in agent_options.c. */
struct agent_run_options {
    struct watch_options watch;                                         /* rate: -1: the default */
    const char *export, *server, *token, *k8s_api, *log_format, *stats; /* NULL: not given */
    struct arg_list scrape;
    int64_t interval, feed_fd, memory, duration, begin_rate, begin; /* feed_fd: -1: not a child of a server */
    double budget;                                                  /* percent of the machine; 0: no limit */
    bool both, upload_symbols, keep_caps;
};

/* Records a process and writes pprof to standard output: for a server that asks for the profile of one process. Returns an
 * exit status. */
typedef int agent_record_fn(uint32_t pid, uint32_t seconds);

void agent_run_defaults(struct agent_run_options *ret);
/* Checks the options; an error names the wrong one. */
int agent_run_check(const struct agent_run_options *o, struct err *e);
/* Runs until a signal, the duration, or the end of the server. A failure is logged, and reported to the server. As the child
 * of a server this is a supervisor and its child: both return from here, or exit. */
int agent_run(const struct agent_run_options *o, agent_record_fn *record, struct err *e);

#endif
