/* SPDX-License-Identifier: Apache-2.0 */
/* A command of `wick`: one cmd_NAME.c each, listed in commands.h. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

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

#endif
