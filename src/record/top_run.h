/* SPDX-License-Identifier: Apache-2.0 */
/* wick top: like top, but by function: shows what uses the machine's CPU right now, on a terminal or as text. */
#ifndef RECORD_TOP_RUN_H
#define RECORD_TOP_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "host/watch.h"

struct top_options {
    struct watch_options watch;
    const char *filter;                 /* regular expression; NULL: none */
    int64_t interval, iterations, rows; /* ns; 0: until a key or a signal ends it; 0: as many as fit */
    bool processes, threads, cum, json;
    int (*print)(const struct buf *text); /* writes an update to standard output, if that is not a terminal with keys */
};

/* Checks the options; an error is one of usage. */
int top_check(const struct top_options *o, struct err *e);
int top_run(const struct top_options *o, struct err *e);

#endif
