/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick record: samples a command, some processes or the whole machine for a while, from outside, and writes a file or a
 * report. Progress is reported on standard error.
 */
#ifndef RECORD_RECORD_RUN_H
#define RECORD_RECORD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "host/watch.h"

struct record_options {
    struct watch_options watch;
    const char *output, *html, *stats, *debuginfod; /* NULL: none */
    int64_t duration;                               /* ns; 0: until the command ends */
    bool all, no_children, top, shell;
    bool quiet, tell_written; /* tell_written: quiet, but names the files that were written */
};

/* Checks the options (an error names the wrong one) and fills in defaults. n_words: of the command to run, 0 if
 * there is none. */
int record_check(struct record_options *o, int n_words, struct err *e);
/* Records. words: the command, with room for a NULL after its last word. *ret_status is its exit status, 0 without one. */
int record_run(const struct record_options *o, int n_words, char **words, int *ret_status, struct err *e);

#endif
