/* SPDX-License-Identifier: Apache-2.0 */
/* Sends OTLP requests to a peer over gRPC or HTTP and interprets the responses: the transport of the otlp exporters.
 * See otlp_client.h. */
#include "pipeline/exporters/otlp_client.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/url.h"
#include "base/wire.h"
#include "codec/otlp.h"
#include "net/client.h"
#include "net/grpc.h"
#include "pipeline/graph/auth.h"

enum { HEADERS_MAX = 64, ANSWER_MAX = 4 << 20 };
#define ASK_TIMEOUT_NS (5 * NS_PER_S)

static const char *const grpc_paths[SIGNALS] = {
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
};

struct otlp_client {
    struct otlp_client_options o;
    char url[1200];
    char path[1024];
    struct tls_context *tls;
    struct tls_reload reload;
    struct client *client;
    struct http_header *fixed; /* sent with every request */
    size_t n_fixed;
    struct arena arena;
    bool responded;
    char peer[256]; /* host:port */
};

struct attempt {
    struct client_request r;
    struct otlp_client *c;
    struct send_request *rq; /* NULL: the question of otlp_client_ask() */
    void (*asked)(void *arg, enum otlp_fit fit, const char *message);
    void *arg;
    struct buf body, auth;
    struct http_header headers[HEADERS_MAX];
    char timeout[32];
};

/* --- endpoints --- */

/* The Collector's forms: URL, host:port, dns:///host:port, unix:///path. Without a scheme, the TLS setting decides. */
static int make_url(const char *endpoint, bool insecure, bool grpc, char *out, size_t n, struct err *e)
{
    const char *host = endpoint;
    char shown[URL_SHOWN];
    struct http_url url;
    int r;

    if (!endpoint || !*endpoint)
        return err_set(e, -EINVAL, "requires a non-empty 'endpoint'");
    if (strncmp(host, "dns:///", 7) == 0)
        host += 7;
    else if (strncmp(host, "passthrough:///", 15) == 0)
        host += 15;
    if (strstr(host, "://"))
        snprintf(out, n, "%s", host);
    else if (strncmp(host, "unix:", 5) == 0)
        snprintf(out, n, "unix://%s", host + 5);
    else
        snprintf(out, n, "%s://%s%s", insecure ? "http" : "https", host, grpc && !strchr(host, ':') ? ":4317" : "");
    r = http_url_parse(out, &url, e);
    if (r < 0)
        return err_prefix(e, r, "endpoint '%s': ", url_redact(endpoint, shown, sizeof shown));
    return 0;
}

int otlp_endpoint_check(const char *endpoint, bool grpc, struct err *e)
{
    char url[1200];

    return make_url(endpoint, true, grpc, url, sizeof url, e);
}

/* --- creation --- */

static int add_fixed(struct otlp_client *c, const char *name, const char *value, struct err *e)
{
    struct http_headers h = {.v = c->fixed, .n = (uint32_t) c->n_fixed, .cap = HEADERS_MAX};

    if (c->n_fixed >= HEADERS_MAX - 8)
        return err_set(e, -E2BIG, "more than %d headers", HEADERS_MAX - 8);
    if (http_headers_add(&h, &c->arena, str_from(name), str_from(value)) < 0)
        return err_set(e, -EINVAL, "header '%s' contains an invalid character", name);
    c->n_fixed = h.n;
    return 0;
}

static int add_headers(struct otlp_client *c, struct err *e)
{
    const struct otlp_client_options *o = &c->o;
    int r = 0;

    c->fixed = arena_zalloc_array(&c->arena, HEADERS_MAX, sizeof *c->fixed);
    if (!c->fixed)
        return -ENOMEM;
    if (o->grpc) {
        r = add_fixed(c, "te", "trailers", e);
        if (r == 0)
            r = add_fixed(c, "content-type", "application/grpc", e);
        if (r == 0)
            r = add_fixed(c, "grpc-accept-encoding", "gzip,zstd,identity", e);
        if (r == 0 && o->compression)
            r = add_fixed(c, "grpc-encoding", compress_name(o->compression), e);
    } else if (o->compression) {
        r = add_fixed(c, "content-encoding", compress_name(o->compression), e);
    }
    if (r == 0 && o->signal == SIGNAL_PROFILES)
        r = add_fixed(c, OTLP_VERSION_HEADER, OTLP_VERSION, e);
    for (uint32_t i = 0; r == 0 && o->headers && i < o->headers->n; i++)
        r = add_fixed(c, o->headers->v[i].name, o->headers->v[i].value, e);
    return r;
}

int otlp_client_new(const struct otlp_client_options *o, struct otlp_client **ret, struct err *e)
{
    struct otlp_client *c = mem_zalloc(sizeof *c);
    struct http_url url;
    int r;

    if (!c)
        return -ENOMEM;
    c->o = *o;
    arena_init(&c->arena, 1 << 20);
    r = make_url(o->endpoint, o->tls->insecure, o->grpc, c->url, sizeof c->url, e);
    if (r == 0)
        r = http_url_parse(c->url, &url, e);
    if (r == 0 && o->grpc)
        snprintf(c->path, sizeof c->path, "%s", grpc_paths[o->signal]);
    else if (r == 0)
        snprintf(c->path, sizeof c->path, "%s", o->path ? o->path : url.target);
    if (r == 0)
        snprintf(c->peer, sizeof c->peer, "%.240s:%s", url.host, url.port);
    if (r == 0)
        r = add_headers(c, e);
    if (r == 0 && url.https)
        r = settings_tls_client(o->tls, o->grpc, !o->grpc, &c->tls, e);
    if (r < 0) {
        otlp_client_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void otlp_client_free(struct otlp_client *c)
{
    if (!c)
        return;
    tls_context_free(c->tls);
    arena_done(&c->arena);
    mem_free(c);
}

static int open_client(void *arg, struct loop *l, struct err *e)
{
    struct otlp_client *c = arg;
    struct client_options o = {
        .loop = l,
        .url = c->url,
        .protocol = c->o.grpc ? CLIENT_HTTP2 : CLIENT_HTTP1,
        .tls = c->tls,
    };

    if (c->o.keepalive) {
        o.keepalive_time_ns = c->o.keepalive->time;
        o.keepalive_timeout_ns = c->o.keepalive->timeout;
        o.keepalive_without_calls = c->o.keepalive->permit_without_stream;
    }
    settings_tls_reload(&c->reload, c->o.tls, c->tls, l);
    return client_new(&o, &c->client, e);
}

static void close_client(void *arg)
{
    struct otlp_client *c = arg;

    client_free(TAKE(c->client));
}

static int encode(void *arg, const struct batch *b, struct buf *out, struct err *e)
{
    struct otlp_client *c = arg;
    struct otlp_encode_options o = {.references = c->o.references};

    return c->o.json ? otlp_json_encode(b, out, e) : otlp_encode(b, &o, out, e);
}

/* --- answers --- */

static enum sink_status status_of(enum grpc_code code)
{
    switch (code) {
    case GRPC_OK:
        return SINK_OK;
    case GRPC_CANCELLED:
    case GRPC_ABORTED:
    case GRPC_OUT_OF_RANGE:
    case GRPC_UNAVAILABLE:
    case GRPC_DATA_LOSS:
        return SINK_UNAVAILABLE;
    case GRPC_DEADLINE_EXCEEDED:
        return SINK_DEADLINE;
    case GRPC_RESOURCE_EXHAUSTED:
        return SINK_EXHAUSTED;
    case GRPC_INVALID_ARGUMENT:
        return SINK_INVALID;
    case GRPC_PERMISSION_DENIED:
        return SINK_DENIED;
    case GRPC_UNAUTHENTICATED:
        return SINK_UNAUTHENTICATED;
    default:
        return SINK_INTERNAL;
    }
}

/* ExportXServiceResponse {1 partial_success {1 rejected, 2 error_message}}. A malformed response is ignored. */
void otlp_read_partial(struct str m, struct ack_result *ret)
{
    const uint8_t *p = str_bytes(m), *end = p + m.n;
    struct wire_field f;
    struct str message = {0};
    uint64_t rejected = 0;

    while (p && p < end) {
        p = wire_next(p, end, &f);
        if (!p || f.tag != WIRE_TAG(1, WIRE_LEN))
            continue;
        for (const uint8_t *q = f.data, *last = f.data + f.v; q && q < last;) {
            struct wire_field g;

            q = wire_next(q, last, &g);
            if (!q)
                return;
            if (g.tag == WIRE_TAG(1, WIRE_VARINT))
                rejected = g.v;
            else if (g.tag == WIRE_TAG(2, WIRE_LEN))
                message = (struct str){(const char *) g.data, (uint32_t) g.v};
        }
    }
    if (!p)
        return;
    ret->rejected = rejected;
    snprintf(ret->message, sizeof ret->message, "%.*s", (int) MIN(message.n, (uint32_t) sizeof ret->message - 1),
             message.n ? message.p : "");
}

static void take_message(struct json *j, struct ack_result *ret)
{
    struct str message = json_str(j);

    snprintf(ret->message, sizeof ret->message, "%.*s", STR_FMT(message));
}

static void read_partial_json(struct str body, struct ack_result *ret)
{
    struct arena a;
    struct json j;
    struct str key;

    arena_init(&a, 1 << 20);
    json_init(&j, body, &a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (!str_is(key, "partialSuccess")) {
            json_skip(&j);
            continue;
        }
        json_begin_object(&j);
        while (json_next_key(&j, &key)) {
            if (str_starts(key, STR("rejected")))
                ret->rejected = json_u64(&j);
            else if (str_is(key, "errorMessage"))
                take_message(&j, ret);
            else
                json_skip(&j);
        }
    }
    arena_done(&a);
}

static void grpc_result(struct client_request *q, struct ack_result *ret)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    struct grpc_status st;
    struct str msg = {0};

    grpc_answer(&(struct grpc_response){q->status, &q->headers_in, &q->trailers, q->answer}, ANSWER_MAX, &inflated,
                &msg, &st);
    ret->status = status_of(st.code);
    if (st.has_retry)
        ret->retry_ns = MAX(st.retry_ns, 1);
    if (st.code == GRPC_OK)
        otlp_read_partial(msg, ret);
    else
        snprintf(ret->message, sizeof ret->message, "%s: %.200s", grpc_code_name(st.code), st.message);
}

static void http_result(struct client_request *q, bool json, struct ack_result *ret)
{
    int s = q->status;
    struct grpc_status st = {0};
    struct str after = http_headers_get(&q->headers_in, "retry-after");

    if (s >= 200 && s < 300) {
        if (json)
            read_partial_json(q->answer, ret);
        else
            otlp_read_partial(q->answer, ret);
        return;
    }
    ret->status = s == 429 || s == 502 || s == 503 || s == 504 ? SINK_UNAVAILABLE
                  : s == 400                                   ? SINK_INVALID
                  : s == 401                                   ? SINK_UNAUTHENTICATED
                  : s == 403                                   ? SINK_DENIED
                                                               : SINK_INTERNAL;
    if (after.p)
        http_retry_after(after, clock_wall(), &ret->retry_ns);
    if (json || grpc_status_decode(q->answer, &st) < 0 || !*st.message)
        snprintf(st.message, sizeof st.message, "%.*s", (int) MIN(q->answer.n, 180u), q->answer.n ? q->answer.p : "");
    snprintf(ret->message, sizeof ret->message, "HTTP %d %s: %.180s", s, http_reason(s), st.message);
}

static void attempt_free(struct attempt *a)
{
    buf_done(&a->body);
    buf_done(&a->auth);
    mem_free(a);
}

static void finished(struct client_request *q)
{
    struct attempt *a = container_of(q, struct attempt, r);
    struct send_request *rq = a->rq;
    struct ack_result result = {0};

    if (q->error) {
        result.status = q->error == -ETIMEDOUT ? SINK_DEADLINE : SINK_UNAVAILABLE;
        snprintf(result.message, sizeof result.message, "%.200s", err_message(&q->err, q->error));
    } else if (a->c->o.grpc) {
        grpc_result(q, &result);
    } else {
        http_result(q, rq->json, &result);
    }
    a->c->responded |= !q->error;
    client_request_done(q);
    attempt_free(a);
    sender_sent(rq, &result);
}

/* --- requests --- */

static int make_body(struct attempt *a, struct str plain, struct err *e)
{
    const struct otlp_client_options *o = &a->c->o;

    if (o->grpc)
        return grpc_frame(&a->body, plain, o->compression, o->level, e);
    if (o->compression)
        return compress_deflate(o->compression, o->level, plain.p, plain.n, &a->body, e);
    return 0;
}

static int make_headers(struct attempt *a, struct err *e)
{
    struct otlp_client *c = a->c;
    size_t n = c->n_fixed;
    int r;

    memcpy(a->headers, c->fixed, n * sizeof *a->headers);
    if (c->o.grpc && a->r.timeout_ns > 0) {
        snprintf(a->timeout, sizeof a->timeout, "%lldm", (long long) (a->r.timeout_ns / NS_PER_MS));
        a->headers[n++] = (struct http_header){STR("grpc-timeout"), str_from(a->timeout)};
    }
    if (!c->o.grpc)
        a->headers[n++] = (struct http_header){
            STR("content-type"), a->rq && a->rq->json ? STR("application/json") : STR("application/x-protobuf")};
    if (c->o.auth) {
        r = c->o.auth_api->value(c->o.auth, &a->auth, e);
        if (r < 0)
            return r;
        a->headers[n++] = (struct http_header){str_from(c->o.auth_api->name(c->o.auth)), buf_str(&a->auth)};
    }
    a->r.headers = a->headers;
    a->r.n_headers = n;
    return 0;
}

static void send_failed(struct send_request *rq, enum sink_status status, const char *message)
{
    struct ack_result result = {.status = status};

    snprintf(result.message, sizeof result.message, "%.250s", message);
    sender_sent(rq, &result);
}

static int start_attempt(struct attempt *a, struct str plain, int64_t timeout, struct err *e)
{
    int r;

    a->r.timeout_ns = timeout;
    r = make_body(a, plain, e);
    if (r == 0)
        r = make_headers(a, e);
    if (r < 0)
        return r;
    a->r.method = "POST";
    a->r.target = str_from(a->c->path);
    a->r.body = a->body.n ? buf_str(&a->body) : plain;
    a->r.max_answer = ANSWER_MAX;
    return client_start(a->c->client, &a->r);
}

static void send(void *arg, struct send_request *rq)
{
    struct otlp_client *c = arg;
    struct attempt *a;
    struct err e = {0};
    int r;

    if (rq->json && c->o.grpc) {
        send_failed(rq, SINK_INVALID,
                    "a JSON request cannot be forwarded over gRPC; send protobuf, or use the otlphttp exporter");
        return;
    }
    a = mem_zalloc(sizeof *a);
    if (!a) {
        send_failed(rq, SINK_UNAVAILABLE, "out of memory");
        return;
    }
    a->c = c;
    a->rq = rq;
    a->r.done = finished;
    r = start_attempt(a, rq->body, rq->timeout, &e);
    if (r < 0) {
        attempt_free(a);
        send_failed(rq, SINK_UNAVAILABLE, err_message(&e, r));
    }
}

/* --- asking the peer --- */

/* A receiver that cannot take an empty request without credentials or right now is a receiver; 404 and the like come from
 * a server that has no such path, and a broken connection from one that speaks HTTP/2 only. */
static enum otlp_fit fit_of(const struct client_request *q)
{
    int s = q->status;

    if (q->error)
        return q->error == -EPROTO || (q->was_sent && q->error != -ETIMEDOUT && q->error != -ECANCELED) ? OTLP_UNFIT
                                                                                                        : OTLP_NO_PEER;
    return (s >= 200 && s < 300) || s == 401 || s == 403 || s == 429 || s == 503 ? OTLP_FITS : OTLP_UNFIT;
}

static void on_asked(struct client_request *q)
{
    struct attempt *a = container_of(q, struct attempt, r);
    enum otlp_fit fit = fit_of(q);
    char message[256] = "";

    if (q->error)
        snprintf(message, sizeof message, "%.200s", err_message(&q->err, q->error));
    client_request_done(q);
    a->asked(a->arg, fit, message);
    attempt_free(a);
}

int otlp_client_ask(struct otlp_client *c, void (*done)(void *arg, enum otlp_fit fit, const char *message), void *arg,
                    struct err *e)
{
    struct attempt *a = mem_zalloc(sizeof *a);
    int r;

    if (!a)
        return -ENOMEM;
    a->c = c;
    a->asked = done;
    a->arg = arg;
    a->r.done = on_asked;
    r = start_attempt(a, STR(""), ASK_TIMEOUT_NS, e);
    if (r < 0)
        attempt_free(a);
    return r;
}

bool otlp_client_responded(const struct otlp_client *c)
{
    return c->responded;
}

const char *otlp_client_peer(const struct otlp_client *c)
{
    return c->peer;
}

const struct sender_ops otlp_client_ops = {encode, send, open_client, close_client};
