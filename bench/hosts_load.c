/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many hosts at one server: hosts_load HOST:PORT HOSTS SECONDS. Each host is an agent of a machine with 8 busy CPUs at 19 Hz that exports
 * every 10 seconds over gRPC: 1520 samples with times, threads and CPUs, of 40 processes. Requests are sent when they are due, whatever
 * became of those before (open loop). The hosts run 50 kinds of processes in common, as a fleet does; each has its own host.name.
 *
 * Prints: requests refused samples seconds p50_ms p99_ms max_ms bytes_per_request
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/tools/grpc_client.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/otlp.h"
#include "model/builder.h"

enum {
    TEMPLATES = 50,
    PROCESSES = 40,
    CPUS = 8,
    HZ = 19,
    INTERVAL = 10,
    SAMPLES = CPUS * HZ * INTERVAL,
    CONNECTIONS = 256
};
static const char path[] = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
static const char host_name[] = "host-000000";

struct template
{
    struct buf frame;
    uint32_t *times, *names; /* places of fixed64 times and of the host's name */
    uint32_t n_times, n_names;
};

struct sent {
    struct grpc_call call;
    char *frame;
    int64_t due;
};

static struct template templates[TEMPLATES];
static struct client *clients[CONNECTIONS];
static struct loop *loop;
static struct loop_timer timer;
static uint32_t hosts, n_requests, next_request, n_done, n_refused;
static int64_t started, base_time;
static double *latencies;
static uint64_t state = 88172645463325252ull;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t) ((state >> 32) * n >> 32);
}

/* --- what a host sends --- */

static uint32_t make_stack(struct builder *b, uint32_t kind, uint32_t which)
{
    uint32_t list[32], depth = 8 + (kind * 31 + which * 7) % 20;
    char text[64];

    for (uint32_t k = 0; k < depth; k++) {
        uint32_t id = k < 5 ? k : (which * 97 + k * 13) % 400;
        struct line l = {.line = 10 + (int64_t) id};
        struct mapping m = {0};
        uint32_t build_id;

        snprintf(text, sizeof text, "program-%02u", kind);
        m.filename = builder_string(b, str_from(text));
        build_id = builder_attr_str(b, STR("process.executable.build_id.gnu"), str_from(text));
        snprintf(text, sizeof text, "program%u::module%u::function_%u", kind, id / 20, id);
        l.function = builder_function(b, &(struct function){.name = builder_string(b, str_from(text)),
                                                            .filename = builder_string(b, STR("src/module.cc"))});
        list[depth - 1 - k] =
            builder_location(b, &(struct builder_location){.mapping = builder_mapping(b, &m, &build_id, 1),
                                                           .address = 0x1000 + id * 64,
                                                           .lines = &l,
                                                           .n_lines = 1});
    }
    return builder_stack(b, list, depth);
}

static void add_process(struct builder *b, uint32_t kind, uint32_t pid, uint32_t n)
{
    struct value_type type = {builder_string(b, STR("samples")), builder_string(b, STR("count"))};
    struct profile *p;
    char name[32];

    builder_resource(b);
    snprintf(name, sizeof name, "program-%02u", kind);
    builder_resource_attr_str(b, STR("service.name"), str_from(name));
    builder_resource_attr_str(b, STR("host.name"), str_from(host_name));
    builder_resource_attr(b, STR("process.pid"), &(struct value){.kind = VALUE_INT, .integer = pid});
    builder_scope(b, STR("wick"), STR("1"));
    p = builder_profile(b, &type, 1);
    p->time_ns = base_time;
    p->duration_ns = INTERVAL * NS_PER_S;
    p->period = NS_PER_S / HZ;
    p->period_type = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    for (uint32_t i = 0; i < n; i++) {
        uint64_t time = (uint64_t) (base_time + (int64_t) below(INTERVAL * 1000) * 1000000 + below(1000000));
        double u = (double) below(1 << 20) / (1 << 20);
        uint32_t attrs[2] = {builder_attr_int(b, STR("thread.id"), pid + below(4), (struct str){0}),
                             builder_attr_int(b, STR("cpu.logical_number"), below(CPUS), (struct str){0})};
        int64_t one = 1;

        builder_sample(b, &(struct builder_sample){.stack = make_stack(b, kind, (uint32_t) (60 * u * u * u)),
                                                   .attrs = builder_attrs(b, attrs, 2),
                                                   .values = &one,
                                                   .n_values = 1,
                                                   .timestamps = &time,
                                                   .n_timestamps = 1});
    }
}

/* Finds what differs between hosts and times: bytes that stand in the request as they are. */
static void find_places(struct template *t)
{
    size_t n = t->frame.n, name = sizeof host_name - 1;

    t->times = mem_zalloc_array(n, sizeof *t->times);
    t->names = mem_zalloc_array(n, sizeof *t->names);
    for (uint32_t i = 5; i + name <= n && t->times && t->names; i++) {
        uint64_t v;

        memcpy(&v, t->frame.p + i, sizeof v);
        if (v >= (uint64_t) base_time && v <= (uint64_t) base_time + INTERVAL * NS_PER_S)
            t->times[t->n_times++] = i;
        else if (memcmp(t->frame.p + i, host_name, name) == 0)
            t->names[t->n_names++] = i;
    }
}

static void make_template(uint32_t number)
{
    struct template *t = &templates[number];
    struct builder *b;
    struct batch *out;
    struct err e = {0};
    char prefix[5] = {0};
    uint32_t left = SAMPLES, n;

    if (builder_new(NULL, &b) < 0)
        exit(1);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        uint32_t part = i + 1 == PROCESSES ? left : MIN(left, SAMPLES / (3 * (i + 1)) + 1);

        add_process(b, (number + i) % 50, 1000 + i * 10, part);
        left -= part;
    }
    buf_put(&t->frame, prefix, sizeof prefix);
    if (builder_finish(b, &out, &e) < 0 || otlp_encode(out, NULL, &t->frame, &e) < 0)
        exit((fprintf(stderr, "%s\n", e.message), 1));
    n = htobe32((uint32_t) t->frame.n - 5);
    memcpy(t->frame.p + 1, &n, 4);
    find_places(t);
    builder_free(b);
    batch_unref(out);
}

/* --- sending --- */

static void finished(struct grpc_call *c)
{
    struct sent *s = container_of(c, struct sent, call);

    latencies[n_done++] = (double) (clock_mono() - s->due) / 1e6;
    if (c->status.code != GRPC_OK && n_refused++ < 3)
        fprintf(stderr, "hosts_load: %s\n", c->status.message);
    grpc_call_done(c);
    mem_free(s->frame);
    mem_free(s);
    if (n_done == n_requests)
        loop_stop(loop);
}

static void send_one(uint32_t number, int64_t due)
{
    uint32_t host = number % hosts;
    const struct template *t = &templates[host % TEMPLATES];
    struct sent *s = mem_zalloc(sizeof *s);
    int64_t move = clock_wall() - INTERVAL * NS_PER_S - base_time;
    char name[sizeof host_name + 8];

    if (!s || !(s->frame = mem_alloc(t->frame.n)))
        exit(1);
    memcpy(s->frame, t->frame.p, t->frame.n);
    for (uint32_t i = 0; i < t->n_times; i++) {
        uint64_t v;

        memcpy(&v, s->frame + t->times[i], sizeof v);
        v += (uint64_t) move;
        memcpy(s->frame + t->times[i], &v, sizeof v);
    }
    snprintf(name, sizeof name, "host-%06u", host % 1000000);
    for (uint32_t i = 0; i < t->n_names; i++)
        memcpy(s->frame + t->names[i], name, sizeof host_name - 1);
    s->due = due;
    s->call = (struct grpc_call){.path = str_from(path),
                                 .framed = {s->frame, (uint32_t) t->frame.n},
                                 .timeout_ns = 60 * NS_PER_S,
                                 .done = finished};
    if (grpc_call_start(clients[host % CONNECTIONS], &s->call) < 0)
        exit((fprintf(stderr, "%s\n", s->call.status.message), 1));
}

static void tick(struct loop_timer *t)
{
    while (next_request < n_requests) {
        int64_t due = started + (int64_t) ((double) next_request / hosts * INTERVAL * 1e9);

        if (due > clock_mono()) {
            loop_timer_set(loop, t, due);
            return;
        }
        send_one(next_request++, due);
    }
}

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    char url[256];
    struct err e = {0};

    if (argc != 4 || atoi(argv[2]) <= 0 || atoi(argv[3]) <= 0)
        return fprintf(stderr, "usage: hosts_load HOST:PORT HOSTS SECONDS\n"), 2;
    hosts = (uint32_t) atoi(argv[2]);
    n_requests = (uint32_t) ((double) hosts * atoi(argv[3]) / INTERVAL);
    base_time = clock_wall();
    for (uint32_t i = 0; i < TEMPLATES; i++)
        make_template(i);
    latencies = mem_zalloc_array((size_t) n_requests + 1, sizeof *latencies);
    if (!latencies || !n_requests || loop_new(&loop, &e) < 0)
        return 1;
    snprintf(url, sizeof url, "http://%s", argv[1]);
    for (int i = 0; i < CONNECTIONS; i++)
        if (client_new(&(struct client_options){.loop = loop, .url = url, .protocol = CLIENT_HTTP2}, &clients[i], &e) <
            0)
            return fprintf(stderr, "%s\n", e.message), 1;
    timer.fire = tick;
    started = clock_mono();
    tick(&timer);
    loop_run(loop);
    qsort(latencies, n_requests, sizeof *latencies, cmp_double);
    printf("%u %u %llu %.3f %.1f %.1f %.1f %zu\n", n_requests, n_refused,
           (unsigned long long) (n_requests - n_refused) * SAMPLES, (double) (clock_mono() - started) / 1e9,
           latencies[n_requests / 2], latencies[(size_t) n_requests * 99 / 100], latencies[n_requests - 1],
           templates[0].frame.n);
    return 0;
}
