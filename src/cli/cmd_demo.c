/* SPDX-License-Identifier: Apache-2.0 */
/* wick demo: its arguments, and those of the services that it starts (demo/demo_run.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/command.h"
#include "conf/args.h"
#include "demo/demo_examples.h"
#include "demo/demo_run.h"
#include "net/address.h"

struct demo_arguments {
    struct demo_options o;
    bool help;
};

static const struct arg demo_args[] = {
    {'d', "duration", ARG_DURATION, offsetof(struct demo_arguments, o.duration), "TIME", "duration (default 5m)"},
    {0, "deploy-after", ARG_DURATION, offsetof(struct demo_arguments, o.deploy), "TIME",
     "when the slower version is deployed (default: after two fifths of the duration)"},
    {0, "http", ARG_STRING, offsetof(struct demo_arguments, o.http), "ADDR",
     "address of the web UI (default 127.0.0.1:4040, or the next free port)"},
    {0, "with", ARG_STRING, offsetof(struct demo_arguments, o.with), "LIST",
     "also start services in go, python, node, java, ruby, php, where these are installed"},
    {'h', "help", ARG_FLAG, offsetof(struct demo_arguments, help), NULL, "show this help"},
    {0},
};

/* The options of the children, not shown in the help. */
static const struct arg role_args[] = {
    {0, "role", ARG_STRING, offsetof(struct demo_role_options, role), "NAME", ""},
    {0, "up", ARG_INT, offsetof(struct demo_role_options, up), "FD", ""},
    {0, "down", ARG_INT, offsetof(struct demo_role_options, down), "FD", ""},
    {0, "traces", ARG_STRING, offsetof(struct demo_role_options, traces), "URL", ""},
    {0, "release", ARG_STRING, offsetof(struct demo_role_options, release), "VERSION", ""},
    {0, "bad", ARG_FLAG, offsetof(struct demo_role_options, bad), NULL, ""},
    {0},
};

static int run_role(int argc, char **argv)
{
    struct demo_role_options o = {.up = -1, .down = -1};
    struct err e = {0};
    int n;

    if (args_parse(role_args, &o, argc - 1, argv + 1, &n, &e) < 0 || demo_role(&o) < 0)
        return EXIT_USAGE;
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct demo_arguments a = {.o.duration = 300 * NS_PER_S};
    struct address_parts parts;
    struct err e = {0};
    int n, r;

    if (argc > 1 && strcmp(argv[1], "--role") == 0)
        return run_role(argc, argv);
    r = args_parse(demo_args, &a, argc - 1, argv + 1, &n, &e);
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r == 0 && a.o.http && address_split(a.o.http, NULL, &parts, &e) < 0)
        r = err_prefix(&e, -EINVAL, "--http: ");
    if (r == 0 && a.o.with)
        r = demo_examples_check(a.o.with, &e);
    if (r < 0) {
        fprintf(stderr, "wick demo: %s\n", e.message);
        return EXIT_USAGE;
    }
    if (a.help) {
        args_text(
            "usage: wick demo [-d TIME]\n\nRuns three services and a server that keeps their profiles and traces in memory. "
            "After two fifths of the time a slower version of one is deployed, and the server's verdict says why.\n\n",
            stdout);
        args_help(demo_args, stdout);
        return EXIT_DONE;
    }
    return command_end("demo", demo_run(&a.o, &e), &e);
}

const struct command command_demo = {"demo", "run three sample services and a bad deployment for five minutes", run};
