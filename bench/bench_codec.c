/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of OTLP profiles against protobuf-c with a bump allocator (protobuf), json-c and yajl (JSON), in one process,
 * round by round in turns, by CPU time.
 *
 *     bench_codec generate DIR      writes small.pb, mb1.pb, agg.pb and their .json
 *     bench_codec FILE...           prints "NAME BYTES WICK PEER... " per file: MB/s, then bytes of memory per input byte
 *
 * wick's side is the whole job: everything decoded, every index checked, the batch freed. protobuf-c fills an arena that
 * is reset, not freed, in between; it checks no index. yajl only tokenises (empty callbacks); json-c builds its tree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "codec/otlp.h"
#include "codec_peers.h"
#include "model/batch.h"
#include "model/builder.h"
#include "otlp_bench.pb-c.h"

enum { ROUNDS = 7, ROUND_MS = 150, BUMP_SIZE = 64 << 20 };

/* --- generating --- */

struct shape {
    const char *name;
    uint32_t functions, locations, stacks, depth, samples, resources;
    bool times;
};

/* The sizes that requests had which were measured on a real Collector. */
static const struct shape shapes[] = {
    {"small", 800, 1200, 300, 30, 1000, 1, true},
    {"mb1", 3000, 9000, 3500, 30, 13000, 8, true},
    {"agg", 6000, 12000, 4000, 40, 4000, 1, false},
};

static uint64_t seed = 88172645463325252ull;

static uint32_t rnd(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t) (seed >> 32) % n;
}

static uint32_t text(struct builder *b, const char *fmt, uint32_t i)
{
    static const char *const words[] = {"map", "epoll", "vector", "write", "lookup", "arena", "thread", "future"};
    char s[160];
    int n = snprintf(s, sizeof s, fmt, words[rnd(8)], words[rnd(8)], i);

    return builder_string(b, (struct str){s, (uint32_t) n});
}

static void add_locations(struct builder *b, const struct shape *s, uint32_t *locations)
{
    uint32_t kind = builder_attr_str(b, STR("profile.frame.type"), STR("native")), mapping[16], function[6000];

    for (uint32_t i = 0; i < 16; i++) {
        uint32_t id = builder_attr_str(b, STR("process.executable.build_id.gnu"),
                                       STR("8039f7ccd49f0a64b0da7b7ee32da67cbbb08082"));

        mapping[i] =
            builder_mapping(b,
                            &(struct mapping){.start = 0x7f0000000000 + i * 0x1000000ull,
                                              .limit = 0x7f0000800000 + i * 0x1000000ull,
                                              .filename = text(b, "/usr/lib/x86_64-linux-gnu/lib%s%s.so.%u", i)},
                            &id, 1);
    }
    for (uint32_t i = 0; i < s->functions; i++)
        function[i] =
            builder_function(b, &(struct function){.name = text(b, "%s::%s::call_%u(std::basic_string const&)", i),
                                                   .system_name = text(b, "_ZN5%s%s9%08uE", i),
                                                   .filename = text(b, "/src/%s/%s/file%u.cc", i),
                                                   .start_line = 1 + rnd(3000)});
    for (uint32_t i = 0; i < s->locations; i++) {
        struct line l = {.function = function[rnd(s->functions)], .line = 1 + rnd(4000)};

        locations[i] = builder_location(b, &(struct builder_location){.mapping = mapping[rnd(16)],
                                                                      .address = 0x7f0000000000 + rnd(0x10000000) + i,
                                                                      .lines = &l,
                                                                      .n_lines = 1,
                                                                      .attrs = &kind,
                                                                      .n_attrs = 1});
    }
}

static void add_samples(struct builder *b, const struct shape *s, const uint32_t *stacks, uint32_t n)
{
    uint32_t set[3];

    for (uint32_t i = 0; i < n; i++) {
        int64_t v = s->times ? 1 : 1 + rnd(5000000);
        uint64_t t = 1767225600000000000ull + rnd(1000000000);
        char name[32];
        int len = snprintf(name, sizeof name, "worker-%u", rnd(20));

        set[0] = builder_attr_int(b, STR("thread.id"), 1000 + rnd(20), (struct str){0});
        set[1] = builder_attr_str(b, STR("thread.name"), (struct str){name, (uint32_t) len});
        set[2] = builder_attr_int(b, STR("cpu.logical_number"), rnd(16), (struct str){0});
        builder_sample(b, &(struct builder_sample){.stack = stacks[rnd(s->stacks)],
                                                   .attrs = builder_attrs(b, set, 3),
                                                   .values = &v,
                                                   .n_values = 1,
                                                   .timestamps = &t,
                                                   .n_timestamps = s->times});
    }
}

static struct batch *make(const struct shape *s)
{
    static const char *const keys[] = {"service.version", "service.namespace", "host.name",
                                       "container.id",    "k8s.pod.name",      "process.executable.path"};
    struct builder *b = NULL;
    struct batch *ret = NULL;
    uint32_t *locations = calloc(s->locations, 4), *stacks = calloc(s->stacks, 4), path[64];

    if (builder_new(NULL, &b) < 0 || !locations || !stacks)
        abort();
    add_locations(b, s, locations);
    for (uint32_t i = 0; i < s->stacks; i++) {
        uint32_t n = s->depth / 2 + rnd(s->depth);

        for (uint32_t k = 0; k < n; k++)
            path[k] = locations[rnd(s->locations)];
        stacks[i] = builder_stack(b, path, n);
    }
    for (uint32_t i = 0; i < s->resources; i++) {
        struct profile *p;

        builder_resource(b);
        builder_resource_attr_str(b, STR("service.name"), STR("checkout"));
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            builder_resource_attr_str(b, str_from(keys[k]), STR("a value of ordinary length"));
        builder_resource_attr(b, STR("process.pid"), &(struct value){.kind = VALUE_INT, .integer = 4000 + i});
        builder_scope(b, STR("profiler"), STR("1.0"));
        p = builder_profile(b, &(struct value_type){builder_string(b, STR("samples")), builder_string(b, STR("count"))},
                            1);
        p->time_ns = 1767225600000000000;
        p->duration_ns = 5000000000;
        p->period = 52631578;
        add_samples(b, s, stacks, s->samples / s->resources);
    }
    if (builder_finish(b, &ret, NULL) < 0)
        abort();
    builder_free(b);
    free(locations);
    free(stacks);
    return ret;
}

static int generate(const char *dir)
{
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
        for (int json = 0; json < 2; json++) {
            struct batch *b = make(&shapes[i]);
            _cleanup_(buf_done) struct buf out = BUF_INIT;
            char path[4096];
            struct err e;

            snprintf(path, sizeof path, "%s/%s.%s", dir, shapes[i].name, json ? "json" : "pb");
            if ((json ? otlp_json_encode(b, &out, &e) : otlp_encode(b, NULL, &out, &e)) < 0 ||
                fd_write_file(path, out.p, out.n, &e) < 0)
                return fprintf(stderr, "%s\n", e.message), 1;
            batch_unref(b);
        }
    return 0;
}

/* --- measuring --- */

static char *bump, *bump_at;

static void *bump_alloc(void *unused, size_t n)
{
    char *p = bump_at;

    n = (n + 15) & ~(size_t) 15;
    if (n > (size_t) (bump + BUMP_SIZE - p))
        return NULL;
    bump_at += n;
    return p;
}

static void bump_free(void *unused, void *p)
{
}

static ProtobufCAllocator bump_allocator = {bump_alloc, bump_free, NULL};
static size_t wick_memory, peer_memory;

static void run_wick(const struct buf *in)
{
    struct batch *b = NULL;
    struct err e;

    if (otlp_decode_borrowed(in->p, in->n, NULL, &b, &e) < 0) {
        fprintf(stderr, "wick: %s\n", e.message);
        exit(1);
    }
    wick_memory = batch_memory(b);
    batch_unref(b);
}

static void run_wick_json(const struct buf *in)
{
    struct batch *b = NULL;
    struct err e;

    if (otlp_json_decode_borrowed(in->p, in->n, NULL, &b, &e) < 0) {
        fprintf(stderr, "wick: %s\n", e.message);
        exit(1);
    }
    wick_memory = batch_memory(b);
    batch_unref(b);
}

static void run_wick_skip(const struct buf *in)
{
    struct arena a;
    struct json r;

    arena_init(&a, 0);
    json_init(&r, buf_str(in), &a);
    json_skip(&r);
    if (json_end(&r) < 0)
        exit(1);
    arena_done(&a);
}

static void run_protobuf_c(const struct buf *in)
{
    bump_at = bump;
    if (!otlp_bench__request__unpack(&bump_allocator, in->n, (const uint8_t *) in->p)) {
        fprintf(stderr, "protobuf-c refuses it\n");
        exit(1);
    }
    peer_memory = (size_t) (bump_at - bump);
}

static void run_json_c(const struct buf *in)
{
    if (!peer_json_c(in->p, in->n))
        exit(1);
}

static void run_yajl(const struct buf *in)
{
    if (!peer_yajl(in->p, in->n))
        exit(1);
}

static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static double one_round(void (*f)(const struct buf *), const struct buf *in)
{
    double start = cpu(), took;
    unsigned n = 0;

    do {
        f(in);
        n++;
        took = cpu() - start;
    } while (took < ROUND_MS / 1e3);
    return (double) in->n * n / 1e6 / took;
}

/* Best of ROUNDS, the contenders taking turns. */
static void measure(const struct buf *in, void (*const *f)(const struct buf *), size_t n, double *best)
{
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++)
            best[i] = MAX(best[i], one_round(f[i], in));
}

int main(int argc, char **argv)
{
    static void (*const binary[])(const struct buf *) = {run_wick, run_protobuf_c};
    static void (*const text_form[])(const struct buf *) = {run_wick_json, run_wick_skip, run_json_c, run_yajl};

    if (argc == 3 && strcmp(argv[1], "generate") == 0)
        return generate(argv[2]);
    bump = malloc(BUMP_SIZE);
    for (int i = 1; i < argc; i++) {
        _cleanup_(buf_done) struct buf in = BUF_INIT;
        const char *name = strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i];
        bool json = str_ends(str_from(name), STR(".json"));
        double best[4] = {0};
        struct err e;

        if (fd_read_file(argv[i], 256 << 20, &in, &e) < 0)
            return fprintf(stderr, "%s\n", e.message), 1;
        measure(&in, json ? text_form : binary, json ? 4 : 2, best);
        printf("%s %zu %.1f %.1f %.1f %.1f %.2f %.2f\n", name, in.n, best[0], best[1], best[2], best[3],
               (double) wick_memory / (double) in.n, (double) peer_memory / (double) in.n);
    }
    return 0;
}
