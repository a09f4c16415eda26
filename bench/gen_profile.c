/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen_profile [-n NODES] [-f FUNCTIONS] [-s SEED] FILE: writes a pprof (uncompressed) of a call tree with NODES nodes
 * (default a million), as many functions (default: one per node) and a sample per leaf. Deep, bushy and the same every
 * time: a node's parent is one of the 40 before it or any before it, by turns of a coin, at most 200 deep.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/wire.h"

enum { DEPTH_MAX = 200, NEAR = 40, FIXED_STRINGS = 6, FILES = 997 };

static uint64_t state;

static uint64_t rnd(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

struct gen {
    uint32_t nodes, functions;
    uint32_t *parent; /* node 0 is the root */
    uint8_t *depth, *is_parent;
    struct buf out;
};

static void grow_tree(struct gen *g)
{
    for (uint32_t i = 1; i < g->nodes; i++) {
        uint32_t p;

        do
            p = rnd() & 1 ? i - 1 - (uint32_t) (rnd() % MIN(i, (uint32_t) NEAR)) : (uint32_t) (rnd() % i);
        while (g->depth[p] >= DEPTH_MAX - 1);
        g->parent[i] = p;
        g->depth[i] = (uint8_t) (g->depth[p] + 1);
        g->is_parent[p] = 1;
    }
}

static void put_types(struct gen *g)
{
    for (uint32_t i = 0; i < 2; i++) {
        size_t m = wire_begin(&g->out, 1, 4);

        wire_put_uint(&g->out, 1, 1 + 2 * i);
        wire_put_uint(&g->out, 2, 2 + 2 * i);
        wire_end(&g->out, m);
    }
}

static void put_samples(struct gen *g)
{
    uint32_t stack[DEPTH_MAX];

    for (uint32_t i = 0; i < g->nodes; i++) {
        uint64_t count = 1 + rnd() % (rnd() % 100 ? 20 : 5000);
        uint32_t n = 0;
        size_t m, values;

        if (g->is_parent[i])
            continue;
        for (uint32_t k = i; n < DEPTH_MAX; k = g->parent[k]) {
            stack[n++] = k + 1; /* location ids are node + 1 */
            if (!k)
                break;
        }
        m = wire_begin(&g->out, 2, n * 3 + 10);
        wire_put_packed_u32(&g->out, 1, stack, n);
        values = wire_begin(&g->out, 2, 10);
        wire_put_varint(&g->out, count);
        wire_put_varint(&g->out, count * 10000000);
        wire_end(&g->out, values);
        wire_end(&g->out, m);
    }
}

static void put_symbols(struct gen *g)
{
    size_t m = wire_begin(&g->out, 3, 40), l;

    wire_put_uint(&g->out, 1, 1);
    wire_put_uint(&g->out, 2, 0x400000);
    wire_put_uint(&g->out, 3, 0x40000000);
    wire_put_uint(&g->out, 5, 5);
    wire_put_uint(&g->out, 7, 1);
    wire_end(&g->out, m);
    for (uint32_t i = 0; i < g->nodes; i++) {
        m = wire_begin(&g->out, 4, 24);
        wire_put_uint(&g->out, 1, i + 1);
        wire_put_uint(&g->out, 2, 1);
        wire_put_uint(&g->out, 3, 0x400000 + (uint64_t) i * 16);
        l = wire_begin(&g->out, 4, 8);
        wire_put_uint(&g->out, 1, i % g->functions + 1);
        wire_put_uint(&g->out, 2, 10 + i % 1000);
        wire_end(&g->out, l);
        wire_end(&g->out, m);
    }
    for (uint32_t i = 0; i < g->functions; i++) {
        m = wire_begin(&g->out, 5, 16);
        wire_put_uint(&g->out, 1, i + 1);
        wire_put_uint(&g->out, 2, FIXED_STRINGS + FILES + i);
        wire_put_uint(&g->out, 3, FIXED_STRINGS + FILES + i);
        wire_put_uint(&g->out, 4, FIXED_STRINGS + i % FILES);
        wire_end(&g->out, m);
    }
}

static void put_strings(struct gen *g)
{
    static const char *const fixed[FIXED_STRINGS] = {"",    "samples",     "count",
                                                     "cpu", "nanoseconds", "/opt/app/bin/server"};
    static const char *const words[] = {"parse", "encode", "Lookup", "flush", "Walk", "handle", "merge", "Scan"};
    char s[128];

    for (uint32_t i = 0; i < FIXED_STRINGS; i++)
        wire_put_bytes_always(&g->out, 6, fixed[i], strlen(fixed[i]));
    for (uint32_t i = 0; i < FILES; i++)
        wire_put_bytes_always(&g->out, 6, s, (size_t) snprintf(s, sizeof s, "/src/app/pkg%u/file%u.go", i % 61, i));
    for (uint32_t i = 0; i < g->functions; i++)
        wire_put_bytes_always(
            &g->out, 6, s,
            (size_t) snprintf(s, sizeof s, "app/pkg%u.(*%sServer).%s%u", i % 61, words[i / 8 % 8], words[i % 8], i));
}

static void put_rest(struct gen *g)
{
    size_t m;

    wire_put_uint(&g->out, 9, 1700000000000000000);
    wire_put_uint(&g->out, 10, 60000000000);
    m = wire_begin(&g->out, 11, 4);
    wire_put_uint(&g->out, 1, 3);
    wire_put_uint(&g->out, 2, 4);
    wire_end(&g->out, m);
    wire_put_uint(&g->out, 12, 10000000);
}

int main(int argc, char **argv)
{
    struct gen g = {.nodes = 1000000};
    struct err e = {0};
    int c;

    while ((c = getopt(argc, argv, "n:f:s:")) != -1) {
        if (c == 'n')
            g.nodes = (uint32_t) strtoul(optarg, NULL, 10);
        else if (c == 'f')
            g.functions = (uint32_t) strtoul(optarg, NULL, 10);
        else if (c == 's')
            state = strtoull(optarg, NULL, 10);
        else
            return 2;
    }
    if (optind + 1 != argc || !g.nodes) {
        fputs("usage: gen_profile [-n NODES] [-f FUNCTIONS] [-s SEED] FILE\n", stderr);
        return 2;
    }
    if (!g.functions)
        g.functions = g.nodes;
    g.parent = mem_zalloc_array(g.nodes, sizeof *g.parent);
    g.depth = mem_zalloc_array(g.nodes, 1);
    g.is_parent = mem_zalloc_array(g.nodes, 1);
    if (!g.parent || !g.depth || !g.is_parent)
        return 1;
    grow_tree(&g);
    put_types(&g);
    put_samples(&g);
    put_symbols(&g);
    put_strings(&g);
    put_rest(&g);
    c = buf_error(&g.out) < 0 ? buf_error(&g.out) : fd_write_file(argv[optind], g.out.p, g.out.n, &e);
    if (c < 0)
        fprintf(stderr, "gen_profile: %s\n", err_message(&e, c));
    mem_free(g.parent);
    mem_free(g.depth);
    mem_free(g.is_parent);
    buf_done(&g.out);
    return c < 0;
}
