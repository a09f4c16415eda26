/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives profiles and traces over OTLP, profiles over Pyroscope's protocols, and hands them to the gate of their tenant, see
 * serve_intake.h.
 * A token belongs to one tenant, and so do the pipeline's services: there is one set of services per tenant that has
 * sent something, found under a lock that is held only for the lookup. Without tokens, local peers send to the default
 * tenant.
 */
#include "serve/serve_intake.h"

#include <errno.h>

#include "base/mem.h"
#include "net/grpc.h"
#include "pipeline/receivers/otlp_service.h"
#include "pipeline/receivers/pyroscope_service.h"
#include "pipeline/receivers/refusals.h"
#include "pipeline/receivers/upload_service.h"
#include "serve/tenant_gate.h"
#include "server/front.h"
#include "server/request_gate.h"
#include "server/serve_config.h"
#include "server/workers.h"

/* A body larger than this would block the event loop for too long while it is decoded, so it goes to a thread.
 * Compressed bodies may expand to a thousand times their size. */
enum { TENANTS_MAX = 10000, DECODERS = 2, DECODE_QUEUE_MAX = 1024, LARGE = 256 << 10, LARGE_COMPRESSED = 8 << 10 };

struct tenant {
    struct otlp_service otlp_grpc, otlp_http;
    struct pyroscope_service pyroscope;
    struct upload_service upload;
    struct tenant_gate gate;
    char name[AUTH_TENANT_SIZE];
    struct tenant *next;
};

struct serve_intake {
    struct sink *sink, *traces; /* traces: NULL if they are not kept */
    struct auth *auth;
    const char *const *hosts, *const *labels; /* labels: of series, or NULL */
    struct metrics *metrics;
    struct workers *decoders;
    struct gate_stats stats;
    struct route routes[7];
    pthread_mutex_t lock; /* protects the list and the limits; the services themselves never change */
    const struct serve_limits *limits;
    size_t max_message;
    struct tenant *tenants;
    size_t n;
};

/* --- tenants --- */

static struct serve_limits_tenant limits_of(const struct serve_limits *l, const char *tenant)
{
    const struct serve_limits_tenant *t = l->tenants.v;

    for (uint32_t i = 0; i < l->tenants.n; i++)
        if (strcmp(t[i].tenant, tenant) == 0)
            return t[i];
    return (struct serve_limits_tenant){tenant, l->samples_per_second, l->series};
}

static struct tenant *add_tenant(struct serve_intake *o, const char *name)
{
    struct tenant *t = o->n < TENANTS_MAX ? mem_zalloc(sizeof *t) : NULL;
    struct serve_limits_tenant l;

    if (!t)
        return NULL;
    memcpy(t->name, name, sizeof t->name);
    l = limits_of(o->limits, t->name);
    tenant_gate_init(&t->gate, o->sink, t->name, l.samples_per_second, l.series, &o->stats);
    t->gate.series.allow = o->labels ? o->labels : t->gate.series.allow;
    t->otlp_grpc = (struct otlp_service){.next = {[SIGNAL_PROFILES] = &t->gate.sink, [SIGNAL_TRACES] = o->traces},
                                         .max_message = o->max_message,
                                         .tenant = t->name};
    t->otlp_http = t->otlp_grpc;
    otlp_service_metrics(&t->otlp_grpc, o->metrics, "otlp", "grpc");
    otlp_service_metrics(&t->otlp_http, o->metrics, "otlp", "http");
    t->pyroscope = (struct pyroscope_service){.sink = &t->gate.sink, .tenant = t->name, .max_inflated = o->max_message};
    t->upload = (struct upload_service){.sink = &t->gate.sink, .tenant = t->name, .max_inflated = o->max_message};
    t->next = o->tenants;
    o->tenants = t;
    o->n++;
    return t;
}

static struct tenant *tenant_of(struct serve_intake *o, const char *name)
{
    struct tenant *t;

    pthread_mutex_lock(&o->lock);
    for (t = o->tenants; t && strcmp(t->name, name) != 0; t = t->next)
        ;
    if (!t)
        t = add_tenant(o, name);
    pthread_mutex_unlock(&o->lock);
    return t;
}

void serve_intake_limits(struct serve_intake *o, const struct serve_limits *limits)
{
    pthread_mutex_lock(&o->lock);
    o->limits = limits;
    for (struct tenant *t = o->tenants; t; t = t->next) {
        struct serve_limits_tenant l = limits_of(limits, t->name);

        tenant_gate_set_limits(&t->gate, l.samples_per_second, l.series);
    }
    pthread_mutex_unlock(&o->lock);
}

struct sink *serve_intake_sink(struct serve_intake *o)
{
    static const char no_tenant[AUTH_TENANT_SIZE];
    struct tenant *t = tenant_of(o, no_tenant);

    return t ? &t->gate.sink : NULL;
}

/* --- OTLP's listeners --- */

/* The tenant to hand the request to; NULL with the status and an error message otherwise. */
static struct tenant *let_in(struct serve_intake *o, const struct http_request *q, int *ret_status,
                             const char **ret_why)
{
    struct auth_identity who;
    struct tenant *t;

    *ret_status = request_gate_check(o->auth, o->hosts, q, &who, ret_why);
    if (*ret_status)
        return NULL;
    if (!(who.scope & AUTH_SEND)) {
        *ret_status = who.token_id[0] ? 403 : 401;
        *ret_why = who.token_id[0] ? "this token cannot send profiles: the scope write is required"
                                   : "a token is required: Authorization: Bearer TOKEN";
        return NULL;
    }
    t = tenant_of(o, who.tenant);
    if (!t) {
        *ret_status = 503;
        *ret_why = "out of memory for another tenant";
    }
    return t;
}

static void refuse(struct http_request *q, int status, const char *why)
{
    struct grpc_status st;

    refusals_note("otlp", q->peer, status == 503 ? REFUSED_UNAVAILABLE : REFUSED_CREDENTIALS, why);

    if (!grpc_is_request(q)) {
        if (status == 503)
            http_add_header(q, "retry-after", STR("1"));
        http_reply_text(q, status, "%s\n", why);
        return;
    }
    grpc_status_set(&st,
                    status == 401   ? GRPC_UNAUTHENTICATED
                    : status == 503 ? GRPC_UNAVAILABLE
                                    : GRPC_PERMISSION_DENIED,
                    "%s", why);
    grpc_reply(q, &st, (struct str){0});
}

bool serve_intake_begin(void *arg, struct http_request *q)
{
    const char *why = "";
    int status;

    if (let_in(arg, q, &status, &why))
        return false;
    refuse(q, status, why);
    return true;
}

/* --- decoding --- */

typedef void decode_fn(struct tenant *t, struct http_request *q);

struct push_decoding {
    struct worker_job job;
    struct tenant *tenant;
    struct http_request *q;
    decode_fn *run;
};

static void decode(struct worker_job *j)
{
    struct push_decoding *d = container_of(j, struct push_decoding, job);

    d->run(d->tenant, d->q);
}

/* The largest body of this encoding that is decoded on the loop: deflate expands at most a thousandfold, other
 * encodings without limit. */
static size_t small_of(struct str encoding)
{
    if (!encoding.n || http_eq_nocase(encoding, "identity"))
        return LARGE;
    return http_eq_nocase(encoding, "gzip") || http_eq_nocase(encoding, "deflate") ? LARGE_COMPRESSED : 0;
}

static bool is_large(const struct http_request *q, bool packed)
{
    size_t small = MIN(small_of(http_headers_get(&q->headers, "content-encoding")),
                       small_of(http_headers_get(&q->headers, "grpc-encoding")));

    return q->body.n > MIN(small, packed ? LARGE_COMPRESSED : LARGE);
}

/* Decodes at once, or on another thread if it would block the loop for too long. */
static void hand(struct serve_intake *o, struct tenant *t, struct http_request *q, bool packed, decode_fn *run)
{
    struct push_decoding *d;

    if (!is_large(q, packed)) {
        run(t, q);
        return;
    }
    d = arena_zalloc(&q->arena, sizeof *d);
    if (d)
        *d = (struct push_decoding){.job.run = decode, .tenant = t, .q = q, .run = run};
    if (!d || workers_submit(o->decoders, &d->job) < 0)
        refuse(q, 503, "too many requests are waiting to be decoded; retry in a second");
}

static void run_grpc(struct tenant *t, struct http_request *q)
{
    otlp_service_grpc(&t->otlp_grpc, q);
}

static void run_http(struct tenant *t, struct http_request *q)
{
    otlp_service_http(&t->otlp_http, q);
}

static void run_pyroscope(struct tenant *t, struct http_request *q)
{
    pyroscope_service_handle(&t->pyroscope, q);
}

static void run_upload(struct tenant *t, struct http_request *q)
{
    upload_service_handle(&t->upload, q);
}

static void handle(struct serve_intake *o, struct http_request *q, decode_fn *run)
{
    const char *why = "";
    int status;
    struct tenant *t = let_in(o, q, &status, &why);

    if (t)
        hand(o, t, q, false, run);
    else
        refuse(q, status, why);
}

void serve_intake_grpc(void *arg, struct http_request *q)
{
    handle(arg, q, run_grpc);
}

void serve_intake_http(void *arg, struct http_request *q)
{
    handle(arg, q, run_http);
}

/* --- paths on the API's port: those of Pyroscope, whose guides send OTLP there, too, and the page's uploads. The
 * front has checked the sender --- */

static void take(struct serve_intake *o, struct http_request *q, const struct auth_identity *who, bool packed,
                 decode_fn *run)
{
    struct tenant *t = tenant_of(o, who->tenant);

    if (t)
        hand(o, t, q, packed, run);
    else
        refuse(q, 503, "out of memory for another tenant");
}

static void take_pyroscope(void *arg, struct http_request *q, const struct auth_identity *who)
{
    take(arg, q, who, true, run_pyroscope);
}

static void take_otlp(void *arg, struct http_request *q, const struct auth_identity *who)
{
    take(arg, q, who, false, grpc_is_request(q) ? run_grpc : run_http);
}

static void take_upload(void *arg, struct http_request *q, const struct auth_identity *who)
{
    take(arg, q, who, true, run_upload);
}

int serve_intake_mount(struct serve_intake *o, struct front *f)
{
    static const struct {
        const char *path;
        void (*take)(void *arg, struct http_request *q, const struct auth_identity *who);
    } paths[] = {{"/ingest", take_pyroscope},
                 {"/push.v1.PusherService/Push", take_pyroscope},
                 {"/v1development/profiles", take_otlp},
                 {"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", take_otlp},
                 {"/v1/traces", take_otlp},
                 {"/opentelemetry.proto.collector.trace.v1.TraceService/Export", take_otlp},
                 {UPLOAD_PATH, take_upload}};

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        o->routes[i] = (struct route){"POST", paths[i].path, AUTH_SEND, true, .arg = o, .take = paths[i].take};
    return front_mount(f, o->routes, ARRAY_SIZE(o->routes));
}

/* --- life --- */

void serve_intake_metrics(void *intake, struct buf *out)
{
    struct serve_intake *o = intake;

    gate_stats_print(&o->stats, out);
    metrics_print(o->metrics, out);
    refusals_print(out);
}

int serve_intake_new(struct sink *sink, struct auth *auth, const char *const *hosts, const struct serve_limits *limits,
                     struct serve_intake **ret, struct err *e)
{
    _cleanup_(serve_intake_freep) struct serve_intake *o = mem_zalloc(sizeof *o);
    int r;

    if (!o)
        return -ENOMEM;
    *o = (struct serve_intake){.sink = sink, .auth = auth, .hosts = hosts, .limits = limits};
    o->max_message = (size_t) limits->request;
    pthread_mutex_init(&o->lock, NULL);
    r = metrics_new(&o->metrics);
    if (r == 0)
        r = workers_new(DECODERS, DECODE_QUEUE_MAX, &o->decoders, e);
    if (r < 0)
        return r;
    *ret = TAKE(o);
    return 0;
}

void serve_intake_traces(struct serve_intake *o, struct sink *traces)
{
    o->traces = traces;
}

void serve_intake_labels(struct serve_intake *o, const char *const *labels)
{
    o->labels = labels;
}

void serve_intake_free(struct serve_intake *o)
{
    if (!o)
        return;
    workers_free(o->decoders);
    for (struct tenant *t = o->tenants, *next; t; t = next) {
        next = t->next;
        tenant_gate_done(&t->gate);
        mem_free(t);
    }
    metrics_free(o->metrics);
    pthread_mutex_destroy(&o->lock);
    mem_free(o);
}
