/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of what is sent to the server, from the request to the store, see serve_intake.h. The steps are in the order of this
 * file:
 *
 *   a request   1 door      host, origin and token, before the body is read and again with it
 *               2 tenant    the one of the token; without tokens, local peers send to the default tenant
 *               3 decoding  by the services of the pipeline, on the loop, or on a thread if the body is large
 *   a batch     4 limits    samples per second and series of the tenant
 *               5 owner     the process of a local sender that does not name it; the agent is asked for it
 *               6 senders   the list of senders
 *               7 store
 *   its ack     8 ledger    what was stored and what was refused, and why: counted here and nowhere else
 *
 * Each tenant that has sent something has services and limits of its own, found in a hash map under a lock that is held for
 * the lookup. Traces go from the services to the span index.
 */
#include "serve/serve_intake.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric_text.h"
#include "base/wrap.h"
#include "model/batch.h"
#include "net/grpc.h"
#include "pipeline/receivers/otlp_service.h"
#include "pipeline/receivers/pyroscope_service.h"
#include "pipeline/receivers/refusals.h"
#include "pipeline/receivers/upload_service.h"
#include "serve/local_owner.h"
#include "serve/senders.h"
#include "serve/tenant_limits.h"
#include "server/front.h"
#include "server/request_gate.h"
#include "server/serve_config.h"
#include "server/workers.h"

/* A body larger than this would block the event loop for too long while it is decoded, so it goes to a thread.
 * Compressed bodies may expand to a thousand times their size. */
enum { TENANTS_MAX = 10000, DECODERS = 2, DECODE_QUEUE_MAX = 1024, LARGE = 256 << 10, LARGE_COMPRESSED = 8 << 10 };
enum { PEER_MAX = 256 };

struct intake_tenant {
    struct sink sink; /* step 4 */
    struct serve_intake *intake;
    struct otlp_service otlp_grpc, otlp_http;
    struct pyroscope_service pyroscope;
    struct upload_service upload;
    struct tenant_limits limits;
    struct workers_flow decoding;
    char name[AUTH_TENANT_SIZE];
};

/* Profiles, unless said otherwise. */
struct intake_ledger {
    _Atomic uint64_t profiles, samples; /* acknowledged */
    _Atomic uint64_t refused[REFUSALS];
    _Atomic uint64_t in_flight;                            /* batches that are not acknowledged yet */
    _Atomic uint64_t buckets[FRONT_BUCKETS + 1], total_ns; /* time to acknowledge */
    _Atomic int64_t lag_ns; /* of the newest batch: from the end of its profiles until it arrived */
    pthread_mutex_t lock;   /* of limits */
    struct log_limit limits[REFUSALS];
};

struct serve_intake {
    struct serve_intake_options a;
    struct serve_intake_ends ends;
    struct senders *senders;
    struct local_owner *owners;
    struct metrics *metrics;
    struct workers *decoders;
    struct intake_ledger ledger;
    struct route routes[7];
    size_t max_message;
    pthread_mutex_t lock; /* protects what follows; the services of a tenant never change */
    const struct serve_limits *limits _guarded_by_(lock);
    struct intake_tenant **tenants _guarded_by_(lock);
    size_t n _guarded_by_(lock), cap _guarded_by_(lock);
    struct map map _guarded_by_(lock); /* by name */
};

/* --- 1: door --- */

static struct intake_tenant *tenant_of(struct serve_intake *o, const char *name);

/* The tenant to hand the request to; NULL with the status and an error message otherwise. */
static struct intake_tenant *let_in(struct serve_intake *o, const struct http_request *q, int *ret_status,
                                    const char **ret_why)
{
    struct auth_identity who;
    struct intake_tenant *t;

    *ret_status = request_gate_check(o->a.auth, o->a.hosts, q, &who, ret_why);
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

/* --- 2: tenant --- */

static void limit_batch(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack);

static void set_limits(struct serve_intake *o, struct intake_tenant *t) _locked_(o->lock)
{
    struct serve_limits_tenant l = serve_limits_of(o->limits, t->name);

    tenant_limits_set(&t->limits, l.samples_per_second, l.series);
}

static struct intake_tenant *add_tenant(struct serve_intake *o, const char *name, uint64_t hash) _locked_(o->lock)
{
    struct intake_tenant *t = mem_zalloc(sizeof *t);

    if (!t || map_insert(&o->map, hash, (uint32_t) o->n) < 0) {
        mem_free(t);
        return NULL;
    }
    o->tenants[o->n++] = t;
    t->intake = o;
    t->sink.consume = limit_batch;
    snprintf(t->name, sizeof t->name, "%s", name);
    tenant_limits_init(&t->limits, t->name, o->ends.labels);
    set_limits(o, t);
    t->otlp_grpc = (struct otlp_service){.next = {[SIGNAL_PROFILES] = &t->sink, [SIGNAL_TRACES] = o->ends.traces},
                                         .max_message = o->max_message,
                                         .tenant = t->name};
    t->otlp_http = t->otlp_grpc;
    otlp_service_metrics(&t->otlp_grpc, o->metrics, "otlp", "grpc");
    otlp_service_metrics(&t->otlp_http, o->metrics, "otlp", "http");
    t->pyroscope = (struct pyroscope_service){.sink = &t->sink, .tenant = t->name, .max_inflated = o->max_message};
    t->upload = (struct upload_service){.sink = &t->sink, .tenant = t->name, .max_inflated = o->max_message};
    return t;
}

/* NULL without memory for another one. */
static struct intake_tenant *tenant_of(struct serve_intake *o, const char *name)
{
    uint64_t hash = hash64_str(str_from(name));
    struct intake_tenant *t = NULL;

    pthread_mutex_lock(&o->lock);
    for (struct map_pos p = map_find(&o->map, hash); !t && p.index != MAP_NONE; p = map_next(&o->map, p))
        if (strcmp(o->tenants[p.index]->name, name) == 0)
            t = o->tenants[p.index];
    if (!t && array_reserve(o->tenants, o->cap, o->n + 1, TENANTS_MAX) == 0)
        t = add_tenant(o, name, hash);
    pthread_mutex_unlock(&o->lock);
    return t;
}

void serve_intake_limits(struct serve_intake *o, const struct serve_limits *limits)
{
    pthread_mutex_lock(&o->lock);
    o->limits = limits;
    for (size_t i = 0; i < o->n; i++)
        set_limits(o, o->tenants[i]);
    pthread_mutex_unlock(&o->lock);
}

struct sink *serve_intake_sink(struct serve_intake *o, const char *tenant)
{
    struct intake_tenant *t = tenant_of(o, tenant);

    return t ? &t->sink : NULL;
}

/* --- 3: decoding --- */

typedef void decode_fn(struct intake_tenant *t, struct http_request *q);

struct push_decoding {
    struct worker_job job;
    struct intake_tenant *tenant;
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

    return q->body.n > MIN(small, (size_t) (packed ? LARGE_COMPRESSED : LARGE));
}

/* Decodes at once, or on another thread if it would block the loop for too long. */
static void hand(struct serve_intake *o, struct intake_tenant *t, struct http_request *q, bool packed, decode_fn *run)
{
    struct push_decoding *d;

    if (!is_large(q, packed)) {
        run(t, q);
        return;
    }
    d = arena_zalloc(&q->arena, sizeof *d);
    if (d)
        *d = (struct push_decoding){.job.run = decode, .tenant = t, .q = q, .run = run};
    if (!d || workers_submit(o->decoders, &t->decoding, &d->job) < 0)
        refuse(q, 503, "too many requests are waiting to be decoded; retry in a second");
}

static void run_grpc(struct intake_tenant *t, struct http_request *q)
{
    otlp_service_grpc(&t->otlp_grpc, q);
}

static void run_http(struct intake_tenant *t, struct http_request *q)
{
    otlp_service_http(&t->otlp_http, q);
}

static void run_pyroscope(struct intake_tenant *t, struct http_request *q)
{
    pyroscope_service_handle(&t->pyroscope, q);
}

static void run_upload(struct intake_tenant *t, struct http_request *q)
{
    upload_service_handle(&t->upload, q);
}

static void handle(struct serve_intake *o, struct http_request *q, decode_fn *run)
{
    const char *why = "";
    int status;
    struct intake_tenant *t = let_in(o, q, &status, &why);

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

/* Paths on the API's port: those of Pyroscope, whose guides send OTLP there, too, and the page's uploads. The
 * front has checked the sender. */

static void take(struct serve_intake *o, struct http_request *q, const struct auth_identity *who, bool packed,
                 decode_fn *run)
{
    struct intake_tenant *t = tenant_of(o, who->tenant);

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

/* --- 4: limits --- */

/* A batch on its way from the limits to the ledger. */
struct intake_entry {
    struct ack ack;   /* the store's */
    struct ack *home; /* the sender's */
    struct intake_tenant *tenant;
    struct local_question owner; /* has the batch */
    int64_t started;             /* monotonic */
    struct sink_context ctx;
    char peer[PEER_MAX];
    bool listed; /* in the list of senders */
};

static void find_owner(struct intake_entry *x);
static void on_ack(struct ack *a, const struct ack_result *r);
static void settle(struct intake_entry *x, const struct ack_result *r);

static int64_t lag_of(const struct batch *b, int64_t received)
{
    const struct profile *p = b->n_profiles ? &b->profiles[b->n_profiles - 1] : NULL;

    return p && p->time_ns ? wrap_sub(wrap_sub(received, p->time_ns), p->duration_ns) : 0;
}

static void limit_batch(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    struct intake_tenant *t = container_of(s, struct intake_tenant, sink);
    struct intake_ledger *l = &t->intake->ledger;
    struct intake_entry *x = mem_alloc(sizeof *x);
    struct ack_result refused;

    if (!x) {
        l->refused[REFUSED_UNAVAILABLE] += data.batch->n_profiles;
        ack_fail(ack, SINK_UNAVAILABLE, NS_PER_S, "out of memory");
        return;
    }
    *x = (struct intake_entry){.ack.done = on_ack,
                               .home = ack,
                               .tenant = t,
                               .owner.batch = batch_ref(data.batch),
                               .started = clock_mono(),
                               .ctx = *ctx};
    /* What the sender's receiver gave is valid only now. Headers belong to the request. */
    snprintf(x->peer, sizeof x->peer, "%s", ctx->peer ? ctx->peer : "");
    x->ctx.tenant = t->name;
    x->ctx.peer = ctx->peer ? x->peer : NULL;
    x->ctx.metadata = NULL;
    l->in_flight++;
    l->lag_ns = lag_of(data.batch, ctx->received_ns);
    if (tenant_limits_take(&t->limits, data.batch, &refused))
        find_owner(x);
    else
        settle(x, &refused);
}

/* --- 5: owner --- */

static void list_sender(struct intake_entry *x);

static void found_owner(struct local_question *q)
{
    list_sender(container_of(q, struct intake_entry, owner));
}

static void find_owner(struct intake_entry *x)
{
    x->owner.answered = found_owner;
    if (!local_owner_ask(x->tenant->intake->owners, &x->owner, x->ctx.peer))
        list_sender(x);
}

/* --- 6: senders, 7: store --- */

static void list_sender(struct intake_entry *x)
{
    struct serve_intake *o = x->tenant->intake;

    senders_count(o->senders, x->owner.batch, &x->ctx);
    x->listed = true;
    sink_consume(o->ends.store, x->owner.batch, &x->ctx, &x->ack);
}

/* --- 8: ledger --- */

static void count_time(struct intake_ledger *l, int64_t ns)
{
    size_t i = 0;

    while (i < FRONT_BUCKETS && (double) ns / 1e9 > front_bucket_limits[i])
        i++;
    l->buckets[i]++;
    l->total_ns += (uint64_t) ns;
}

static void log_refusal(struct intake_ledger *l, enum refusal why, const char *message)
{
    uint64_t held;
    bool log;

    pthread_mutex_lock(&l->lock);
    log = log_limited(&l->limits[why], 10 * NS_PER_S, &held);
    pthread_mutex_unlock(&l->lock);
    if (log && why == REFUSED_LIMIT)
        log_warn("a request is over its limits: %s (%llu more requests like this)", message, (unsigned long long) held);
    else if (log)
        log_warn("profiles are not stored: %s (%llu more requests like this)", message, (unsigned long long) held);
}

/* The end of every batch. */
static void settle(struct intake_entry *x, const struct ack_result *r)
{
    struct intake_ledger *l = &x->tenant->intake->ledger;
    const struct batch *b = x->owner.batch;

    l->in_flight--;
    if (r->status == SINK_OK) {
        l->profiles += b->n_profiles - MIN(r->rejected, (uint64_t) b->n_profiles);
        l->samples += b->n_samples;
        l->refused[REFUSED_MALFORMED] += r->rejected;
    } else {
        enum refusal why = refusals_reason(r);

        l->refused[why] += b->n_profiles;
        if (why != REFUSED_MALFORMED)
            log_refusal(l, why, r->message);
    }
    if (x->listed && (r->status != SINK_OK || r->rejected))
        senders_refused(x->tenant->intake->senders, b, x->tenant->name, r);
    ack_complete(x->home, r);
    batch_unref(x->owner.batch);
    mem_free(x);
}

static void on_ack(struct ack *a, const struct ack_result *r)
{
    struct intake_entry *x = container_of(a, struct intake_entry, ack);

    count_time(&x->tenant->intake->ledger, clock_mono() - x->started);
    settle(x, r);
}

#define LEDGER(member) offsetof(struct intake_ledger, member)
static const struct metric_row ledger_metrics[] = {
    {"wick_ingest_profiles_total", METRIC_COUNTER, "Profiles acknowledged.", LEDGER(profiles)},
    {"wick_ingest_samples_total", METRIC_COUNTER, "Samples acknowledged.", LEDGER(samples)},
    {"wick_ingest_limited_total", METRIC_COUNTER, "Profiles over a limit (429).", LEDGER(refused[REFUSED_LIMIT])},
    {"wick_ingest_refused_total", METRIC_COUNTER, "Profiles rejected permanently.", LEDGER(refused[REFUSED_MALFORMED])},
    {"wick_ingest_failed_total", METRIC_COUNTER, "Profiles that the sender must retry.",
     LEDGER(refused[REFUSED_UNAVAILABLE])},
    {"wick_ingest_in_flight", METRIC_GAUGE, "Requests not acknowledged yet.", LEDGER(in_flight)},
    {"wick_ingest_lag_seconds", METRIC_GAUGE, "Time from the end of the newest profile to its arrival.", LEDGER(lag_ns),
     1e-9},
    {0},
};

void serve_intake_metrics(struct serve_intake *o, struct buf *out)
{
    uint64_t buckets[FRONT_BUCKETS + 1];

    metric_put_rows(out, ledger_metrics, &o->ledger);
    for (size_t i = 0; i < ARRAY_SIZE(buckets); i++)
        buckets[i] = o->ledger.buckets[i];
    metric_put_histogram(
        out, "wick_ingest_seconds", "Time to acknowledge.",
        &(struct metric_histogram){front_bucket_limits, FRONT_BUCKETS, buckets, (double) o->ledger.total_ns / 1e9});
    metrics_print(o->metrics, out);
    refusals_print(out);
}

/* --- life --- */

struct senders *serve_intake_senders(const struct serve_intake *o)
{
    return o->senders;
}

_unshared_ int serve_intake_new(const struct serve_intake_options *a, struct serve_intake **ret)
{
    _cleanup_(serve_intake_freep) struct serve_intake *o = mem_zalloc(sizeof *o);
    int r;

    if (!o)
        return -ENOMEM;
    o->a = *a;
    o->limits = a->limits;
    o->max_message = (size_t) a->limits->request;
    pthread_mutex_init(&o->lock, NULL);
    pthread_mutex_init(&o->ledger.lock, NULL);
    r = metrics_new(&o->metrics);
    if (r == 0)
        r = senders_new(&o->senders);
    if (r == 0)
        r = local_owner_new(a->agent, &o->owners);
    if (r < 0)
        return r;
    *ret = TAKE(o);
    return 0;
}

void serve_intake_open(struct serve_intake *o, const struct serve_intake_ends *ends)
{
    o->ends = *ends;
}

int serve_intake_start(struct serve_intake *o, struct err *e)
{
    int r = local_owner_start(o->owners, e);

    return r < 0 ? r
                 : workers_new(&(struct workers_options){.n = DECODERS + 1,
                                                         .waiting = DECODE_QUEUE_MAX,
                                                         .flow_running = DECODERS},
                               &o->decoders, e);
}

void serve_intake_stop(struct serve_intake *o)
{
    if (!o)
        return;
    workers_free(TAKE(o->decoders));
    if (o->owners)
        local_owner_stop(o->owners);
}

_unshared_ void serve_intake_free(struct serve_intake *o)
{
    if (!o)
        return;
    serve_intake_stop(o);
    for (size_t i = 0; i < o->n; i++) {
        tenant_limits_done(&o->tenants[i]->limits);
        mem_free(o->tenants[i]);
    }
    mem_free(o->tenants);
    map_done(&o->map);
    local_owner_free(o->owners);
    senders_free(o->senders);
    metrics_free(o->metrics);
    pthread_mutex_destroy(&o->ledger.lock);
    pthread_mutex_destroy(&o->lock);
    mem_free(o);
}
