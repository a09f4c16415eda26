/* SPDX-License-Identifier: Apache-2.0 */
/* Samples and shows what uses the CPU, again and again (top_run.h). */
#include "record/top_run.h"

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
#include "base/regex.h"
#include "model/batch.h"
#include "model/symbolizer.h"
#include "record/top_screen.h"

enum { DEFAULT_ROWS = 30 };

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
        r = t->o->print(&out);
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
    _cleanup_(buf_done) struct buf way = BUF_INIT;
    struct agent_counts c;
    int r = 0;

    t->live = !t->o->json && !t->o->iterations && top_screen_begin();
    t->begin = clock_mono();
    for (int64_t i = 0; r == 0 && (!t->o->iterations || i < t->o->iterations); i++)
        r = watch_once(t, signal_fd, e);
    if (t->live)
        top_screen_end();
    agent_counts(t->agent, &c);
    watch_way(&c, "wick: ", &way);
    fprintf(stderr, "%.*s", STR_FMT(buf_str(&way)));
    batch_unref(t->batch);
    return r;
}

int top_check(const struct top_options *o, struct err *e)
{
    struct regex *filter = NULL;
    int r = watch_check(&o->watch, e);

    if (r == 0 && o->interval < NS_PER_S / 10)
        r = err_set(e, -EINVAL, "--interval must be at least 100ms");
    if (r == 0 && o->filter && *o->filter) {
        r = regex_new(str_from(o->filter), &filter, e);
        regex_free(filter);
        if (r < 0)
            r = err_prefix(e, r, "--filter: ");
    }
    return r;
}

int top_run(const struct top_options *o, struct err *e)
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
    options.wait_for_lines =
        o->iterations > 0; /* a script reads it once: names as in a recording, not with the next update */
    signal_fd = watch_signals(&old);
    watch_hurry();
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
