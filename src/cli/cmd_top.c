/* SPDX-License-Identifier: Apache-2.0 */
/* wick top: like top, but by function: shows what uses the machine's CPU right now. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/filter.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/command.h"
#include "record/top_screen.h"
#include "conf/args.h"
#include "host/watch.h"
#include "model/batch.h"
#include "model/symbolizer.h"

struct top_options {
    struct watch_options watch;
    const char *filter;
    int64_t interval, iterations, rows;
    bool processes, threads, cum, json, help;
};

enum { DEFAULT_ROWS = 30 };

#define AT(field) offsetof(struct top_options, field)
static const struct arg top_args[] = {
    WATCH_ARGS(AT(watch)),
    {'d', "interval", ARG_DURATION, AT(interval), "TIME", "time between updates (default 2s)"},
    {'n', "iterations", ARG_INT, AT(iterations), "N", "exit after N updates (default: run until q is pressed)"},
    {0, "rows", ARG_INT, AT(rows), "N", "rows shown (default: as many as fit the terminal, or 30)"},
    {0, "filter", ARG_STRING, AT(filter), "REGEXP", "only functions, services or threads that match"},
    {0, "processes", ARG_FLAG, AT(processes), NULL, "a row per process instead of per function"},
    {0, "threads", ARG_FLAG, AT(threads), NULL, "separate threads by name"},
    {0, "cum", ARG_FLAG, AT(cum), NULL, "sort by total time, including callees"},
    {0, "json", ARG_FLAG, AT(json), NULL, "print one JSON object per update"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "show this help"},
    {0},
};

struct top {
    const struct top_options *o;
    struct top_screen screen;
    struct agent *agent;
    struct batch *batch; /* what is shown */
    int64_t begin, interval_ns;
    bool live; /* on a terminal, with keys */
};

static int show(struct top *t)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct winsize w = {.ws_row = 30, .ws_col = 80};
    struct agent_counts c;
    struct top_rows rows;
    char line[200];
    struct top_status status = {.line = line, .interval_ns = t->interval_ns};
    int r = top_rows_make(&rows, t->batch, &t->screen.view);
    size_t n;

    agent_counts(t->agent, &c);
    watch_line(&c, clock_mono() - t->begin, line, sizeof line);
    if (t->o->rows)
        rows.n = MIN(rows.n, (size_t) t->o->rows);
    if (r == 0 && t->live)
        r = top_screen_draw(&t->screen, &rows, &status);
    if (r == 0 && !t->live) {
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
        n = t->o->rows ? (size_t) t->o->rows : DEFAULT_ROWS;
        if (t->o->json)
            top_rows_json(&rows, &t->screen.view, n, t->interval_ns, &out);
        else
            top_screen_text(&t->screen, &rows, &status, (int) n, w.ws_col, &out);
        r = command_print(&out);
    }
    top_rows_done(&rows);
    return r;
}

static int take_keys(struct top *t)
{
    char text[256];
    ssize_t n = read(STDIN_FILENO, text, sizeof text);

    if (n <= 0)
        t->screen.quit = true; /* the terminal is gone */
    else if (top_screen_keys(&t->screen, text, (size_t) n) && t->batch && !t->screen.quit)
        return show(t);
    return 0;
}

/* SIGCHLD is only the symbolizer, which ends when it has nothing to do. */
static bool is_asked_to_end(int signal_fd)
{
    int signal;

    while ((signal = watch_next_signal(signal_fd)) != 0)
        if (signal != SIGCHLD)
            return true;
    return false;
}

/* Samples for one interval and shows it. Returns 1 if a key or a signal asks to end. */
static int watch_once(struct top *t, int signal_fd, struct err *e)
{
    struct pollfd fds[] = {{agent_fd(t->agent), POLLIN, 0}, {signal_fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    int64_t start = clock_mono(), end = start + t->o->interval;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r = 0;

    for (int64_t wait; r == 0 && (wait = end - clock_mono()) > 0;) {
        fds[2].revents = 0;
        poll(fds, t->live ? 3 : 2, (int) (wait / NS_PER_MS + 1));
        if (fds[1].revents && is_asked_to_end(signal_fd))
            return 1;
        if (fds[0].revents)
            r = agent_poll(t->agent, 0, e);
        if (r == 0 && t->live && fds[2].revents)
            r = take_keys(t);
        if (t->screen.quit)
            return 1;
    }
    if (r == 0)
        r = agent_take(t->agent, &b, e);
    if (r < 0 || t->screen.paused)
        return r;
    batch_unref(t->batch);
    t->batch = TAKE(b);
    t->interval_ns = clock_mono() - start;
    return show(t);
}

static int watch_all(struct top *t, int signal_fd, struct err *e)
{
    int r = 0;

    t->live = !t->o->json && !t->o->iterations && top_screen_begin();
    t->begin = clock_mono();
    for (int64_t i = 0; r == 0 && (!t->o->iterations || i < t->o->iterations); i++)
        r = watch_once(t, signal_fd, e);
    if (t->live)
        top_screen_end();
    batch_unref(t->batch);
    return r;
}

static int top(const struct top_options *o, struct err *e)
{
    _cleanup_(symbolizer_freep) struct symbolizer *symbolizer = watch_symbolizer(&o->watch);
    _cleanup_(filter_freep) struct filter *filter = NULL;
    _cleanup_(file_reader_freep) struct file_reader *reader = NULL; /* the agent, freed before it, uses it */
    _cleanup_(agent_freep) struct agent *a = NULL;
    struct top t = {.o = o, .screen.view = {.processes = o->processes, .threads = o->threads, .cumulative = o->cum}};
    pid_t pids[ARG_LIST_MAX];
    struct agent_options options;
    sigset_t old;
    int signal_fd, r = watch_agent_options(&o->watch, pids, &options, &filter, e);

    if (r == 0 && o->filter)
        r = top_screen_filter(&t.screen, o->filter, e);
    if (r < 0)
        return r;
    options.inherit = options.n_pids > 0;
    options.symbolizer = symbolizer;
    signal_fd = watch_signals(&old);
    r = watch_reader(&reader, e);
    options.reader = reader;
    if (r == 0)
        r = agent_new(&options, &a, e);
    t.agent = a;
    if (r == 0)
        r = watch_all(&t, signal_fd, e);
    top_screen_done(&t.screen);
    fd_close(signal_fd);
    return r < 0 ? r : 0;
}

static int run(int argc, char **argv)
{
    struct top_options o = {.interval = 2 * NS_PER_S, .watch.rate = 99};
    struct err e = {0};
    int n = 0, r = args_parse(top_args, &o, argc - 1, argv + 1, &n, &e);

    if (r == 0 && o.help) {
        printf(
            "usage: wick top [options]\n\nShows the functions that use the CPU now, over all processes. On a terminal, h lists the keys.\n\n");
        args_help(top_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'; see wick top --help", argv[1]);
    if (r == 0 && o.interval < NS_PER_S / 10)
        r = err_set(&e, -EINVAL, "--interval must be at least 100ms");
    if (r < 0) {
        fprintf(stderr, "wick top: %s\n", err_message(&e, r));
        return EXIT_USAGE;
    }
    r = top(&o, &e);
    if (r < 0)
        fprintf(stderr, "wick top: %s\n", err_message(&e, r));
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_top = {"top", "show the functions that use the most CPU right now", run};
