/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every read endpoint over a poisoned store. The input is a store and a question: profiles with types, times, durations and
 * values of any size, stacks of names from the input, links and timestamps; then parameters. The route is asked as the front
 * would ask it, without a network in between. What senders chose must not reach an index, a size or a loop's bound unchecked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/builder.h"
#include "net/exchange.h"
#include "server/api.h"
#include "server/front.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PROFILES_MAX = 12, SAMPLES_MAX = 8, DEPTH_MAX = 6 };

static const int64_t now_ns = 1700000000ll * 1000000000;

static int64_t fixed_now(void)
{
    return now_ns;
}

/* --- the input --- */

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t byte(struct input *in)
{
    if (!in->n)
        return 0;
    in->n--;
    return *in->p++;
}

static uint64_t word(struct input *in)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v = v << 8 | byte(in);
    return v;
}

/* Mostly the edges, now and then anything. */
static int64_t number(struct input *in)
{
    static const int64_t edges[] = {0,    1,         -1,         INT64_MAX, INT64_MIN, INT64_MAX / 2, INT64_MIN / 2,
                                    1000, INT32_MAX, UINT32_MAX, INT32_MIN, 1ll << 53, 1ll << 62,     -(1ll << 62)};
    uint8_t k = byte(in);

    return k < ARRAY_SIZE(edges) ? edges[k] : k < 64 ? k : (int64_t) word(in);
}

static int64_t moment(struct input *in)
{
    uint8_t k = byte(in);

    return k < 200 ? now_ns - (int64_t) k * 1000000000 : number(in);
}

static struct str text(struct input *in, uint8_t max)
{
    struct str s = {(const char *) in->p, (uint32_t) MIN(in->n, byte(in) % (max + 1u))};

    s.p = (const char *) in->p;
    s.n = (uint32_t) MIN(s.n, in->n);
    in->p += s.n;
    in->n -= s.n;
    return s;
}

/* --- the store --- */

static uint32_t stack(struct builder *b, struct input *in)
{
    uint32_t locations[DEPTH_MAX], n = byte(in) % (DEPTH_MAX + 1);

    for (uint32_t i = 0; i < n; i++) {
        struct function f = {.name = builder_string(b, text(in, 4)), .filename = builder_string(b, text(in, 3))};
        struct line l = {.function = builder_function(b, &f), .line = number(in)};

        locations[i] = builder_location(
            b, &(struct builder_location){.address = (uint64_t) number(in), .lines = &l, .n_lines = 1});
    }
    return builder_stack(b, locations, n);
}

static void sample(struct builder *b, struct input *in, uint32_t n_types)
{
    uint64_t times[2] = {(uint64_t) moment(in), (uint64_t) moment(in)};
    int64_t values[4];
    struct link link = {.trace_id = {1, byte(in)}, .span_id = {1, byte(in)}};
    uint8_t kind = byte(in);
    uint32_t l = kind & 1 ? builder_link(b, &link) : 0;

    for (uint32_t i = 0; i < ARRAY_SIZE(values); i++)
        values[i] = number(in);
    if (n_types == 1 && kind & 2)
        builder_sample(b, &(struct builder_sample){.stack = stack(b, in),
                                                   .link = l,
                                                   .values = values,
                                                   .n_values = kind & 4 ? 2 : 0,
                                                   .timestamps = times,
                                                   .n_timestamps = 2});
    else
        builder_sample(
            b, &(struct builder_sample){.stack = stack(b, in), .link = l, .values = values, .n_values = n_types});
}

static void profile(struct builder *b, struct input *in)
{
    static const char *const types[][2] = {
        {"cpu", "nanoseconds"},   {"inuse_space", "bytes"}, {"things", "count"},     {"samples", "count"},
        {"alloc_space", "bytes"}, {"goroutine", "count"},   {"wall", "nanoseconds"}, {"", ""}};
    static const char *const services[] = {"shop", "cart", ""};
    struct value_type t[2];
    uint32_t n_types = byte(in) % 2 + 1;
    struct profile *p;

    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), str_from(services[byte(in) % ARRAY_SIZE(services)]));
    for (uint32_t i = 0; i < n_types; i++) {
        const char *const *k = types[byte(in) % ARRAY_SIZE(types)];

        t[i] = (struct value_type){builder_string(b, str_from(k[0])), builder_string(b, str_from(k[1]))};
    }
    p = builder_profile(b, t, n_types);
    if (!p)
        return;
    p->time_ns = moment(in);
    p->duration_ns = number(in);
    p->period = number(in);
    for (unsigned n = byte(in) % (SAMPLES_MAX + 1); n; n--)
        sample(b, in, n_types);
}

static void fill(struct store *s, struct input *in)
{
    for (unsigned n = byte(in) % (PROFILES_MAX + 1); n; n--) {
        _cleanup_(builder_freep) struct builder *b = NULL;
        _cleanup_(batch_unrefp) struct batch *batch = NULL;
        struct sink_context ctx = {.tenant = "", .received_ns = now_ns, .cumulative = byte(in) & 1};
        struct ack_result result = {0};

        if (builder_new(NULL, &b) < 0)
            return;
        profile(b, in);
        if (builder_finish(b, &batch, NULL) == 0)
            store_append_wait(s, batch, &ctx, &result);
    }
}

/* --- the question --- */

static void put_params(struct input *in, struct buf *out)
{
    static const char *const types[] = {"cpu", "heap", "things", "*", "alloc", "goroutine", "wall", "samples"};
    static const char *const by[] = {"function", "file", "line", "mapping", "package"};
    static const char *const sorts[] = {"self", "total", "delta", "share", "value", "time"};

    buf_printf(out, "query=%s&from=%lld&to=%lld", types[byte(in) % ARRAY_SIZE(types)], (long long) moment(in),
               (long long) moment(in));
    buf_printf(out, "&by=%s&sort=%s&step=%lldns&max_nodes=%lld&limit=%lld", by[byte(in) % ARRAY_SIZE(by)],
               sorts[byte(in) % ARRAY_SIZE(sorts)], (long long) number(in), (long long) (number(in) & 0xffff),
               (long long) (number(in) & 0xff));
    if (byte(in) & 1)
        buf_printf(out, "&base_from=%lld&base_to=%lld", (long long) moment(in), (long long) moment(in));
    if (byte(in) & 1)
        buf_puts(out, "&format=folded&group_by=service.name");
    buf_puts(out, "&function=");
    http_percent_encode(out, text(in, 4));
    buf_puts(out, "&zoom=");
    http_percent_encode(out, text(in, 8));
    buf_putc(out, '&');
    buf_put_str(out, text(in, 60));
}

static const char *const methods[] = {
    "ProfileTypes",   "LabelNames",         "LabelValues", "Series",        "SelectMergeStacktraces",
    "SelectSeries",   "SelectMergeProfile", "Diff",        "SelectHeatmap", "SelectMergeSpanProfile",
    "GetProfileStats"};

static void put_body(struct input *in, struct buf *out)
{
    static const char *const types[] = {"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
                                        "memory:inuse_space:bytes:space:bytes", "things:things:count:things:count"};
    const char *type = types[byte(in) % ARRAY_SIZE(types)];

    buf_printf(
        out,
        "{\"profileTypeID\":\"%s\",\"labelSelector\":\"{}\",\"start\":%lld,\"end\":%lld,\"step\":%g,\"maxNodes\":%lld,"
        "\"limit\":%lld,\"name\":\"service_name\",\"groupBy\":[\"service_name\"],\"spanSelector\":[\"0101000000000000\"],",
        type, (long long) moment(in) / 1000000, (long long) moment(in) / 1000000, (double) number(in),
        (long long) (number(in) & 0xffff), (long long) number(in));
    for (int i = 0; i < 2; i++)
        buf_printf(out, "%s\"%s\":{\"profileTypeID\":\"%s\",\"labelSelector\":\"{}\",\"start\":%lld,\"end\":%lld}",
                   i ? "," : "", i ? "right" : "left", type, (long long) moment(in) / 1000000,
                   (long long) moment(in) / 1000000);
    buf_putc(out, '}');
}

static void ask(struct front *f, const struct route *r, struct input *in)
{
    struct http_header type = {STR("content-type"), STR("application/json")};
    _cleanup_(buf_done) struct buf query = BUF_INIT, body = BUF_INIT;
    struct exchange x = {.q.status = 200, .q.peer = "127.0.0.1:1", .q.headers = {&type, 1, 1}};
    struct call c = {.front = f, .q = &x.q, .route = r, .content_type = "", .who.scope = AUTH_ADMIN};
    struct err e = {0};

    arena_init(&x.q.arena, 0);
    buf_init(&c.out, 64 << 20);
    put_params(in, &query);
    put_body(in, &body);
    x.q.method = str_from(r->method);
    x.q.path = str_from(r->path);
    x.q.query = buf_str(&query);
    x.q.body = strcmp(r->method, "POST") == 0 ? buf_str(&body) : (struct str){0};
    c.path_arg = strstr(r->path, "{method}") ? str_from(methods[byte(in) % ARRAY_SIZE(methods)]) : STR("service.name");
    if (r->run(&c, &e) < 0 && !e.message[0] && !e.code)
        e.code = 1; /* told by strerror() */
    buf_done(&c.out);
    buf_done(&x.q.answer);
    arena_done(&x.q.arena);
}

/* Questions only: nothing that waits, changes or looks at the machine. */
static bool is_question(const struct route *r)
{
    static const char *const paths[] = {"/api/v1/", "/pyroscope/", "/querier.", "/metrics"};

    if (!r->run || r->own_thread || (r->scope != AUTH_READ && r->scope != AUTH_NONE) || strstr(r->path, "log") ||
        strstr(r->path, "source"))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (strncmp(r->path, paths[i], strlen(paths[i])) == 0)
            return true;
    return false;
}

static void must(int r)
{
    if (r < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const mounts[])(struct front * f) = {api_mount_query,  api_mount_status,    api_mount_profile,
                                                      api_mount_render, api_mount_pyroscope, api_mount_views};
    static struct auth *auth;
    static struct workers *workers;
    struct store_config config = {.now = fixed_now, .max_late = -1, .max_early = -1};
    struct front_options o = {.memory_limit = 64 << 20, .version = "fuzz"};
    struct input in = {data, size}, question;
    const struct route *r;
    struct front *f;

    if (size < 4 || size > 4096)
        return 0;
    if (!auth) {
        must(auth_open("/nonexistent/tokens", &auth, NULL));
        must(workers_new(&(struct workers_options){.n = 1, .waiting = 4}, &workers, NULL));
    }
    must(store_open(&store_memory, &config, &o.store, NULL));
    o.auth = auth;
    o.workers = workers;
    must(front_new(&o, &f, NULL));
    for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
        must(mounts[i](f));
    fill(o.store, &in);
    for (size_t i = 0; (r = front_route(f, i)); i++) {
        question = in;
        if (is_question(r))
            ask(f, r, &question);
    }
    front_free(f);
    store_close(o.store);
    return 0;
}
