/* SPDX-License-Identifier: Apache-2.0 */
/* wick agent: the arguments of the agent, which runs in src/host (agent_run.h), on its own or as the child of a server. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/command.h"
#include "conf/args.h"
#include "conf/yaml.h"
#include "host/agent_options.h"
#include "host/agent_run.h"
#include "record/record_run.h"
#include "serve/agent_config.h"

struct agent_arguments {
    struct agent_run_options o;
    struct arg_list config;
    int64_t options_fd; /* -1: none */
    bool help;
};

#define AT(field) offsetof(struct agent_arguments, field)
static const struct arg agent_args[] = {
    WATCH_ARGS(AT(o.watch)),
    {0, "config", ARG_LIST, AT(config), "FILE",
     "read options from the section 'agent' of this wick.yaml (docs/configuration.md)"},
    {0, "export", ARG_STRING, AT(o.export), "URL",
     "OTLP endpoint: http://HOST:4317 (gRPC), http://HOST:4318 (HTTP), other ports: HTTP if the peer accepts it, else gRPC"},
    {0, "scrape", ARG_LIST, AT(o.scrape), "URL",
     "also scrape /debug/pprof/ of the program at URL, as http://localhost:8080; repeatable"},
    {0, "token", ARG_STRING, AT(o.token), "TOKEN", "bearer token to send (default: $WICK_TOKEN)"},
    {0, "upload-symbols", ARG_FLAG, AT(o.upload_symbols), NULL,
     "upload sampled binaries, so that the server can symbolize"},
    {0, "server", ARG_STRING, AT(o.server), "URL",
     "server to upload to (default: $WICK_SERVER, else port 4040 of the host in --export)"},
    {0, "k8s-api", ARG_STRING, AT(o.k8s_api), "URL",
     "Kubernetes API server to look up pod names; in-cluster: the one of this cluster"},
    {0, "both", ARG_FLAG, AT(o.both), NULL,
     "do not mark CPU time that a process sends itself, too (libwick, wick run; attribute wick.also_sent)"},
    {0, "interval", ARG_DURATION, AT(o.interval), "TIME", "time between exports (default 10s)"},
    {0, "begin-rate", ARG_INT, AT(o.begin_rate), "HZ",
     "samples per second at first (default 99 in the first minute of a new installation, unless a rate is given)"},
    {0, "begin", ARG_DURATION, AT(o.begin), "TIME", "duration of --begin-rate (default 1m)"},
    {0, "budget", ARG_DOUBLE, AT(o.budget), "PERCENT",
     "limit on the machine's CPU, including BPF (default 1; 0: no limit)"},
    {0, "memory", ARG_SIZE, AT(o.memory), "SIZE", "limit on memory, including kernel maps (default 64MiB)"},
    {'d', "duration", ARG_DURATION, AT(o.duration), "TIME", "exit after this time (default: never)"},
    {0, "keep-capabilities", ARG_FLAG, AT(o.keep_caps), NULL, "do not drop capabilities after startup"},
    {0, "stats", ARG_STRING, AT(o.stats), "FILE", "write what sampling costs as JSON, with every batch"},
    {0, "log-format", ARG_STRING, AT(o.log_format), "text|logfmt|json", "format of the log (default logfmt)"},
    {0, "feed-fd", ARG_INT, AT(o.feed_fd), "FD", "write frames to this file descriptor (used by wick serve)"},
    {0, "options-fd", ARG_INT, AT(options_fd), "FD", "read options from this file descriptor (used by wick serve)"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "show this help"},
    {0},
};

static void usage(FILE *out)
{
    args_text("usage: wick agent --export URL [options]\n\n"
              "Samples every process of this machine continuously, within a CPU and memory budget, and sends OTLP "
              "profiles. Requires CAP_BPF and CAP_PERFMON; further capabilities show more (docs/agent.md).\n\n",
              out);
    args_help(agent_args, out);
}

static int record_process(uint32_t pid, uint32_t seconds)
{
    struct record_options o = {.watch.rate = 99, .output = "-", .quiet = true, .duration = seconds * NS_PER_S};
    char text[16];
    struct err e = {0};
    int status = 0, r;

    snprintf(text, sizeof text, "%u", pid);
    o.watch.pids.v[o.watch.pids.n++] = text;
    r = record_check(&o, 0, &e);
    if (r == 0)
        r = record_run(&o, 0, NULL, &status, &e);
    return r < 0 ? command_end("record", r, &e) : status;
}

/* Options from files are read first, so that the command line overrides them. */
static int parse(int argc, char **argv, struct conf *conf, struct arena *arena, struct agent_arguments *a,
                 struct err *e)
{
    struct arg_list files;
    int n = 0, r;

    *a = (struct agent_arguments){.options_fd = -1};
    agent_run_defaults(&a->o);
    r = args_parse(agent_args, a, argc - 1, argv + 1, &n, e);
    if (r == 0 && n)
        r = err_set(e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r < 0 || a->help)
        return r;
    if (a->options_fd >= 0)
        return agent_options_receive((int) a->options_fd, arena, &a->o, e);
    if (!a->config.n)
        return 0;
    files = a->config;
    agent_run_defaults(&a->o);
    r = agent_config_load(&files, conf, &a->o, e);
    return r < 0 ? r : args_parse(agent_args, a, argc - 1, argv + 1, &n, e);
}

static int run(int argc, char **argv)
{
    struct agent_arguments a;
    struct arena arena;
    struct conf conf;
    struct err e = {0};
    int r;

    arena_init(&arena, 1 << 20); /* this and the configuration are in use as long as the program runs */
    conf_init(&conf);
    r = parse(argc, argv, &conf, &arena, &a, &e);
    if (r == 0 && a.help) {
        usage(stdout);
        return EXIT_DONE;
    }
    if (r == 0)
        r = agent_run_check(&a.o, &e);
    if (r < 0) {
        fprintf(stderr, "wick agent: %s\n", err_message(&e, r));
        return EXIT_USAGE;
    }
    r = agent_run(&a.o, record_process, &e);
    conf_done(&conf);
    arena_done(&arena);
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_agent = {"agent", "profile every process of this machine from outside, continuously", run};
