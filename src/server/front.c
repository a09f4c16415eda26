/* SPDX-License-Identifier: Apache-2.0 */
/* Handles a request: finds the route, checks the sender's rights, runs the call, and enforces its time limit. See
 * front.h. */
#include "server/front.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/encoding.h"
#include "net/http.h"
#include "server/audit.h"
#include "server/request_gate.h"
#include "server/ui_info.h"

enum { ROUTE_LISTS_MAX = 32, OPERATIONS_WAITING = 256, SMALL_BODY = 64 << 10, ANSWERS_BYTES = 32 << 20 };
enum { TENANT_THREADS_MAX = 4, THREADS_MAX = 64 }; /* calls on threads of their own: per tenant, and of all together */
#define CALL_LIMIT (30 * NS_PER_S)
#define WATCH_EVERY_MS 100

struct front {
    struct front_options o;
    struct {
        const struct route *v;
        size_t n;
    } lists[ROUTE_LISTS_MAX];
    size_t n_lists;
    _Atomic int64_t tenant_calls;
    struct log_limit log_errors;
    pthread_mutex_t lock; /* protects call_limit_ns, running, n_dedicated, stats, stopping */
    pthread_cond_t changed;
    int64_t call_limit_ns _guarded_by_(lock);
    struct call *running _guarded_by_(lock);
    unsigned n_dedicated _guarded_by_(lock); /* threads */
    struct front_stats stats _guarded_by_(lock);
    bool stopping, has_watch;
    pthread_t watch;
    struct answer_cache *answers;
    struct tenant_shares *shares;
    struct workers *operations;
};

const double front_bucket_limits[11] = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 5};

/* --- routes --- */

int front_mount(struct front *s, const struct route *routes, size_t n)
{
    if (s->n_lists == ROUTE_LISTS_MAX)
        return -E2BIG;
    s->lists[s->n_lists].v = routes;
    s->lists[s->n_lists++].n = n;
    return 0;
}

const struct route *front_route(const struct front *s, size_t i)
{
    for (size_t l = 0; l < s->n_lists; l++) {
        if (i < s->lists[l].n)
            return &s->lists[l].v[i];
        i -= s->lists[l].n;
    }
    return NULL;
}

/* Matches a path against a route's pattern; *ret_arg is the part that matched {…} or '*'. */
static bool path_matches(const char *pattern, struct str path, struct str *ret_arg)
{
    *ret_arg = (struct str){0};
    for (; *pattern; pattern++) {
        if (*pattern == '*') {
            *ret_arg = path;
            return true;
        }
        if (*pattern == '{') {
            ptrdiff_t end = str_find_char(path, '/');

            *ret_arg = str_slice(path, 0, end < 0 ? path.n : (size_t) end);
            if (!ret_arg->n)
                return false;
            path = str_slice(path, ret_arg->n, path.n);
            pattern = strchr(pattern, '}');
            continue;
        }
        if (!path.n || path.p[0] != *pattern)
            return false;
        path = str_slice(path, 1, path.n);
    }
    return !path.n;
}

static bool method_matches(const char *method, struct str asked)
{
    return str_is(asked, method) || (str_is(asked, "HEAD") && strcmp(method, "GET") == 0);
}

/* The route, or NULL with the status to answer with. */
static const struct route *find_route(const struct front *s, const struct http_request *q, struct str *ret_arg,
                                      int *ret_status)
{
    const struct route *r, *rest = NULL;
    struct str arg;

    *ret_status = 404;
    for (size_t i = 0; (r = front_route(s, i)); i++) {
        if (!path_matches(r->path, q->path, &arg))
            continue;
        if (strcmp(r->path, "/*") == 0) { /* used only if no other route has this path, whatever its method */
            rest = method_matches(r->method, q->method) ? r : rest;
            continue;
        }
        *ret_arg = arg;
        if (method_matches(r->method, q->method))
            return r;
        *ret_status = 405;
    }
    *ret_arg = q->path;
    return *ret_status == 404 ? rest : NULL;
}

/* --- answers --- */

static int status_of(int r)
{
    switch (-r) {
    case EINVAL:
    case ERANGE: /* a number */
        return 400;
    case EACCES:
    case EPERM:
        return 403;
    case ENOENT:
        return 404;
    case EEXIST:
        return 409;
    case EFBIG:
    case EDQUOT:
        return 413;
    case E2BIG:
        return 422;
    case EAGAIN:
        return 429;
    case ENOSYS:
        return 501;
    case ENOMEM:
    case ENOSPC:
    case EROFS:
    case ECANCELED:
    case ESHUTDOWN:
    case ECONNREFUSED: /* the store's database */
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return 503;
    case ETIMEDOUT:
        return 504;
    default:
        return 500;
    }
}

static void reply_error(struct http_request *q, int status, const char *message)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_printf(&b, "{\"error\":{\"status\":%d,\"message\":", status);
    json_put_str(&b, str_from(message));
    buf_puts(&b, "}}\n");
    if (status == 401)
        http_add_header(q, "www-authenticate", STR("Bearer realm=\"wick\", Basic realm=\"wick\""));
    if (status == 429)
        http_add_header(q, "retry-after", STR("1"));
    http_add_header(q, "cache-control", STR("no-store"));
    http_add_header(q, "x-content-type-options", STR("nosniff"));
    http_reply(q, status, "application/json", buf_str(&b));
}

static size_t bucket_of(double seconds)
{
    size_t i = 0;

    while (i < ARRAY_SIZE(front_bucket_limits) && seconds > front_bucket_limits[i])
        i++;
    return i;
}

static void call_unlink(struct call *c, int r)
{
    struct front *s = c->front;
    double seconds = (double) (clock_mono() - c->started) / 1e9;

    pthread_mutex_lock(&s->lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->running = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->stats.running--;
    c->share->own_threads -= c->owns_thread;
    s->stats.calls++;
    s->stats.seconds += seconds;
    s->stats.buckets[bucket_of(seconds)]++;
    s->stats.errors += r < 0 && r != -ECANCELED;
    s->stats.cancelled += r == -ECANCELED && !c->late;
    s->stats.late += c->late;
    pthread_mutex_unlock(&s->lock);
}

struct str call_damage(struct call *c)
{
    char *text;

    if (!c->notes.damaged)
        return (struct str){0};
    text = arena_printf(&c->q->arena, "%u damaged pieces are missing: %s", c->notes.damaged, c->notes.damage);
    for (char *p = text; p && *p; p++)
        if ((unsigned char) *p < ' ')
            *p = ' ';
    return text ? str_from(text) : STR("damaged pieces are missing");
}

/* Sends the result of a call. c is invalid afterwards (released() frees it). */
static void call_finish(struct call *c, int r, struct err *e)
{
    struct http_request *q = c->q;
    uint64_t held;

    c->share->calls -= c->counted;
    call_unlink(c, r);
    if (r >= 0 && buf_error(&c->out))
        r = err_set(e, buf_error(&c->out), "the response does not fit into memory");
    if (route_is_audited(c->route))
        audit_note(c->front->o.audit, q, &c->who, r < 0 ? status_of(r) : q->status);
    if (r < 0) {
        if (status_of(r) == 500 && log_limited(&c->front->log_errors, 10 * NS_PER_S, &held))
            log_error("%s %s failed: %s (%llu more like this)", c->route->method, c->route->path, err_message(e, r),
                      (unsigned long long) held);
        if (c->late)
            reply_error(q, 504, "the query exceeded the time limit: use a shorter time range or fewer services");
        else
            reply_error(q, status_of(r), err_message(e, r));
        return;
    }
    if (c->notes.damaged)
        http_add_header(q, "wick-damage", call_damage(c));
    if (c->out.n) {
        q->answer = c->out;
        c->out = BUF_INIT;
        http_add_header(q, "content-type", str_from(c->content_type));
        http_add_header(q, "x-content-type-options", STR("nosniff"));
        http_encode_answer(q);
    } else if (q->answer_fd >= 0) {
        http_add_header(q, "content-type", str_from(c->content_type));
        http_add_header(q, "x-content-type-options", STR("nosniff"));
    }
    http_finish(q);
}

static void call_work(struct worker_job *j)
{
    struct call *c = container_of(j, struct call, job);
    struct err e = {0};
    int r = atomic_load(&c->cancel) ? -ECANCELED : c->route->run(c, &e);

    if (r != CALL_WAITS) /* then the call may be gone already */
        call_finish(c, r, &e);
}

static int submit(struct call *c)
{
    struct front *s = c->front;

    if (c->route->operation)
        return workers_submit(s->operations, &c->share->operation, &c->job);
    return workers_submit(s->o.workers, &c->share->queries, &c->job);
}

void call_resume(struct call *c)
{
    struct err e = {0};
    int r = submit(c);

    if (r < 0)
        call_finish(c, r, (err_set(&e, r, "too many queries are waiting; retry in a second"), &e));
}

static void call_cancelled(struct http_request *q)
{
    struct call *c = q->user;

    atomic_store(&c->cancel, true);
}

static void call_released(struct http_request *q)
{
    struct call *c = q->user;

    if (c->store)
        c->front->o.store_done(c->front->o.store_ctx, c->store);
    buf_done(&c->out);
    mem_free(c);
}

/* --- the limit on time --- */

/* Stops calls that run too long. Wakes up only while a call is running. */
static void *watch(void *arg)
{
    struct front *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        int64_t now = clock_mono();

        if (!s->running) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        for (struct call *c = s->running; c; c = c->next)
            if (now - c->started > s->call_limit_ns && !c->route->own_thread && !atomic_load(&c->cancel)) {
                c->late = true;
                atomic_store(&c->cancel, true);
            }
        thread_wait(&s->changed, &s->lock, now + WATCH_EVERY_MS * NS_PER_MS);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- admission --- */

static struct call *call_new(struct front *s, struct http_request *q, const struct route *r,
                             const struct auth_identity *who, struct str arg)
{
    struct tenant_share *share = tenant_shares_of(s->shares, who->tenant);
    struct call *c = share ? mem_zalloc(sizeof *c) : NULL;

    if (!c)
        return NULL;
    c->share = share;
    q->share = &share->answers;
    c->front = s;
    c->q = q;
    c->route = r;
    c->who = *who;
    c->started = clock_mono();
    c->job.run = call_work;
    c->content_type = "application/json";
    buf_init(&c->out, s->o.memory_limit);
    c->path_arg = http_percent_decode(&q->arena, arg, false);
    q->user = c;
    q->cancelled = call_cancelled;
    q->released = call_released;
    pthread_mutex_lock(&s->lock);
    c->next = s->running;
    if (c->next)
        c->next->prev = c;
    s->running = c;
    s->stats.running++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return c;
}

/* Counts a query of its tenant until it is answered. False if the tenant has too many. */
static bool count_query(struct call *c, int64_t limit)
{
    if (c->route->on_loop || c->route->own_thread || c->route->operation)
        return true;
    c->counted = true;
    return ++c->share->calls <= limit || !limit;
}

static void refuse(struct front *s, struct http_request *q, int status, const char *message)
{
    pthread_mutex_lock(&s->lock);
    s->stats.refused++;
    pthread_mutex_unlock(&s->lock);
    reply_error(q, status, message);
}

/* --- long calls --- */

static void *run_on_own_thread(void *arg)
{
    struct call *c = arg;
    struct front *s = c->front;

    call_work(&c->job);
    pthread_mutex_lock(&s->lock);
    s->n_dedicated--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* The limit is on calls, not on threads: a client that has its answer may ask again before the thread has ended. When all
 * tenants together have the maximum, a tenant that has none still gets one: their number is limited. */
static int start_dedicated(struct call *c, struct err *e)
{
    struct front *s = c->front;
    pthread_t thread;
    bool full;
    int r;

    pthread_mutex_lock(&s->lock);
    full = c->share->own_threads >= TENANT_THREADS_MAX || (s->n_dedicated >= THREADS_MAX && c->share->own_threads);
    c->owns_thread = !full;
    c->share->own_threads += !full;
    s->n_dedicated += !full;
    pthread_mutex_unlock(&s->lock);
    if (full)
        return err_set(e, -EAGAIN,
                       "%u calls that take long (profiles, tests of alerts) are already running%s; retry "
                       "when one is done",
                       c->share->own_threads, c->who.tenant[0] ? " for this tenant" : "");
    r = thread_start(&thread, "own-thread", run_on_own_thread, c, e);
    if (r == 0)
        return pthread_detach(thread), 0;
    pthread_mutex_lock(&s->lock);
    s->n_dedicated--;
    pthread_mutex_unlock(&s->lock);
    return r;
}

void front_stop(struct front *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    while (s->n_dedicated) {
        for (struct call *c = s->running; c; c = c->next)
            if (c->route->own_thread)
                atomic_store(&c->cancel, true);
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static void call_start(struct call *c)
{
    struct err e = {0};
    int r;

    if (c->route->own_thread) {
        r = start_dedicated(c, &e);
        if (r < 0)
            call_finish(c, r, &e);
        return;
    }
    if (!c->route->on_loop) {
        r = submit(c);
        if (r < 0)
            call_finish(c, r, (err_set(&e, r, "too many queries are waiting; retry in a second"), &e));
        return;
    }
    r = c->route->run(c, &e);
    call_finish(c, r, &e);
}

/* Adds the Allow header: the methods that this path supports. */
static void add_allow(const struct front *s, struct http_request *q)
{
    char text[128] = "";
    const struct route *r;
    struct str arg;
    size_t n = 0;

    for (size_t i = 0; (r = front_route(s, i)) && n < sizeof text - 16; i++)
        if (strcmp(r->path, "/*") != 0 && path_matches(r->path, q->path, &arg))
            n += (size_t) snprintf(text + n, sizeof text - n, "%s%s%s", n ? ", " : "", r->method,
                                   strcmp(r->method, "GET") == 0 ? ", HEAD" : "");
    http_add_header(q, "allow", str_from(text));
}

static bool may(const struct auth_identity *who, const struct route *r)
{
    return (who->scope & r->scope) == r->scope && (!r->host || !who->tenant[0]);
}

/* The route, if the sender of the request may use it; NULL if the request was refused. */
static const struct route *admit(struct front *s, struct http_request *q, struct auth_identity *ret_who,
                                 struct str *ret_arg)
{
    const struct route *r;
    const char *why;
    int status = request_gate_check(s->o.auth, s->o.hosts, q, ret_who, &why);

    if (status) {
        refuse(s, q, status, why);
        return NULL;
    }
    r = find_route(s, q, ret_arg, &status);
    if (!r) {
        if (status == 405)
            add_allow(s, q);
        reply_error(q, status, status == 405 ? "method not allowed" : "not found");
        return NULL;
    }
    if (may(ret_who, r))
        return r;
    if (route_is_audited(r))
        audit_note(s->o.audit, q, ret_who, ret_who->token_id[0] ? 403 : 401);
    if (!ret_who->token_id[0])
        refuse(s, q, 401, "a token is required: Authorization: Bearer TOKEN");
    else
        refuse(s, q, 403,
               r->host ? "this affects the whole server: an admin token of the default tenant is required"
                       : "this token does not have the required scope");
    return NULL;
}

bool front_begin(void *arg, struct http_request *q)
{
    struct auth_identity who = {0};
    const struct route *r;
    struct str path_arg;

    if (str_is(q->method, "GET") || str_is(q->method, "HEAD")) {
        q->max_body = MIN(q->max_body, SMALL_BODY); /* front_handle() runs the checks; do not wait for a large body */
        return false;
    }
    r = admit(arg, q, &who, &path_arg);
    if (!r)
        return true;
    if (r->scope == AUTH_NONE)
        q->max_body = MIN(q->max_body, SMALL_BODY);
    return false;
}

void front_handle(void *arg, struct http_request *q)
{
    struct front *s = arg;
    struct auth_identity who = {0};
    struct str path_arg;
    struct err e = {0};
    struct call *c;
    int64_t limit;
    const struct route *r = admit(s, q, &who, &path_arg);

    if (!r)
        return;
    if (r->take) {
        r->take(r->arg, q, &who);
        return;
    }
    c = call_new(s, q, r, &who, path_arg);
    if (!c) {
        refuse(s, q, 503, "out of memory");
        return;
    }
    limit = atomic_load(&s->tenant_calls);
    if (!count_query(c, limit)) {
        call_finish(c, -EAGAIN,
                    (err_set(&e, -EAGAIN,
                             "this tenant already has %lld queries waiting or running "
                             "(limits.tenant_queries); retry in a second",
                             (long long) limit),
                     &e));
        return;
    }
    call_start(c);
}

/* --- parameters --- */

int call_store(struct call *c, struct store **ret, struct err *e)
{
    const struct front_options *o = &c->front->o;
    int r = 0;

    if (o->store_of && !c->store)
        r = o->store_of(o->store_ctx, c, &c->store, e);
    *ret = o->store_of ? c->store : o->store;
    return r;
}

/* In file mode the whole file is shown, whenever it was recorded: its time range is the only one. */
static struct str fixed_time(struct call *c, const struct ui_info *ui, const char *name)
{
    bool base = strncmp(name, "base_", 5) == 0;
    char *text;

    if (base && !http_query_get(c->q->query, &c->q->arena, "base_query").n)
        return (struct str){"", 0};
    text = arena_printf(&c->q->arena, "%lld", (long long) (strcmp(name + 5 * base, "from") == 0 ? ui->from : ui->to));
    return text ? str_from(text) : (struct str){"", 0};
}

static bool is_time(const char *name)
{
    static const char *const names[] = {"from", "to", "base_from", "base_to"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

struct str call_param(struct call *c, const char *name)
{
    const struct ui_info *ui = c->front->o.ui;
    struct str v;

    if (ui && ui->to && is_time(name))
        return fixed_time(c, ui, name);
    v = http_query_get(c->q->query, &c->q->arena, name);
    return v.p ? v : (struct str){"", 0};
}

int call_param_u64(struct call *c, const char *name, uint64_t *ret, struct err *e)
{
    struct str v = call_param(c, name);

    if (v.n && str_to_u64(v, 10, ret) < 0)
        return err_set(e, -EINVAL, "%s: '%.*s' is not a number", name, STR_FMT(v));
    return 0;
}

/* --- life --- */

_unshared_ int front_new(const struct front_options *o, struct front **ret, struct err *e)
{
    _cleanup_(front_freep) struct front *s = mem_zalloc(sizeof *s);
    int r;

    if (!s)
        return -ENOMEM;
    s->o = *o;
    s->tenant_calls = o->tenant_calls;
    s->call_limit_ns = o->call_limit_ns ? o->call_limit_ns : CALL_LIMIT;
    if (!s->o.memory_limit)
        s->o.memory_limit = 512u << 20;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    r = answer_cache_new(ANSWERS_BYTES, &s->answers);
    if (r == 0)
        r = tenant_shares_new(o->tenant_answers, &s->shares);
    if (r == 0)
        r = workers_new(&(struct workers_options){.n = 1, .waiting = OPERATIONS_WAITING}, &s->operations, e);
    if (r == 0)
        r = thread_start(&s->watch, "call-limit", watch, s, e);
    if (r < 0)
        return r;
    s->has_watch = true;
    *ret = TAKE(s);
    return 0;
}

void front_free(struct front *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_watch)
        pthread_join(s->watch, NULL);
    workers_free(s->operations);
    answer_cache_free(s->answers);
    tenant_shares_free(s->shares);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

void front_set_limits(struct front *s, int64_t call_limit_ns, int64_t tenant_calls)
{
    atomic_store(&s->tenant_calls, tenant_calls);
    pthread_mutex_lock(&s->lock);
    s->call_limit_ns = call_limit_ns ? call_limit_ns : CALL_LIMIT;
    pthread_mutex_unlock(&s->lock);
}

const struct front_options *front_options(const struct front *s)
{
    return &s->o;
}

struct answer_cache *front_answers(const struct front *s)
{
    return s->answers;
}

void front_stats(struct front *s, struct front_stats *ret)
{
    pthread_mutex_lock(&s->lock);
    *ret = s->stats;
    pthread_mutex_unlock(&s->lock);
}
