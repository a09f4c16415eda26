/* SPDX-License-Identifier: Apache-2.0 */
/* wick COMMAND: finds the command and runs it. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/str.h"
#include "cli/command.h"
#include "conf/args.h"

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "cli/commands.h"
#undef COMMAND
    NULL,
};

static const struct command *find_command(const char *name)
{
    for (const struct command *const *c = commands; *c; c++)
        if (strcmp(name, (*c)->name) == 0)
            return *c;
    return NULL;
}

static void help(FILE *out)
{
    args_text("wick: continuous profiling for OpenTelemetry\n\nusage: wick COMMAND [options]\n\n", out);
    for (const struct command *const *c = commands; *c; c++) {
        char line[128];

        snprintf(line, sizeof line, "  %-10s  %s\n", (*c)->name, (*c)->help);
        args_text(line, out);
    }
    args_text("\nRun 'wick COMMAND --help' for the options of a command, and 'wick --version' for the version.\n", out);
}

/* A program that was started through the link /proc/self/exe, as wick starts its children, is "exe" to ps and top: it is named by
 * its command ("wick-agent"). */
static void name_process(const char *command)
{
    char name[16] = ""; /* the size of the kernel's name of a thread */

    if (prctl(PR_GET_NAME, name) < 0 || strcmp(name, "exe") != 0)
        return;
    snprintf(name, sizeof name, "wick-%s", command);
    prctl(PR_SET_NAME, name);
}

static int run_command(int argc, char **argv)
{
    const struct command *c = find_command(argv[0]);
    struct str_guess guess = {str_from(argv[0]), NULL, 0};

    if (c) {
        name_process(c->name);
        return c->run(argc, argv);
    }
    for (const struct command *const *k = commands; *k; k++)
        str_guess_offer(&guess, (*k)->name);
    if (guess.best)
        fprintf(stderr, "wick: unknown command '%s'; did you mean '%s'?\n", argv[0], guess.best);
    else
        fprintf(stderr, "wick: unknown command '%s'; wick --help lists all commands\n", argv[0]);
    return EXIT_USAGE;
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
        if (argc < 3 || argv[1][0] == '-') {
            help(stdout);
            return EXIT_DONE;
        }
        return run_command(2, (char *[]){argv[2], (char[]){"--help"}, NULL}); /* wick help COMMAND */
    }
    return run_command(argc - 1, argv + 1);
}
