/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's side of a symbolizer process, and the loop of the child (symbol_process.h). The child's confinement is
 * in symbol_confine.c. */
#include "symbol/symbol_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/hash.h"
#include "base/mem.h"
#include "model/symbol_wire.h"

enum { ARGS_MAX = 16, DEADLY_MAX = 256, TIMEOUT_DEFAULT_MS = 60000 };

#define REFUSED_NS (10 * 60 * NS_PER_S)

struct symbol_question {
    uint64_t binary; /* hash of path and build id */
    uint32_t n_addresses;
    int64_t deadline;
    char path[256]; /* for error messages */
};

struct symbol_process {
    struct symbolizer base;
    char *argv[ARGS_MAX + 1];
    int timeout_ms, fd;
    pid_t pid;
    int64_t spent_ns; /* CPU time of children that have ended */
    bool asked;
    bool killed; /* killed by someone else, or for lack of memory: not because of the file it read */
    struct symbol_question question;
    struct buf in; /* the part of the answer received so far */
    struct symbol_deaths {
        uint64_t binary;
        unsigned n;
        int64_t until; /* monotonic: refused until then */
    } deadly[DEADLY_MAX];
    unsigned n_deadly;
};

static int start(struct symbol_process *p, struct err *e)
{
    int r = child_on_socket(p->argv, SOCK_STREAM, &p->pid, &p->fd, e);

    if (r < 0) {
        p->pid = 0;
        return err_prefix(e, r, "the symbolizer: ");
    }
    return 0;
}

/* Ends the child, if there is one; returns its wait status. */
static int stop(struct symbol_process *p)
{
    int status;

    p->asked = false;
    buf_done(&p->in);
    if (!p->pid)
        return 0;
    status = child_end(p->pid, p->fd, &p->spent_ns);
    p->pid = 0;
    p->fd = -1;
    return status;
}

static int send_all(int fd, struct str s)
{
    while (s.n) {
        ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            s = str_slice(s, (size_t) n, s.n);
    }
    return 0;
}

/* Sends the request; the descriptor is sent with its first byte. */
static int send_request(int to, struct str s, const int *fd)
{
    struct iovec io = {(void *) (uintptr_t) s.p, s.n};
    ssize_t n = fd_pass_send(to, &io, 1, fd, fd != NULL);

    return n < 0 ? (int) n : send_all(to, str_slice(s, (size_t) n, s.n));
}

/* A child that was killed while idle is replaced: no binary is to blame. */
static void forget_dead(struct symbol_process *p)
{
    struct pollfd gone = {.fd = p->fd};

    if (p->pid && poll(&gone, 1, 0) > 0 && gone.revents & (POLLHUP | POLLERR))
        stop(p);
}

static struct symbol_deaths *deaths_of(struct symbol_process *p, uint64_t binary)
{
    for (unsigned i = 0; i < MIN(p->n_deadly, (unsigned) DEADLY_MAX); i++)
        if (p->deadly[i].binary == binary)
            return &p->deadly[i];
    return NULL;
}

/* The oldest is forgotten when there are too many. */
static void count_death(struct symbol_process *p, uint64_t binary)
{
    struct symbol_deaths *d = deaths_of(p, binary);

    if (!d) {
        d = &p->deadly[p->n_deadly++ % DEADLY_MAX];
        *d = (struct symbol_deaths){.binary = binary};
    }
    if (++d->n >= 2)
        d->until = clock_mono() + REFUSED_NS;
}

static int died(struct symbol_process *p, int r, struct err *e)
{
    const char *path = p->question.path;
    int status = stop(p);

    p->killed = WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM) &&
                r != -ETIMEDOUT && r != -EBADMSG;
    count_death(p, p->question.binary);
    if (r == -ETIMEDOUT)
        return err_set(e, -ETIMEDOUT, "the symbolizer took longer than %d ms for '%s'", p->timeout_ms, path);
    if (r == -EBADMSG)
        return err_set(e, -EIO, "invalid response of the symbolizer for '%s'", path);
    if (r == -ENOMEM)
        return r;
    return err_set(e, -EIO, "the symbolizer crashed on '%s' (%s %d)", path, WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : status >> 8);
}

static int ask(struct symbolizer *base, const struct symbol_request *q, struct err *e)
{
    struct symbol_process *p = container_of(base, struct symbol_process, base);
    uint64_t binary = hash_mix(hash64_str(q->path), ~hash64_str(q->build_id));
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const struct symbol_deaths *deaths = deaths_of(p, binary);
    int r = symbol_wire_put_request(&b, q);

    if (r < 0)
        return err_set(e, r, "the request for '%.*s' is too large", STR_FMT(q->path));
    if (deaths && clock_mono() < deaths->until)
        return err_set(e, -EIO, "the symbolizer crashed or hung on '%.*s' %u times; not retrying for ten minutes",
                       STR_FMT(q->path), deaths->n);
    if (p->asked) /* that answer is no longer expected */
        stop(p);
    forget_dead(p);
    if (!p->pid) {
        r = start(p, e);
        if (r < 0)
            return r;
    }
    p->question = (struct symbol_question){binary, q->n_addresses, clock_mono() + p->timeout_ms * NS_PER_MS, {0}};
    snprintf(p->question.path, sizeof p->question.path, "%.*s", STR_FMT(q->path));
    r = send_request(p->fd, buf_str(&b), q->fd);
    p->asked = r >= 0;
    return r < 0 ? died(p, r, e) : 0;
}

/* Receives the available part of the answer: returns 1 if it is complete, 0 if not yet. */
static int receive_some(struct symbol_process *p)
{
    for (;;) {
        uint32_t n = 0;
        size_t want = SYMBOL_WIRE_PREFIX;
        ssize_t got;
        char *to;

        if (p->in.n >= SYMBOL_WIRE_PREFIX) {
            memcpy(&n, p->in.p, sizeof n);
            if (n > SYMBOL_WIRE_ANSWER_MAX)
                return -EBADMSG;
            want += n;
            if (p->in.n == want)
                return 1;
        }
        want = MIN(want - p->in.n, (size_t) 1 << 20);
        to = buf_reserve(&p->in, want);
        if (!to)
            return buf_error(&p->in);
        got = recv(p->fd, to, want, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            return 0;
        if (got == 0)
            return -ENODATA;
        if (got < 0 && errno != EINTR)
            return -errno;
        p->in.n += (size_t) MAX(got, 0);
    }
}

static int answer(struct symbolizer *base, struct symbol_answer **ret, struct err *e)
{
    struct symbol_process *p = container_of(base, struct symbol_process, base);
    int r = p->asked ? receive_some(p) : -EINVAL;

    if (!p->asked)
        return r;
    if (r == 0 && clock_mono() >= p->question.deadline)
        r = -ETIMEDOUT;
    if (r == 0)
        return -EAGAIN;
    if (r < 0)
        return died(p, r, e);
    if (e)
        *e = (struct err){0};
    r = symbol_wire_get_answer(str_slice(buf_str(&p->in), SYMBOL_WIRE_PREFIX, p->in.n), p->question.n_addresses, ret,
                               e);
    if (r == -EBADMSG)
        return died(p, r, e);
    p->asked = false;
    buf_done(&p->in);
    return r;
}

static int resolve_once(struct symbolizer *base, const struct symbol_request *q, struct symbol_answer **ret,
                        struct err *e)
{
    struct symbol_process *p = container_of(base, struct symbol_process, base);
    int r = ask(base, q, e);

    while (r >= 0 && (r = answer(base, ret, e)) == -EAGAIN) {
        struct pollfd there = {.fd = p->fd, .events = POLLIN};
        int64_t left = p->question.deadline - clock_mono();

        poll(&there, 1, left > 0 ? (int) (left / NS_PER_MS + 1) : 0);
        r = 0;
    }
    return r;
}

/* If the child was killed by someone else during a request, the request is tried once more; the death is still
 * counted. */
static int resolve(struct symbolizer *base, const struct symbol_request *q, struct symbol_answer **ret, struct err *e)
{
    struct symbol_process *p = container_of(base, struct symbol_process, base);
    int r;

    p->killed = false;
    r = resolve_once(base, q, ret, e);
    if (r < 0 && p->killed)
        r = resolve_once(base, q, ret, e);
    return r;
}

static int64_t cpu_ns(struct symbolizer *base)
{
    struct symbol_process *p = container_of(base, struct symbol_process, base);

    return p->spent_ns + child_cpu_ns(p->pid);
}

static void rest(struct symbolizer *base)
{
    stop(container_of(base, struct symbol_process, base));
}

static void process_free(struct symbolizer *base)
{
    struct symbol_process *p = container_of(base, struct symbol_process, base);

    stop(p);
    for (size_t i = 0; p->argv[i]; i++)
        mem_free(p->argv[i]);
    mem_free(p);
}

struct symbolizer *symbol_process_new(const char *const *argv, int timeout_ms)
{
    struct symbol_process *p = mem_zalloc(sizeof(*p));

    if (!p)
        return NULL;
    p->base = (struct symbolizer){resolve, process_free, ask, answer, cpu_ns, rest};
    p->timeout_ms = timeout_ms ? timeout_ms : TIMEOUT_DEFAULT_MS;
    p->fd = -1;
    for (size_t i = 0; argv[i] && i < ARGS_MAX; i++) {
        p->argv[i] = mem_strdup(argv[i]);
        if (!p->argv[i]) {
            process_free(&p->base);
            return NULL;
        }
    }
    return &p->base;
}

/* --- the child's side --- */
/* Appends n bytes to b. -ENODATA at the end of the stream. */
static int receive(int fd, struct buf *b, size_t n, int *ret_fd)
{
    while (n) {
        char *to = buf_reserve(b, MIN(n, 1u << 20));
        ssize_t got;
        int with;

        if (!to)
            return buf_error(b);
        got = fd_pass_receive(fd, to, MIN(n, 1u << 20), &with, 1, 0);
        if (with >= 0) {
            fd_close(*ret_fd);
            *ret_fd = with;
        }
        if (got <= 0)
            return got ? (int) got : -ENODATA;
        b->n += (size_t) got;
        n -= (size_t) got;
    }
    return 0;
}

/* One message without its length. */
static int receive_message(int fd, struct buf *b, uint32_t most, int *ret_fd)
{
    uint32_t n;
    int r = receive(fd, b, SYMBOL_WIRE_PREFIX, ret_fd);

    if (r < 0)
        return r;
    memcpy(&n, b->p, sizeof(n));
    if (n > most)
        return -EBADMSG;
    buf_reset(b);
    return receive(fd, b, n, ret_fd);
}

static int make_answer(struct symbolizer *s, struct str message, const int *fd, struct buf *out)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = NULL;
    struct symbol_request q;
    struct err e = {0};
    int r = symbol_wire_get_request(message, &q, &addresses);

    if (r < 0)
        return symbol_wire_put_error(out, r, "malformed request");
    q.fd = *fd >= 0 ? fd : NULL;
    r = symbolizer_resolve(s, &q, &a, &e);
    if (r >= 0)
        r = symbol_wire_put_answer(out, a);
    if (r >= 0)
        return r;
    buf_reset(out);
    return symbol_wire_put_error(out, r, err_message(&e, r));
}

int symbol_process_serve(int fd, struct symbolizer *s)
{
    for (;;) {
        _cleanup_(buf_done) struct buf in = BUF_INIT, out = BUF_INIT;
        _cleanup_(fd_closep) int binary = -1;
        int r = receive_message(fd, &in, SYMBOL_WIRE_REQUEST_MAX, &binary);

        if (r == -ENODATA)
            return 0;
        if (r >= 0)
            r = make_answer(s, buf_str(&in), &binary, &out);
        if (r >= 0)
            r = send_all(fd, buf_str(&out));
        if (r < 0)
            return r;
    }
}
