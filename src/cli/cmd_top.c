/* SPDX-License-Identifier: Apache-2.0 */
/* wick top: its arguments (record/top_run.h). */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/command.h"
#include "conf/args.h"
#include "record/top_run.h"

struct top_arguments {
    struct top_options o;
    bool help;
};

#define AT(field) offsetof(struct top_arguments, field)
static const struct arg top_args[] = {
    WATCH_ARGS(AT(o.watch)),
    {'d', "interval", ARG_DURATION, AT(o.interval), "TIME", "time between updates (default 2s)"},
    {'n', "iterations", ARG_INT, AT(o.iterations), "N", "exit after N updates (default: run until q is pressed)"},
    {0, "rows", ARG_INT, AT(o.rows), "N", "rows shown (default: as many as fit the terminal, or 30)"},
    {0, "filter", ARG_STRING, AT(o.filter), "REGEXP", "only functions, services or threads that match"},
    {0, "processes", ARG_FLAG, AT(o.processes), NULL, "a row per process instead of per function"},
    {0, "threads", ARG_FLAG, AT(o.threads), NULL, "separate threads by name"},
    {0, "cum", ARG_FLAG, AT(o.cum), NULL, "sort by total time, including callees"},
    {0, "json", ARG_FLAG, AT(o.json), NULL, "print one JSON object per update"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "show this help"},
    {0},
};

static int run(int argc, char **argv)
{
    struct top_arguments a = {.o = {.interval = 2 * NS_PER_S, .watch.rate = 99, .print = command_print}};
    struct err e = {0};
    int n = 0, r = args_parse(top_args, &a, argc - 1, argv + 1, &n, &e);

    if (r == 0 && a.help) {
        args_text("usage: wick top [options]\n\n"
                  "Shows the functions that use the CPU now, over all processes. On a terminal, h lists the keys.\n\n",
                  stdout);
        args_help(top_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'; see wick top --help", argv[1]);
    if (r == 0)
        r = top_check(&a.o, &e);
    if (r < 0) {
        fprintf(stderr, "wick top: %s\n", err_message(&e, r));
        return EXIT_USAGE;
    }
    return command_end("top", top_run(&a.o, &e), &e);
}

const struct command command_top = {"top", "show the functions that use the most CPU right now", run};
