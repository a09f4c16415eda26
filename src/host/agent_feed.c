/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of the socket pair between a server and its agent (agent_feed.h). The server's side has one thread, which
 * waits on the socket and on an eventfd that stops it. */
#include "host/agent_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_caps.h"
#include "agent/perf_open.h"
#include "agent/perf_opener.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "codec/otlp.h"
#include "host/agent_options.h"
#include "host/agent_profiles.h"
#include "model/batch.h"
#include "model/sink.h"

/* A sampler tells its state every second; one that starts has nothing to tell for a while. */
enum { FEED_FD = 3, OPTIONS_FD = 4, SEND_TIMEOUT_S = 5, SILENT_S = 15, BEGIN_S = 120, END_S = 8, WAIT_MS = 1000 };
#define LAST_WORDS (1u << 31)
#define PULSE (1u << 30)
static const char *const WHAT_ENDED =
    "All processes of the agent were killed, and it was not started again; this machine is not sampled.";

/* One frame on its way to the store. */
struct delivery {
    struct ack ack;
    struct agent_feed *feed;
    uint64_t samples;
};

struct agent_feed {
    struct sink *sink;
    pthread_mutex_t lock; /* the fields up to log_losses */
    pthread_cond_t answered;
    struct agent_feed_counts counts;
    unsigned waiting; /* deliveries that the store has not answered */
    struct log_limit log_losses;
    struct agent_pulse pulse;
    bool has_pulse;
    unsigned silent_s; /* seconds in which nothing was heard of the agent */
    pthread_t thread;
    bool running;
    atomic_bool ended; /* the agent sends no more; reason and fix are set before this flag */
    char *reason, *fix;
    int stop_fd, fd;
    pid_t pid;
};

/* --- the agent's side --- */
struct fd_sink {
    struct sink sink;
    int fd;
};

static int send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -errno;
        p += w;
        n -= (size_t) w;
    }
    return 0;
}

static int send_head(int fd, uint32_t n)
{
    char head[4];

    store_u32(head, n);
    return send_all(fd, head, sizeof head);
}

static void send_frame(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct fd_sink *f = container_of(s, struct fd_sink, sink);
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    int r;

    (void) ctx;
    r = otlp_encode(data.batch, NULL, &body, NULL);
    if (r == 0 && body.n > AGENT_FRAME_MAX)
        r = -E2BIG;
    if (r == 0)
        r = send_head(f->fd, (uint32_t) body.n);
    if (r == 0)
        r = send_all(f->fd, body.p, body.n);
    if (r == 0)
        ack_ok(ack);
    else
        ack_fail(ack, SINK_UNAVAILABLE, 0, "cannot write to the server: %s", strerror(-r));
    if (r < 0 && r != -E2BIG) /* a frame may be partly written: no other frame can follow */
        shutdown(f->fd, SHUT_RDWR);
}

struct sink *agent_feed_sink(int fd)
{
    static struct fd_sink f;
    struct timeval patience = {.tv_sec = SEND_TIMEOUT_S};

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    f = (struct fd_sink){{send_frame}, fd};
    return &f.sink;
}

void agent_feed_tell(int fd, const struct agent_pulse *p)
{
    char frame[4 + sizeof *p];

    store_u32(frame, PULSE | (uint32_t) sizeof *p);
    memcpy(frame + 4, p, sizeof *p);
    send(fd, frame, sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT); /* a short message is sent whole or not at all */
}

/* Root without these rights usually runs in a container, which can be given them. */
static void put_fix(struct buf *out, int r)
{
    if (r != -EPERM && r != -EACCES) {
        buf_puts(out, "wick doctor");
    } else if (geteuid() != 0) {
        buf_puts(out, "sudo wick serve");
    } else {
        buf_puts(out, "docker run --pid=host");
        for (const struct agent_cap *c = agent_caps; c->name; c++)
            if (!agent_cap_has(c->number))
                buf_printf(out, " --cap-add=%s", c->name + strlen("CAP_"));
        if (perf_opener_fd() < 0 && perf_paranoid() > 2)
            buf_puts(out, " --cap-add=SYS_ADMIN");
        buf_puts(out, " …");
    }
}

void agent_feed_last_words(int fd, int r, const char *reason)
{
    _cleanup_(buf_done) struct buf words = BUF_INIT;

    put_fix(&words, r);
    buf_printf(&words, "\n%.*s", AGENT_WORDS_MAX / 2, reason);
    if (!buf_error(&words) && send_head(fd, LAST_WORDS | (uint32_t) words.n) == 0)
        send_all(fd, words.p, words.n);
}

/* --- the server's side --- */
/* Moves the two descriptors to where the agent expects them. A first copy above both keeps one from replacing the other. */
static int place_fds(int feed, int options)
{
    int high_feed = fcntl(feed, F_DUPFD_CLOEXEC, OPTIONS_FD + 1);
    int high_options = fcntl(options, F_DUPFD_CLOEXEC, OPTIONS_FD + 1);

    return high_feed < 0 || high_options < 0 || dup2(high_feed, FEED_FD) < 0 || dup2(high_options, OPTIONS_FD) < 0
               ? -errno
               : 0;
}

static int start_child(struct agent_feed *f, int options)
{
    static const char *const argv[] = {"wick", "agent", "--feed-fd=3", "--options-fd=4", NULL};
    int pair[2], size = 8 << 20;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    f->pid = fork();
    if (f->pid == 0) {
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (place_fds(pair[1], options) == 0)
            execv("/proc/self/exe", (char **) (uintptr_t) argv);
        _exit(127);
    }
    close(pair[1]);
    f->fd = pair[0];
    return f->pid < 0 ? -errno : 0;
}

int agent_feed_start(const struct agent_run_options *o, struct agent_feed **ret, struct err *e)
{
    struct agent_feed *f = mem_zalloc(sizeof *f);
    _cleanup_(fd_closep) int options = -1;
    int r;

    if (!f)
        return -ENOMEM;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->answered, NULL);
    f->fd = -1;
    f->stop_fd = eventfd(0, EFD_CLOEXEC);
    r = agent_options_send(o, &options, e);
    if (r == 0) {
        r = f->stop_fd < 0 ? -errno : start_child(f, options);
        if (r < 0)
            err_set(e, r, "cannot start the agent: %s", strerror(-r));
    }
    if (r < 0) {
        agent_feed_free(f);
        return r;
    }
    *ret = f;
    return 0;
}

/* --- its state --- */
static bool is_hung(const struct agent_feed *f)
{
    return f->silent_s >= (f->has_pulse ? (unsigned) SILENT_S : (unsigned) BEGIN_S);
}

/* Counts seconds rather than the time that has passed, in which the whole machine may have been paused. */
static void note_silence(struct agent_feed *f, bool silent)
{
    bool before, now;

    pthread_mutex_lock(&f->lock);
    before = is_hung(f);
    f->silent_s = silent ? f->silent_s + 1 : 0;
    now = is_hung(f);
    pthread_mutex_unlock(&f->lock);
    if (now && !before)
        log_error("the host agent does not respond: this machine is not sampled; it is started again if that lasts");
    if (before && !now)
        log_info("the host agent responds again");
}

bool agent_feed_pulse(struct agent_feed *f, struct agent_pulse *ret)
{
    bool is_sampling;

    pthread_mutex_lock(&f->lock);
    *ret = f->pulse;
    is_sampling = f->has_pulse && !is_hung(f);
    pthread_mutex_unlock(&f->lock);
    return is_sampling && !atomic_load(&f->ended);
}

const char *agent_feed_state(struct agent_feed *f, const char **ret_reason, const char **ret_fix)
{
    const char *state = "running";

    *ret_reason = *ret_fix = NULL;
    if (atomic_load(&f->ended)) {
        *ret_reason = f->reason ? f->reason : WHAT_ENDED;
        *ret_fix = f->fix ? f->fix : "restart the server";
        return "failed";
    }
    pthread_mutex_lock(&f->lock);
    if (is_hung(f)) {
        state = "hung";
        *ret_reason = "The agent does not respond: this machine is not sampled. It is started again if that lasts.";
        *ret_fix = "wick doctor";
    } else if (!f->has_pulse) {
        state = "starting";
    }
    pthread_mutex_unlock(&f->lock);
    return state;
}

/* The text of what was lost; which process it was, where that is known. */
static void put_loss(const struct agent_pulse *p, int i, struct buf *out)
{
    buf_puts(out, agent_loss_kinds[i].text);
    if (i == LOSS_HANGS && p->hung)
        buf_printf(out, "; the last one is %.*s (%u), which is tried again in %llu s", (int) sizeof p->hung_comm,
                   p->hung_comm, p->hung, (unsigned long long) p->hung_pause_s);
}

static void put_problems(struct agent_feed *f, struct buf *out)
{
    struct agent_pulse p;
    const char *sep = "";

    agent_feed_pulse(f, &p);
    for (int i = 0; i < AGENT_LOSSES; i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;

        if (!p.losses[i])
            continue;
        put_loss(&p, i, &text);
        buf_printf(out, "%s{\"name\":\"%s\",\"count\":%llu,\"text\":", sep, agent_loss_kinds[i].name,
                   (unsigned long long) p.losses[i]);
        json_put_str(out, buf_str(&text));
        buf_putc(out, '}');
        sep = ",";
    }
}

static void put_or_null(struct buf *out, const char *text)
{
    if (text)
        json_put_str(out, str_from(text));
    else
        buf_puts(out, "null");
}

void agent_feed_json(void *feed, struct buf *out)
{
    struct agent_feed *f = feed;
    struct agent_feed_counts n;
    const char *reason, *fix, *state = agent_feed_state(f, &reason, &fix);

    agent_feed_counts(f, &n);
    buf_printf(out, "\"state\":\"%s\",\"reason\":", state);
    put_or_null(out, reason);
    buf_puts(out, ",\"fix\":");
    put_or_null(out, fix);
    buf_printf(out, ",\"lostSamples\":%llu,\"problems\":[", (unsigned long long) n.lost_samples);
    put_problems(f, out);
    buf_putc(out, ']');
}

void agent_feed_lines(void *feed, struct buf *out)
{
    struct agent_feed *f = feed;
    const char *reason, *fix, *state = agent_feed_state(f, &reason, &fix);
    struct agent_pulse p;

    if (reason)
        buf_printf(out, "agent %s: %s%s%s\n", state, reason, fix ? "; " : "", fix ? fix : "");
    agent_feed_pulse(f, &p);
    for (int i = 0; i < AGENT_LOSSES; i++)
        if (p.losses[i]) {
            buf_printf(out, "agent: %llu ", (unsigned long long) p.losses[i]);
            put_loss(&p, i, out);
            buf_putc(out, '\n');
        }
}

/* --- what it sends --- */
/* Reads n bytes; false when the agent ended or the feed is to stop. */
static bool read_exactly(struct agent_feed *f, void *p, size_t n)
{
    char *at = p;

    while (n) {
        struct pollfd fds[] = {{f->fd, POLLIN, 0}, {f->stop_fd, POLLIN, 0}};
        ssize_t got;
        int r = poll(fds, 2, WAIT_MS);

        if (r < 0 && errno != EINTR)
            return false;
        note_silence(f, r == 0);
        if (r > 0 && fds[1].revents)
            return false;
        if (r <= 0 || !fds[0].revents)
            continue;
        got = read(f->fd, at, n);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t) got;
    }
    return true;
}

static bool take_pulse(struct agent_feed *f, uint32_t n)
{
    struct agent_pulse p;

    if (n != sizeof p || !read_exactly(f, &p, n))
        return false;
    pthread_mutex_lock(&f->lock);
    f->pulse = p;
    f->has_pulse = true;
    pthread_mutex_unlock(&f->lock);
    return true;
}

static void take_words(struct agent_feed *f, uint32_t n)
{
    char text[AGENT_WORDS_MAX + 1], *end;

    if (n > AGENT_WORDS_MAX || !read_exactly(f, text, n))
        return;
    text[n] = 0;
    end = strchr(text, '\n');
    if (!end)
        return;
    *end = 0;
    f->fix = mem_strdup(text);
    f->reason = mem_strdup(end + 1);
}

static void on_answer(struct ack *a, const struct ack_result *r)
{
    struct delivery *d = container_of(a, struct delivery, ack);
    struct agent_feed *f = d->feed;
    uint64_t held, lost = d->samples;
    bool do_log = false;

    pthread_mutex_lock(&f->lock);
    if (r->status == SINK_OK) {
        f->counts.taken_batches++;
        f->counts.taken_samples += d->samples;
    } else {
        f->counts.lost_batches++;
        f->counts.lost_samples += d->samples;
        do_log = log_limited(&f->log_losses, 60 * NS_PER_S, &held);
        lost = f->counts.lost_samples;
    }
    mem_free(d);
    f->waiting--;
    pthread_cond_signal(&f->answered);
    pthread_mutex_unlock(&f->lock);
    if (do_log)
        log_warn("samples of this machine were lost, %llu so far: %s", (unsigned long long) lost,
                 r->message[0] ? r->message : "the store refused them");
}

static void deliver(struct agent_feed *f, struct batch *b)
{
    struct sink_context ctx = {.tenant = "", .peer = "agent", .received_ns = clock_wall()};
    struct delivery *d = mem_zalloc(sizeof *d);

    pthread_mutex_lock(&f->lock);
    if (!d) {
        f->counts.lost_batches++;
        f->counts.lost_samples += b->n_samples;
    }
    f->waiting += d != NULL;
    pthread_mutex_unlock(&f->lock);
    if (!d)
        return;
    d->ack.done = on_answer;
    d->feed = f;
    d->samples = b->n_samples;
    sink_consume(f->sink, b, &ctx, &d->ack);
}

void agent_feed_counts(struct agent_feed *f, struct agent_feed_counts *ret)
{
    pthread_mutex_lock(&f->lock);
    *ret = f->counts;
    pthread_mutex_unlock(&f->lock);
}

static bool take_frame(struct agent_feed *f)
{
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};
    uint8_t head[4];
    uint32_t n;
    char *p;

    if (!read_exactly(f, head, sizeof head))
        return false;
    n = load_u32(head);
    if (n & LAST_WORDS) {
        take_words(f, n & ~LAST_WORDS);
        return false;
    }
    if (n & PULSE)
        return take_pulse(f, n & ~PULSE);
    if (n > AGENT_FRAME_MAX) {
        log_error("the agent is off: it sent invalid data");
        return false;
    }
    p = buf_reserve(&body, n + 1);
    if (!p || !read_exactly(f, p, n))
        return false;
    body.n += n;
    if (otlp_decode(&body, NULL, &b, &e) < 0) {
        log_warn("the agent sent invalid data: %s", e.message);
        pthread_mutex_lock(&f->lock);
        f->counts.lost_batches++;
        pthread_mutex_unlock(&f->lock);
        return true;
    }
    deliver(f, b);
    return true;
}

/* Waits for the end of the agent's starter, which ends the others. */
static void reap(struct agent_feed *f)
{
    for (int i = 0; i < END_S * 10 && f->pid > 0; i++) {
        if (waitpid(f->pid, NULL, WNOHANG) != 0)
            f->pid = 0;
        else
            poll(NULL, 0, 100);
    }
}

static void *run(void *arg)
{
    struct agent_feed *f = arg;
    struct pollfd stop = {f->stop_fd, POLLIN, 0};

    while (take_frame(f))
        ;
    atomic_store(&f->ended, true);
    if (poll(&stop, 1, 0) > 0)
        return NULL;
    if (!f->reason)
        log_error("the host agent is off: all its processes were killed, and it was not started again; this machine is "
                  "not sampled; restart the server");
    shutdown(f->fd, SHUT_RDWR);
    reap(f);
    return NULL;
}

int agent_feed_profile(void *feed, pid_t pid, unsigned seconds, int ret[2], struct err *e)
{
    struct agent_feed *f = feed;

    if (atomic_load(&f->ended))
        return err_set(e, -ESHUTDOWN,
                       "the agent is off, usually because of missing privileges (see the server's log): "
                       "start wick serve as root; 'wick doctor' shows what is missing");
    return agent_profiles_ask(f->fd, pid, seconds, ret, e);
}

int agent_feed_owner(struct agent_feed *f, const char *address, bool named, int ret[2], struct err *e)
{
    if (atomic_load(&f->ended))
        return err_set(e, -ESHUTDOWN, "the agent is off");
    return agent_profiles_ask_owner(f->fd, address, named, ret, e);
}

int agent_feed_run(struct agent_feed *f, struct sink *sink, struct err *e)
{
    int r;

    f->sink = sink;
    r = thread_start(&f->thread, "agent feed", run, f, e);
    f->running = r == 0;
    return r;
}

void agent_feed_free(struct agent_feed *f)
{
    uint64_t one = 1;

    if (!f)
        return;
    if (f->running && write(f->stop_fd, &one, sizeof one) == sizeof one)
        pthread_join(f->thread, NULL);
    fd_close(f->fd); /* which ends the agent */
    reap(f);
    fd_close(f->stop_fd);
    pthread_mutex_lock(&f->lock);
    while (f->waiting) /* the store answers every request before it closes */
        pthread_cond_wait(&f->answered, &f->lock);
    pthread_mutex_unlock(&f->lock);
    pthread_cond_destroy(&f->answered);
    pthread_mutex_destroy(&f->lock);
    mem_free(f->reason);
    mem_free(f->fix);
    mem_free(f);
}
