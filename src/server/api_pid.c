/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /pid/N/debug/pprof/profile: a CPU profile of any process on this machine, in any language and without
 * instrumentation, in the form in which Go's net/http/pprof profiles its own process: `go tool pprof
 * http://HOST:4040/pid/N/debug/pprof/profile`. The agent does the sampling; this file waits for its answer, up to
 * SECONDS_MAX plus a grace period.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "base/fd.h"
#include "server/api.h"
#include "server/front.h"
#include "server/pid_profiler.h"

enum { SECONDS_DEFAULT = 30, SECONDS_MAX = 300, TICK_MS = 100, WORDS_MAX = 2000, PATIENCE_S = 60 };

static int parse(struct call *c, pid_t *ret_pid, unsigned *ret_seconds, struct err *e)
{
    uint64_t pid, seconds = SECONDS_DEFAULT;
    int r = call_param_u64(c, "seconds", &seconds, e);

    if (r < 0)
        return r;
    if (seconds < 1 || seconds > SECONDS_MAX)
        return err_set(e, -EINVAL, "seconds must be between 1 and %d", SECONDS_MAX);
    if (str_to_u64(c->path_arg, 10, &pid) < 0 || !pid || pid > INT32_MAX)
        return err_set(e, -EINVAL, "'%.*s' is not a process id", STR_FMT(c->path_arg));
    if (kill((pid_t) pid, 0) < 0 && errno == ESRCH)
        return err_set(e, -ENOENT, "no such process on this machine: %d", (int) pid);
    *ret_pid = (pid_t) pid;
    *ret_seconds = (unsigned) seconds;
    return 0;
}

/* Reads both pipes to their ends: the profile into c->out, the error message, up to about WORDS_MAX bytes, into
 * errors. */
static int read_both(struct call *c, const int fds[2], struct buf *errors, int64_t until, struct err *e)
{
    struct pollfd p[] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    char piece[65536];

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (atomic_load(&c->cancel))
            return -ECANCELED;
        if (clock_mono() > until)
            return err_set(e, -ETIMEDOUT, "the agent does not respond; see the server's log");
        if (poll(p, 2, TICK_MS) <= 0)
            continue;
        for (int i = 0; i < 2; i++) {
            struct buf *to = i ? errors : &c->out;
            ssize_t n = p[i].revents ? fd_read(fds[i], piece, sizeof piece) : 0;

            if (n > 0 && (!i || to->n < WORDS_MAX))
                buf_put(to, piece, (size_t) n);
            else if (p[i].revents && n <= 0)
                p[i].fd = -1;
        }
    }
    return 0;
}

/* The error message without the name of the command that printed it. */
static struct str reason(struct str errors)
{
    static const struct str command = STR("wick record: ");

    return str_trim(str_starts(errors, command) ? str_slice(errors, command.n, errors.n) : errors);
}

static int run_profile(struct call *c, struct err *e)
{
    const struct pid_profiler *profiler = front_options(c->front)->pids;
    _cleanup_(buf_done) struct buf errors = BUF_INIT;
    unsigned seconds = 0;
    int fds[2] = {-1, -1};
    pid_t pid = 0;
    int r = parse(c, &pid, &seconds, e);

    if (r == 0 && !profiler)
        r = err_set(e, -ESHUTDOWN, "the agent is disabled (--no-agent): start wick serve without that option, as root");
    if (r == 0)
        r = profiler->start(profiler->ctx, pid, seconds, fds, e);
    if (r == 0)
        r = read_both(c, fds, &errors, clock_mono() + (seconds + PATIENCE_S) * NS_PER_S, e);
    fd_close(fds[0]);
    fd_close(fds[1]);
    if (r == 0 && (errors.n || !c->out.n))
        r = err_set(e, -ENOENT, "no profile of process %d: %.*s", (int) pid, STR_FMT(reason(buf_str(&errors))));
    c->content_type = "application/octet-stream";
    return r;
}

static const struct route routes[] = {
    {"GET", "/pid/{pid}/debug/pprof/profile", AUTH_ADMIN, .run = run_profile, .host = true, .own_thread = true},
    {"GET", "/pid/{pid}/debug/pprof/symbol", AUTH_ADMIN, true, api_no_symbols, .host = true},
    {"POST", "/pid/{pid}/debug/pprof/symbol", AUTH_ADMIN, true, api_no_symbols, .host = true},
};

int api_mount_pid(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
