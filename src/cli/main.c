/* SPDX-License-Identifier: Apache-2.0 */
/* wick COMMAND: finds the command and runs it. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "cli/command.h"

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "cli/commands.h"
#undef COMMAND
    NULL,
};

static void help(FILE *out)
{
    fputs("wick: continuous profiling for OpenTelemetry\n\nusage: wick COMMAND [options]\n\n", out);
    for (const struct command *const *c = commands; *c; c++)
        fprintf(out, "  %-10s %s\n", (*c)->name, (*c)->help);
    fputs("\nwick COMMAND --help tells more; wick --version prints the version.\n", out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        puts("wick " WICK_VERSION);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        if (argc > 2 && argv[1][0] != '-') { /* wick help COMMAND */
            char ask[] = "--help", *again[] = {argv[2], ask, NULL};

            for (const struct command *const *c = commands; *c; c++)
                if (strcmp(argv[2], (*c)->name) == 0)
                    return (*c)->run(2, again);
        }
        help(stdout);
        return EXIT_DONE;
    }
    for (const struct command *const *c = commands; *c; c++)
        if (strcmp(argv[1], (*c)->name) == 0)
            return (*c)->run(argc - 1, argv + 1);
    fprintf(stderr, "wick: no command '%s'; wick --help lists them\n", argv[1]);
    return EXIT_USAGE;
}
