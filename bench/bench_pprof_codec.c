/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding of pprof against protobuf-c with a bump allocator, in one process, round by round in turns, by CPU time.
 *
 *     bench_pprof_codec FILE...    prints "NAME BYTES WICK PROTOBUF-C WICK-GZ WICK-MEMORY PEER-MEMORY WRITE" per file:
 *                                  MB/s of inflated input (decoding; decoding of the gzipped file; encoding), and bytes
 *                                  of tables per byte of input
 *
 * wick's side is the whole job: every id and index checked and resolved, the batch freed. protobuf-c fills an arena that
 * is reset, not freed, in between; it resolves and checks nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/compress.h"
#include "base/fd.h"
#include "codec/pprof.h"
#include "pprof_bench.pb-c.h"

enum { ROUNDS = 7 };
static const double round_s = 0.15;

struct bump {
    char *p;
    size_t n, cap;
};

static void *bump_alloc(void *data, size_t n)
{
    struct bump *b = data;
    void *p = b->p + b->n;

    n = (n + 7) & ~(size_t) 7;
    if (b->n + n > b->cap)
        return NULL;
    b->n += n;
    return p;
}

static void bump_free(void *data, void *p)
{
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_pprof_codec: %s\n", what);
    exit(1);
}

struct job {
    struct buf plain, gz;
    struct bump bump;
    size_t tables;
    struct batch *b;
    struct buf out;
};

/* Each returns the seconds that one go took, without the copy that gives the decoder its own input. */
static double wick_once(struct job *j, const struct buf *from)
{
    struct pprof_limits limits = {.inflated = 1u << 31, .memory = SIZE_MAX / 2};
    struct buf in = BUF_INIT;
    struct batch *b = NULL;
    struct err e = {0};
    double start;

    buf_put(&in, from->p, from->n);
    start = now();
    if (pprof_decode(&in, &limits, &b, &e) < 0)
        die(e.message);
    j->tables = batch_memory(b) - b->input_size;
    batch_unref(b);
    return now() - start;
}

static double wick_plain(struct job *j)
{
    return wick_once(j, &j->plain);
}

static double wick_gz(struct job *j)
{
    return wick_once(j, &j->gz);
}

static double peer_once(struct job *j)
{
    ProtobufCAllocator a = {.alloc = bump_alloc, .free = bump_free, .allocator_data = &j->bump};
    double start = now();

    j->bump.n = 0;
    if (!pprof_bench__profile__unpack(&a, j->plain.n, (const uint8_t *) j->plain.p))
        die("protobuf-c cannot read it");
    return now() - start;
}

static double write_once(struct job *j)
{
    double start = now();

    buf_reset(&j->out);
    if (pprof_encode(j->b, j->b->profiles, &j->out, NULL) < 0)
        die("cannot encode");
    return now() - start;
}

int main(int argc, char **argv)
{
    static double (*const sides[])(struct job *) = {wick_plain, peer_once, wick_gz, write_once};

    for (int i = 1; i < argc; i++) {
        struct job j = {0};
        struct buf copy = BUF_INIT;
        struct err e = {0};
        double best[4] = {1e9, 1e9, 1e9, 1e9};
        const char *name = strrchr(argv[i], '/');

        if (fd_read_file(argv[i], 1u << 31, &j.plain, &e) < 0 || compress_inflate_detect(&j.plain, 1u << 31, &e) < 0 ||
            compress_deflate(COMPRESS_GZIP, 6, j.plain.p, j.plain.n, &j.gz, &e) < 0)
            die(e.message);
        j.bump.cap = j.plain.n * 16 + (1 << 20);
        j.bump.p = malloc(j.bump.cap);
        memset(j.bump.p, 1, j.bump.cap);
        buf_put(&copy, j.plain.p, j.plain.n);
        if (pprof_decode(&copy, &(struct pprof_limits){.inflated = 1u << 31, .memory = SIZE_MAX / 2}, &j.b, &e) < 0)
            die(e.message);
        for (int round = 0; round < ROUNDS; round++)
            for (int s = 0; s < 4; s++)
                for (double spent = 0; spent < round_s;) {
                    double t = sides[s](&j);

                    spent += t;
                    best[s] = t < best[s] ? t : best[s];
                }
        printf("%s %zu %.0f %.0f %.0f %.2f %.2f %.0f\n", name ? name + 1 : argv[i], j.plain.n,
               (double) j.plain.n / best[0] / 1e6, (double) j.plain.n / best[1] / 1e6,
               (double) j.plain.n / best[2] / 1e6, (double) j.tables / (double) j.plain.n,
               (double) j.bump.n / (double) j.plain.n, (double) j.plain.n / best[3] / 1e6);
        free(j.bump.p);
        batch_unref(j.b);
        buf_done(&j.plain);
        buf_done(&j.gz);
        buf_done(&j.out);
    }
    return 0;
}
