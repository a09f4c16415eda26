/* SPDX-License-Identifier: Apache-2.0 */
/* Samples for a while and writes a file or a report (record_run.h). */
#include "record/record_run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/debug_file.h"
#include "agent/filter.h"
#include "agent/names.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/fd.h"
#include "conf/paths.h"
#include "convert/convert_output.h"
#include "host/debug_fetch.h"
#include "host/name_hint.h"
#include "host/watch.h"
#include "model/batch.h"
#include "model/symbolizer.h"
#include "proc/proc_children.h"
#include "record/record_report.h"

enum { PIDS_MAX = 4096, HINTS_MAX = 3 };
enum { SAMPLED_MIN = 80 };         /* percent of the CPU time; less is reported */
#define USED_MIN_NS (NS_PER_S / 5) /* of less CPU time, the share is noise */

struct recording {
    struct record_options o;
    struct agent *agent;
    struct watch_command command;
    int signal_fd;
    int64_t begin, sampled_ns; /* how long was sampled; 0: not over yet */
    struct perf_events events; /* -e */
    pid_t pids[PIDS_MAX];
    size_t n_pids;
    bool command_ended, live;
    int status; /* exit status of the command */
};

/* --- sampling --- */
static void print_state(struct recording *c, bool last)
{
    struct agent_counts counts;
    char line[200];

    if (c->o.quiet || (!c->live && !last))
        return;
    agent_counts(c->agent, &counts);
    watch_line(&counts, last ? c->sampled_ns : clock_mono() - c->begin, line, sizeof line);
    if (c->live)
        fprintf(stderr, "\r\033[K");
    fprintf(stderr, "wick: %s%s", line, last ? "\n" : "");
    if (last) {
        _cleanup_(buf_done) struct buf more = BUF_INIT;

        watch_way(&counts, "wick: ", &more);
        watch_foreign(&counts, "wick: ", &more);
        fprintf(stderr, "%.*s", STR_FMT(buf_str(&more)));
    }
    fflush(stderr);
}

static void reap(struct recording *c)
{
    int status;

    if (c->command.pid > 0 && waitpid(c->command.pid, &status, WNOHANG) == c->command.pid) {
        c->command_ended = true;
        c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

/* Returns true if it is time to stop. */
static bool take_signals(struct recording *c)
{
    bool stop = false;

    for (int sig; (sig = watch_next_signal(c->signal_fd));) {
        if (sig == SIGCHLD)
            reap(c);
        else if (sig == SIGINT && c->command.pid > 0)
            continue; /* the terminal also sends it to the command; we end when the command does */
        else
            stop = true;
    }
    return stop || c->command_ended;
}

static int sample(struct recording *c, struct err *e)
{
    struct pollfd fds[] = {{agent_fd(c->agent), POLLIN, 0}, {c->signal_fd, POLLIN, 0}};
    int64_t end = c->o.duration ? c->begin + c->o.duration : INT64_MAX, next_line = c->begin + NS_PER_S / 2;
    int r = 0;

    agent_until(c->agent, end);
    while (r == 0) {
        int64_t now = clock_mono(), wait = MIN(end, next_line) - now;

        if (now >= end)
            break;
        if (wait > 0)
            poll(fds, 2, (int) (wait / NS_PER_MS + 1));
        if (take_signals(c))
            break;
        if (fds[0].revents)
            r = agent_poll(c->agent, 0, e);
        if (clock_mono() >= next_line) {
            print_state(c, false);
            next_line += NS_PER_S / 2;
        }
    }
    c->sampled_ns = MIN(clock_mono(), end) - c->begin;
    agent_until(c->agent, c->begin + c->sampled_ns);
    return r;
}

/* --- the result --- */
static void tell_names(struct recording *c)
{
    struct agent_counts n;

    agent_counts(c->agent, &n);
    if (!c->o.quiet && n.stacks_inferred)
        fprintf(
            stderr,
            "wick: callers were inferred from instructions in %llu stacks (wick.stack=inferred): they pass through code without "
            "unwind information\n",
            (unsigned long long) n.stacks_inferred);
    if (!c->o.quiet && n.cut_in)
        fprintf(stderr,
                "wick: stacks that begin at [truncated] end in code without unwind information, most of them in %s\n",
                n.cut_in);
    if (!c->o.quiet && n.frames)
        fprintf(stderr, "wick: %llu process%s, %.0f %% of frames named, %.1f %% of stacks whole\n",
                (unsigned long long) n.processes_sampled, n.processes_sampled == 1 ? "" : "es",
                100.0 * (double) n.frames_named / (double) n.frames,
                100.0 * (double) n.stacks_whole / (double) MAX(n.stacks_whole + n.stacks_cut, 1u));
}

/* Without BPF, each thread has a timer of its own, which does not run in the kernel. */
static bool is_much_missing(struct recording *c)
{
    struct agent_counts n;

    agent_counts(c->agent, &n);
    return n.by_perf && n.used_ns > USED_MIN_NS && n.cpu_ns < n.used_ns / 100 * SAMPLED_MIN;
}

static void tell_missing(struct recording *c)
{
    struct agent_counts n;

    if (c->o.quiet || !is_much_missing(c))
        return;
    agent_counts(c->agent, &n);
    fprintf(
        stderr,
        "wick: %.0f %% of %.2f CPU-s were sampled: without BPF, time in the kernel is not, nor are threads that run for "
        "less than %.0f ms; -F 999 samples more\n",
        100.0 * (double) n.cpu_ns / (double) n.used_ns, (double) n.used_ns / (double) NS_PER_S,
        (double) NS_PER_S / n.rate_hz / (double) NS_PER_MS);
}

/* The files with the most functions that have no names, and what helps. */
static void print_hints(struct recording *c)
{
    struct objects *objects = agent_objects(c->agent);
    struct agent_counts n;
    size_t at = 0, all, printed = 0;
    struct object *o;

    agent_counts(c->agent, &n);
    if (c->o.quiet || c->o.watch.no_names)
        return;
    while (printed < HINTS_MAX && (o = debug_file_next_missing(objects, &at))) {
        _cleanup_(buf_done) struct buf hint = BUF_INIT;
        size_t missing = object_names_missing(o, &all);

        if (missing * 10 < n.frames)
            continue;
        name_hint("/", o->path, &hint);
        fprintf(stderr, "wick: %zu of %zu addresses in %s have no name: %.*s\n", missing, all, o->path,
                STR_FMT(buf_str(&hint)));
        printed++;
    }
}

static void print_fetched(void *ctx, const char *message)
{
    const struct recording *c = ctx;

    if (!c->o.quiet)
        fprintf(stderr, "%swick: %s\n", c->live ? "\r\033[K" : "", message);
}

static void tell_wrote(void *ctx, const char *path)
{
    const struct recording *c = ctx;

    if (c->o.quiet && !c->o.tell_written)
        return;
    if (path == c->o.html || str_ends(str_from(path), STR(".html")) || str_ends(str_from(path), STR(".svg")))
        fprintf(stderr, "wick: wrote %s\n", path);
    else
        fprintf(stderr, "wick: wrote %s; open it with: wick pprof %s\n", path, path);
}

/* The type that the user named first: its profile goes into the file that is named. */
static const char *first_type(const struct recording *c)
{
    if (c->o.watch.events && !c->o.watch.types)
        return c->events.v[0].name;
    return c->o.watch.types && strncmp(c->o.watch.types, "off", 3) == 0 ? "off_cpu" : "cpu";
}

static int hand_out(struct recording *c, struct batch *b, const char *title, struct err *e)
{
    struct convert_files files = {.first = first_type(c), .wrote = tell_wrote, .ctx = c};
    int r = 0;

    if (c->o.output) {
        files.path = c->o.output;
        r = convert_output_write(b, title, &files, e);
    }
    if (r == 0 && c->o.html) {
        files.path = c->o.html;
        r = convert_output_write(b, title, &files, e);
    }
    if (r == 0 && c->o.top)
        r = record_report(b, "top", e);
    if (r == 0 && c->o.shell)
        r = record_report(b, NULL, e);
    return r;
}

static int write_stats(struct recording *c, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct agent_counts n;

    if (!c->o.stats)
        return 0;
    agent_counts(c->agent, &n);
    watch_json(&n, c->sampled_ns, &b);
    return buf_error(&b) ? buf_error(&b) : fd_write_file(c->o.stats, b.p, b.n, e);
}

static const char *why_no_samples(struct recording *c)
{
    struct agent_counts n;

    agent_counts(c->agent, &n);
    if (n.lost)
        return ": all were lost";
    if (c->events.n)
        return ": the sampled processes caused no such event";
    if (is_much_missing(c)) /* which was said */
        return "";
    return strcmp(first_type(c), "cpu") == 0 ? ": the sampled processes used no CPU time"
                                            : ": the sampled processes did not wait";
}

static int finish(struct recording *c, const char *title, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    const char *urls = c->o.debuginfod ? c->o.debuginfod : getenv("DEBUGINFOD_URLS");
    int r;

    if (!c->o.watch.no_names)
        debug_fetch_missing(&(struct debug_fetch){urls, print_fetched, c}, agent_objects(c->agent));
    r = agent_take(c->agent, &b, e);
    print_state(c, true);
    if (r == 0)
        r = write_stats(c, e);
    if (r < 0)
        return r;
    tell_missing(c);
    if (!b)
        return err_set(e, -ENODATA, "no samples%s", why_no_samples(c));
    tell_names(c);
    print_hints(c);
    return hand_out(c, b, title, e);
}

/* Before the time that it takes; why is in the summary. */
static void tell_how(struct recording *c)
{
    struct agent_counts n;

    agent_counts(c->agent, &n);
    if (n.by_perf && !c->o.quiet && !c->o.watch.via)
        fprintf(
            stderr,
            "wick: BPF cannot be used; using perf_event_open: own processes only, without the time that they spend in "
            "the kernel\n");
}

/* What is sampled: the processes that were named, their descendants, and with a command this one. */
static int choose_pids(struct recording *c, struct agent_options *o, struct err *e)
{
    int r;

    c->n_pids = o->n_pids;
    if (c->command.pid > 0)
        c->pids[c->n_pids++] = o->command = c->command.pid;
    o->inherit = c->command.pid > 0 || (c->n_pids && !c->o.no_children);
    if (o->inherit) {
        r = proc_add_descendants(c->pids, &c->n_pids, PIDS_MAX);
        if (r < 0)
            return err_set(e, r, "cannot list the child processes: %m");
    }
    o->n_pids = c->n_pids;
    return 0;
}

/* Adds children that were started after the list was made and before new ones were followed. By perf events they are
 * followed from the start. */
static int add_late_children(struct recording *c, const struct agent_options *o)
{
    struct agent_counts counts;
    size_t known = c->n_pids;
    int r;

    agent_counts(c->agent, &counts);
    if (!o->inherit || counts.by_perf)
        return 0;
    r = proc_add_descendants(c->pids, &c->n_pids, PIDS_MAX);
    for (size_t i = known; i < c->n_pids && r == 0; i++)
        r = agent_add_pid(c->agent, c->pids[i]);
    return r;
}

static int record(struct recording *c, int n_words, char **words, struct err *e)
{
    _cleanup_(filter_freep) struct filter *filter = NULL;
    _cleanup_(symbolizer_freep) struct symbolizer *symbolizer = watch_symbolizer(&c->o.watch);
    _cleanup_(file_reader_freep) struct file_reader *reader = NULL;
    struct agent_options options;
    char title[200];
    sigset_t old;
    bool hurried;
    int r = watch_agent_options(&c->o.watch, c->pids, &options, &filter, e);

    if (r < 0)
        return r;
    c->events = options.events;
    debug_fetch_use_cache();
    options.pprof = true;
    options.ranges = c->o.output ? convert_output_is_pprof(c->o.output) : c->o.shell || c->o.top;
    options.symbolizer = symbolizer;
    options.wait_for_lines = true;
    c->signal_fd = watch_signals(&old);
    if (c->signal_fd < 0)
        return c->signal_fd;
    if (n_words) {
        words[n_words] = NULL;
        r = watch_command_start(words, &c->command, e);
        if (r < 0)
            return r;
    }
    r = choose_pids(c, &options, e);
    if (r < 0)
        return r;
    snprintf(title, sizeof title, "%s", n_words ? words[0] : c->o.all ? "this machine" : c->o.watch.pids.v[0]);
    hurried = watch_hurry(); /* not the command */
    r = watch_reader(&reader, e);
    options.reader = reader;
    if (r == 0)
        r = agent_new(&options, &c->agent, e);
    if (r == 0)
        r = add_late_children(c, &options);
    if (r == 0)
        tell_how(c);
    c->begin = clock_mono();
    if (r == 0)
        r = watch_command_go(&c->command, e);
    if (r == 0)
        r = sample(c, e);
    watch_calm(hurried);
    if (r == 0)
        r = finish(c, title, e);
    if (r < 0 && c->command.pid > 0 && !c->command_ended)
        kill(c->command.pid, SIGTERM);
    agent_free(c->agent);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return r;
}

int record_check(struct record_options *o, int n, struct err *e)
{
    int ways = (n > 0) + o->all + (o->watch.pids.n > 0);

    if (ways != 1)
        return err_set(e, -EINVAL, "%s: give a command (-- CMD), processes (-p PID) or -a",
                       ways ? "more than one target" : "no target");
    if (!o->output && !o->html && !o->top && !o->shell) {
        o->shell = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
        o->output = o->shell ? NULL : "wick.pb.gz";
    }
    if (o->output && convert_output_check("--output", o->output, e) < 0)
        return -EINVAL;
    if (o->html && convert_output_check("--html", o->html, e) < 0)
        return -EINVAL;
    if (o->stats && path_check_output("--stats", o->stats, e) < 0)
        return -EINVAL;
    if (watch_check(&o->watch, e) < 0)
        return -EINVAL;
    if (o->no_children && !o->watch.pids.n)
        return err_set(e, -EINVAL, "--no-children requires -p PID");
    if (!o->duration && !n)
        o->duration = 30 * NS_PER_S;
    return 0;
}

int record_run(const struct record_options *o, int n_words, char **words, int *ret_status, struct err *e)
{
    struct recording c = {
        .o = *o, .command = {.gate = -1, .failed = -1}, .signal_fd = -1, .live = isatty(STDERR_FILENO)};
    int r = record(&c, n_words, words, e);

    fd_close(c.signal_fd);
    *ret_status = c.status;
    return r;
}
