/* SPDX-License-Identifier: Apache-2.0 */
/* The services of examples/, one in each language, beside the demo's own: `wick demo --with python,node`. Their sources are in this
 * program; they are written to a directory that is removed in the end. */
#ifndef DEMO_DEMO_EXAMPLES_H
#define DEMO_DEMO_EXAMPLES_H

#include <sys/types.h>

#include "base/err.h"

enum { DEMO_EXAMPLES = 6 };

struct demo_examples {
    char dir[64]; /* "": nothing was written */
    pid_t pid[DEMO_EXAMPLES];
};

/* Refuses words that are not languages of examples. */
int demo_examples_check(const char *with, struct err *e);
/* Starts those of the list whose runtime is installed, which send to the server at url, and prints a line for each of the list. */
int demo_examples_start(struct demo_examples *x, const char *with, const char *url, struct err *e);
/* Prints the name of one that has ended. */
void demo_examples_look(struct demo_examples *x);
void demo_examples_stop(struct demo_examples *x);

#endif
