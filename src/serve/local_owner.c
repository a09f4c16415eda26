/* SPDX-License-Identifier: Apache-2.0 */
/* A sink that adds process.pid, process.executable.path and host.name to batches of local senders (local_owner.h). */
#include "serve/local_owner.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "host/agent_feed.h"
#include "model/batch.h"
#include "model/semconv.h"
#include "model/sink.h"
#include "pipeline/processors/kvs_edit.h"
#include "proc/proc_stat.h"
#include "proc/socket_owner.h"
#include "server/workers.h"

enum { WAITING_MAX = 256, KNOWN = 64, ANSWER_MS = 8000, TENANT_MAX = 256 };
static const int64_t KNOWN_NS = 20 * NS_PER_S; /* a port may belong to another process later */

struct local_known {
    char address[SOCKET_ADDRESS_MAX];
    int64_t until;
    bool found;
    struct socket_owner owner;
};

struct local_owner {
    struct sink sink, *next;
    struct agent_feed *agent;
    struct workers *workers;
    char host[256];
    struct local_known *known; /* used by the worker's thread only */
    size_t next_known;
};

struct local_job {
    struct worker_job job;
    struct local_owner *o;
    struct batch *b;
    struct ack *ack;
    struct sink_context ctx;
    char tenant[TENANT_MAX], address[SOCKET_ADDRESS_MAX], peer[SOCKET_ADDRESS_MAX];
};

/* --- which batches --- */

static bool has_pid(const struct resource *r)
{
    for (uint32_t i = 0; i < r->attrs.n; i++)
        if (str_is(r->attrs.v[i].key, SEMCONV_PROCESS_PID))
            return true;
    return false;
}

static bool says_all(const struct batch *b)
{
    for (uint32_t i = 0; i < b->n_resources; i++)
        if (!has_pid(&b->resources[i]))
            return false;
    return true;
}

/* The address in "127.0.0.1:41000", "http://localhost:6060/x", "[::1]:6060"; false when it is not a loopback address. */
static bool loopback_address(const char *peer, char ret[SOCKET_ADDRESS_MAX])
{
    struct str s = str_from(peer), host;
    const char *scheme = strstr(peer, "://");
    uint32_t colon;

    if (scheme)
        s = str_from(scheme + 3);
    for (uint32_t i = 0; i < s.n; i++)
        if (s.p[i] == '/')
            s.n = i;
    for (colon = s.n; colon && s.p[colon - 1] != ':';)
        colon--;
    if (colon < 2 || s.n >= SOCKET_ADDRESS_MAX - 16)
        return false;
    host = str_slice(s, 0, colon - 1);
    if (str_is(host, "localhost"))
        host = STR("127.0.0.1");
    if (!str_starts(host, STR("127.")) && !str_is(host, "[::1]"))
        return false;
    snprintf(ret, SOCKET_ADDRESS_MAX, "%.*s:%.*s", STR_FMT(host), STR_FMT(str_slice(s, colon, s.n)));
    return true;
}

/* --- the question --- */

/* Reads the answer to its end; -ETIMEDOUT when it takes too long. */
static int read_answer(int fd, char *ret, size_t size)
{
    int64_t end = clock_mono() + ANSWER_MS * NS_PER_MS;
    size_t n = 0;

    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        int64_t left = (end - clock_mono()) / NS_PER_MS;
        ssize_t k;

        if (left <= 0 || poll(&p, 1, (int) left) <= 0)
            return -ETIMEDOUT;
        k = read(fd, ret + n, size - 1 - n);
        if (k < 0)
            return -errno;
        n += (size_t) k;
        if (k == 0 || n == size - 1)
            break;
    }
    ret[n] = 0;
    return 0;
}

static bool ask_agent(struct local_owner *o, const char *address, struct socket_owner *ret)
{
    char text[PATH_MAX + 64];
    int fds[2], r = agent_feed_owner(o->agent, address, fds, NULL);

    if (r < 0)
        return false;
    r = read_answer(fds[0], text, sizeof text);
    fd_close(fds[0]);
    fd_close(fds[1]);
    return r == 0 && socket_owner_parse(text, ret) == 0;
}

/* False when its process has exited, and the answer is therefore out of date. */
static bool still_runs(const struct socket_owner *s)
{
    struct proc_stat st;

    return proc_stat_read(s->pid, &st) == 0 && st.start_ticks == s->start_ticks;
}

static const struct local_known *look_up(struct local_owner *o, const char *address)
{
    int64_t now = clock_mono();
    struct local_known *k;

    for (size_t i = 0; i < KNOWN; i++) {
        k = &o->known[i];
        if (strcmp(k->address, address) == 0 && now < k->until && (!k->found || still_runs(&k->owner)))
            return k;
    }
    k = &o->known[o->next_known];
    o->next_known = (o->next_known + 1) % KNOWN;
    snprintf(k->address, sizeof k->address, "%s", address);
    k->found = ask_agent(o, address, &k->owner);
    k->until = clock_mono() + KNOWN_NS;
    return k;
}

/* --- the answer --- */

static void add_str(struct kvs_edit *x, struct arena *a, const char *key, const char *v)
{
    struct str copy = arena_str(a, str_from(v));

    if (copy.n && !kvs_edit_find(x, str_from(key)))
        kvs_edit_set(x, str_from(key), value_from_str(copy));
}

/* In whole seconds, as the agent has it. */
static void add_start(struct kvs_edit *x, struct arena *a, uint64_t ticks)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    long hz = sysconf(_SC_CLK_TCK);
    int64_t start;

    if (hz <= 0 || ticks / (uint64_t) hz > INT32_MAX)
        return;
    start = clock_wall() - clock_boot() + (int64_t) (ticks / (uint64_t) hz) * NS_PER_S;
    clock_format(&b, start / NS_PER_S * NS_PER_S);
    if (buf_cstr(&b))
        add_str(x, a, "process.creation.time", b.p);
}

static int add_owner(const struct local_owner *o, const struct socket_owner *s, struct batch *b, struct batch **ret)
{
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    int r = batch_share(b, &x);

    for (uint32_t i = 0; r == 0 && i < x->n_resources; i++) {
        struct kvs_edit edit;

        if (has_pid(&x->resources[i]))
            continue;
        kvs_edit_init(&edit, &x->resources[i].attrs, &x->arena);
        kvs_edit_set(&edit, STR(SEMCONV_PROCESS_PID), (struct value){.kind = VALUE_INT, .integer = s->pid});
        add_str(&edit, &x->arena, SEMCONV_PROCESS_EXECUTABLE_PATH, s->exe);
        add_str(&edit, &x->arena, SEMCONV_HOST_NAME, o->host);
        add_start(&edit, &x->arena, s->start_ticks);
        r = edit.err;
    }
    if (r == 0)
        *ret = TAKE(x);
    return r;
}

static void run(struct worker_job *j)
{
    struct local_job *w = container_of(j, struct local_job, job);
    const struct local_known *k = look_up(w->o, w->address);
    struct batch *x = NULL;

    if (k->found && add_owner(w->o, &k->owner, w->b, &x) < 0)
        x = NULL;
    sink_consume(w->o->next, x ? x : w->b, &w->ctx, w->ack);
    batch_unref(x);
    batch_unref(w->b);
    mem_free(w);
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct batch *b = data.batch;
    struct local_owner *o = container_of(s, struct local_owner, sink);
    char address[SOCKET_ADDRESS_MAX];
    struct local_job *w;

    if (!ctx->peer || says_all(b) || !loopback_address(ctx->peer, address) || !o->workers ||
        strlen(ctx->tenant) >= TENANT_MAX || !(w = mem_zalloc(sizeof *w))) {
        sink_consume(o->next, b, ctx, ack);
        return;
    }
    *w = (struct local_job){.job.run = run, .o = o, .b = batch_ref(b), .ack = ack, .ctx = *ctx};
    memcpy(w->address, address, sizeof address);
    snprintf(w->tenant, sizeof w->tenant, "%s", ctx->tenant);
    snprintf(w->peer, sizeof w->peer, "%s", ctx->peer);
    w->ctx.tenant = w->tenant;
    w->ctx.peer = w->peer;
    w->ctx.metadata = NULL; /* headers belong to the request */
    if (workers_submit(o->workers, &w->job) == 0)
        return;
    batch_unref(w->b);
    mem_free(w);
    sink_consume(o->next, b, ctx, ack);
}

/* --- life --- */

int local_owner_new(struct agent_feed *agent, struct sink *next, struct local_owner **ret, struct err *e)
{
    struct local_owner *o = mem_zalloc(sizeof *o);
    int r = o ? 0 : -ENOMEM;

    if (r < 0)
        return r;
    *o = (struct local_owner){.sink = {consume}, .next = next, .agent = agent};
    if (gethostname(o->host, sizeof o->host - 1) < 0)
        o->host[0] = 0;
    if (agent) {
        o->known = mem_zalloc_array(KNOWN, sizeof *o->known);
        r = o->known ? workers_new(1, WAITING_MAX, &o->workers, e) : -ENOMEM;
    }
    if (r < 0) {
        local_owner_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

struct sink *local_owner_sink(struct local_owner *o)
{
    return &o->sink;
}

void local_owner_stop(struct local_owner *o)
{
    if (o)
        workers_free(TAKE(o->workers));
}

void local_owner_free(struct local_owner *o)
{
    if (!o)
        return;
    local_owner_stop(o);
    mem_free(o->known);
    mem_free(o);
}
