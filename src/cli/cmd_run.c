/* SPDX-License-Identifier: Apache-2.0 */
/* wick run -- CMD: the arguments of a program that is profiled from inside (record/run_program.h). */
#include <stdio.h>

#include "cli/command.h"
#include "conf/args.h"
#include "record/run_program.h"

struct run_arguments {
    struct run_options o;
    bool help;
};

#define AT(field) offsetof(struct run_arguments, field)
static const struct arg run_args[] = {
    {'t', "type", ARG_STRING, AT(o.types), "TYPES", "what to sample (default cpu); some of: cpu, wall, alloc, heap, lock"},
    {'F', "rate", ARG_INT, AT(o.rate), "HZ", "samples per second and thread (default 100)"},
    {0, "export", ARG_STRING, AT(o.export), "URL", "send OTLP profiles to this endpoint every 10 s"},
    {0, "pprof", ARG_STRING, AT(o.pprof), "ADDR", "serve /debug/pprof/ on this address, for go tool pprof"},
    {'o', "output", ARG_STRING, AT(o.output), "FILE",
     "write a pprof file at exit (default: wick.pb.gz, unless --export or --pprof is given)"},
    {0, "alloc-interval", ARG_SIZE, AT(o.interval), "BYTES", "average bytes between allocation samples (default 512k)"},
    {0, "depth", ARG_INT, AT(o.depth), "N", "maximum stack depth (default 128)"},
    {0, "service", ARG_STRING, AT(o.service), "NAME", "service.name (default: the program's name)"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "show this help"},
    {0},
};

static int run(int argc, char **argv)
{
    struct run_arguments a = {{.rate = RUN_UNSET, .depth = RUN_UNSET, .interval = RUN_UNSET}, false};
    struct err e = {0};
    int n, r, status = 0;

    if (args_parse_leading(run_args, &a, argc - 1, argv + 1, &n, &e) < 0 || run_program_check(&a.o, &e) < 0)
        return command_misused("run", "%s", e.message);
    if (a.help) {
        args_text("usage: wick run [options] -- CMD [ARG...]\n\n"
                  "Runs CMD and profiles it and its children from inside; nothing is recompiled.\n\n",
                  stdout);
        args_help(run_args, stdout);
        return EXIT_DONE;
    }
    if (!n)
        return command_misused("run", "no command given");
    argv[1 + n] = NULL;
    r = command_end("run", run_program(&a.o, argv + 1, &status, &e), &e);
    return status ? status : r;
}

const struct command command_run = {"run", "run a program and profile it from inside", run};
