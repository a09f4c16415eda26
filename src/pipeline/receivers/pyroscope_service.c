/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Pyroscope's clients, /ingest and push.v1: decodes, labels and passes them on. See pyroscope_service.h. */
#include "pipeline/receivers/pyroscope_service.h"

#include <errno.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/compress.h"
#include "base/json.h"
#include "base/metrics.h"
#include "base/wire.h"
#include "codec/folded.h"
#include "codec/input.h"
#include "codec/jfr/jfr.h"
#include "codec/pprof.h"
#include "model/builder.h"
#include "model/sink.h"
#include "net/encoding.h"
#include "net/grpc.h"
#include "net/server.h"
#include "pipeline/receivers/received.h"
#include "pipeline/receivers/refusals.h"

#define PUSH_PATH "/push.v1.PusherService/Push"

enum { LABELS_MAX = 128, SERIES_MAX = 10000, INFLATED_MAX = 64 << 20 };

struct pyroscope_call {
    struct ack ack;
    struct pyroscope_service *s;
    struct http_request *q;
    uint32_t samples;
    bool push, grpc;
};

struct label_set {
    struct label v[LABELS_MAX];
    uint32_t n;
    struct str profile; /* the profile's name: __name__ */
};

/* --- answers --- */

static void answer(struct pyroscope_call *c, int status, enum grpc_code code, const char *text)
{
    struct grpc_status st;

    if (c->grpc) {
        grpc_status_set(&st, code, "%s", text);
        grpc_reply(c->q, &st, (struct str){0});
    } else if (c->push && status != 200) { /* Connect's errors */
        static const char *const names[] = {[GRPC_INVALID_ARGUMENT] = "invalid_argument",
                                            [GRPC_RESOURCE_EXHAUSTED] = "resource_exhausted",
                                            [GRPC_INTERNAL] = "internal",
                                            [GRPC_UNAVAILABLE] = "unavailable",
                                            [GRPC_UNAUTHENTICATED] = "unauthenticated"};
        const char *name = (size_t) code < ARRAY_SIZE(names) && names[code] ? names[code] : "unknown";

        buf_printf(&c->q->answer, "{\"code\":\"%s\",\"message\":", name);
        json_put_str(&c->q->answer, str_from(text));
        buf_putc(&c->q->answer, '}');
        c->q->status = status;
        http_add_header(c->q, "content-type", STR("application/json"));
        http_finish(c->q);
    } else if (c->push) {
        bool json = str_starts(http_headers_get(&c->q->headers, "content-type"), STR("application/json"));

        http_reply(c->q, 200, json ? "application/json" : "application/proto", json ? STR("{}") : STR(""));
    } else {
        http_reply_text(c->q, status, "%s", text);
    }
}

static void on_ack(struct ack *a, const struct ack_result *r)
{
    struct pyroscope_call *c = container_of(a, struct pyroscope_call, ack);
    enum grpc_code code = (enum grpc_code) r->status;
    char seconds[24];

    if (r->status != SINK_OK && r->retry_ns > 0 && !c->grpc) {
        snprintf(seconds, sizeof seconds, "%lld", (long long) ((r->retry_ns + NS_PER_S - 1) / NS_PER_S));
        http_add_header(c->q, "retry-after", str_from(seconds));
    }
    if (r->status != SINK_OK)
        refusals_note("pyroscope", c->q->peer, refusals_reason(r), r->message);
    if (c->s->accepted)
        metric_add(r->status == SINK_OK ? c->s->accepted : c->s->refused, c->samples);
    answer(c, r->status == SINK_OK ? 200 : grpc_code_to_http(code), code, r->message);
}

static void refuse(struct pyroscope_call *c, int r, const struct err *e)
{
    refusals_note("pyroscope", c->q->peer,
                  r == -ENOMEM       ? REFUSED_UNAVAILABLE
                  : r == -EOPNOTSUPP ? REFUSED_UNSUPPORTED
                  : r == -EFBIG      ? REFUSED_TOO_LARGE
                                     : REFUSED_MALFORMED,
                  err_message(e, r));
    if (c->s->refused)
        metric_add(c->s->refused, 1);
    if (r == -ENOMEM)
        answer(c, 503, GRPC_UNAVAILABLE, "out of memory for this request");
    else
        answer(c, r == -EOPNOTSUPP ? 415 : 400, GRPC_INVALID_ARGUMENT, err_message(e, r));
}

/* --- labels --- */

static void add_label(struct label_set *l, struct str name, struct str value)
{
    if (str_is(name, "__name__"))
        l->profile = value;
    if (!name.n || !value.n || str_starts(name, STR("__")) || l->n == LABELS_MAX)
        return;
    l->v[l->n++] = (struct label){label_canonical_name(name), value};
}

/* The name of a profile if it says more than the types of its samples: that it is a block profile, or one of a kind that
 * Go does not have. */
static struct str telling_name(struct str name)
{
    static const char *const known[] = {"process_cpu",   "cpu",          "memory", "goroutine",
                                        "goroutines",    "mutex",        "wall",   "threads",
                                        "profile_types", "godeltaprof_", "inuse",  "alloc"};

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_is(name, known[i]))
            return (struct str){0};
    return name;
}

/* Parses name{a=b,c=d}, with or without quoted values. Returns the name. */
static struct str parse_name(struct str text, struct label_set *l)
{
    ptrdiff_t brace = str_find_char(text, '{');
    struct str name = brace < 0 ? text : str_slice(text, 0, (size_t) brace), tags;

    if (brace < 0)
        return str_trim(name);
    tags = str_slice(text, (size_t) brace + 1, text.n);
    if (tags.n && tags.p[tags.n - 1] == '}')
        tags.n--;
    while (tags.n) {
        struct str value = str_cut(&tags, ','), key = str_trim(str_cut(&value, '='));

        value = str_trim(value);
        if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
            value = str_slice(value, 1, value.n - 1);
        add_label(l, key, value);
    }
    return str_trim(name);
}

/* "app.cpu": older clients append the type to the name. */
static struct str split_type(struct str *name)
{
    static const char *const types[] = {"cpu",           "wall",           "itimer",      "alloc_objects",
                                        "alloc_space",   "inuse_objects",  "inuse_space", "goroutines",
                                        "mutex_count",   "mutex_duration", "block_count", "lock_count",
                                        "lock_duration", "block_duration"};

    for (uint32_t i = name->n; i-- > 1;) {
        struct str tail = str_slice(*name, i + 1, name->n);

        if (name->p[i] != '.')
            continue;
        for (size_t k = 0; k < ARRAY_SIZE(types); k++) {
            if (str_is(tail, types[k])) {
                *name = str_slice(*name, 0, i);
                return tail;
            }
        }
        break;
    }
    return (struct str){0};
}

/* --- /ingest --- */

static bool is_form(const struct http_request *q)
{
    return str_starts(http_headers_get(&q->headers, "content-type"), STR("multipart/form-data"));
}

/* A field of a form; the whole body if it is not a form. */
static struct str form_field(const struct http_request *q, struct str body, const char *field)
{
    struct str type = http_headers_get(&q->headers, "content-type"), boundary, rest = body;
    ptrdiff_t at = str_find(type, STR("boundary="));
    char mark[128], name[64];

    if (!is_form(q) || at < 0)
        return body;
    boundary = str_slice(type, (size_t) at + 9, type.n);
    boundary = str_cut(&boundary, ';');
    if (boundary.n >= 2 && boundary.p[0] == '"')
        boundary = str_slice(boundary, 1, boundary.n - 1);
    snprintf(mark, sizeof mark, "--%.*s", (int) MIN(boundary.n, 120u), boundary.p);
    snprintf(name, sizeof name, "name=\"%s\"", field);
    while ((at = str_find(rest, str_from(mark))) >= 0) {
        struct str part = str_slice(rest, (size_t) at + strlen(mark), rest.n), head;
        ptrdiff_t end = str_find(part, str_from(mark)), blank;

        if (end < 0)
            break;
        rest = str_slice(part, (size_t) end, part.n);
        part = str_slice(part, 0, (size_t) end); /* so that no byte is searched twice */
        blank = str_find(part, STR("\r\n\r\n"));
        if (blank < 0)
            continue;
        head = str_slice(part, 0, (size_t) blank);
        if (str_find(head, str_from(name)) >= 0)
            return str_slice(part, (size_t) blank + 4, (size_t) MAX(end - 2, blank + 4));
    }
    return (struct str){0};
}

static size_t inflated_max(const struct pyroscope_service *s)
{
    return s->max_inflated ? s->max_inflated : INFLATED_MAX;
}

/* max: limit on the decompressed size. */
static int decode_pprof(struct str bytes, size_t max, struct batch **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    struct pprof_limits limits = {.inflated = max};

    buf_put_str(&in, bytes);
    return buf_error(&in) ? buf_error(&in) : pprof_decode(&in, &limits, ret, e);
}

struct folded_kind {
    const char *name;
    struct str type, unit;
};

static const struct folded_kind kinds[] = {
    {"cpu", {"samples", 7}, {"count", 5}},
    {"wall", {"wall", 4}, {"count", 5}},
    {"itimer", {"samples", 7}, {"count", 5}},
    {"alloc_objects", {"alloc_objects", 13}, {"count", 5}},
    {"alloc_space", {"alloc_space", 11}, {"bytes", 5}},
    {"inuse_objects", {"inuse_objects", 13}, {"count", 5}},
    {"inuse_space", {"inuse_space", 11}, {"bytes", 5}},
    {"goroutines", {"goroutine", 9}, {"count", 5}},
    {"mutex_count", {"contentions", 11}, {"count", 5}},
    {"block_count", {"contentions", 11}, {"count", 5}},
    {"lock_count", {"contentions", 11}, {"count", 5}},
    {"mutex_duration", {"delay", 5}, {"nanoseconds", 11}},
    {"block_duration", {"delay", 5}, {"nanoseconds", 11}},
    {"lock_duration", {"delay", 5}, {"nanoseconds", 11}},
};

/* Folded lines, with the period derived from the sample rate. */
static int decode_folded(struct str text, struct str type, uint64_t rate, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *plain = NULL;
    const struct folded_kind *k = &kinds[0];
    struct folded_options o;
    struct batch *out;
    bool timed;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_is(type, kinds[i].name))
            k = &kinds[i];
    o = (struct folded_options){.type = k->type, .unit = k->unit, .memory = 512 << 20};
    timed = str_is(o.type, "samples") || str_is(o.type, "wall");
    r = folded_decode(text, &o, &plain, e);
    if (r == 0)
        r = builder_new(NULL, &b);
    if (r == 0)
        r = builder_append(b, plain);
    if (r < 0)
        return r;
    out = builder_batch(b);
    for (uint32_t i = 0; timed && i < out->n_profiles; i++) {
        out->profiles[i].period_type.type = builder_string(b, str_is(o.type, "wall") ? STR("wall") : STR("cpu"));
        out->profiles[i].period_type.unit = builder_string(b, STR("nanoseconds"));
        out->profiles[i].period = rate ? (int64_t) (NS_PER_S / (int64_t) MIN(rate, 1000000u)) : NS_PER_S / 100;
    }
    return builder_finish(b, ret, e);
}

/* A recording of the JVM, as Pyroscope's Java agent sends it: the form fields "jfr" and "labels", or the plain body. */
static int decode_jfr(struct pyroscope_service *s, const struct http_request *q, struct str body, uint64_t rate,
                      struct batch **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    bool form = is_form(q);
    struct jfr_options o = {.period_ns = rate ? NS_PER_S / (int64_t) MIN(rate, 1000000u) : 0,
                            .labels = form ? form_field(q, body, "labels") : (struct str){0},
                            .memory = 8 * inflated_max(s)};
    int r;

    buf_put_str(&in, form ? form_field(q, body, "jfr") : body);
    r = buf_error(&in);
    if (r == 0)
        r = compress_inflate_detect(&in, inflated_max(s), e);
    if (r == 0)
        r = jfr_decode(buf_str(&in), &o, ret, e);
    for (uint32_t i = 0; r == 0 && i < (*ret)->n_profiles; i++) /* the request's times count, as in Pyroscope */
        (*ret)->profiles[i].time_ns = (*ret)->profiles[i].duration_ns = 0;
    return r;
}

static int64_t query_time(struct http_request *q, const char *name)
{
    struct str v = http_query_get(q->query, &q->arena, name);
    int64_t t = 0;

    if (!v.n || clock_parse(v, clock_wall(), &t, NULL) < 0)
        return 0;
    return t;
}

static int decode_ingest(struct pyroscope_service *s, struct http_request *q, struct str body, struct str type,
                         struct batch **ret, struct err *e)
{
    struct str format = http_query_get(q->query, &q->arena, "format");
    struct str rate = http_query_get(q->query, &q->arena, "sampleRate");
    uint64_t hz = 0;

    if (rate.n)
        str_to_u64(rate, 10, &hz);
    if (str_is(format, "jfr"))
        return decode_jfr(s, q, body, hz, ret, e);
    if (str_is(format, "pprof") || is_form(q))
        return decode_pprof(form_field(q, body, "profile"), inflated_max(s), ret, e);
    if (!format.n || str_is(format, "folded") || str_is(format, "collapsed") || str_is(format, "lines"))
        return decode_folded(body, type, hz, ret, e);
    return err_set(e, -EOPNOTSUPP, "format '%.*s' is not supported; supported: pprof, jfr, folded", STR_FMT(format));
}

/* pyroscope-go distinguishes a block profile from a mutex profile by the display names of its sample types, in the
 * field sample_type_config; older clients by the type in the name. */
static struct str ingested_name(struct http_request *q, struct str body, struct str type)
{
    struct str config = {0};

    if (is_form(q))
        config = form_field(q, body, "sample_type_config");
    if (str_starts(type, STR("block")) || str_find(config, STR("\"block_")) >= 0)
        return STR("block");
    return (struct str){0};
}

static void hand_on(struct pyroscope_call *c, struct batch *b)
{
    struct sink_context ctx = {
        .tenant = c->s->tenant ? c->s->tenant : "", .peer = c->q->peer, .received_ns = clock_wall()};

    c->samples = b->n_samples;
    sink_consume(c->s->sink, b, &ctx, &c->ack);
}

static int ingest(struct pyroscope_call *c, struct str body, struct batch **ret, struct err *e)
{
    struct http_request *q = c->q;
    struct str full = http_query_get(q->query, &q->arena, "name"), name, type;
    struct label_set labels = {0};
    struct received meta = {.labels = labels.v};
    struct batch *b = NULL;
    int r;

    if (!full.n)
        return err_set(e, -EINVAL, "the parameter 'name' is required");
    name = parse_name(full, &labels);
    type = split_type(&name);
    r = decode_ingest(c->s, q, body, type, &b, e);
    if (r < 0)
        return r;
    add_label(&labels, STR("service_name"), name);
    meta.n_labels = labels.n;
    meta.time_ns = query_time(q, "from");
    if (!meta.time_ns)
        meta.time_ns = clock_wall();
    meta.duration_ns = MAX(query_time(q, "until") - meta.time_ns, 0);
    meta.name = ingested_name(q, body, type);
    return received_finish(b, &meta, ret, e);
}

/* --- push.v1 --- */

struct push {
    struct pyroscope_call *c;
    struct builder *builder;
    uint32_t n;
    size_t inflated; /* all profiles of a request together may not exceed the limit of one */
    struct wire_err w;
};

static int push_profile(struct push *p, const struct label_set *labels, struct str raw, struct err *e)
{
    struct received meta = {
        .labels = labels->v, .n_labels = labels->n, .time_ns = clock_wall(), .name = telling_name(labels->profile)};
    _cleanup_(batch_unrefp) struct batch *done = NULL;
    struct batch *b = NULL;
    int r;

    if (++p->n > SERIES_MAX)
        return err_set(e, -E2BIG, "more than %d profiles in one request", SERIES_MAX);
    r = p->inflated < inflated_max(p->c->s) ? decode_pprof(raw, inflated_max(p->c->s) - p->inflated, &b, e) : -EFBIG;
    if (r == -EFBIG) /* the limit is that of all together, not what is left of it */
        return err_set(e, r, "the profiles of this request decompress to more than %zu bytes", inflated_max(p->c->s));
    p->inflated += r == 0 ? MAX(b->input_size, (size_t) raw.n) : 0;
    if (r == 0)
        r = received_finish(b, &meta, &done, e);
    return r < 0 ? r : builder_append(p->builder, done);
}

/* LabelPair {1 name, 2 value} */
static int push_label(struct push *ps, const uint8_t *p, const uint8_t *end, struct label_set *l)
{
    struct str name = {0}, value = {0};
    struct wire_field f;
    int r = 0;

    while (wire_each(&ps->w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            name = wire_str(&f);
        else if (f.tag == WIRE_TAG(2, WIRE_LEN))
            value = wire_str(&f);
    if (r == 0)
        add_label(l, name, value);
    return r;
}

/* RawSample {1 raw_profile, 2 ID} */
static int push_sample(struct push *ps, const uint8_t *p, const uint8_t *end, const struct label_set *l, struct err *e)
{
    struct wire_field f;
    int r = 0;

    while (wire_each(&ps->w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = push_profile(ps, l, wire_str(&f), e);
    return r;
}

/* RawProfileSeries {1 labels[], 2 samples[]}; labels may follow samples. */
static int push_series(struct push *ps, const uint8_t *start, const uint8_t *end, struct err *e)
{
    struct label_set labels = {0};
    struct wire_field f;
    uint32_t label = 0, sample = 0;
    const uint8_t *p = start;
    int r = 0;

    while (wire_each(&ps->w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = wire_path(&ps->w, push_label(ps, f.data, p, &labels), "labels", label++);
    for (p = start; wire_each(&ps->w, &p, end, &f, &r);)
        if (f.tag == WIRE_TAG(2, WIRE_LEN))
            r = wire_path(&ps->w, push_sample(ps, f.data, p, &labels, e), "samples", sample++);
    return r;
}

/* PushRequest {1 series[]} */
static int push_protobuf(struct push *ps, struct str m, struct err *e)
{
    const uint8_t *start = (const uint8_t *) (m.n ? m.p : ""), *p = start, *end = start + m.n;
    struct wire_field f;
    uint32_t i = 0;
    int r = 0;

    while (wire_each(&ps->w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = wire_path(&ps->w, push_series(ps, f.data, p, e), "series", i++);
    return wire_report(&ps->w, start, r, "push.v1.PushRequest", e);
}

static void json_labels(struct json *j, struct label_set *l)
{
    struct str key;

    json_begin_array(j);
    while (json_next_item(j)) {
        struct str name = {0}, value = {0};

        json_begin_object(j);
        while (json_next_key(j, &key)) {
            if (str_is(key, "name"))
                name = json_str(j);
            else if (str_is(key, "value"))
                value = json_str(j);
            else
                json_skip(j);
        }
        add_label(l, name, value);
    }
}

static int json_samples(struct push *ps, struct str text, const struct label_set *labels, struct arena *a,
                        struct err *e)
{
    struct json j;
    struct str key;
    int r = 0;

    json_init(&j, text, a);
    json_begin_array(&j);
    while (r == 0 && json_next_item(&j)) {
        json_begin_object(&j);
        while (r == 0 && json_next_key(&j, &key)) {
            struct str coded;
            char *raw;
            ssize_t n;

            if (!str_is(key, "rawProfile") && !str_is(key, "raw_profile")) {
                json_skip(&j);
                continue;
            }
            coded = json_str(&j);
            raw = arena_alloc(a, base64_decoded_max(coded) + 1);
            if (!raw)
                return -ENOMEM;
            n = base64_decode(coded, raw);
            r = n < 0 ? err_set(e, -EINVAL, "rawProfile is not base64")
                      : push_profile(ps, labels, (struct str){raw, (uint32_t) n}, e);
        }
    }
    return r < 0 ? r : j.err ? json_error(&j, e) : 0;
}

static int push_json(struct push *ps, struct str text, struct arena *a, struct err *e)
{
    struct json j;
    struct str key;
    int r = 0;

    json_init(&j, text, a);
    json_begin_object(&j);
    while (r == 0 && json_next_key(&j, &key)) {
        if (!str_is(key, "series")) {
            json_skip(&j);
            continue;
        }
        json_begin_array(&j);
        while (r == 0 && json_next_item(&j)) {
            struct label_set labels = {0};
            struct str samples = {0};

            json_begin_object(&j);
            while (json_next_key(&j, &key)) {
                if (str_is(key, "labels"))
                    json_labels(&j, &labels);
                else if (str_is(key, "samples"))
                    samples = json_raw(&j);
                else
                    json_skip(&j);
            }
            if (samples.n)
                r = json_samples(ps, samples, &labels, a, e);
        }
    }
    return r < 0 ? r : json_end(&j) < 0 ? json_error(&j, e) : 0;
}

static int push(struct pyroscope_call *c, struct str body, bool json, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct push ps = {.c = c};
    int r = builder_new(NULL, &b);

    if (r < 0)
        return r;
    ps.builder = b;
    r = json ? push_json(&ps, body, &c->q->arena, e) : push_protobuf(&ps, body, e);
    return r < 0 ? r : builder_finish(b, ret, e);
}

/* --- requests --- */

bool pyroscope_service_has_path(struct str path)
{
    return str_is(path, "/ingest") || str_is(path, PUSH_PATH);
}

static int read_body(struct pyroscope_call *c, struct buf *inflated, struct str *ret, struct err *e)
{
    size_t max = inflated_max(c->s);
    struct grpc_status st;

    if (!c->grpc)
        return http_decode_body(c->q, max, inflated, ret, e);
    if (grpc_request_message(c->q, max, inflated, ret, &st) < 0)
        return err_set(e, -EINVAL, "%.500s", st.message);
    return 0;
}

void pyroscope_service_handle(struct pyroscope_service *s, struct http_request *q)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct pyroscope_call *c = arena_zalloc(&q->arena, sizeof *c);
    struct err e = {0};
    struct str body;
    int r;

    if (!c || !pyroscope_service_has_path(q->path) || !str_is(q->method, "POST")) {
        http_reply_text(q, !c ? 503 : pyroscope_service_has_path(q->path) ? 405 : 404, "not here\n");
        return;
    }
    *c = (struct pyroscope_call){{on_ack}, s, q, 0, str_is(q->path, PUSH_PATH), grpc_is_request(q)};
    r = read_body(c, &inflated, &body, &e);
    if (r == 0 && c->push)
        r = push(c, body, str_starts(http_headers_get(&q->headers, "content-type"), STR("application/json")), &b, &e);
    else if (r == 0)
        r = ingest(c, body, &b, &e);
    if (r < 0)
        refuse(c, r, &e);
    else if (!b->n_profiles)
        answer(c, 200, GRPC_OK, "");
    else
        hand_on(c, b);
}
