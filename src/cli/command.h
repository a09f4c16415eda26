/* SPDX-License-Identifier: Apache-2.0 */
/* A command of `wick`: one cmd_NAME.c each, listed in commands.h. All of them report success, failure and wrong usage
 * in the same way. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/err.h"
#include "base/macros.h"

struct buf;

/* Exit statuses of every command, except that pprof uses 2 for every failure: see cmd_pprof.c. EXIT_NO_DATA: a query that
 * nothing matches. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_DATA = 4 };

struct command {
    const char *name;
    const char *help; /* one line */
    /* argv[0] is the command's name. Returns the exit status. */
    int (*run)(int argc, char **argv);
};

#define COMMAND(name) extern const struct command command_##name;
#include "cli/commands.h"
#undef COMMAND

/* The exit status for r. If r is negative, "wick NAME: MESSAGE" with the message of e is printed on stderr; only if
 * the reader of standard output is gone, the process ends by SIGPIPE instead, as other commands do. */
int command_end(const char *name, int r, const struct err *e);
/* Writes text with names from untrusted sources to standard output, with their control characters as \xNN. */
int command_print(const struct buf *text);
/* Prints "wick NAME: MESSAGE; see wick NAME --help" on stderr. Returns EXIT_USAGE. */
int command_misused(const char *name, const char *fmt, ...) _printf_(2, 3);

/* The subcommands of `wick NAME VERB ARGUMENT...`, for commands that do several things. */
struct command_verb {
    const char *name;
    const char *takes; /* for the error message, as in "one directory" */
    int min, max;      /* number of arguments */
    /* Negative: failed, with an error message; positive: done, but the exit status is EXIT_FAILED. */
    int (*run)(const void *options, int argc, char **argv, struct err *e);
};

/* Finds the verb argv[0] in the table, which ends with a zero, checks its number of arguments and runs it. Returns the
 * exit status. */
int command_verb(const char *name, const struct command_verb *verbs, const void *options, int argc, char **argv);

#endif
