/* SPDX-License-Identifier: Apache-2.0 */
/* Generates batches for tests of the store: random but reproducible by seed, with everything that a batch can
 * contain. */
#ifndef TESTS_STORE_GEN_H
#define TESTS_STORE_GEN_H

#include <stdio.h>

#include "base/clock.h"
#include "model/builder.h"

#define GEN_T0 (1700000000ll * NS_PER_S) /* a multiple of neither five minutes nor an hour */

struct gen {
    uint64_t state;
    uint32_t services, instances, stacks, depth;
};

static inline uint64_t gen_next(struct gen *g)
{
    g->state ^= g->state << 13;
    g->state ^= g->state >> 7;
    g->state ^= g->state << 17;
    return g->state * 0x2545f4914f6cdd1dull;
}

static inline uint32_t gen_below(struct gen *g, uint32_t n)
{
    return n ? (uint32_t) (gen_next(g) >> 33) % n : 0;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* callers pass literals */
static inline struct str gen_name(char *out, size_t size, const char *fmt, unsigned n)
{
    return (struct str){out, (uint32_t) snprintf(out, size, fmt, n)};
}

/* A location: interpreted, native with names, or native without. */
static inline uint32_t gen_location(struct builder *b, uint32_t k)
{
    char name[64], file[64];
    struct line lines[2] = {0};
    uint32_t n = 0, mapping = 0, kind;

    if (k % 5 != 4) {
        lines[n].function = builder_function(
            b, &(struct function){.name = builder_string(b, gen_name(name, sizeof name, "fn%u", k / 2)),
                                  .filename = builder_string(b, gen_name(file, sizeof file, "src/f%u.c", k / 8)),
                                  .start_line = k / 2});
        lines[n++].line = k;
        if (k % 7 == 3) {
            lines[n].function = builder_function(
                b, &(struct function){.name = builder_string(b, gen_name(name, sizeof name, "outer%u", k / 4))});
            lines[n++].line = k + 1;
        }
    }
    if (k % 3) {
        uint32_t id =
            builder_attr_str(b, STR("process.executable.build_id.gnu"), gen_name(name, sizeof name, "beef%02u", k % 4));

        mapping = builder_mapping(
            b, &(struct mapping){.filename = builder_string(b, gen_name(file, sizeof file, "/usr/bin/x%u", k % 4))},
            &id, 1);
        return builder_location(
            b, &(struct builder_location){.mapping = mapping, .address = 0x1000 + k, .lines = lines, .n_lines = n});
    }
    if (!n)
        lines[n++].function = builder_function(b, &(struct function){.name = builder_string(b, STR("lone"))});
    kind = builder_attr_str(b, STR("profile.frame.type"), STR("cpython"));
    return builder_location(b, &(struct builder_location){.lines = lines, .n_lines = n, .attrs = &kind, .n_attrs = 1});
}

static inline uint32_t gen_stack(struct builder *b, struct gen *g, uint32_t service)
{
    uint32_t list[64], seed = gen_below(g, g->stacks) + service * g->stacks, n;
    struct gen s = {.state = seed * 7919ull + 12345};

    for (int i = 0; i < 4; i++)
        gen_next(&s);
    n = gen_below(&s, g->depth);
    for (uint32_t i = 0; i < n; i++)
        list[i] = gen_location(b, gen_below(&s, 60) + (i > n / 2 ? 0 : service * 20));
    return builder_stack(b, list, n);
}

enum gen_kind { GEN_CPU, GEN_COUNTS, GEN_GO_CPU, GEN_HEAP, GEN_EVENTS, GEN_ODD, GEN_KINDS };

static inline struct profile *gen_profile(struct builder *b, enum gen_kind kind)
{
    static const char *const types[GEN_KINDS][4][2] = {
        [GEN_CPU] = {{"cpu", "nanoseconds"}},
        [GEN_COUNTS] = {{"samples", "count"}},
        [GEN_GO_CPU] = {{"samples", "count"}, {"cpu", "nanoseconds"}},
        [GEN_HEAP] = {{"alloc_objects", "count"},
                      {"alloc_space", "bytes"},
                      {"inuse_objects", "count"},
                      {"inuse_space", "bytes"}},
        [GEN_EVENTS] = {{"off_cpu", "nanoseconds"}},
        [GEN_ODD] = {{"cache-misses", "count"}},
    };
    struct value_type v[4];
    struct profile *p;
    uint32_t n = 0;

    for (; n < 4 && types[kind][n][0]; n++)
        v[n] = (struct value_type){builder_string(b, str_from(types[kind][n][0])),
                                   builder_string(b, str_from(types[kind][n][1]))};
    p = builder_profile(b, v, n);
    if (p && kind != GEN_HEAP) {
        p->period_type = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
        p->period = 10000000;
    }
    return p;
}

static inline void gen_sample(struct builder *b, struct gen *g, enum gen_kind kind, uint32_t service, int64_t time)
{
    uint32_t stack = gen_stack(b, g, service), link = 0, attrs[2], n_attrs = 0;
    int64_t v = 1 + gen_below(g, 20), values[4] = {v, v, v, v};
    uint64_t ts[3];
    char name[32];

    if (gen_below(g, 8) == 0)
        link = builder_link(
            b, &(struct link){.trace_id = {1, (uint8_t) gen_below(g, 4)}, .span_id = {2, (uint8_t) gen_below(g, 3)}});
    if (gen_below(g, 3) == 0)
        attrs[n_attrs++] = builder_attr_int(b, STR("thread.id"), gen_below(g, 4), (struct str){0});
    if (gen_below(g, 5) == 0)
        attrs[n_attrs++] = builder_attr_str(b, STR("thread.name"), gen_name(name, sizeof name, "w%u", gen_below(g, 3)));
    if (kind == GEN_GO_CPU)
        values[1] = v * 10000000;
    if (kind == GEN_CPU)
        values[0] = v * 10000000;
    if (kind == GEN_HEAP)
        for (int i = 0; i < 4; i++)
            values[i] = v * (i & 1 ? 512 : 1) + (i > 1 ? gen_below(g, 3) : 0);
    if (kind == GEN_EVENTS) {
        uint32_t n = 1 + gen_below(g, 3);

        for (uint32_t i = 0; i < n; i++) {
            ts[i] = (uint64_t) time + gen_below(g, 1000000000);
            values[i] = 1000 + gen_below(g, 100000);
        }
        builder_sample(b, &(struct builder_sample){.stack = stack,
                                                   .link = link,
                                                   .attrs = builder_attrs(b, attrs, n_attrs),
                                                   .values = values,
                                                   .n_values = n,
                                                   .timestamps = ts,
                                                   .n_timestamps = n});
        return;
    }
    builder_sample(b, &(struct builder_sample){.stack = stack,
                                               .link = link,
                                               .attrs = builder_attrs(b, attrs, n_attrs),
                                               .values = values,
                                               .n_values = kind == GEN_GO_CPU ? 2
                                                           : kind == GEN_HEAP ? 4
                                                                              : 1});
}

/* One request of a few resources with a few profiles each. start: of the first profile. */
static inline struct batch *gen_batch(struct gen *g, int64_t start)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct batch *out = NULL;
    char name[32];

    if (builder_new(NULL, &b) < 0)
        return NULL;
    for (uint32_t r = 0, n = 1 + gen_below(g, 2); r < n; r++) {
        uint32_t service = gen_below(g, g->services);

        builder_resource(b);
        builder_resource_attr_str(b, STR("service.name"), gen_name(name, sizeof name, "svc-%u", service));
        builder_resource_attr_str(b, STR("host.name"), gen_name(name, sizeof name, "host-%u", gen_below(g, 2)));
        builder_resource_attr(b, STR("process.pid"),
                              &(struct value){.kind = VALUE_INT, .integer = 100 + gen_below(g, g->instances)});
        builder_scope(b, STR("gen"), STR("1"));
        builder_scope_attr(b, STR("wick.rate"), &(struct value){.kind = VALUE_INT, .integer = 19});
        for (uint32_t k = 0, m = 1 + gen_below(g, 3); k < m; k++) {
            enum gen_kind kind = gen_below(g, GEN_KINDS);
            struct profile *p = gen_profile(b, kind);
            int64_t time = start + gen_below(g, 20) * NS_PER_S;

            if (!p)
                return NULL;
            p->time_ns = time;
            p->duration_ns = 10 * NS_PER_S;
            for (int i = 0; i < 16; i++)
                p->id[i] = (uint8_t) gen_next(g);
            if (gen_below(g, 3) == 0)
                memset(p->id, 0, 16);
            for (uint32_t s = 0, n_s = gen_below(g, 40); s < n_s; s++)
                gen_sample(b, g, kind, service, time);
        }
    }
    return builder_finish(b, &out, NULL) < 0 ? NULL : out;
}

#endif
