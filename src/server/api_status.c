/* SPDX-License-Identifier: Apache-2.0 */
/* Health, metrics, status, and the login that sets a browser's session cookie. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/aside.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/meminfo.h"
#include "base/metric_text.h"
#include "base/record.h"
#include "query/answer.h"
#include "server/api.h"
#include "server/front.h"
#include "server/oidc.h"
#include "server/request_gate.h"
#include "server/snapshots.h"
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
    const struct ui_info *ui = front_options(c->front)->ui;
    struct store *s = front_options(c->front)->store;
    struct store_stats stats;
    int r = s->ops->stats(s, &stats);

    if (auth_locked(front_options(c->front)->auth))
        return err_set(e, -ESHUTDOWN, "the server cannot read its tokens; see its log");
    if (r == 0 && stats.problem[0])
        return err_set(e, -ENOMEM, "%s", stats.problem);
    if (r < 0)
        return r;
    r = run_health(c, e);
    if (ui && ui->agent_lines) /* the server is still ready */
        ui->agent_lines(ui->agent, &c->out);
    return r;
}

/* --- metrics --- */

#define STORE(member) offsetof(struct store_stats, member)
static const struct metric_row store_metrics[] = {
    {"wick_store_profiles_total", METRIC_COUNTER, "Profiles accepted.", STORE(profiles)},
    {"wick_store_samples_total", METRIC_COUNTER, "Samples accepted.", STORE(samples)},
    {"wick_store_duplicates_total", METRIC_COUNTER, "Profiles that were already stored.", STORE(duplicates)},
    {"wick_store_rejected_total", METRIC_COUNTER, "Profiles rejected permanently.", STORE(rejected)},
    {"wick_store_series", METRIC_GAUGE, "Known series.", STORE(series)},
    {"wick_store_stacks", METRIC_GAUGE, "Known distinct stacks.", STORE(stacks)},
    {"wick_store_segments", METRIC_GAUGE, "Segment files.", STORE(segments)},
    {"wick_store_dropped_bytes_total", METRIC_COUNTER, "Bytes deleted over retention.size and limits of tenants.",
     STORE(dropped_bytes)},
    {"wick_store_log_bytes", METRIC_GAUGE, "Bytes of the log not yet in segments.", STORE(log_bytes)},
    {"wick_store_memory_bytes", METRIC_GAUGE, "Bytes of symbols, rows not yet in segments, caches and query results.",
     STORE(memory_bytes)},
    {"wick_store_syncs_total", METRIC_COUNTER, "Syncs of the log.", STORE(syncs)},
    {"wick_store_flushes_total", METRIC_COUNTER, "Flushes to segments.", STORE(flushes)},
    {"wick_store_compactions_total", METRIC_COUNTER, "Compactions.", STORE(compactions)},
    {"wick_store_clock_ahead_seconds", METRIC_GAUGE, "1 if the system clock is ahead of the time that retention uses.",
     STORE(clock_ahead_ns), 1e-9},
    {"wick_store_remote_requests_total", METRIC_COUNTER, "Requests to the ClickHouse servers of the store.",
     STORE(remote_requests)},
    {"wick_store_remote_seconds_total", METRIC_COUNTER, "Time spent waiting for these requests.", STORE(remote_ns),
     1e-9},
    {"wick_store_cold_segments", METRIC_GAUGE, "Segments in the object store.", STORE(cold_segments)},
    {"wick_store_cold_bytes", METRIC_GAUGE, "Bytes of segments in the object store.", STORE(cold_bytes)},
    {"wick_store_cold_rounds_total", METRIC_COUNTER, "Waits for the object store; requests of one run in parallel.",
     STORE(cold_rounds)},
    {"wick_store_cold_requests_total", METRIC_COUNTER, "Requests to the object store.", STORE(cold_requests)},
    {"wick_store_cold_read_bytes_total", METRIC_COUNTER, "Bytes read from the object store.", STORE(cold_read)},
    {"wick_store_cold_written_bytes_total", METRIC_COUNTER, "Bytes written to the object store.", STORE(cold_written)},
    {"wick_store_damaged", METRIC_GAUGE, "Damaged pieces found and not yet acknowledged.", STORE(damaged)},
    {0},
};

static const struct metric_row spool_metrics[] = {
    {"wick_store_spool_records", METRIC_GAUGE, "Records that are acknowledged and not in ClickHouse yet.",
     STORE(spool.records)},
    {"wick_store_spool_bytes", METRIC_GAUGE, "Their bytes on disk.", STORE(spool.bytes)},
    {"wick_store_spool_age_seconds", METRIC_GAUGE, "Age of the oldest of them.", STORE(spool.age_ns), 1e-9},
    {0},
};

static void put_store_metrics(struct buf *out, const struct store_stats *s)
{
    metric_put_rows(out, store_metrics, s);
    metric_put(out, "wick_store_disk_bytes", METRIC_GAUGE, "Bytes in the store's directory.",
               (double) s->disk_bytes + (double) s->beside_bytes);
    metric_put(out, "wick_store_cold_failing", METRIC_GAUGE,
               "1 if segments cannot be moved to the object store; they stay on disk.", s->cold_problem[0] != 0);
    if (s->spool.used)
        metric_put_rows(out, spool_metrics, s);
}

#define CALLS(member) offsetof(struct front_stats, member)
static const struct metric_row call_metrics[] = {
    {"wick_http_calls_running", METRIC_GAUGE, "Calls in progress.", CALLS(running)},
    {"wick_http_call_errors_total", METRIC_COUNTER, "Calls that failed.", CALLS(errors)},
    {"wick_http_calls_cancelled_total", METRIC_COUNTER, "Calls whose client disconnected.", CALLS(cancelled)},
    {"wick_http_calls_late_total", METRIC_COUNTER, "Calls stopped by the time limit.", CALLS(late)},
    {"wick_http_refused_total", METRIC_COUNTER, "Requests refused for missing permission, wrong host or overload.",
     CALLS(refused)},
    {0},
};

static void put_call_metrics(struct buf *out, const struct front_stats *s)
{
    metric_put_rows(out, call_metrics, s);
    metric_put_histogram(
        out, "wick_http_call_seconds", "Response time.",
        &(struct metric_histogram){front_bucket_limits, ARRAY_SIZE(front_bucket_limits), s->buckets, s->seconds});
}

static void put_answer_metrics(struct buf *out, struct answer_cache *c)
{
    struct answer_cache_stats s;

    answer_cache_stats(c, &s);
    metric_put(out, "wick_answers_made_total", METRIC_COUNTER, "Answers made for clients that accept a shared one.",
               (double) s.made);
    metric_put(out, "wick_answers_shared_total", METRIC_COUNTER, "Answers given again.", (double) s.shared);
    metric_put(out, "wick_answers_bytes", METRIC_GAUGE, "Bytes of answers that are kept.", (double) s.bytes);
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
    metric_put(&c->out, "wick_query_queue", METRIC_GAUGE, "Calls waiting for a worker.",
               (double) workers_waiting(o->workers));
    if (o->metrics)
        o->metrics(o->metrics_ctx, &c->out);
    metric_put(&c->out, "wick_files_set_aside_total", METRIC_COUNTER,
               "Files of state that could not be read and were set aside.", (double) aside_count());
    metric_put(&c->out, "wick_memory_bytes", METRIC_GAUGE, "Memory in use, in total, without cached files.", (double) meminfo_used());
    metric_put(&c->out, "process_resident_memory_bytes", METRIC_GAUGE, "Resident memory.", (double) meminfo_resident());
    metric_put(&c->out, "process_cpu_seconds_total", METRIC_COUNTER, "CPU time.", (double) clock_cpu() / 1e9);
    return 0;
}

/* --- status --- */

/* These numbers cover all tenants and must not be shown to a single one. */
static const struct record_field store_fields[] = {
    {"profiles", RECORD_COUNT, offsetof(struct store_stats, profiles)},
    {"samples", RECORD_COUNT, offsetof(struct store_stats, samples)},
    {"duplicates", RECORD_COUNT, offsetof(struct store_stats, duplicates)},
    {"rejected", RECORD_COUNT, offsetof(struct store_stats, rejected)},
    {"series", RECORD_COUNT, offsetof(struct store_stats, series)},
    {"stacks", RECORD_COUNT, offsetof(struct store_stats, stacks)},
    {"segments", RECORD_COUNT, offsetof(struct store_stats, segments)},
    {0},
};

/* What the tenant itself has, and may have. */
static const struct record_field disk_fields[] = {
    {"profiles", RECORD_COUNT, offsetof(struct store_disk, profiles)},
    {"beside", RECORD_COUNT, offsetof(struct store_disk, beside), 0, "bytes of files beside profiles"},
    {"limit", RECORD_COUNT, offsetof(struct store_disk, limit), .flags = RECORD_SPARSE},
    {0},
};

static const struct record_field aside_fields[] = {
    {"file", RECORD_TEXT, offsetof(struct aside_file, path)},
    {"reason", RECORD_TEXT, offsetof(struct aside_file, why)},
    {"time", RECORD_NS, offsetof(struct aside_file, time_ns)},
    {"tenant", RECORD_TEXT, offsetof(struct aside_file, tenant), .flags = RECORD_SPARSE},
    {0},
};

/* What is acknowledged and in no answer yet. */
static void put_spool(struct buf *out, bool *first, const struct store_spool *s)
{
    bool inner = true;

    json_put_key(out, first, "spool");
    buf_putc(out, '{');
    json_put_key_u64(out, &inner, "records", s->records);
    json_put_key_u64(out, &inner, "bytes", s->bytes);
    json_put_key_u64(out, &inner, "seconds", (uint64_t) (s->age_ns / NS_PER_S));
    buf_putc(out, '}');
}

static void put_disk(struct buf *out, bool *first, struct store *s, const char *tenant)
{
    struct store_disk d;

    if (!s->ops->disk || s->ops->disk(s, tenant, &d) < 0)
        return;
    json_put_key(out, first, "disk");
    record_put(out, disk_fields, &d);
}

struct aside_list {
    struct buf *out;
    const char *tenant; /* whose status it is */
    bool first;
};

/* The default tenant is the operator's: it sees all. */
static void put_aside(void *arg, const struct aside_file *f)
{
    struct aside_list *l = arg;

    if (l->tenant[0] && (!f->tenant || strcmp(f->tenant, l->tenant) != 0))
        return;
    json_sep(l->out, &l->first);
    record_put(l->out, aside_fields, f);
}

/* Files of state that could not be read since the start. */
static void put_set_aside(struct buf *out, bool *first, const char *tenant)
{
    struct aside_list l = {out, tenant, true};

    json_put_key(out, first, "setAside");
    buf_putc(out, '[');
    aside_each(put_aside, &l);
    buf_putc(out, ']');
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
    if (!c->who.tenant[0]) {
        record_put_fields(&c->out, &first, store_fields, &s);
        json_put_key_u64(&c->out, &first, "diskBytes", s.disk_bytes + s.beside_bytes);
    }
    put_disk(&c->out, &first, o->store, c->who.tenant);
    if (s.spool.used)
        put_spool(&c->out, &first, &s.spool);
    json_put_key_u64(&c->out, &first, "damaged", s.damaged);
    json_put_key_u64(&c->out, &first, "clockAheadSeconds", (uint64_t) (s.clock_ahead_ns / NS_PER_S));
    json_put_key(&c->out, &first, "storing");
    buf_puts(&c->out, s.problem[0] ? "false" : "true");
    if (s.problem[0]) {
        json_put_key_text(&c->out, &first, "problem", s.problem);
    }
    put_set_aside(&c->out, &first, c->who.tenant);
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

/* A copy of the store, for a backup. It begins within the call: no time limit applies. */
static int run_snapshot(struct call *c, struct err *e)
{
    const struct snapshots *s = front_options(c->front)->snapshots;

    return s ? s->make(s->ctx, call_param(c, "store"), &c->out, e)
             : err_set(e, -ENOSYS, "the store of this server is not in a directory");
}

/* --- login --- */

/* What a page needs to know before its first request: whether a token is required, and which rights it has. */
static int run_session(struct call *c, struct err *e)
{
    (void) e;
    buf_printf(&c->out, "{\"required\":%s,\"scope\":\"%s\",\"tenant\":",
               auth_required(front_options(c->front)->auth) ? "true" : "false", auth_scope_name(c->who.scope));
    json_put_str(&c->out, str_from(c->who.tenant));
    if (c->who.person[0]) {
        buf_puts(&c->out, ",\"person\":");
        json_put_str(&c->out, str_from(c->who.person));
    }
    if (front_options(c->front)->oidc) {
        buf_puts(&c->out, ",\"provider\":");
        json_put_str(&c->out, str_from(oidc_config(front_options(c->front)->oidc)->name));
    }
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
    {"GET", "/metrics", AUTH_READ, false, run_metrics, .host = true, .operation = true},
    {"GET", "/api/v1/status", AUTH_READ, false, run_status, .operation = true},
    {"GET", "/api/v1/session", AUTH_NONE, true, run_session},
    {"POST", "/api/v1/login", AUTH_NONE, true, run_login, .audited = true},
    {"POST", "/api/v1/logout", AUTH_NONE, true, run_logout},
    {"POST", "/api/v1/store/confirm", AUTH_ADMIN, false, run_confirm, .host = true},
    {"POST", "/api/v1/snapshot", AUTH_ADMIN, .run = run_snapshot, .host = true, .own_thread = true},
};

int api_mount_status(struct front *s)
{
    return front_mount(s, routes, ARRAY_SIZE(routes));
}
