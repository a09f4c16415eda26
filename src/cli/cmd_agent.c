/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick agent: the host profiler on its own. It samples continuously within a budget and sends OTLP every few seconds.
 * `wick serve` runs it as a child with --feed-fd.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/agent_caps.h"
#include "agent/filter.h"
#include "agent/identity.h"
#include "agent/java_names.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/url.h"
#include "cli/command.h"
#include "convert/convert_output.h"
#include "conf/paths.h"
#include "conf/args.h"
#include "host/agent_feed.h"
#include "host/agent_profiles.h"
#include "host/agent_rights.h"
#include "host/agent_upload.h"
#include "host/export_flow.h"
#include "host/watch.h"
#include "model/batch.h"
#include "model/sink.h"
#include "model/symbolizer.h"
#include "serve/agent_config.h"

struct agent_command_options {
    struct watch_options watch;
    const char *export, *server, *token, *k8s_api, *log_format, *stats;
    struct arg_list config, scrape;
    int64_t interval, feed_fd, memory, duration, begin_rate, begin;
    double budget;
    bool both, upload_symbols, keep_caps, help;
    int stats_fd; /* opened before privileges are dropped */
};

#define AT(field) offsetof(struct agent_command_options, field)
static const struct arg agent_args[] = {
    WATCH_ARGS(AT(watch)),
    {0, "config", ARG_LIST, AT(config), "FILE",
     "read options from the section 'agent' of this wick.yaml (docs/configuration.md)"},
    {0, "export", ARG_STRING, AT(export), "URL",
     "OTLP endpoint: http://HOST:4317 (gRPC), http://HOST:4318 (HTTP), other ports: HTTP if the peer takes it, else gRPC"},
    {0, "scrape", ARG_LIST, AT(scrape), "URL",
     "also scrape /debug/pprof/ of the program at URL, as http://localhost:8080; repeatable"},
    {0, "token", ARG_STRING, AT(token), "TOKEN", "bearer token to send (default: $WICK_TOKEN)"},
    {0, "upload-symbols", ARG_FLAG, AT(upload_symbols), NULL,
     "upload sampled binaries, so that the server can symbolize"},
    {0, "server", ARG_STRING, AT(server), "URL",
     "server to upload to (default: $WICK_SERVER, else port 4040 of the host in --export)"},
    {0, "k8s-api", ARG_STRING, AT(k8s_api), "URL",
     "Kubernetes API server to look up pod names; in-cluster: the one of this cluster"},
    {0, "both", ARG_FLAG, AT(both), NULL,
     "also sample processes that send their own CPU profiles (libwick, wick run); their CPU time is then counted twice"},
    {0, "interval", ARG_DURATION, AT(interval), "TIME", "time between exports (default 10s)"},
    {0, "begin-rate", ARG_INT, AT(begin_rate), "HZ",
     "samples per second at first (default 99 in the first minute of a new installation, unless a rate is given)"},
    {0, "begin", ARG_DURATION, AT(begin), "TIME", "duration of --begin-rate (default 1m)"},
    {0, "budget", ARG_DOUBLE, AT(budget), "PERCENT",
     "limit on the machine's CPU, including BPF (default 1; 0: no limit)"},
    {0, "memory", ARG_SIZE, AT(memory), "SIZE", "limit on memory, including kernel maps (default 64MiB)"},
    {'d', "duration", ARG_DURATION, AT(duration), "TIME", "exit after this time (default: never)"},
    {0, "keep-capabilities", ARG_FLAG, AT(keep_caps), NULL, "do not drop capabilities after startup"},
    {0, "stats", ARG_STRING, AT(stats), "FILE", "write what sampling costs as JSON, with every batch"},
    {0, "log-format", ARG_STRING, AT(log_format), "FORMAT", "text, logfmt (default) or json"},
    {0, "feed-fd", ARG_INT, AT(feed_fd), "FD", "write frames to this file descriptor (used by wick serve)"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "show this help"},
    {0},
};

struct running {
    const struct agent_command_options *o;
    struct agent *agent;
    struct sink *sink;
    struct agent_upload *upload; /* NULL: not requested */
    int signal_fd;
    int64_t begin;
    char governor[96]; /* the state that was logged last */
};

static void usage(FILE *out)
{
    fputs(
        "usage: wick agent --export URL [options]\n\n"
        "Samples every process of this machine continuously, within a CPU and memory budget, and sends OTLP profiles.\n"
        "Requires CAP_BPF and CAP_PERFMON; further capabilities show more (docs/agent.md).\n\n",
        out);
    args_help(agent_args, out);
}

/* Logs one line for each missing capability, with its consequence. Without a required one nothing works: one error line
 * reports that later. */
static void tell_losses(void)
{
    for (const struct agent_cap *c = agent_caps; c->name; c++)
        if (c->required && !agent_cap_has(c->number))
            return;
    for (const struct agent_cap *c = agent_caps; c->name; c++)
        if (!agent_cap_has(c->number))
            log_warn("no %s: %s", c->name, c->loss);
}

static void send_batch(struct running *a, struct batch *b)
{
    struct sink_context ctx = {.tenant = "", .received_ns = clock_wall()};

    if (b)
        sink_consume(a->sink, b, &ctx, NULL);
    batch_unref(b);
}

static void write_stats(struct running *a)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct agent_counts n;
    int r = 0;

    agent_counts(a->agent, &n);
    watch_json(&n, clock_mono() - a->begin, &b);
    if (!buf_error(&b) && (r = fd_truncate(a->o->stats_fd, 0)) == 0)
        r = fd_pwrite_all(a->o->stats_fd, b.p, b.n, 0);
    if (r < 0)
        log_warn("cannot write '%s': %s", a->o->stats, strerror(-r));
}

/* Logs the current rate whenever it changes. */
static void tell_governor(struct running *a)
{
    struct agent_counts n;

    agent_counts(a->agent, &n);
    if (!n.governor || strcmp(n.governor, a->governor) == 0)
        return;
    snprintf(a->governor, sizeof a->governor, "%s", n.governor);
    log_info("sampling at %u Hz%s%s", n.rate_hz, n.governor[0] ? ": " : ", as configured", n.governor);
}

static int take_and_send(struct running *a, struct err *e)
{
    struct batch *b = NULL;
    int r = agent_take(a->agent, &b, e);

    if (r == 0)
        send_batch(a, b);
    if (r == 0)
        tell_governor(a);
    if (r == 0 && a->o->stats)
        write_stats(a);
    return r;
}

static bool is_told_to_stop(struct running *a)
{
    bool stop = false;

    for (int sig; (sig = watch_next_signal(a->signal_fd));)
        stop |= sig != SIGCHLD && sig != SIGHUP;
    return stop;
}

/* wick record, for agent_feed_keep(). */
static int record(uint32_t pid, uint32_t seconds)
{
    char line[80], *argv[16], *at = line;
    int n = 0;

    snprintf(line, sizeof line, "record --quiet -o - -F 99 -p %u -d %us", pid, seconds);
    for (char *word; n < (int) ARRAY_SIZE(argv) - 1 && (word = strsep(&at, " "));)
        argv[n++] = word;
    argv[n] = NULL;
    return command_record.run(n, argv);
}

static int loop(struct running *a, struct err *e)
{
    struct pollfd fds[] = {{agent_fd(a->agent), POLLIN, 0}, {a->signal_fd, POLLIN, 0}, {(int) a->o->feed_fd, 0, 0}};
    int64_t next = clock_mono() + a->o->interval, end = a->o->duration ? clock_mono() + a->o->duration : INT64_MAX;
    int r = 0;

    while (r == 0 && !is_told_to_stop(a) && clock_mono() < end) {
        int64_t wait = next - clock_mono();

        if (wait > 0)
            poll(fds, ARRAY_SIZE(fds), (int) (wait / NS_PER_MS + 1));
        if (fds[2].revents) /* the server has exited */
            return 0;
        if (fds[0].revents)
            r = agent_poll(a->agent, 0, e);
        if (r == 0 && a->upload)
            agent_upload_step(a->upload, a->agent);
        if (r == 0 && clock_mono() >= next) {
            int64_t soonest;

            r = take_and_send(a, e);
            soonest = clock_mono() + NS_PER_MS;
            next = MAX(next + a->o->interval, soonest);
        }
    }
    return r < 0 ? r : take_and_send(a, e);
}

static int open_sink(const struct agent_command_options *o, struct export_flow **ret_flow, struct sink **ret,
                     struct err *e)
{
    const char *token = o->token ? o->token : getenv("WICK_TOKEN");
    int r;

    if (o->feed_fd > 0) {
        fcntl((int) o->feed_fd, F_SETFD, FD_CLOEXEC);
        *ret = agent_feed_sink((int) o->feed_fd);
        return 0;
    }
    r = export_flow_new(&(struct export_options){o->export, token && *token ? token : NULL, o->k8s_api, &o->scrape},
                        ret_flow, e);
    if (r == 0)
        *ret = export_flow_sink(*ret_flow);
    return r;
}

static int run_agent(const struct agent_command_options *o, struct err *e)
{
    _cleanup_(filter_freep) struct filter *filter = NULL;
    _cleanup_(symbolizer_freep) struct symbolizer *symbolizer = watch_symbolizer(&o->watch);
    _cleanup_(file_reader_freep) struct file_reader *reader = NULL;
    struct running a = {.o = o};
    struct export_flow *flow = NULL;
    struct agent_options options;
    char shown[URL_SHOWN];
    pid_t pids[ARG_LIST_MAX];
    sigset_t old;
    int r = watch_agent_options(&o->watch, pids, &options, &filter, e);

    if (r < 0)
        return r;
    options.cpu_budget = o->budget / 100;
    options.memory_budget = (size_t) o->memory;
    options.inherit = options.n_pids > 0;
    options.symbolizer = symbolizer;
    options.leave_own = !o->both;
    options.begin_rate_hz = (unsigned) o->begin_rate;
    options.begin_ns = o->begin;
    a.signal_fd = watch_signals(&old);
    fd_raise_limit();
    mallopt(M_MMAP_THRESHOLD, 128 << 10); /* large tables are allocated and freed often: return their memory to the
                                             system at once */
    mallopt(M_TRIM_THRESHOLD, 512 << 10);
    mallopt(M_ARENA_MAX, 2);
    r = open_sink(o, &flow, &a.sink, e);
    if (r == 0 && o->upload_symbols)
        r = agent_upload_new(o->server, o->export, o->token, &a.upload, e);
    if (r == 0)
        r = watch_reader(&reader, e);
    options.reader = reader;
    if (r == 0)
        r = agent_new(&options, &a.agent, e);
    if (r == 0) {
        log_info("sampling at %lld Hz, sending every %.3g s to %s",
                 (long long) (o->begin_rate ? o->begin_rate : o->watch.rate), (double) o->interval / (double) NS_PER_S,
                 o->export ? url_redact(o->export, shown, sizeof shown) : "the server");
        a.begin = clock_mono();
        r = loop(&a, e);
    }
    agent_upload_free(a.upload);
    agent_free(a.agent);
    export_flow_free(flow);
    fd_close(a.signal_fd);
    return r;
}

/* True on the first run on this machine: the marker file does not exist yet. */
static bool is_new_install(void)
{
    const char *given = getenv("STATE_DIRECTORY"); /* set by systemd */
    char dir[PATH_SIZE], path[PATH_SIZE + 16];
    int fd;

    if (!given && (path_data_dir(dir, NULL) < 0 || fd_mkdir_all(dir, 0755) < 0))
        return false;
    snprintf(path, sizeof path, "%s/agent-was-here", given ? given : dir);
    fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    fd_close(fd);
    return fd >= 0;
}

static void set_defaults(struct agent_command_options *o)
{
    bool served = o->feed_fd > 0;

    if (!o->interval) /* every request repeats the names, so fewer requests save bytes; not needed for a local server */
        o->interval = (served ? 5 : 10) * NS_PER_S;
    if (!o->begin_rate && o->watch.rate < 0 && !served && is_new_install())
        o->begin_rate = 99;
    if (!o->begin)
        o->begin = 60 * NS_PER_S;
    if (o->watch.rate < 0)
        o->watch.rate = 19;
}

static int open_stats(struct agent_command_options *o, struct err *e)
{
    if (!o->stats)
        return 0;
    o->stats_fd = fd_open(AT_FDCWD, o->stats, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    return o->stats_fd < 0 ? err_set(e, o->stats_fd, "cannot open '%s': %s", o->stats, strerror(-o->stats_fd)) : 0;
}

static int check(const struct agent_command_options *o, enum log_format *ret_format, struct err *e)
{
    if (!o->export && o->feed_fd < 0)
        return err_set(e, -EINVAL, "--export URL is required: the OTLP endpoint to send profiles to");
    if ((o->interval && o->interval < NS_PER_S / 10) || o->budget < 0)
        return err_set(e, -EINVAL, "--interval must be at least 100ms and --budget at least 0");
    if (o->begin_rate < 0 || o->begin_rate > 10000)
        return err_set(e, -EINVAL, "--begin-rate must be between 1 and 10000");
    if (o->log_format && log_parse_format(str_from(o->log_format), ret_format) < 0)
        return err_set(e, -EINVAL, "--log-format must be text, logfmt or json");
    return 0;
}

/* Options from files are parsed first, so that the command line overrides them. */
static int parse(int argc, char **argv, struct arena *arena, struct agent_command_options *o, struct err *e)
{
    static const struct agent_command_options defaults = {
        .watch.rate = -1, .budget = 1, .memory = 64 << 20, .feed_fd = -1};
    char **more = NULL;
    int n = 0, r, k = 0;

    *o = defaults;
    r = args_parse(agent_args, o, argc - 1, argv + 1, &n, e);
    if (r == 0 && n)
        r = err_set(e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r < 0 || o->help || !o->config.n)
        return r;
    r = agent_config_load(&o->config, arena, &more, e);
    while (r == 0 && more[k])
        k++;
    *o = defaults;
    if (r == 0)
        r = args_parse(agent_args, o, k, more, &n, e);
    return r < 0 ? r : args_parse(agent_args, o, argc - 1, argv + 1, &n, e);
}

static int run(int argc, char **argv)
{
    struct agent_command_options o;
    enum log_format format = LOG_LOGFMT;
    struct arena arena;
    struct err e = {0};
    int r;

    arena_init(&arena, 1 << 20); /* in use as long as the program runs */
    r = parse(argc, argv, &arena, &o, &e);
    if (r == 0 && o.help) {
        usage(stdout);
        return EXIT_DONE;
    }
    if (r == 0)
        r = check(&o, &format, &e);
    if (r < 0) {
        fprintf(stderr, "wick agent: %s\n", err_message(&e, r));
        return EXIT_USAGE;
    }
    log_setup(LOG_INFO, format);
    set_defaults(&o);
    tell_losses();
    r = open_stats(&o, &e);
    if (r == 0 && o.watch.jcmd)
        r = java_names_start(&e); /* while it may become other users */
    if (r == 0)
        r = agent_rights_drop(o.keep_caps, &e);
    do {
        if (r == 0 && o.feed_fd > 0)
            agent_feed_keep((int) o.feed_fd, record);
        if (r == 0)
            r = run_agent(&o, &e);
    } while (r == 0 && o.feed_fd > 0 && agent_feed_must_go_on((int) o.feed_fd));
    if (r < 0 && o.feed_fd > 0)
        agent_feed_last_words((int) o.feed_fd, r, err_message(&e, r));
    if (r < 0)
        log_error(o.feed_fd > 0 ? "the host agent is off: %s" : "%s", err_message(&e, r));
    arena_done(&arena);
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_agent = {"agent", "profile every process of this machine from outside, continuously", run};
