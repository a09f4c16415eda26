/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves /debug/pprof/ as Go's net/http/pprof does, on the background thread: few connections, one request each, all
 * with limits. A profile request opens a session and is answered when its seconds are over; the loop keeps running
 * until then.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "elf/elf.h"
#include "net/host_policy.h"
#include "net/http1.h"
#include "sdk/heap.h"
#include "sdk/heap_view.h"
#include "sdk/modules.h"
#include "sdk/name_query.h"
#include "sdk/provider.h"
#include "sdk/start.h"
#include "sdk/sys.h"
#include "sdk/thread_view.h"
#include "sdk/type_loan.h"

enum { CONNS_MAX = 16, REQUEST_MAX = 65536, HEADERS_MAX = 64, SECONDS_MAX = 3600, WAKE_MS = 100 };
#define LENT_NS (300 * NS_PER_S) /* a heap profile is useful only if it is requested again */

struct serve_conn {
    int fd; /* -1 = free */
    struct buf in, out;
    size_t sent;
    bool answering;
    struct provider_session *session; /* collecting a profile */
    int64_t until;                    /* end of the session, or of the idle time of the connection */
};

struct server {
    int fd;
    ino_t inode; /* inode of the listening socket */
    bool loopback;
    struct serve_conn conns[CONNS_MAX];
    struct type_loan loans[N_TYPES];
};

/* --- listening --- */
static int parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_n, struct err *e)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *) ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) ret;
    struct str s = str_from(text), host = s, port;
    char name[64];
    uint64_t n;
    uint32_t at = s.n;

    while (at && s.p[at - 1] != ':')
        at--;
    port = str_slice(s, at, s.n);
    host = at ? str_slice(s, 0, at - 1) : (struct str){0};
    if (!at || str_to_u64(port, 10, &n) < 0 || n > 65535)
        return err_set(e, -EINVAL, "address '%s' is not HOST:PORT", text);
    if (!host.n || str_is(host, "localhost"))
        host = STR("127.0.0.1");
    if (host.p[0] == '[' && host.n > 2)
        host = str_slice(host, 1, host.n - 1);
    if (host.n >= sizeof name)
        return err_set(e, -EINVAL, "address '%s': HOST must be an IP address or localhost", text);
    memcpy(name, host.p, host.n);
    name[host.n] = 0;
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, name, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t) n);
        *ret_n = sizeof *v4;
        return 0;
    }
    if (inet_pton(AF_INET6, name, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t) n);
        *ret_n = sizeof *v6;
        return 0;
    }
    return err_set(e, -EINVAL, "address '%s': HOST must be an IP address or localhost", text);
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *) a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *) a)->sin6_addr);
}

int server_listen(struct wick_provider *p, const char *address, struct err *e)
{
    struct sockaddr_storage a;
    socklen_t n = 0;
    struct server *s;
    struct stat st;
    int r, one = 1;

    if (p->server)
        return err_set(e, -EBUSY, "/debug/pprof is already being served");
    r = parse_address(address ? address : "", &a, &n, e);
    if (r < 0)
        return r;
    s = mem_zalloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    for (int i = 0; i < CONNS_MAX; i++)
        s->conns[i].fd = -1;
    s->loopback = is_loopback(&a);
    s->fd = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd >= 0)
        setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *) &a, n) < 0 || listen(s->fd, 16) < 0) {
        r = -errno;
        if (s->fd >= 0)
            close(s->fd);
        mem_free(s);
        return err_set(e, r, "cannot listen on %s: %m", address);
    }
    s->inode = fstat(s->fd, &st) == 0 ? st.st_ino : 0;
    n = sizeof a;
    getsockname(s->fd, (struct sockaddr *) &a, &n);
    p->server = s;
    return ntohs(((struct sockaddr_in *) &a)->sin_port); /* at the same offset for IPv6 */
}

/* --- connections --- */
/* Also called when the client has disconnected, so that its profile is no longer collected. */
static void end_session(struct wick_provider *p, struct serve_conn *c)
{
    int type;

    if (!c->session)
        return;
    type = c->session->type;
    session_end(p, c->session);
    c->session = NULL;
    type_loan_return(&p->server->loans[type], 0);
}

static void close_conn(struct wick_provider *p, struct serve_conn *c)
{
    end_session(p, c);
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    buf_done(&c->in);
    buf_done(&c->out);
    c->sent = 0;
    c->answering = false;
}

/* Closes it only if the descriptor is still our socket: the host may have closed all descriptors. */
static void close_listener(struct server *s)
{
    struct stat st;

    if (fstat(s->fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == s->inode)
        close(s->fd);
}

void server_forget(struct wick_provider *p)
{
    struct server *s = p->server;

    if (!s)
        return;
    for (int i = 0; i < CONNS_MAX; i++)
        s->conns[i].session = NULL; /* the list of sessions is already empty */
    for (int type = 0; type < N_TYPES; type++)
        s->loans[type].users = 0;
    type_loan_expire(p, s->loans, INT64_MAX);
    close_listener(s);
    mem_free(s);
    p->server = NULL;
}

void server_free(struct wick_provider *p)
{
    struct server *s = p->server;

    if (!s)
        return;
    for (int i = 0; i < CONNS_MAX; i++)
        close_conn(p, &s->conns[i]);
    close_listener(s);
    mem_free(s);
    p->server = NULL;
}

/* --- responses --- */
static void answer(struct serve_conn *c, int status, const char *type, const void *body, size_t n, const char *extra)
{
    const char *reason = status == 200   ? "OK"
                         : status == 400 ? "Bad Request"
                         : status == 403 ? "Forbidden"
                         : status == 404 ? "Not Found"
                         : status == 405 ? "Method Not Allowed"
                                         : "Internal Server Error";

    buf_printf(&c->out,
               "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nX-Content-Type-Options: nosniff\r\n"
               "Connection: close\r\n%s\r\n",
               status, reason, type, n, extra);
    buf_put(&c->out, body, n);
    c->answering = true;
    c->until = clock_mono() + 30 * NS_PER_S;
}

static void refuse(struct serve_conn *c, int status, const char *message)
{
    answer(c, status, "text/plain; charset=utf-8", message, strlen(message), "X-Go-Pprof: 1\r\n");
}

/* s is an open session, or one that was filled only for this response. */
static void answer_profile(struct wick_provider *p, struct serve_conn *c, struct provider_session *s, const char *name,
                           bool text)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct err e = {0};
    char extra[96] = "Content-Disposition: attachment; filename=\"";

    if (session_answer(p, s, text, &out, &e) < 0) {
        refuse(c, 500, e.message);
        return;
    }
    strncat(extra, name, 20);
    strncat(extra, "\"\r\n", 4);
    answer(c, 200, text ? "text/plain; charset=utf-8" : "application/octet-stream", out.p, out.n, text ? "" : extra);
}

static const struct {
    const char *name, *text;
} profiles[] = {
    {"allocs", "A sampling of all past memory allocations. With seconds=N: of those in N seconds from now."},
    {"block", "The same as mutex."},
    {"cmdline", "The command line of the program, words separated by NUL bytes."},
    {"goroutine", "Stack traces of all threads; they are not stopped. Use debug=2 to read one after the other."},
    {"heap", "A sampling of memory allocations of live objects."},
    {"mutex", "Time spent waiting for mutexes and rwlocks, by waiter."},
    {"profile", "CPU profile. The duration is given by seconds=N; look at it with go tool pprof."},
    {"symbol", "Names of the addresses given as 0xADDR+0xADDR, by POST or as the query."},
    {"threadcreate", "Stack traces that led to the creation of threads."},
    {"wall", "Wall-clock profile over seconds=N; sleeping threads are not woken."},
};

static int count_of(struct wick_provider *p, const char *name)
{
    int threads = 0;

    for (uint32_t i = 0, n = atomic_load(&core.n_thrs); i < n; i++)
        threads += thr_at(i) && atomic_load(&thr_at(i)->state) == THR_ACTIVE;
    if (strcmp(name, "allocs") == 0 || strcmp(name, "heap") == 0)
        return (int) heap_view_count();
    if (strcmp(name, "block") == 0 || strcmp(name, "mutex") == 0)
        return (int) p->file_totals[TYPE_LOCK].n;
    return strcmp(name, "goroutine") == 0 || strcmp(name, "threadcreate") == 0 ? threads : 0;
}

/* The layout is the same as Go's. */
static void answer_index(struct wick_provider *p, struct serve_conn *c)
{
    static const char *const names[N_TYPES] = {"cpu", "wall", "alloc", "heap", "lock"};
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_puts(&b, "<!doctype html>\n<html>\n<head>\n<title>/debug/pprof/</title>\n"
                 "<style>.profile-name{display:inline-block;width:6rem}</style>\n</head>\n<body>\n/debug/pprof/<br>\n"
                 "<p>Set debug=1 as a query parameter to export in legacy text format</p>\n"
                 "<p>Types of profiles available:</p>\n<table>\n<thead><td>Count</td><td>Profile</td></thead>\n");
    for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
        bool timed = !strcmp(profiles[i].name, "profile") || !strcmp(profiles[i].name, "wall");

        buf_printf(&b, "<tr><td>%d</td><td><a href='%s?%s'>%s</a></td></tr>\n", count_of(p, profiles[i].name),
                   profiles[i].name, timed ? "seconds=10" : "debug=1", profiles[i].name);
    }
    buf_puts(&b, "</table>\n<p>Sampled now:");
    for (int type = 0; type < N_TYPES; type++)
        if (core.types & (1u << type))
            buf_printf(&b, " %s", names[type]);
    buf_puts(&b, "</p>\n<a href=\"goroutine?debug=2\">full goroutine stack dump</a><br>\n"
                 "<p>Profile Descriptions:</p>\n<ul>\n");
    for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
        buf_printf(&b, "<li><div class=profile-name>%s:</div> %s</li>\n", profiles[i].name, profiles[i].text);
    buf_puts(&b, "</ul>\n<p><code>go tool pprof http://HOST:PORT/debug/pprof/profile?seconds=30</code></p>\n"
                 "</body>\n</html>\n");
    answer(c, 200, "text/html; charset=utf-8", b.p, b.n, "");
}

static void answer_cmdline(struct serve_conn *c)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    fd_read_file("/proc/self/cmdline", 1 << 20, &b, NULL);
    if (b.n && !b.p[b.n - 1])
        b.n--;
    answer(c, 200, "text/plain; charset=utf-8", b.p, b.n, "");
}

/* One of the addresses of a request, and the file that it is in. */
struct asked_address {
    uint64_t pc;
    const struct module *module;
};

static size_t read_addresses(struct str body, struct asked_address *ret, size_t max)
{
    const struct module_set *set = atomic_load(&core.modules);
    size_t n = 0;

    while (body.n && n < max && set) {
        struct asked_address one = {0};

        if (str_to_u64(str_trim(str_cut(&body, '+')), 16, &one.pc) == 0 && (one.module = modules_find(set, one.pc)))
            ret[n++] = one;
    }
    return n;
}

/* Names all addresses that are in the file, which is read once. */
static void name_addresses(uint32_t file, const struct asked_address *v, size_t n, struct name_query *q,
                           struct buf *out)
{
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        if (v[i].module->file == file)
            q[k++] = (struct name_query){.address = v[i].pc - v[i].module->bias, .index = (uint32_t) i};
    if (!k || modules_open(modules_file(file), &f) < 0)
        return;
    name_query_sort(q, k);
    name_query(f, q, k);
    for (size_t i = 0; i < k; i++)
        if (q[i].name.n)
            buf_printf(out, "0x%llx %.*s\n", (unsigned long long) v[q[i].index].pc, STR_FMT(q[i].name));
}

/* Names for run-time addresses, which pprof requests when a profile has none: 0xADDR+0xADDR. */
static void answer_symbol(struct serve_conn *c, struct str body)
{
    size_t max = body.n / 2 + 1, n;
    _cleanup_(mem_freep) struct asked_address *v = mem_alloc(max * sizeof *v);
    _cleanup_(mem_freep) struct name_query *q = mem_alloc(max * sizeof *q);
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (!v || !q) {
        refuse(c, 500, "out of memory\n");
        return;
    }
    buf_puts(&b, "num_symbols: 1\n");
    n = read_addresses(body, v, max);
    for (uint32_t file = 1; n && file < modules_files(); file++)
        name_addresses(file, v, n, q, &b);
    answer(c, 200, "text/plain; charset=utf-8", b.p, b.n, "");
}

/* --- requests --- */
struct serve_request {
    struct str method, path, query, host, body;
};

static struct str query_value(struct str query, const char *name)
{
    while (query.n) {
        struct str item = str_cut(&query, '&'), key = str_cut(&item, '=');

        if (str_is(key, name))
            return item;
    }
    return (struct str){0};
}

/* Opens a session that is answered when its seconds are over. */
static void begin_profile(struct wick_provider *p, struct serve_conn *c, int type, struct str query)
{
    struct str text = query_value(query, "seconds");
    bool window = type == TYPE_HEAP || type == TYPE_LOCK;
    uint64_t seconds = 30;
    struct err e = {0};

    if (text.n && (str_to_u64(text, 10, &seconds) < 0 || seconds == 0 || seconds > SECONDS_MAX)) {
        refuse(c, 400, "seconds must be a number from 1 to 3600\n");
        return;
    }
    if (type_loan_take(p, p->server->loans, type, &e) < 0) {
        refuse(c, 500, e.message);
        return;
    }
    c->session = window ? session_begin_window(p, type) : session_begin(p, type);
    if (!c->session) {
        type_loan_return(&p->server->loans[type], 0);
        refuse(c, 500, "out of memory\n");
        return;
    }
    c->until = c->session->start_mono + (int64_t) seconds * NS_PER_S;
}

static bool wants_text(struct str query)
{
    uint64_t debug = 0;

    return str_to_u64(query_value(query, "debug"), 10, &debug) == 0 && debug > 0;
}

/* heap, allocs, mutex, block: since the start, or over ?seconds= */
static void answer_total(struct wick_provider *p, struct serve_conn *c, int type, const char *name, struct str query)
{
    struct provider_session s = {.type = type};
    struct err e = {0};

    if (query_value(query, "seconds").n) {
        begin_profile(p, c, type, query);
    } else if (type_loan_take(p, p->server->loans, type, &e) < 0) {
        refuse(c, 500, e.message);
    } else {
        answer_profile(p, c, &s, name, wants_text(query));
        type_loan_return(&p->server->loans[type], clock_mono() + LENT_NS);
    }
}

static void answer_threads(struct wick_provider *p, struct serve_conn *c, int type, struct str query)
{
    struct provider_session s = {.type = type, .start_wall = clock_wall(), .start_mono = clock_mono()};
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    background_drain(p);
    agg_init(&s.agg, p->s.max_samples);
    (type == TYPE_GOROUTINE ? thread_view_now : thread_view_created)(&s.agg);
    if (type == TYPE_GOROUTINE && str_is(query_value(query, "debug"), "2")) {
        session_answer(p, &s, true, &b, NULL); /* looks up all lines at once */
        buf_reset(&b);
        thread_view_print(&b);
        answer(c, 200, "text/plain; charset=utf-8", b.p, b.n, "");
    } else {
        answer_profile(p, c, &s, type == TYPE_GOROUTINE ? "goroutine" : "threadcreate", wants_text(query));
    }
    agg_done(&s.agg);
}

/* If it listens on a non-loopback address, the endpoint is exposed on purpose, under any host name. */
static bool host_is_allowed(const struct server *s, struct str host)
{
    return !s->loopback || host_policy_allows(host, NULL);
}

static void handle(struct wick_provider *p, struct serve_conn *c, const struct serve_request *q)
{
    struct str name = q->path;

    if (!host_is_allowed(p->server, q->host)) {
        refuse(c, 403, "unknown host name: use localhost or an IP address\n");
        return;
    }
    if (!str_is(q->method, "GET") && !str_is(q->method, "POST") && !str_is(q->method, "HEAD")) {
        refuse(c, 405, "only GET and POST are supported\n");
        return;
    }
    if (!str_starts(name, STR("/debug/pprof"))) {
        refuse(c, 404, "not found; see /debug/pprof/\n");
        return;
    }
    name = str_slice(name, 12, name.n);
    if (!name.n || str_is(name, "/"))
        answer_index(p, c);
    else if (str_is(name, "/profile"))
        begin_profile(p, c, TYPE_CPU, q->query);
    else if (str_is(name, "/wall"))
        begin_profile(p, c, TYPE_WALL, q->query);
    else if (str_is(name, "/heap") || str_is(name, "/allocs"))
        answer_total(p, c, TYPE_HEAP, str_is(name, "/heap") ? "heap" : "allocs", q->query);
    else if (str_is(name, "/mutex") || str_is(name, "/block"))
        answer_total(p, c, TYPE_LOCK, "mutex", q->query);
    else if (str_is(name, "/goroutine"))
        answer_threads(p, c, TYPE_GOROUTINE, q->query);
    else if (str_is(name, "/threadcreate"))
        answer_threads(p, c, TYPE_THREADCREATE, q->query);
    else if (str_is(name, "/cmdline"))
        answer_cmdline(c);
    else if (str_is(name, "/symbol"))
        answer_symbol(c, q->body.n ? q->body : q->query);
    else
        refuse(c, 404, "Unknown profile\n");
}

/* Returns 1 if the request is complete, 0 if more bytes are needed, negative if it is not a valid request. */
static int parse_request(struct serve_conn *c, struct serve_request *q)
{
    static const struct http1_limits limits = {REQUEST_MAX, HEADERS_MAX};
    _cleanup_(arena_done) struct arena a = {0}; /* of the list of headers; their text is in c->in */
    ssize_t n = http1_head_length(c->in.p, c->in.n, 0, REQUEST_MAX);
    struct http1_head h;
    int r;

    if (n <= 0)
        return (int) n;
    arena_init(&a, 0);
    r = http1_parse_request(c->in.p, (size_t) n, &limits, &a, &h, NULL);
    if (r < 0)
        return r;
    if (h.framing == HTTP1_CHUNKED || h.content_length > REQUEST_MAX)
        return -EMSGSIZE;
    if (c->in.n < (size_t) n + h.content_length)
        return 0;
    q->method = h.method;
    q->query = h.target;
    q->path = str_cut(&q->query, '?');
    q->host = http_headers_get(&h.headers, "host");
    q->body = (struct str){c->in.p + n, (uint32_t) h.content_length};
    return 1;
}

static void read_conn(struct wick_provider *p, struct serve_conn *c)
{
    struct serve_request q = {0};
    char *room = buf_reserve(&c->in, 4096);
    ssize_t n = room ? recv(c->fd, room, 4096, 0) : -1;
    int r;

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close_conn(p, c);
        return;
    }
    if (n < 0 || c->session || c->answering)
        return;
    c->in.n += (size_t) n;
    r = parse_request(c, &q);
    if (r > 0)
        handle(p, c, &q);
    else if (r < 0)
        refuse(c, 400, r == -EMSGSIZE ? "request too large\n" : "not a valid HTTP/1.1 request\n");
}

static void write_conn(struct wick_provider *p, struct serve_conn *c)
{
    ssize_t n;

    if (buf_error(&c->out)) {
        close_conn(p, c);
        return;
    }
    n = send(c->fd, c->out.p + c->sent, c->out.n - c->sent, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        c->sent += (size_t) n;
    if (n < 0 || c->sent == c->out.n)
        close_conn(p, c);
}

static void check_time(struct wick_provider *p, struct serve_conn *c, int64_t now)
{
    if (now < c->until)
        return;
    if (c->session) {
        int type = c->session->type;

        answer_profile(p, c, c->session, type == TYPE_CPU ? "profile" : type == TYPE_WALL ? "wall" : "delta", false);
        end_session(p, c);
    } else {
        close_conn(p, c);
    }
}

static void accept_conn(struct server *s)
{
    int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    for (int i = 0; fd >= 0 && i < CONNS_MAX; i++)
        if (s->conns[i].fd < 0) {
            s->conns[i] = (struct serve_conn){.fd = fd, .until = clock_mono() + 10 * NS_PER_S};
            return;
        }
    if (fd >= 0)
        close(fd);
}

/* Sleeps until it is woken. */
static void wait_for_wake(int timeout_ms)
{
    struct timespec t = {timeout_ms / 1000, timeout_ms % 1000 * 1000000l};

    if (timeout_ms > 0)
        sys_call(SYS_futex, (long) &core.wake, FUTEX_WAIT_PRIVATE, 0, (long) &t);
    atomic_store(&core.wake, 0);
}

static void serve_conns(struct wick_provider *p, const struct pollfd *fds)
{
    struct server *s = p->server;
    int64_t now = clock_mono();

    if (fds[0].revents)
        accept_conn(s);
    for (int i = 0; i < CONNS_MAX; i++) {
        struct serve_conn *c = &s->conns[i];

        if (c->fd < 0 || c->fd != fds[i + 1].fd)
            continue;
        if (fds[i + 1].revents & (POLLIN | POLLHUP | POLLERR) && !c->answering)
            read_conn(p, c);
        if (c->fd >= 0)
            check_time(p, c, now);
        if (c->fd >= 0 && c->answering)
            write_conn(p, c);
    }
    type_loan_expire(p, s->loans, now);
}

/* While there are sockets to poll, a wake-up is noticed after WAKE_MS at the latest. */
void server_poll(struct wick_provider *p, int timeout_ms)
{
    struct pollfd fds[CONNS_MAX + 1];
    struct server *s = p->server;
    int64_t now = clock_mono();

    if (!s) {
        wait_for_wake(timeout_ms);
        return;
    }
    fds[0] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    for (int i = 0; i < CONNS_MAX; i++) {
        struct serve_conn *c = &s->conns[i];

        fds[i + 1] = (struct pollfd){.fd = c->fd, .events = c->answering ? POLLOUT : POLLIN};
        if (c->fd >= 0)
            timeout_ms = (int) MIN((int64_t) timeout_ms, MAX((c->until - now) / NS_PER_MS + 1, 0ll));
    }
    for (int left = timeout_ms, slice, r;; left -= slice) {
        slice = MIN(left, (int) WAKE_MS);
        r = poll(fds, ARRAY_SIZE(fds), slice);
        if (r != 0 || left <= slice || atomic_load(&core.wake))
            break;
    }
    atomic_store(&core.wake, 0);
    serve_conns(p, fds);
}
