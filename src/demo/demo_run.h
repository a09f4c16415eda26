/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick demo: a server that keeps profiles and traces in memory, three services under `wick run`, and after two fifths of
 * the time a deploy of one of them that is slower, which the server's verdict reports. Everything is a child of this process
 * and nothing is left on the disk. The services are this program itself, started with --role.
 */
#ifndef DEMO_DEMO_RUN_H
#define DEMO_DEMO_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Set by wick demo for its server: when it deploys and when it ends, in nanoseconds since 1970, with a colon between. */
#define DEMO_TIMES_ENV "WICK_DEMO_TIMES"
/* The process with which the server ends. */
#define SERVE_PARENT_ENV "WICK_SERVE_PARENT"

struct demo_options {
    const char *http;         /* address of the web UI; NULL: the default, or the next free port */
    const char *with;         /* services of examples/ (demo_examples.h); NULL: none */
    int64_t duration, deploy; /* ns; deploy: 0: after two fifths of the duration */
};

/* Runs until the duration is over or SIGINT or SIGTERM arrives. */
int demo_run(const struct demo_options *o, struct err *e);

/* The options of a child. */
struct demo_role_options {
    const char *role, *traces, *release;
    int64_t up, down;
    bool bad;
};

/* Runs one of the services. -EINVAL if there is none of that name. */
int demo_role(const struct demo_role_options *o);

#endif
