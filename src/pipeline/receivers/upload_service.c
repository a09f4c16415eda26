/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a profile of any format from the web UI (upload_service.h). */
#include "pipeline/receivers/upload_service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/json.h"
#include "codec/input.h"
#include "model/batch.h"
#include "model/semconv.h"
#include "model/sink.h"
#include "model/types.h"
#include "net/encoding.h"
#include "net/grpc.h"
#include "net/server.h"
#include "pipeline/receivers/received.h"

enum { INFLATED_MAX = 64 << 20, NAME_BYTES_MAX = 200, TYPES_MAX = 32 };

#define DURATION_MAX (24 * 3600 * NS_PER_S)

struct upload_call {
    struct ack ack;
    struct upload_service *s;
    struct http_request *q;
    struct str service;
    const char *instance;
    struct str types[TYPES_MAX];
    uint32_t n_types;
    int64_t from_ns, to_ns;
};

static void answer_error(struct http_request *q, int status, const char *message)
{
    buf_puts(&q->answer, "{\"error\":{\"message\":");
    json_put_str(&q->answer, str_from(message));
    buf_puts(&q->answer, "}}\n");
    q->status = status;
    http_add_header(q, "content-type", STR("application/json"));
    http_finish(q);
}

/* The type that the page shows first. */
static struct str first_type(const struct upload_call *c)
{
    static const char *const wanted[] = {"cpu", "wall", "heap", "alloc"};

    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        for (uint32_t k = 0; k < c->n_types; k++)
            if (str_is(c->types[k], wanted[i]))
                return c->types[k];
    return c->n_types ? c->types[c->n_types - 1] : (struct str){0};
}

static void on_ack(struct ack *a, const struct ack_result *r)
{
    struct upload_call *c = container_of(a, struct upload_call, ack);
    struct buf *out = &c->q->answer;
    bool first = true;

    if (r->status != SINK_OK) {
        answer_error(c->q, grpc_code_to_http((enum grpc_code) r->status), r->message);
        return;
    }
    buf_puts(out, "{\"service\":");
    json_put_str(out, c->service);
    buf_printf(out, ",\"instance\":\"%s\",\"types\":[", c->instance);
    for (uint32_t i = 0; i < c->n_types; i++) {
        json_sep(out, &first);
        json_put_str(out, c->types[i]);
    }
    buf_puts(out, "],\"type\":");
    json_put_str(out, first_type(c));
    buf_printf(out, ",\"from\":%" PRId64 ",\"to\":%" PRId64 "}\n", c->from_ns / 1000000, c->to_ns / 1000000 + 1);
    c->q->status = 200;
    http_add_header(c->q, "content-type", STR("application/json"));
    http_finish(c->q);
}

/* Only the last part of a path, without control characters. */
static struct str file_name(struct http_request *q)
{
    struct str name = str_trim(http_query_get(q->query, &q->arena, "name"));
    char *copy;

    for (uint32_t i = name.n; i > 0; i--)
        if (name.p[i - 1] == '/' || name.p[i - 1] == '\\') {
            name = str_slice(name, i, name.n);
            break;
        }
    name = str_slice(name, 0, NAME_BYTES_MAX);
    while (name.n && !str_is_utf8(name))
        name.n--;
    if (!name.n)
        return STR("upload");
    copy = arena_cstr(&q->arena, name);
    for (uint32_t i = 0; copy && i < name.n; i++)
        if ((unsigned char) copy[i] < 0x20 || copy[i] == 0x7f)
            copy[i] = ' ';
    return (struct str){copy, copy ? name.n : 0};
}

/* The first and the last time of a sample; false if none has one, or they are too far apart to be shown as one profile. */
static bool range_of(const struct batch *b, uint64_t *ret_first, uint64_t *ret_last)
{
    *ret_first = UINT64_MAX;
    *ret_last = 0;
    for (uint32_t i = 0; i < b->n_timestamps; i++) {
        *ret_first = MIN(*ret_first, b->timestamps[i]);
        *ret_last = MAX(*ret_last, b->timestamps[i]);
    }
    return *ret_last > 0 && *ret_last - *ret_first <= DURATION_MAX;
}

/* Without times, which are too far apart: a sample that has nothing else gets its number. */
static void drop_times(struct batch *b)
{
    for (uint32_t i = 0; i < b->n_samples; i++)
        if (b->samples[i].values.n)
            b->samples[i].timestamps.n = 0;
}

/* The profile is put at the present: it, or its last sample, ends now. */
static void set_times(struct upload_call *c, struct batch *b)
{
    uint64_t first, last;
    bool timed = range_of(b, &first, &last);

    c->to_ns = c->from_ns = clock_wall();
    if (!timed)
        drop_times(b);
    for (uint32_t i = 0; timed && i < b->n_timestamps; i++)
        b->timestamps[i] = (uint64_t) c->to_ns - (last - b->timestamps[i]);
    for (uint32_t i = 0; i < b->n_profiles; i++) {
        struct profile *p = &b->profiles[i];

        p->duration_ns = MIN(MAX(p->duration_ns, 0), DURATION_MAX);
        if (timed && p->time_ns > 0 &&
            (uint64_t) p->time_ns <= last) /* parts of it stay where they are to each other */
            p->time_ns = c->to_ns - MIN((int64_t) (last - (uint64_t) p->time_ns), DURATION_MAX);
        else
            p->time_ns = c->to_ns - p->duration_ns;
        p->duration_ns = MIN(p->duration_ns, c->to_ns - p->time_ns);
        memset(p->id, 0, sizeof p->id);
        c->from_ns = MIN(c->from_ns, p->time_ns);
    }
}

static void add_type(struct upload_call *c, const struct batch *b, const struct profile *p)
{
    struct type t;
    int64_t scale;

    type_lookup(&(struct type_spelling){.type = batch_string(b, p->types[0].type),
                                        .unit = batch_string(b, p->types[0].unit),
                                        .period_type = batch_string(b, p->period_type.type),
                                        .period_unit = batch_string(b, p->period_type.unit),
                                        .period = p->period},
                &t, &scale);
    for (uint32_t i = 0; i < c->n_types; i++)
        if (str_eq(c->types[i], t.name))
            return;
    t.name = arena_str(&c->q->arena, t.name);
    if (c->n_types < TYPES_MAX && t.name.n)
        c->types[c->n_types++] = t.name;
}

static int decode(struct upload_call *c, struct batch **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf inflated = BUF_INIT, in = BUF_INIT;
    struct input_limits limits = {.inflated = c->s->max_inflated ? c->s->max_inflated : INFLATED_MAX, .times = true};
    struct label labels[] = {{STR(SEMCONV_SERVICE_NAME), c->service},
                             {STR(SEMCONV_SERVICE_NAMESPACE), STR(SEMCONV_WICK_UPLOADS)},
                             {STR(SEMCONV_SERVICE_VERSION), str_from(c->instance)},
                             {STR(SEMCONV_SERVICE_INSTANCE_ID), str_from(c->instance)}};
    struct received meta = {.labels = labels, .n_labels = ARRAY_SIZE(labels)};
    struct batch *b = NULL;
    struct str body;
    int r = http_decode_body(c->q, limits.inflated, &inflated, &body, e);

    if (r < 0)
        return r;
    buf_put_str(&in, body);
    r = buf_error(&in);
    if (r == 0)
        r = input_decode(&in, INPUT_AUTO, &limits, &b, NULL, e);
    if (r < 0)
        return r;
    set_times(c, b);
    meta.time_ns = c->from_ns;
    r = received_finish(b, &meta, ret, e);
    for (uint32_t i = 0; r == 0 && i < (*ret)->n_profiles; i++)
        add_type(c, *ret, &(*ret)->profiles[i]);
    return r < 0 ? r : (*ret)->n_samples ? 0 : err_set(e, -ENODATA, "the file has no samples");
}

void upload_service_handle(struct upload_service *s, struct http_request *q)
{
    static _Atomic uint64_t serial;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct upload_call *c = arena_zalloc(&q->arena, sizeof *c);
    struct sink_context ctx = {.tenant = s->tenant ? s->tenant : "", .peer = q->peer, .received_ns = clock_wall()};
    struct err e = {0};
    int r = -ENOMEM;

    if (c) {
        *c = (struct upload_call){.ack = {on_ack}, .s = s, .q = q, .service = file_name(q)};
        c->instance = arena_printf(&q->arena, "upload-%llx-%llx", (unsigned long long) ctx.received_ns,
                                   (unsigned long long) atomic_fetch_add(&serial, 1));
    }
    if (c && c->instance && c->service.n)
        r = decode(c, &b, &e);
    if (r == -ENOMEM)
        answer_error(q, 503, "out of memory for this file");
    else if (r < 0)
        answer_error(q, r == -EFBIG ? 413 : 400, err_message(&e, r));
    else
        sink_consume(s->sink, b, &ctx, &c->ack);
}
