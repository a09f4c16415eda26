/* SPDX-License-Identifier: Apache-2.0 */
/* wick record: the arguments of a recording (record/record_run.h). */
#include <stdio.h>

#include "cli/command.h"
#include "conf/args.h"
#include "record/record_run.h"

struct record_arguments {
    struct record_options o;
    bool help;
};

#define AT(field) offsetof(struct record_arguments, field)
static const struct arg record_args[] = {
    WATCH_ARGS(AT(o.watch)),
    {'a', "all", ARG_FLAG, AT(o.all), NULL, "all processes of this machine"},
    {0, "no-children", ARG_FLAG, AT(o.no_children), NULL,
     "with -p: omit child processes, those that run already and those that are started later"},
    {'e', "event", ARG_STRING, AT(o.watch.events), "EVENTS",
     "sample by events instead of the clock: cycles, instructions, cache-misses, branch-misses, page-faults, …, named as in "
     "perf; several: cycles,cache-misses; /N: every N-th event"},
    {'d', "duration", ARG_DURATION, AT(o.duration), "TIME", "duration (default: until CMD ends, else 30s)"},
    {'o', "output", ARG_STRING, AT(o.output), "FILE",
     "output file; the extension selects the format: .pb.gz (pprof), .otlp, .json, .folded, .html, .svg, .speedscope.json (default wick.pb.gz); -: pprof "
     "to stdout; of two types, the second goes into a file of its own; a flame graph (.html, .svg) shows cpu and offcpu "
     "side by side"},
    {0, "html", ARG_STRING, AT(o.html), "FILE", "write a flame graph to this file"},
    {0, "top", ARG_FLAG, AT(o.top), NULL, "print the 30 functions that used the most CPU time"},
    {0, "shell", ARG_FLAG, AT(o.shell), NULL, "open the profile in pprof's interactive shell"},
    {0, "debuginfod", ARG_STRING, AT(o.debuginfod), "URL",
     "fetch debug information that is missing from this server (default: $DEBUGINFOD_URLS)"},
    {0, "stats", ARG_STRING, AT(o.stats), "FILE", "write what sampling cost as JSON"},
    {'q', "quiet", ARG_FLAG, AT(o.quiet), NULL, "print no progress messages"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "show this help"},
    {0},
};

static int run(int argc, char **argv)
{
    struct record_arguments a = {.o.watch.rate = 99};
    struct err e = {0};
    int n = 0, status = 0, r = args_parse_leading(record_args, &a, argc - 1, argv + 1, &n, &e);

    if (r == 0 && a.help) {
        args_text("usage: wick record [options] [-p PID | -a | -- CMD [ARG...]]\n\n"
              "Samples processes from outside without changing them; child processes are included.\n\n",
              stdout);
        args_help(record_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0)
        r = record_check(&a.o, n, &e);
    if (r < 0) {
        fprintf(stderr, "wick record: %s\n", err_message(&e, r));
        return EXIT_USAGE;
    }
    r = record_run(&a.o, n, argv + 1, &status, &e);
    return r < 0 ? command_end("record", r, &e) : status;
}

const struct command command_record = {"record", "profile a command, processes or the whole machine for a while", run};
