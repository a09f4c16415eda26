/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of the process that reads binaries for the agent (file_reader.h). A message is a struct, with addresses
 * after a request and descriptors beside it; the socket keeps messages apart. */
#include "agent/reader/file_reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "proc/proc_stat.h"

enum { ARGS_MAX = 8, DEADLY_MAX = 1024, STARTS_BURST = 8, DEATHS_MAX = 2 };
static const int64_t CPU_MAX_NS = 10 * NS_PER_S, WAIT_MAX_NS = 60 * NS_PER_S; /* of one request */
static const int64_t STILL_MAX_NS =
    2 * NS_PER_S; /* a file that is not delivered, as by a server that does not answer */

struct patience {
    int64_t begin, cpu_begin, still, cpu; /* still: when it was last seen to run, with that much CPU time */
};

struct file_reader {
    char *argv[ARGS_MAX + 1];
    pid_t pid;
    int fd;
    int64_t spent_ns;       /* CPU time of processes that have ended */
    double starts;          /* how often it may be started now */
    int64_t starts_told_ns; /* when that was computed */
    uint64_t deaths;
    struct {
        uint64_t file; /* hash of what identifies it */
        unsigned deaths;
    } deadly[DEADLY_MAX]; /* by hash; a later file may take the place of another one */
    struct log_limit death_log;
};

static int stop(struct file_reader *r)
{
    int status = 0;

    if (r->pid)
        status = child_end(r->pid, r->fd, &r->spent_ns);
    r->pid = 0;
    r->fd = -1;
    return status;
}

static int start(struct file_reader *r, struct err *e)
{
    int64_t now = clock_mono();
    int code;

    r->starts = MIN(r->starts + (double) (now - r->starts_told_ns) / (double) NS_PER_S, (double) STARTS_BURST);
    r->starts_told_ns = now;
    if (r->starts < 1)
        return -EBUSY;
    r->starts--;
    code = child_on_socket(r->argv, SOCK_SEQPACKET, &r->pid, &r->fd, e);
    if (code < 0)
        r->pid = 0;
    return code;
}

/* --- files that end the process --- */
static uint64_t file_hash(const int fds[2])
{
    uint64_t h = 0;
    struct stat st;

    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0 && fd_stat(fds[i], &st) == 0)
            h = hash_mix(h ^ hash64_u64(st.st_ino), hash64_u64((uint64_t) st.st_dev ^ (uint64_t) st.st_mtim.tv_nsec) ^
                                                        (uint64_t) st.st_mtim.tv_sec);
    return h;
}

static bool is_deadly(const struct file_reader *r, uint64_t file)
{
    unsigned i = (unsigned) (file % DEADLY_MAX);

    return r->deadly[i].file == file && r->deadly[i].deaths >= DEATHS_MAX;
}

static void blame(struct file_reader *r, uint64_t file)
{
    unsigned i = (unsigned) (file % DEADLY_MAX);

    if (r->deadly[i].file != file)
        r->deadly[i].deaths = 0;
    r->deadly[i].file = file;
    r->deadly[i].deaths++;
}

/* --- a request --- */
static int send_request(struct file_reader *r, const struct file_request *q, const int fds[2])
{
    struct iovec io[2] = {{(void *) (uintptr_t) q, sizeof *q},
                          {(void *) (uintptr_t) q->addresses, q->n_addresses * sizeof *q->addresses}};
    size_t n_fds = (fds[0] >= 0) + (fds[0] >= 0 && fds[1] >= 0);
    ssize_t n = fd_pass_send(r->fd, io, q->n_addresses ? 2 : 1, fds, n_fds);

    return n < 0 ? (int) n : 0;
}

/* Why a process that has no answer yet gets no more time; 0: it gets more. The limits are on its CPU time, and on the time in
 * which it could run and did not, so that a busy machine is not taken for a hostile file. */
static int is_late(const struct file_reader *r, struct patience *w)
{
    int64_t cpu = child_cpu_ns(r->pid), now = clock_mono();
    struct proc_stat st;

    if (cpu - w->cpu_begin > CPU_MAX_NS || now - w->begin > WAIT_MAX_NS)
        return -ETIMEDOUT;
    if (cpu != w->cpu || proc_stat_read(r->pid, &st) < 0 || st.state == 'R') {
        w->cpu = cpu;
        w->still = now;
        return 0;
    }
    if (st.state == 'T' || st.state == 't')
        return -ECHILD; /* someone stopped it: no file is to blame */
    return now - w->still > STILL_MAX_NS ? -ETIMEDOUT : 0;
}

static int receive_answer(struct file_reader *r, struct file_answer *ret, int *ret_fd)
{
    struct patience w = {.begin = clock_mono(), .cpu_begin = child_cpu_ns(r->pid)};
    ssize_t n;

    w.cpu = w.cpu_begin;
    w.still = w.begin;
    for (;;) {
        struct pollfd there = {.fd = r->fd, .events = POLLIN};
        int late;

        if (poll(&there, 1, 200) > 0)
            break;
        late = is_late(r, &w);
        if (late < 0)
            return late;
    }
    n = fd_pass_receive(r->fd, ret, sizeof *ret, ret_fd, 1, MSG_DONTWAIT);
    if (n <= 0)
        return n ? (int) n : -ENODATA;
    return (size_t) n == sizeof *ret ? 0 : -EBADMSG;
}

/* Ends the process after a failure. Returns whether someone else had killed it, so that the file is not to blame. */
static bool is_killed(struct file_reader *r, int code)
{
    int status = stop(r);

    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM) && code != -ETIMEDOUT &&
           code != -EBADMSG;
}

static void log_death(struct file_reader *r, const struct file_request *q, int code)
{
    uint64_t held;

    r->deaths++;
    if (!log_limited(&r->death_log, 60 * NS_PER_S, &held))
        return;
    log_warn("the process that reads binaries %s at '%s'; other files are not affected (%llu times in all)",
             code == -ETIMEDOUT ? "took too long"
             : code == -EBADMSG ? "gave an invalid answer"
                                : "died",
             q->is_vdso ? "[vdso]" : q->path, (unsigned long long) r->deaths);
}

/* A process that died while it was idle is replaced: no file is to blame. */
static void forget_dead(struct file_reader *r)
{
    struct pollfd gone = {.fd = r->fd};

    if (r->pid && poll(&gone, 1, 0) > 0 && gone.revents & (POLLHUP | POLLERR))
        stop(r);
}

static int ask_once(struct file_reader *r, const struct file_request *q, const int fds[2], struct file_answer *ret,
                    int *ret_fd, struct err *e)
{
    int code = 0;

    forget_dead(r);
    if (!r->pid)
        code = start(r, e);
    if (code < 0)
        return -EBUSY;
    code = send_request(r, q, fds);
    if (code == 0)
        code = receive_answer(r, ret, ret_fd);
    if (code == 0 && !file_answer_is_valid(q, ret))
        code = -EBADMSG;
    return code;
}

int file_reader_ask(struct file_reader *r, const struct file_request *q, const int fds[2], struct file_answer *ret,
                    int *ret_fd)
{
    uint64_t file = r ? file_hash(fds) : 0;
    int fd = -1, code = 0;

    if (ret_fd)
        *ret_fd = -1;
    if (r && is_deadly(r, file))
        return -EIO;
    for (int i = 0; r && i < 2; i++) { /* a process that someone killed is replaced at once */
        code = ask_once(r, q, fds, ret, &fd, NULL);
        if (code == 0 || code == -EBUSY)
            break;
        fd_close(fd);
        fd = -1;
        if (is_killed(r, code) && i == 0)
            continue;
        blame(r, file);
        log_death(r, q, code);
        return -EIO;
    }
    if (!r)
        file_work(q, fds, ret, &fd);
    if (code < 0)
        return code;
    if (ret_fd)
        *ret_fd = fd;
    else
        fd_close(fd);
    return ret->code;
}

void file_reader_distrust(struct file_reader *r)
{
    if (!r)
        return;
    stop(r);
    r->deaths++;
}

int file_reader_new(const char *const *argv, struct file_reader **ret, struct err *e)
{
    struct file_request q = {.op = FILE_FACTS, .is_vdso = 1};
    struct file_reader *r = mem_zalloc(sizeof *r);
    struct file_answer a;
    int none[2] = {-1, -1}, fd = -1, code = r ? 0 : -ENOMEM;

    if (!r)
        return code;
    r->fd = -1;
    r->starts = STARTS_BURST;
    r->starts_told_ns = clock_mono();
    for (size_t i = 0; argv[i] && i < ARGS_MAX && code == 0; i++)
        code = (r->argv[i] = mem_strdup(argv[i])) ? 0 : -ENOMEM;
    if (code == 0)
        code = ask_once(r, &q, none, &a, &fd, e);
    fd_close(fd);
    if (code < 0) {
        file_reader_free(r);
        return err_set(e, -EIO, "cannot start the confined process that reads binaries (%s)", argv[0]);
    }
    *ret = r;
    return 0;
}

void file_reader_free(struct file_reader *r)
{
    if (!r)
        return;
    stop(r);
    for (size_t i = 0; r->argv[i]; i++)
        mem_free(r->argv[i]);
    mem_free(r);
}

int64_t file_reader_cpu_ns(const struct file_reader *r)
{
    return r ? r->spent_ns + child_cpu_ns(r->pid) : 0;
}

uint64_t file_reader_deaths(const struct file_reader *r)
{
    return r ? r->deaths : 0;
}

/* --- the process's side --- */
int file_reader_serve(int fd)
{
    static struct {
        struct file_request q;
        uint64_t addresses[FILE_ADDRESSES_MAX];
    } in;

    for (;;) {
        struct file_answer a;
        struct iovec io = {&a, sizeof a};
        int fds[2], out = -1;
        ssize_t n = fd_pass_receive(fd, &in, sizeof in, fds, 2, 0);

        if (n <= 0)
            return (int) n;
        if ((size_t) n < sizeof in.q || in.q.n_addresses > FILE_ADDRESSES_MAX ||
            (size_t) n != sizeof in.q + in.q.n_addresses * sizeof *in.addresses)
            return -EBADMSG;
        in.q.addresses = in.addresses;
        file_work(&in.q, fds, &a, &out);
        fd_close(fds[0]);
        fd_close(fds[1]);
        n = fd_pass_send(fd, &io, 1, &out, out >= 0);
        fd_close(out);
        if (n < 0)
            return (int) n;
    }
}
