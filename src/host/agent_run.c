/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the agent: gives up rights, samples, and sends what it has every few seconds (agent_run.h). */
#include "host/agent_run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/agent_caps.h"
#include "agent/agent_loss.h"
#include "agent/filter.h"
#include "agent/identity.h"
#include "agent/java_names.h"
#include "agent/kernel_names.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/url.h"
#include "conf/paths.h"
#include "host/agent_feed.h"
#include "host/agent_keep.h"
#include "host/agent_profiles.h"
#include "host/agent_rights.h"
#include "host/agent_upload.h"
#include "host/export_flow.h"
#include "model/batch.h"
#include "model/sink.h"
#include "model/symbolizer.h"
#include "proc/far_call.h"

struct running {
    const struct agent_run_options *o;
    struct agent *agent;
    struct sink *sink;
    struct agent_upload *upload; /* NULL: not requested */
    int signal_fd, stats_fd;
    int64_t begin;
    char governor[96]; /* the state that was logged last, at that rate and time */
    unsigned rate_hz;
    int64_t governor_ns;
    uint64_t hangs;
    struct agent_losses logged;
    int64_t logged_ns[AGENT_LOSSES]; /* 0: never */
    int64_t pulse_ns;
};

/* Logs one line for each missing capability, with its consequence. Without a required one nothing works: one error line
 * reports that later. */
static void tell_losses(void)
{
    for (const struct agent_cap *c = agent_caps; c->name; c++)
        if (c->required && !agent_cap_has(c->number))
            return;
    for (const struct agent_cap *c = agent_caps; c->name; c++)
        if (!agent_cap_has(c->number) && !(c->number == CAP_SYSLOG && kernel_names_given()))
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
    if (!buf_error(&b) && (r = fd_truncate(a->stats_fd, 0)) == 0)
        r = fd_pwrite_all(a->stats_fd, b.p, b.n, 0);
    if (r < 0)
        log_warn("cannot write '%s': %s", a->o->stats, strerror(-r));
}

/* Logs why not the best way is used, and what the kernel refuses. */
static void tell_way(struct running *a)
{
    struct agent_counts n;

    agent_counts(a->agent, &n);
    if (n.why[0])
        log_warn("sampling via %s: %s", n.via, n.why);
    if (n.lacks[0])
        log_warn("%s", n.lacks);
}

static const int64_t GOVERNOR_PAUSE_NS = 60 * NS_PER_S;

/* Logs the current rate when it changes, and what else is left out once a minute: beside a build that changes every few
 * seconds. */
static void tell_governor(struct running *a)
{
    int64_t now = clock_mono();
    struct agent_counts n;

    agent_counts(a->agent, &n);
    if (!n.governor || strcmp(n.governor, a->governor) == 0)
        return;
    if (n.rate_hz == a->rate_hz && now < a->governor_ns + GOVERNOR_PAUSE_NS)
        return;
    a->rate_hz = n.rate_hz;
    a->governor_ns = now;
    snprintf(a->governor, sizeof a->governor, "%s", n.governor);
    log_info("sampling at %u Hz%s%s", n.rate_hz, n.governor[0] ? ": " : ", as configured", n.governor);
}

static void read_comm(uint32_t pid, char ret[16])
{
    _cleanup_(buf_done) struct buf comm = BUF_INIT;
    char path[40];

    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    if (pid && fd_read_file(path, 64, &comm, NULL) == 0 && buf_cstr(&comm))
        snprintf(ret, 16, "%.*s", STR_FMT(str_trim(buf_str(&comm))));
}

/* Logs what was set aside because reading it did not return. */
static void tell_hangs(struct running *a)
{
    struct agent_counts n;
    char comm[16] = "";

    agent_counts(a->agent, &n);
    if (n.hangs == a->hangs)
        return;
    a->hangs = n.hangs;
    read_comm(n.hung, comm);
    if (!comm[0])
        log_warn("a file of a sampled program did not answer within %d ms; it is tried again in %llu s",
                 FAR_DEADLINE_MS, (unsigned long long) (n.hung_pause_ns / (uint64_t) NS_PER_S));
    else
        log_warn(
            "process %u (%s) was set aside: reading its memory or its files did not return within %d ms; its samples "
            "lack names; it is tried again in %llu s",
            n.hung, comm, FAR_DEADLINE_MS, (unsigned long long) (n.hung_pause_ns / (uint64_t) NS_PER_S));
}

static const int64_t LOSS_PAUSE_NS = 3600 * NS_PER_S, PULSE_NS = NS_PER_S;

/* Logs each kind of loss when it begins, and then at most once an hour. */
static void tell_new_losses(struct running *a, const struct agent_losses *l)
{
    int64_t now = clock_mono();

    for (int i = 0; i < AGENT_LOSSES; i++) {
        bool is_logged = i == LOSS_HANGS || i == LOSS_READER; /* where they happen, with what it is */

        if (l->n[i] == a->logged.n[i] || is_logged || (a->logged_ns[i] && now - a->logged_ns[i] < LOSS_PAUSE_NS))
            continue;
        a->logged_ns[i] = now;
        a->logged.n[i] = l->n[i];
        log_warn("%llu %s", (unsigned long long) l->n[i], agent_loss_kinds[i].text);
    }
}

/* Shows that it works, and to a server what was lost. */
static void show_life(struct running *a)
{
    struct agent_losses losses;
    struct agent_counts n;
    struct agent_pulse p = {.hung = 0};
    int64_t now = clock_mono();

    agent_keep_beat();
    if (now - a->pulse_ns < PULSE_NS)
        return;
    a->pulse_ns = now;
    agent_losses(a->agent, &losses);
    tell_new_losses(a, &losses);
    if (a->o->feed_fd <= 0)
        return;
    agent_counts(a->agent, &n);
    memcpy(p.losses, losses.n, sizeof p.losses);
    p.hung = n.hung;
    p.hung_pause_s = n.hung_pause_ns / (uint64_t) NS_PER_S;
    read_comm(n.hung, p.hung_comm);
    agent_feed_tell((int) a->o->feed_fd, &p);
}

static int take_and_send(struct running *a, struct err *e)
{
    struct batch *b = NULL;
    int r = agent_take(a->agent, &b, e);

    if (r == 0)
        send_batch(a, b);
    if (r == 0)
        tell_hangs(a);
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

static int loop(struct running *a, struct err *e)
{
    struct pollfd fds[] = {{agent_fd(a->agent), POLLIN, 0}, {a->signal_fd, POLLIN, 0}, {(int) a->o->feed_fd, 0, 0}};
    int64_t next = clock_mono() + a->o->interval, end = a->o->duration ? clock_mono() + a->o->duration : INT64_MAX;
    int r = 0;

    while (r == 0 && !is_told_to_stop(a) && clock_mono() < end) {
        int64_t wait = next - clock_mono(), beat = notify_interval();

        if (beat) {
            notify_alive();
            wait = MIN(wait, beat);
        }

        if (wait > 0)
            poll(fds, ARRAY_SIZE(fds), (int) (wait / NS_PER_MS + 1));
        if (fds[2].revents) /* the server has exited */
            return 0;
        show_life(a);
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

static int open_sink(const struct agent_run_options *o, struct export_flow **ret_flow, struct sink **ret, struct err *e)
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

static int sample(const struct agent_run_options *o, int stats_fd, struct err *e)
{
    _cleanup_(filter_freep) struct filter *filter = NULL;
    _cleanup_(symbolizer_freep) struct symbolizer *symbolizer = watch_symbolizer(&o->watch);
    _cleanup_(file_reader_freep) struct file_reader *reader = NULL;
    struct running a = {.o = o, .stats_fd = stats_fd};
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
    options.mark_own = !o->both;
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
        tell_way(&a);
        a.begin = clock_mono();
        notify_ready("sampling");
        r = loop(&a, e);
        notify_stopping();
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

enum { RATE_UNSET = -1, RATE_DEFAULT = 19 };

static void set_defaults(struct agent_run_options *o)
{
    bool served = o->feed_fd > 0;

    if (!o->interval) /* every request repeats the names, so fewer requests save bytes; not needed for a local server */
        o->interval = (served ? 5 : 10) * NS_PER_S;
    if (!o->begin_rate && o->watch.rate == RATE_UNSET && !served && is_new_install())
        o->begin_rate = 99;
    if (!o->begin)
        o->begin = 60 * NS_PER_S;
    if (o->watch.rate == RATE_UNSET)
        o->watch.rate = RATE_DEFAULT;
}

/* Opened before privileges are dropped. */
static int open_stats(const struct agent_run_options *o, int *ret, struct err *e)
{
    *ret = o->stats ? fd_open(AT_FDCWD, o->stats, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    return o->stats && *ret < 0 ? err_set(e, *ret, "cannot open '%s': %s", o->stats, strerror(-*ret)) : 0;
}

int agent_run_check(const struct agent_run_options *o, struct err *e)
{
    struct watch_options w = o->watch;
    enum log_format format;

    if (!o->export && o->feed_fd < 0)
        return err_set(e, -EINVAL, "--export URL is required: the OTLP endpoint to send profiles to");
    if ((o->interval && o->interval < NS_PER_S / 10) || o->budget < 0)
        return err_set(e, -EINVAL, "--interval must be at least 100ms and --budget at least 0");
    if (o->begin_rate < 0 || o->begin_rate > 10000)
        return err_set(e, -EINVAL, "--begin-rate must be between 1 and 10000");
    if (o->log_format && log_parse_format(str_from(o->log_format), &format) < 0)
        return err_set(e, -EINVAL, "--log-format must be text, logfmt or json");
    if (w.rate == RATE_UNSET)
        w.rate = RATE_DEFAULT;
    return o->feed_fd > 0 ? 0 : watch_check(&w, e); /* a server reads from agent_run() what is wrong with its options */
}

void agent_run_defaults(struct agent_run_options *ret)
{
    *ret = (struct agent_run_options){.watch.rate = RATE_UNSET, .budget = 1, .memory = 64 << 20, .feed_fd = -1};
}

int agent_run(const struct agent_run_options *options, agent_record_fn *record, struct err *e)
{
    struct agent_run_options o = *options;
    enum log_format format = LOG_LOGFMT;
    int stats_fd = -1, r;

    if (o.log_format)
        log_parse_format(str_from(o.log_format), &format);
    log_setup(LOG_INFO, format);
    notify_open();
    set_defaults(&o);
    if (o.feed_fd > 0)
        agent_keep_start((int) o.feed_fd, o.keep_caps);
    tell_losses();
    r = open_stats(&o, &stats_fd, e);
    if (r == 0 && o.watch.jcmd)
        r = java_names_start(e); /* while it may become other users */
    if (r == 0)
        r = agent_rights_drop(o.keep_caps, e);
    do {
        if (r == 0 && o.feed_fd > 0)
            agent_keep((int) o.feed_fd, record);
        if (r == 0)
            r = sample(&o, stats_fd, e);
    } while (r == 0 && o.feed_fd > 0 && agent_keep_must_go_on((int) o.feed_fd));
    if (r < 0 && o.feed_fd > 0)
        agent_feed_last_words((int) o.feed_fd, r, err_message(e, r));
    if (r < 0)
        log_error(o.feed_fd > 0 ? "the host agent is off: %s" : "%s", err_message(e, r));
    return r;
}
