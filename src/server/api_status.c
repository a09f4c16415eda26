/* SPDX-License-Identifier: Apache-2.0 */
/* Health, metrics, status, and the login that sets a browser's session cookie. */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/meminfo.h"
#include "query/answer.h"
#include "server/api.h"
#include "server/front.h"
#include "server/request_gate.h"
#include "server/ui_info.h"
#include "store/store.h"

static int run_health(struct call *c, struct err *e)
{
    (void) e;
    c->content_type = "text/plain";
    buf_puts(&c->out, "ok\n");
    return 0;
}

static int run_ready(struct call *c, struct err *e)
{
    struct store *s = front_options(c->front)->store;
    struct store_stats stats;
    int r = s->ops->stats(s, &stats);

    if (r == 0 && stats.problem[0])
        return err_set(e, -ENOMEM, "%s", stats.problem);
    if (r < 0)
        return r;
    return run_health(c, e);
}

/* --- metrics --- */

static void metric(struct buf *out, const char *name, const char *type, const char *help, double value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

static void put_store_metrics(struct buf *out, const struct store_stats *s)
{
    metric(out, "wick_store_profiles_total", "counter", "Profiles accepted.", (double) s->profiles);
    metric(out, "wick_store_samples_total", "counter", "Samples accepted.", (double) s->samples);
    metric(out, "wick_store_duplicates_total", "counter", "Profiles that were already stored.", (double) s->duplicates);
    metric(out, "wick_store_rejected_total", "counter", "Profiles rejected permanently.", (double) s->rejected);
    metric(out, "wick_store_series", "gauge", "Known series.", (double) s->series);
    metric(out, "wick_store_stacks", "gauge", "Known distinct stacks.", (double) s->stacks);
    metric(out, "wick_store_segments", "gauge", "Segment files.", (double) s->segments);
    metric(out, "wick_store_disk_bytes", "gauge", "Bytes on disk.", (double) s->disk_bytes);
    metric(out, "wick_store_log_bytes", "gauge", "Bytes of the log not yet in segments.", (double) s->log_bytes);
    metric(out, "wick_store_memory_bytes", "gauge",
           "Bytes of symbols, rows not yet in segments, caches and query results.", (double) s->memory_bytes);
    metric(out, "wick_store_syncs_total", "counter", "Syncs of the log.", (double) s->syncs);
    metric(out, "wick_store_flushes_total", "counter", "Flushes to segments.", (double) s->flushes);
    metric(out, "wick_store_compactions_total", "counter", "Compactions.", (double) s->compactions);
    metric(out, "wick_store_clock_ahead_seconds", "gauge",
           "1 if the system clock is ahead of the time that retention uses.", (double) s->clock_ahead_ns / 1e9);
    metric(out, "wick_store_remote_requests_total", "counter", "Requests to the ClickHouse servers of the store.",
           (double) s->remote_requests);
    metric(out, "wick_store_remote_seconds_total", "counter", "Time spent waiting for these requests.",
           (double) s->remote_ns / 1e9);
    metric(out, "wick_store_cold_segments", "gauge", "Segments in the object store.", (double) s->cold_segments);
    metric(out, "wick_store_cold_bytes", "gauge", "Bytes of segments in the object store.", (double) s->cold_bytes);
    metric(out, "wick_store_cold_rounds_total", "counter",
           "Waits for the object store; requests of one run in parallel.", (double) s->cold_rounds);
    metric(out, "wick_store_cold_requests_total", "counter", "Requests to the object store.",
           (double) s->cold_requests);
    metric(out, "wick_store_cold_read_bytes_total", "counter", "Bytes read from the object store.",
           (double) s->cold_read);
    metric(out, "wick_store_cold_written_bytes_total", "counter", "Bytes written to the object store.",
           (double) s->cold_written);
    metric(out, "wick_store_cold_failing", "gauge",
           "1 if segments cannot be moved to the object store; they stay on disk.", s->cold_problem[0] != 0);
    metric(out, "wick_store_damaged", "gauge", "Damaged pieces found and not yet acknowledged.", (double) s->damaged);
}

static void put_call_metrics(struct buf *out, const struct front_stats *s)
{
    uint64_t sum = 0;

    metric(out, "wick_http_calls_running", "gauge", "Calls in progress.", (double) s->running);
    metric(out, "wick_http_call_errors_total", "counter", "Calls that failed.", (double) s->errors);
    metric(out, "wick_http_calls_cancelled_total", "counter", "Calls whose client disconnected.",
           (double) s->cancelled);
    metric(out, "wick_http_calls_late_total", "counter", "Calls stopped by the time limit.", (double) s->late);
    metric(out, "wick_http_refused_total", "counter",
           "Requests refused for missing permission, wrong host or overload.", (double) s->refused);
    buf_puts(out, "# HELP wick_http_call_seconds Response time.\n# TYPE wick_http_call_seconds histogram\n");
    for (size_t i = 0; i < ARRAY_SIZE(s->buckets); i++) {
        sum += s->buckets[i];
        if (i < ARRAY_SIZE(front_bucket_limits))
            buf_printf(out, "wick_http_call_seconds_bucket{le=\"%g\"} %llu\n", front_bucket_limits[i],
                       (unsigned long long) sum);
    }
    buf_printf(out, "wick_http_call_seconds_bucket{le=\"+Inf\"} %llu\nwick_http_call_seconds_sum %.9g\n",
               (unsigned long long) sum, s->seconds);
    buf_printf(out, "wick_http_call_seconds_count %llu\n", (unsigned long long) s->calls);
}

static void put_answer_metrics(struct buf *out, struct answer_cache *c)
{
    struct answer_cache_stats s;

    answer_cache_stats(c, &s);
    metric(out, "wick_answers_made_total", "counter", "Answers made for clients that accept a shared one.",
           (double) s.made);
    metric(out, "wick_answers_shared_total", "counter", "Answers given again.", (double) s.shared);
    metric(out, "wick_answers_bytes", "gauge", "Bytes of answers that are kept.", (double) s.bytes);
}

static int run_metrics(struct call *c, struct err *e)
{
    const struct front_options *o = front_options(c->front);
    struct store_stats stats = {0};
    struct front_stats calls;
    int r = o->store->ops->stats(o->store, &stats);

    if (r < 0)
        return err_set(e, r, "the store does not respond: %m");
    front_stats(c->front, &calls);
    c->content_type = "text/plain; version=0.0.4; charset=utf-8";
    put_store_metrics(&c->out, &stats);
    put_call_metrics(&c->out, &calls);
    put_answer_metrics(&c->out, front_answers(c->front));
    metric(&c->out, "wick_query_queue", "gauge", "Calls waiting for a worker.", (double) workers_waiting(o->workers));
    if (o->metrics)
        o->metrics(o->metrics_ctx, &c->out);
    metric(&c->out, "wick_memory_bytes", "gauge", "Memory in use, in total.", (double) meminfo_used());
    metric(&c->out, "process_resident_memory_bytes", "gauge", "Resident memory.", (double) meminfo_resident());
    metric(&c->out, "process_cpu_seconds_total", "counter", "CPU time.", (double) clock_cpu() / 1e9);
    return 0;
}

/* --- status --- */

/* These numbers cover all tenants and must not be shown to a single one. */
static void put_store(struct buf *out, bool *first, const struct store_stats *s)
{
    json_put_key_u64(out, first, "profiles", s->profiles);
    json_put_key_u64(out, first, "samples", s->samples);
    json_put_key_u64(out, first, "duplicates", s->duplicates);
    json_put_key_u64(out, first, "rejected", s->rejected);
    json_put_key_u64(out, first, "series", s->series);
    json_put_key_u64(out, first, "stacks", s->stacks);
    json_put_key_u64(out, first, "segments", s->segments);
    json_put_key_u64(out, first, "diskBytes", s->disk_bytes);
}

/* The questions that this server answers, so that a page asks no others. */
static void put_questions(struct buf *out, bool *first)
{
    json_put_key(out, first, "questions");
    buf_putc(out, '[');
    for (const struct question *q = questions; q->name; q++) {
        if (q != questions)
            buf_putc(out, ',');
        json_put_str(out, str_from(q->name));
    }
    buf_putc(out, ']');
}

static int run_status(struct call *c, struct err *e)
{
    const struct front_options *o = front_options(c->front);
    struct store_stats s = {0};
    bool first = true;
    int r = o->store->ops->stats(o->store, &s);

    if (r < 0)
        return err_set(e, r, "the store does not respond: %m");
    buf_putc(&c->out, '{');
    json_put_key_text(&c->out, &first, "version", o->version);
    json_put_key_text(&c->out, &first, "tenant", c->who.tenant);
    json_put_key_str(&c->out, &first, "scope", str_from(auth_scope_name(c->who.scope)));
    if (!c->who.tenant[0])
        put_store(&c->out, &first, &s);
    json_put_key_u64(&c->out, &first, "damaged", s.damaged);
    json_put_key_u64(&c->out, &first, "clockAheadSeconds", (uint64_t) (s.clock_ahead_ns / NS_PER_S));
    json_put_key(&c->out, &first, "storing");
    buf_puts(&c->out, s.problem[0] ? "false" : "true");
    if (s.problem[0]) {
        json_put_key_text(&c->out, &first, "problem", s.problem);
    }
    put_questions(&c->out, &first);
    if (o->ui)
        ui_info_json(o->ui, &c->out);
    buf_puts(&c->out, "}\n");
    return 0;
}

/* The user confirms a warning as seen, for example that the wall clock jumped and is right now. */
static int run_confirm(struct call *c, struct err *e)
{
    struct store *s = front_options(c->front)->store;
    enum store_confirm what;
    int r = store_confirm_parse(call_param(c, "what"), &what, e);

    if (r == 0 && s->ops->confirm)
        r = s->ops->confirm(s, what, e);
    if (r == 0)
        buf_puts(&c->out, "{\"confirmed\":true}\n");
    return r;
}

/* --- login --- */

/* What a page needs to know before its first request: whether a token is required, and which rights it has. */
static int run_session(struct call *c, struct err *e)
{
    (void) e;
    buf_printf(&c->out, "{\"required\":%s,\"scope\":\"%s\",\"tenant\":",
               auth_required(front_options(c->front)->auth) ? "true" : "false", auth_scope_name(c->who.scope));
    json_put_str(&c->out, str_from(c->who.tenant));
    buf_puts(&c->out, "}\n");
    return 0;
}

static int run_login(struct call *c, struct err *e)
{
    struct auth *a = front_options(c->front)->auth;
    char session[AUTH_SESSION_SIZE];
    char *cookie;
    int r = auth_login(a, str_trim(c->q->body), session, e);

    if (r < 0)
        return r;
    cookie = arena_printf(&c->q->arena, "%s=%s; Path=/; HttpOnly; SameSite=Strict%s", auth_cookie(a), session,
                          c->q->tls ? "; Secure" : "");
    if (!cookie)
        return -ENOMEM;
    http_add_header(c->q, "set-cookie", str_from(cookie));
    buf_puts(&c->out, "{\"login\":true}\n");
    return 0;
}

static int run_logout(struct call *c, struct err *e)
{
    struct auth *a = front_options(c->front)->auth;
    struct str session = http_cookie(&c->q->headers, auth_cookie(a));
    char *cookie = arena_printf(&c->q->arena, "%s=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", auth_cookie(a));

    (void) e;
    if (session.p)
        auth_logout(a, session);
    if (!cookie)
        return -ENOMEM;
    http_add_header(c->q, "set-cookie", str_from(cookie));
    buf_puts(&c->out, "{\"login\":false}\n");
    return 0;
}

static const struct route routes[] = {
    {"GET", "/healthz", AUTH_NONE, true, run_health},
    {"GET", "/readyz", AUTH_NONE, true, run_ready},
    {"GET", "/ready", AUTH_NONE, true, run_ready}, /* as Pyroscope's */
    {"GET", "/metrics", AUTH_READ, false, run_metrics, .host = true},
    {"GET", "/api/v1/status", AUTH_READ, false, run_status},
    {"GET", "/api/v1/session", AUTH_NONE, true, run_session},
    {"POST", "/api/v1/login", AUTH_NONE, true, run_login},
    {"POST", "/api/v1/logout", AUTH_NONE, true, run_logout},
    {"POST", "/api/v1/store/confirm", AUTH_ADMIN, false, run_confirm, .host = true},
};

int api_mount_status(struct front *s)
{
    return front_mount(s, routes, ARRAY_SIZE(routes));
}
