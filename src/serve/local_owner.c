/* SPDX-License-Identifier: Apache-2.0 */
/* Names the process of batches of local senders, and gives what was scraped the name that the agent has for its process. See
 * local_owner.h. */
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
#include "pipeline/processors/kvs_edit.h"
#include "proc/proc_stat.h"

/* A sender waits for its acknowledgement meanwhile, a scrape for nothing. */
enum { WAITING_MAX = 256, KNOWN = 64, ANSWER_MS = 8000, ANSWER_SCRAPE_MS = 20000 };
static const int64_t KNOWN_NS = 20 * NS_PER_S; /* a port may belong to another process later */
static const int64_t UNKNOWN_NS = 3 * NS_PER_S;

struct local_known {
    char address[SOCKET_ADDRESS_MAX];
    int64_t until;
    bool found, named;
    struct socket_owner owner;
};

struct local_owner {
    struct agent_feed *agent;
    struct workers *workers; /* NULL: nothing is asked */
    char host[256];
    struct local_known *known; /* used by the worker's thread only */
    size_t next_known;
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

/* --- asking the agent --- */

/* Reads the answer to its end, and returns its length; -ETIMEDOUT when it takes too long. */
static ssize_t read_answer(int fd, int64_t ms, char *ret, size_t size)
{
    int64_t end = clock_mono() + ms * NS_PER_MS;
    size_t n = 0;

    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        int64_t left = (end - clock_mono()) / NS_PER_MS;
        ssize_t k;

        if (left <= 0 || poll(&p, 1, (int) left) <= 0)
            return -ETIMEDOUT;
        k = read(fd, ret + n, size - n);
        if (k < 0)
            return -errno;
        n += (size_t) k;
        if (k == 0 || n == size)
            return (ssize_t) n;
    }
}

static bool ask_agent(struct local_owner *o, const char *address, bool named, struct socket_owner *ret)
{
    char text[PATH_MAX + 2 * SOCKET_NAME_MAX + 64];
    ssize_t n;
    int fds[2];

    if (agent_feed_owner(o->agent, address, named, fds, NULL) < 0)
        return false;
    n = read_answer(fds[0], named ? ANSWER_SCRAPE_MS : ANSWER_MS, text, sizeof text);
    fd_close(fds[0]);
    fd_close(fds[1]);
    return n >= 0 && socket_owner_parse((struct str){text, (uint32_t) n}, ret) == 0;
}

/* False when its process has exited, and the answer is therefore out of date. */
static bool still_runs(const struct socket_owner *s)
{
    struct proc_stat st;

    return proc_stat_read(s->pid, &st) == 0 && st.start_ticks == s->start_ticks;
}

static struct local_known *find_known(struct local_owner *o, const char *address, bool named)
{
    struct local_known *k;

    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(o->known[i].address, address) == 0 && o->known[i].named == named)
            return &o->known[i];
    k = &o->known[o->next_known];
    o->next_known = (o->next_known + 1) % KNOWN;
    *k = (struct local_known){.named = named};
    snprintf(k->address, sizeof k->address, "%s", address);
    return k;
}

/* When the agent does not answer, because the machine is busy, it is still the process that it was: a profile without its process
 * would be counted beside what the process sends itself. */
static const struct local_known *look_up(struct local_owner *o, const char *address, bool named)
{
    struct local_known *k = find_known(o, address, named);
    bool known = k->found && still_runs(&k->owner);

    if (clock_mono() < k->until && (!k->found || known))
        return k;
    k->found = ask_agent(o, address, named, &k->owner) || known;
    k->until = clock_mono() + (k->found ? KNOWN_NS : UNKNOWN_NS);
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

static struct str file_part_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return str_from(slash ? slash + 1 : path);
}

/* A scrape calls a program by its command, unless it was given a name. Its other sources call it what the agent does. */
static void set_service(struct kvs_edit *x, struct arena *a, const struct socket_owner *s)
{
    const struct value *name = kvs_edit_find(x, STR(SEMCONV_SERVICE_NAME));
    struct str copy;

    if (!s->service[0] || strcmp(s->service, "unknown_service") == 0 || !name || name->kind != VALUE_STR ||
        !str_eq(value_str(name), file_part_of(s->command)))
        return;
    copy = arena_str(a, str_from(s->service));
    if (copy.n)
        kvs_edit_set(x, STR(SEMCONV_SERVICE_NAME), value_from_str(copy));
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
        set_service(&edit, &x->arena, s);
        r = edit.err;
    }
    if (r == 0)
        *ret = TAKE(x);
    return r;
}

static void run(struct worker_job *j)
{
    struct local_question *q = container_of(j, struct local_question, job);
    const struct local_known *k = look_up(q->owner, q->address, q->scraped);
    struct batch *named = NULL;

    if (k->found && add_owner(q->owner, &k->owner, q->batch, &named) == 0) {
        batch_unref(q->batch);
        q->batch = named;
    }
    q->answered(q);
}

bool local_owner_ask(struct local_owner *o, struct local_question *q, const char *peer)
{
    if (!o->workers || !peer || says_all(q->batch) || !loopback_address(peer, q->address))
        return false;
    q->job.run = run;
    q->owner = o;
    q->scraped = strstr(peer, "://") != NULL;
    return workers_submit(o->workers, NULL, &q->job) == 0;
}

/* --- life --- */

int local_owner_new(struct agent_feed *agent, struct local_owner **ret)
{
    struct local_owner *o = mem_zalloc(sizeof *o);

    if (!o)
        return -ENOMEM;
    o->agent = agent;
    if (gethostname(o->host, sizeof o->host - 1) < 0)
        o->host[0] = 0;
    *ret = o;
    return 0;
}

int local_owner_start(struct local_owner *o, struct err *e)
{
    if (!o->agent)
        return 0;
    o->known = mem_zalloc_array(KNOWN, sizeof *o->known);
    return o->known ? workers_new(&(struct workers_options){.n = 1, .waiting = WAITING_MAX}, &o->workers, e) : -ENOMEM;
}

void local_owner_stop(struct local_owner *o)
{
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
