/* SPDX-License-Identifier: Apache-2.0 */
/* See symbol_process.h. The child's confinement is in symbol_confine.c. */
#include "dwarf/symbol_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "dwarf/symbol_wire.h"

extern char **environ;

enum { ARGS_MAX = 16, DEADLY_MAX = 256, TIMEOUT_DEFAULT_MS = 60000 };

struct symbol_process {
    struct symbolizer base;
    char *argv[ARGS_MAX + 1];
    int timeout_ms, fd;
    pid_t pid;
    struct {
        uint64_t binary; /* hash of path and build id */
        unsigned deaths;
    } deadly[DEADLY_MAX];
    unsigned n_deadly;
};

static int start(struct symbol_process *p, struct err *e)
{
    posix_spawn_file_actions_t fa;
    int ends[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(e, -errno, "cannot make a socket pair: %m");
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&fa, ends[1], STDOUT_FILENO);
    r = -posix_spawn(&p->pid, p->argv[0], &fa, NULL, p->argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    fd_close(ends[1]);
    if (r < 0) {
        fd_close(ends[0]);
        p->pid = 0;
        return err_set(e, r, "cannot start the symbolizer '%s': %m", p->argv[0]);
    }
    p->fd = ends[0];
    return 0;
}

/* Ends the child, if there is one; its wait status. */
static int stop(struct symbol_process *p)
{
    int status = 0;

    if (!p->pid)
        return 0;
    fd_close(p->fd);
    kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
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

/* Fills n bytes behind b until the deadline (0: none). -ENODATA at the end of the stream. */
static int receive(int fd, struct buf *b, size_t n, int64_t deadline)
{
    while (n) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline ? (deadline - clock_mono()) / 1000000 : -1;
        char *to = buf_reserve(b, MIN(n, 1u << 20));
        ssize_t got;

        if (!to)
            return buf_error(b);
        if (deadline && left <= 0)
            return -ETIMEDOUT;
        if (poll(&p, 1, (int) left) <= 0)
            continue;
        got = recv(fd, to, MIN(n, 1u << 20), 0);
        if (got == 0)
            return -ENODATA;
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got > 0) {
            b->n += (size_t) got;
            n -= (size_t) got;
        }
    }
    return 0;
}

/* One message without its length. */
static int receive_message(int fd, struct buf *b, uint32_t most, int64_t deadline)
{
    uint32_t n;
    int r = receive(fd, b, SYMBOL_WIRE_PREFIX, deadline);

    if (r < 0)
        return r;
    memcpy(&n, b->p, sizeof(n));
    if (n > most)
        return -EBADMSG;
    buf_reset(b);
    return receive(fd, b, n, deadline);
}

static unsigned *deaths_of(struct symbol_process *p, const struct symbol_request *q, bool add)
{
    uint64_t h = hash_mix(hash64_str(q->path), ~hash64_str(q->build_id));

    for (unsigned i = 0; i < p->n_deadly; i++)
        if (p->deadly[i].binary == h)
            return &p->deadly[i].deaths;
    if (!add || p->n_deadly == DEADLY_MAX)
        return NULL;
    p->deadly[p->n_deadly].binary = h;
    p->deadly[p->n_deadly].deaths = 0;
    return &p->deadly[p->n_deadly++].deaths;
}

static int died(struct symbol_process *p, const struct symbol_request *q, int r, struct err *e)
{
    unsigned *deaths = deaths_of(p, q, true);
    int status = stop(p);

    if (deaths)
        ++*deaths;
    if (r == -ETIMEDOUT)
        return err_set(e, -ETIMEDOUT, "the symbolizer took longer than %d ms for '%.*s'", p->timeout_ms,
                       STR_FMT(q->path));
    if (r == -EBADMSG)
        return err_set(e, -EIO, "the symbolizer's answer about '%.*s' makes no sense", STR_FMT(q->path));
    if (r == -ENOMEM)
        return r;
    return err_set(e, -EIO, "the symbolizer died of '%.*s' (%s %d)", STR_FMT(q->path),
                   WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : status >> 8);
}

static int resolve(struct symbolizer *base, const struct symbol_request *q, struct symbol_answer **ret, struct err *e)
{
    struct symbol_process *p = container_of(base, struct symbol_process, base);
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    unsigned *deaths = deaths_of(p, q, false);
    int64_t deadline;
    int r = symbol_wire_put_request(&b, q);

    if (r < 0)
        return err_set(e, r, "the request about '%.*s' is too large", STR_FMT(q->path));
    if (deaths && *deaths >= 2)
        return err_set(e, -EIO, "the symbolizer died of '%.*s' before: not tried again", STR_FMT(q->path));
    if (!p->pid) {
        r = start(p, e);
        if (r < 0)
            return r;
    }
    deadline = clock_mono() + (int64_t) p->timeout_ms * 1000000;
    r = send_all(p->fd, buf_str(&b));
    buf_reset(&b);
    if (r >= 0)
        r = receive_message(p->fd, &b, SYMBOL_WIRE_ANSWER_MAX, deadline);
    if (r < 0)
        return died(p, q, r, e);
    if (e)
        *e = (struct err){0};
    r = symbol_wire_get_answer(buf_str(&b), q->n_addresses, ret, e);
    return r == -EBADMSG ? died(p, q, r, e) : r;
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
    p->base = (struct symbolizer){resolve, process_free};
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

static int answer(struct symbolizer *s, struct str message, struct buf *out)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    _cleanup_(mem_freep) uint64_t *addresses = NULL;
    struct symbol_request q;
    struct err e = {0};
    int r = symbol_wire_get_request(message, &q, &addresses);

    if (r < 0)
        return symbol_wire_put_error(out, r, "a malformed request");
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
        int r = receive_message(fd, &in, SYMBOL_WIRE_REQUEST_MAX, 0);

        if (r == -ENODATA)
            return 0;
        if (r >= 0)
            r = answer(s, buf_str(&in), &out);
        if (r >= 0)
            r = send_all(fd, buf_str(&out));
        if (r < 0)
            return r;
    }
}
