/* SPDX-License-Identifier: Apache-2.0 */
/* A command of `wick`: one cmd_NAME.c each, listed in commands.h. All end, fail and are misused in the same words. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/err.h"
#include "base/macros.h"

struct buf;

/* Exit statuses of every command. pprof's own is 2 for everything: cmd_pprof.c says so. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *help; /* one line */
    /* argv[0] is the command's name. Returns the exit status. */
    int (*run)(int argc, char **argv);
};

#define COMMAND(name) extern const struct command command_##name;
#include "cli/commands.h"
#undef COMMAND

/* The exit status for r. A negative one is told on stderr: "wick NAME: words of e". */
int command_end(const char *name, int r, const struct err *e);
/* Writes text that holds names of others to standard output, with their control characters as \xNN. */
int command_print(const struct buf *text);
/* "wick NAME: words; wick NAME --help tells more" on stderr. Returns EXIT_USAGE. */
int command_misused(const char *name, const char *fmt, ...) _printf_(2, 3);

/* What `wick NAME VERB WORD...` may be, for commands that do several things. */
struct command_verb {
    const char *name;
    const char *takes; /* in words, as in "one directory" */
    int min, max;      /* how many words */
    /* Negative: failed, with words; positive: done, but the exit status is EXIT_FAILED. */
    int (*run)(const void *options, int argc, char **argv, struct err *e);
};

/* Finds the verb argv[0] in the table, which ends with a zero, checks its words and runs it. Returns the exit status. */
int command_verb(const char *name, const struct command_verb *verbs, const void *options, int argc, char **argv);

#endif
