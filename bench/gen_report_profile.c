/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen_report_profile NODES SAMPLES > FILE.pb: a profile whose call graph has NODES nodes: a random call tree in which
 * every node is a function of its own, and SAMPLES stacks of it with values of very different size. Always the same for
 * the same numbers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "codec/pprof.h"
#include "model/builder.h"

enum { DEPTH_MAX = 64 };

static uint64_t state = 0x9e3779b97f4a7c15ull;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

struct tree {
    uint32_t *parent, *location;
    uint8_t *depth;
    uint32_t n;
};

static void grow_tree(struct builder *b, struct tree *t, uint32_t mapping)
{
    for (uint32_t i = 0; i < t->n; i++) {
        char name[96], file[64];
        struct function f = {0};
        struct line line;

        /* Deep and narrow with some wide nodes, as real programs are: mostly a child of a recent node. */
        do
            t->parent[i] = i ? (uint32_t) (next() % 8 ? i - 1 - next() % MIN(i, 64) : next() % i) : 0;
        while (i && t->depth[t->parent[i]] == DEPTH_MAX - 1);
        t->depth[i] = i ? t->depth[t->parent[i]] + 1 : 0;
        snprintf(name, sizeof(name), "example.com/project/module%u/pkg%u.(*Type%u).Method%u", i % 97, i % 1009,
                 i % 10007, i);
        snprintf(file, sizeof(file), "/src/project/module%u/pkg%u/file%u.go", i % 97, i % 1009, i % 31);
        f.name = f.system_name = builder_string(b, str_from(name));
        f.filename = builder_string(b, str_from(file));
        f.start_line = i % 500;
        line = (struct line){builder_function(b, &f), i % 500 + 3, 0};
        t->location[i] =
            builder_location(b, &(struct builder_location){
                                    .mapping = mapping, .address = 0x400000 + 16ull * i, .lines = &line, .n_lines = 1});
    }
}

static void add_samples(struct builder *b, const struct tree *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t stack[DEPTH_MAX], depth = 0, node = (uint32_t) (next() % t->n);
        int64_t v = 1 + (int64_t) (next() % 1000 ? next() % 10 : next() % 100000);

        for (;; node = t->parent[node]) {
            stack[depth++] = t->location[node];
            if (!node)
                break;
        }
        builder_sample(b, &(struct builder_sample){.stack = builder_stack(b, stack, depth),
                                                   .values = (int64_t[]){v, v * 10000000},
                                                   .n_values = 2});
    }
}

int main(int argc, char **argv)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct tree t = {.n = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 1000000};
    uint32_t samples = argc > 2 ? (uint32_t) strtoul(argv[2], NULL, 10) : 300000, mapping, yes;
    struct value_type types[2];
    struct profile *p;
    struct err e = {0};

    t.parent = mem_zalloc_array(t.n, sizeof(*t.parent));
    t.location = mem_zalloc_array(t.n, sizeof(*t.location));
    t.depth = mem_zalloc(t.n);
    if (!t.parent || !t.location || !t.depth || builder_new(&(struct builder_limits){0}, &b) < 0)
        return 1;
    types[0] = (struct value_type){builder_string(b, STR("samples")), builder_string(b, STR("count"))};
    types[1] = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    yes = builder_attr_bool(b, STR("pprof.mapping.has_functions"), true);
    mapping = builder_mapping(b,
                              &(struct mapping){.start = 0x400000,
                                                .limit = 0x400000 + 16ull * t.n,
                                                .filename = builder_string(b, STR("/bin/program"))},
                              &yes, 1);
    builder_resource(b);
    builder_scope(b, STR(""), STR(""));
    p = builder_profile(b, types, 2);
    if (!p)
        return 1;
    p->period_type = types[1];
    p->period = 10000000;
    p->time_ns = 1700000000000000000;
    p->duration_ns = 60000000000;
    grow_tree(b, &t, mapping);
    add_samples(b, &t, samples);
    mem_free(t.parent);
    mem_free(t.location);
    mem_free(t.depth);
    if (builder_finish(b, &batch, &e) < 0 || pprof_encode(batch, &batch->profiles[0], &out, &e) < 0 ||
        fd_write_all(STDOUT_FILENO, out.p, out.n) < 0) {
        fprintf(stderr, "gen_report_profile: %s\n", e.message);
        return 1;
    }
    return 0;
}
