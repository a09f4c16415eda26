/* SPDX-License-Identifier: Apache-2.0 */
/* Handles OTLP requests over gRPC and HTTP: decodes them, passes them on, and answers after the acknowledgement. See
 * otlp_service.h. */
#include "pipeline/receivers/otlp_service.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/wire.h"
#include "codec/otlp.h"
#include "model/identity.h"
#include "net/encoding.h"
#include "net/grpc.h"
#include "net/server.h"
#include "pipeline/graph/auth.h"
#include "pipeline/receivers/refusals.h"

static const char *const grpc_paths[SIGNALS] = {
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
};
static const char *const http_paths[SIGNALS] = {"/v1development/profiles", "/v1/traces", "/v1/metrics", "/v1/logs"};

/* A request that was passed on but not yet acknowledged; lives in the request's arena. */
struct otlp_call {
    struct ack ack;
    struct otlp_service *s;
    struct http_request *q;
    enum signal signal;
    uint32_t items;
    bool grpc, json;
};

static bool served(const struct otlp_service *s, enum signal signal)
{
    return s->next[signal] != NULL;
}

void otlp_service_metrics(struct otlp_service *s, struct metrics *m, const char *receiver, const char *transport)
{
    static const char *const accepted[SIGNALS] = {
        "otelcol_receiver_accepted_profile_samples", "otelcol_receiver_accepted_spans",
        "otelcol_receiver_accepted_metric_points", "otelcol_receiver_accepted_log_records"};
    static const char *const refused[SIGNALS] = {
        "otelcol_receiver_refused_profile_samples", "otelcol_receiver_refused_spans",
        "otelcol_receiver_refused_metric_points", "otelcol_receiver_refused_log_records"};
    static const char *const failed[SIGNALS] = {
        "otelcol_receiver_failed_profile_samples", "otelcol_receiver_failed_spans",
        "otelcol_receiver_failed_metric_points", "otelcol_receiver_failed_log_records"};

    for (int i = 0; i < SIGNALS; i++) {
        if (!served(s, (enum signal) i))
            continue;
        s->accepted[i] = metrics_add(m, METRIC_COUNTER, accepted[i], "Items received",
                                     "receiver=\"%s\",transport=\"%s\"", receiver, transport);
        s->refused[i] = metrics_add(m, METRIC_COUNTER, refused[i], "Items refused by the pipeline",
                                    "receiver=\"%s\",transport=\"%s\"", receiver, transport);
        s->failed[i] = metrics_add(m, METRIC_COUNTER, failed[i], "Items that failed internally",
                                   "receiver=\"%s\",transport=\"%s\"", receiver, transport);
    }
}

/* --- answers --- */

/* ExportXServiceResponse with partial_success {1 rejected, 2 message} if something was rejected. */
static void put_response(struct buf *b, const struct ack_result *r, bool json, enum signal signal)
{
    static const char *const rejected[SIGNALS] = {"rejectedProfiles", "rejectedSpans", "rejectedDataPoints",
                                                  "rejectedLogRecords"};
    size_t n = strlen(r->message), begun;
    bool first = true;

    if (json) {
        buf_puts(b, "{\"partialSuccess\":{");
        if (r->rejected) {
            json_put_key(b, &first, rejected[signal]);
            buf_printf(b, "\"%llu\"", (unsigned long long) r->rejected);
        }
        if (n) {
            json_put_key_text(b, &first, "errorMessage", r->message);
        }
        buf_puts(b, "}}");
        return;
    }
    if (!r->rejected && !n)
        return;
    begun = wire_begin(b, 1, n);
    wire_put_uint(b, 1, r->rejected);
    wire_put_bytes(b, 2, r->message, n);
    wire_end(b, begun);
}

static void put_status_json(struct buf *b, const struct grpc_status *st)
{
    buf_printf(b, "{\"code\":%d,\"message\":", (int) st->code);
    json_put_str(b, str_from(st->message));
    buf_putc(b, '}');
}

/* Sends an error over HTTP: google.rpc.Status in the encoding of the request. */
static void http_fail(struct http_request *q, bool json, int http_status, const struct grpc_status *st)
{
    char text[32];

    if (st->has_retry && st->retry_ns > 0) {
        snprintf(text, sizeof text, "%lld", (long long) ((st->retry_ns + NS_PER_S - 1) / NS_PER_S));
        http_add_header(q, "retry-after", str_from(text));
    }
    q->status = http_status;
    buf_reset(&q->answer);
    if (json)
        put_status_json(&q->answer, st);
    else
        grpc_status_encode(&q->answer, st);
    http_add_header(q, "content-type", json ? STR("application/json") : STR("application/x-protobuf"));
    http_finish(q);
}

static void reply(struct otlp_call *c, const struct ack_result *r)
{
    struct grpc_status st = {.code = (enum grpc_code) r->status};

    snprintf(st.message, sizeof st.message, "%s", r->message);
    if (r->status != SINK_OK && r->retry_ns > 0) {
        st.has_retry = true;
        st.retry_ns = r->retry_ns;
    }
    if (r->status != SINK_OK && c->grpc) {
        grpc_reply(c->q, &st, (struct str){0});
    } else if (r->status != SINK_OK) {
        http_fail(c->q, c->json, grpc_code_to_http(st.code), &st);
    } else if (c->grpc) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;

        put_response(&b, r, false, c->signal);
        grpc_reply(c->q, &(struct grpc_status){0}, buf_str(&b));
    } else {
        buf_reset(&c->q->answer);
        put_response(&c->q->answer, r, c->json, c->signal);
        http_add_header(c->q, "content-type", c->json ? STR("application/json") : STR("application/x-protobuf"));
        http_finish(c->q);
    }
}

static void finish(struct otlp_call *c, const struct ack_result *r, enum refusal why)
{
    struct otlp_service *s = c->s;
    bool refused = sink_status_retryable(r) || r->status == SINK_INVALID;

    if (s->accepted[c->signal]) /* how many items a request has that cannot be decoded is not known: one */
        metric_add(r->status == SINK_OK ? s->accepted[c->signal]
                   : refused            ? s->refused[c->signal]
                                        : s->failed[c->signal],
                   r->status == SINK_OK ? c->items : MAX(c->items, 1u));
    if (r->status != SINK_OK)
        refusals_note("otlp", c->q->peer, why, r->message);
    reply(c, r);
}

static void on_ack(struct ack *a, const struct ack_result *r)
{
    finish(container_of(a, struct otlp_call, ack), r, refusals_reason(r));
}

static void refuse(struct otlp_call *c, enum refusal why, const char *fmt, ...) _printf_(3, 4);

static void refuse(struct otlp_call *c, enum refusal why, const char *fmt, ...)
{
    struct ack_result r = {.status = why == REFUSED_UNAVAILABLE ? SINK_UNAVAILABLE : SINK_INVALID};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r.message, sizeof r.message, fmt, ap);
    va_end(ap);
    finish(c, &r, why);
}

/* --- requests --- */

/* Senders repeat a request as the same bytes, so an id is derived from these. */
static void fill_ids(struct batch *b, struct str msg)
{
    static const uint8_t none[16];
    struct id128 request = {0};

    for (uint32_t i = 0; i < b->n_profiles; i++) {
        struct profile *p = &b->profiles[i];
        struct id128 id;

        /* Equal profiles without a time may be two different ones, so they get no id and are never treated as
         * duplicates. */
        if (memcmp(p->id, none, sizeof none) != 0 || !p->time_ns)
            continue;
        if (id128_is_zero(request))
            request = hash128_long(msg.p, msg.n);
        id = identity_profile_sent(request, i);
        memcpy(p->id, &id, sizeof p->id);
    }
}

static void add_metadata(struct kvs *m, struct str name, struct str v)
{
    m->v[m->n++] = (struct kv){name, {.kind = VALUE_STR, .n = v.n, .str = v.p ? v.p : ""}};
}

/* The request's headers, if requested, and the authenticated user. A client cannot set the latter with a header. */
static const struct kvs *metadata(const struct otlp_service *s, struct http_request *q)
{
    struct kvs *m = arena_zalloc(&q->arena, sizeof *m);
    struct str auth = {0};

    if (m)
        m->v = arena_zalloc_array(&q->arena, q->headers.n + 2, sizeof *m->v);
    if (!m || !m->v)
        return NULL;
    for (uint32_t i = 0; s->include_metadata && i < q->headers.n; i++)
        if (!str_starts(q->headers.v[i].name, STR("auth.")))
            add_metadata(m, q->headers.v[i].name, q->headers.v[i].value);
    if (s->auth && s->auth_api->user) {
        auth = http_headers_get(&q->headers, s->auth_api->name(s->auth));
        add_metadata(m, STR("auth.username"), s->auth_api->user(auth, &q->arena));
        add_metadata(m, STR("auth.raw"), auth);
    }
    return m;
}

static struct sink_context context_of(struct otlp_call *c)
{
    return (struct sink_context){
        .tenant = c->s->tenant ? c->s->tenant : "",
        .peer = c->q->peer,
        .received_ns = clock_wall(),
        .metadata = c->s->include_metadata || c->s->auth ? metadata(c->s, c->q) : NULL,
    };
}

/* msg lies in body, whose ownership the batch takes. */
static void take_profiles(struct otlp_call *c, struct str msg, struct buf *body)
{
    struct sink_context ctx = context_of(c);
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct otlp_limits limits = {.input = c->s->max_message};
    struct err e = {0};
    int r = c->json ? otlp_json_decode_borrowed(msg.p, msg.n, &limits, &b, &e)
                    : otlp_decode_borrowed(msg.p, msg.n, &limits, &b, &e);

    if (r == 0)
        otlp_own(b, body);
    if (r == -ENOMEM) {
        refuse(c, REFUSED_UNAVAILABLE, "out of memory for this request");
        return;
    }
    if (r < 0) {
        refuse(c, r == -EPROTONOSUPPORT ? REFUSED_GENERATION : REFUSED_MALFORMED, "%.240s", err_message(&e, r));
        return;
    }
    if (!c->s->keep_empty_ids)
        fill_ids(b, msg);
    c->items = b->n_samples;
    if (!b->n_profiles)
        on_ack(&c->ack, &(struct ack_result){.status = SINK_OK});
    else
        sink_consume(c->s->next[SIGNAL_PROFILES], b, &ctx, &c->ack);
}

static void take_blob(struct otlp_call *c, struct buf *body)
{
    struct sink_context ctx = context_of(c);
    _cleanup_(blob_unrefp) struct blob *b = NULL;
    uint32_t items = 0;

    if (!c->json && blob_count(c->signal, body->p, body->n, &items) < 0) {
        refuse(c, REFUSED_MALFORMED, "malformed request: not an export of %s", signal_names[c->signal]);
        return;
    }
    if (blob_new(c->signal, c->json, body, &b) < 0) {
        refuse(c, REFUSED_UNAVAILABLE, "out of memory for this request");
        return;
    }
    b->items = c->items = items;
    sink_pass(c->s->next[c->signal], (struct payload){.blob = b}, &ctx, &c->ack);
}

/* msg points into the request's body or into inflated. Profiles take ownership of that memory; requests that are passed
 * through are copied, without the bytes around them. */
static void take(struct otlp_call *c, struct str msg, struct buf *inflated)
{
    if (c->signal == SIGNAL_PROFILES) {
        if (!inflated->p)
            http_take_body(c->q, inflated);
        take_profiles(c, msg, inflated);
        return;
    }
    if (!inflated->p)
        buf_put_str(inflated, msg);
    if (buf_error(inflated))
        refuse(c, REFUSED_UNAVAILABLE, "out of memory for this request");
    else
        take_blob(c, inflated);
}

static bool let_in(struct otlp_service *s, const struct http_request *q)
{
    return !s->auth || s->auth_api->check(s->auth, http_headers_get(&q->headers, s->auth_api->name(s->auth)));
}

/* Collectors since 0.163 send this header. */
static bool version_ok(const struct http_request *q, struct err *e)
{
    struct str v = http_headers_get(&q->headers, OTLP_VERSION_HEADER);

    return !v.p || otlp_check_version(v, e) == 0;
}

static struct otlp_call *call_new(struct otlp_service *s, struct http_request *q, enum signal signal, bool grpc,
                                  bool json)
{
    struct otlp_call *c = arena_zalloc(&q->arena, sizeof *c);

    if (c)
        *c = (struct otlp_call){{on_ack}, s, q, signal, 0, grpc, json};
    return c;
}

static void grpc_fail(struct http_request *q, enum refusal why, enum grpc_code code, const char *text)
{
    struct grpc_status st;

    refusals_note("otlp", q->peer, why, text);
    grpc_status_set(&st, code, "%s", text);
    grpc_reply(q, &st, (struct str){0});
}

void otlp_service_grpc(struct otlp_service *s, struct http_request *q)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct grpc_status st;
    struct otlp_call *c;
    struct str msg;
    struct err e = {0};
    int i = 0;

    if (!grpc_is_request(q)) {
        http_reply_text(q, 415, "this port is for gRPC; OTLP/HTTP has a port of its own\n");
        return;
    }
    while (i < SIGNALS && !str_is(q->path, grpc_paths[i]))
        i++;
    if (i == SIGNALS || !served(s, (enum signal) i)) {
        if (otlp_check_path(q->path, &e) == -EPROTONOSUPPORT)
            grpc_fail(q, REFUSED_GENERATION, GRPC_UNIMPLEMENTED, e.message);
        else
            grpc_fail(q, REFUSED_UNSUPPORTED, GRPC_UNIMPLEMENTED,
                      i == SIGNALS ? "unknown service or method" : "no pipeline accepts this signal");
        return;
    }
    if (!let_in(s, q)) {
        grpc_fail(q, REFUSED_CREDENTIALS, GRPC_UNAUTHENTICATED, "missing or invalid credentials");
        return;
    }
    if (i == SIGNAL_PROFILES && !version_ok(q, &e)) {
        grpc_fail(q, REFUSED_GENERATION, GRPC_INVALID_ARGUMENT, e.message);
        return;
    }
    if (grpc_request_message(q, s->max_message, &inflated, &msg, &st) < 0) {
        refusals_note("otlp", q->peer, st.code == GRPC_RESOURCE_EXHAUSTED ? REFUSED_TOO_LARGE : REFUSED_MALFORMED,
                      st.message);
        grpc_reply(q, &st, (struct str){0});
        return;
    }
    c = call_new(s, q, (enum signal) i, true, false);
    if (!c)
        grpc_fail(q, REFUSED_UNAVAILABLE, GRPC_UNAVAILABLE, "out of memory");
    else
        take(c, msg, &inflated);
}

static const char *http_path(const struct otlp_service *s, int i)
{
    return s->http_paths[i] ? s->http_paths[i] : http_paths[i];
}

/* Content type without parameters: 0 protobuf, 1 JSON, -1 neither. */
static int content_kind(const struct http_request *q)
{
    struct str v = http_headers_get(&q->headers, "content-type");

    v = str_trim(str_cut(&v, ';'));
    if (http_eq_nocase(v, "application/x-protobuf"))
        return 0;
    return http_eq_nocase(v, "application/json") ? 1 : -1;
}

static void http_refuse(struct http_request *q, bool json, enum refusal why, const char *text)
{
    static const struct {
        int status;
        enum grpc_code code;
    } answers[REFUSALS] = {[REFUSED_MALFORMED] = {400, GRPC_INVALID_ARGUMENT},
                           [REFUSED_GENERATION] = {400, GRPC_INVALID_ARGUMENT},
                           [REFUSED_TOO_LARGE] = {413, GRPC_INVALID_ARGUMENT},
                           [REFUSED_CREDENTIALS] = {401, GRPC_UNAUTHENTICATED},
                           [REFUSED_UNAVAILABLE] = {503, GRPC_UNAVAILABLE}};
    struct grpc_status st;

    refusals_note("otlp", q->peer, why, text);
    grpc_status_set(&st, answers[why].code, "%s", text);
    http_fail(q, json, answers[why].status, &st);
}

static void http_export(struct otlp_service *s, struct http_request *q, enum signal signal, bool json)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct otlp_call *c = call_new(s, q, signal, false, json);
    struct err e = {0};
    struct str msg;
    int r = http_decode_body(q, s->max_message, &inflated, &msg, &e);

    if (!c)
        http_refuse(q, json, REFUSED_UNAVAILABLE, "out of memory");
    else if (r == -EFBIG)
        http_refuse(q, json, REFUSED_TOO_LARGE, "http: request body too large");
    else if (r < 0)
        http_refuse(q, json, REFUSED_MALFORMED, err_message(&e, r));
    else
        take(c, msg, &inflated);
}

void otlp_service_http(struct otlp_service *s, struct http_request *q)
{
    struct err e = {0};
    int i = 0, kind = content_kind(q);

    while (i < SIGNALS && !(served(s, (enum signal) i) && str_is(q->path, http_path(s, i))))
        i++;
    if (i == SIGNALS) {
        if (otlp_check_path(q->path, &e) == -EPROTONOSUPPORT) {
            refusals_note("otlp", q->peer, REFUSED_GENERATION, e.message);
            http_reply_text(q, 404, "%s\n", e.message);
        } else
            http_reply_text(q, 404, "404 page not found\n");
    } else if (!str_is(q->method, "POST")) {
        http_add_header(q, "allow", STR("POST"));
        http_reply_text(q, 405, "405 method not allowed, supported: [POST]");
    } else if (kind < 0) {
        refusals_note("otlp", q->peer, REFUSED_UNSUPPORTED, "the content type is neither JSON nor protobuf");
        http_reply_text(q, 415, "415 unsupported media type, supported: [application/json, application/x-protobuf]");
    } else if (!let_in(s, q)) {
        http_refuse(q, kind == 1, REFUSED_CREDENTIALS, "missing or invalid credentials");
    } else if (i == SIGNAL_PROFILES && !version_ok(q, &e)) {
        http_refuse(q, kind == 1, REFUSED_GENERATION, e.message);
    } else {
        http_export(s, q, (enum signal) i, kind == 1);
    }
}
