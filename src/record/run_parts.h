/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of the processes of one `wick run -o FILE`: parts in a directory beside FILE, merged into one file per
 * type.
 *
 * A process that cannot write there, because it gave up its privileges or changed its root directory (the workers of
 * nginx), sends its part over an abstract socket instead, which needs neither a path nor a permission. One connection
 * carries one part:
 *
 *     "wick-part TOKEN TYPE LENGTH\n", LENGTH bytes of pprof; the answer is one byte when the part is stored
 *
 * Name and token are in the environment of the command (WICK_PARTS=NAME:TOKEN).
 */
#ifndef RECORD_RUN_PARTS_H
#define RECORD_RUN_PARTS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { RUN_PARTS_TYPES = 5 };
extern const char *const run_parts_types[RUN_PARTS_TYPES]; /* in libwick's order */

struct run_parts {
    char dir[4200];
    int listener; /* -1: none; everything else works without it */
    char token[33];
    pthread_t thread;
    bool receiving;
    unsigned n_received;
};

/* Creates the directory and sets the variables WICK_FILE and WICK_PARTS for the command. */
int run_parts_open(const char *output, struct run_parts *ret, struct err *e);
/* Receives parts from the socket, on a thread, until run_parts_done(). */
void run_parts_receive(struct run_parts *p);
/* Writes the merged files: types (comma-separated, NULL: cpu) as the user named them, the first into output itself.
 * Reports on standard error what it wrote. */
int run_parts_merge(struct run_parts *p, const char *types, const char *output, struct err *e);
/* Removes the directory. */
void run_parts_done(struct run_parts *p);

#endif
