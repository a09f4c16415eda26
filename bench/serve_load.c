/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of bench_serve.sh: sends OTLP requests (files of a folder, each once) over gRPC on N connections.
 *
 *     serve_load HOST:PORT CONNECTIONS RATE FIRST COUNT DIR...
 *
 * RATE 0: each connection sends its next request when the last was answered. RATE > 0: requests a second, sent when they
 * are due whatever became of the others (open loop), and latency counts from then. Files of all folders are taken in turn,
 * sorted by name, so that time passes for all services at once; FIRST and COUNT choose among them.
 *
 * SERVE_LOAD_SHIFT=SECONDS moves the times of all profiles. Says "sending" on stderr when all is read.
 *
 * Prints: requests failed samples seconds p50_ms p99_ms max_ms value       (value: sum over acknowledged samples)
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/tools/grpc_client.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "codec/otlp.h"
#include "model/batch.h"

enum { FILES_MAX = 200000, CONNECTIONS_MAX = 1024 };
static const char path[] = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

struct file {
    char *name;
    struct buf frame;
    uint64_t samples;
    int64_t value, due, latency;
    struct grpc_call call;
    bool ok;
};

static struct file *files;
static size_t n_files, next_file, done_files;
static struct client *clients[CONNECTIONS_MAX];
static int n_clients;
static double rate;
static struct loop *loop;
static struct loop_timer timer;
static int64_t started, shift;

static int compare(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    const char *p = strrchr(x->name, '/'), *q = strrchr(y->name, '/');
    int c = strcmp(p, q);

    return c ? c : strcmp(x->name, y->name);
}

static void find_files(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *f; d && (f = readdir(d));) {
        char full[4096];

        if (f->d_name[0] == '.' || n_files == FILES_MAX)
            continue;
        snprintf(full, sizeof full, "%s/%s", dir, f->d_name);
        files[n_files++].name = mem_strdup(full);
    }
    if (d)
        closedir(d);
}

/* time_unix_nano is a fixed64: its bytes stand in the request as they are. */
static void move_time(struct file *f, int64_t time_ns)
{
    uint64_t old = htole64((uint64_t) time_ns), new = htole64((uint64_t) (time_ns + shift));
    char *at = memmem(f->frame.p, f->frame.n, &old, sizeof old);

    if (!at)
        exit((fprintf(stderr, "%s: its time is not there\n", f->name), 1));
    memcpy(at, &new, sizeof new);
}

/* The request as gRPC frames it, and what is in it. */
static void read_file(struct file *f)
{
    struct buf raw = BUF_INIT, copy = BUF_INIT;
    struct batch *b = NULL;
    struct err e = {0};
    char prefix[5] = {0};
    uint32_t n;

    if (fd_read_file(f->name, 1 << 30, &raw, &e) < 0)
        exit((fprintf(stderr, "%s\n", e.message), 1));
    n = htobe32((uint32_t) raw.n);
    memcpy(prefix + 1, &n, 4);
    buf_put(&f->frame, prefix, sizeof prefix);
    buf_put(&f->frame, raw.p, raw.n);
    buf_put(&copy, raw.p, raw.n);
    if (otlp_decode(&copy, NULL, &b, &e) < 0)
        exit((fprintf(stderr, "%s: %s\n", f->name, e.message), 1));
    f->samples = b->n_samples;
    for (uint32_t i = 0; shift && i < b->n_profiles; i++)
        move_time(f, b->profiles[i].time_ns);
    for (uint32_t i = 0; i < b->n_values; i++)
        f->value += b->values[i];
    batch_unref(b);
    buf_done(&raw);
    buf_done(&copy);
}

static void finished(struct grpc_call *c);

static void send_next(int client)
{
    struct file *f = &files[next_file++];

    f->call = (struct grpc_call){.path = str_from(path),
                                 .framed = buf_str(&f->frame),
                                 .timeout_ns = 60 * NS_PER_S,
                                 .done = finished,
                                 .user = (void *) (intptr_t) client};
    if (rate <= 0)
        f->due = clock_mono();
    if (grpc_call_start(clients[client], &f->call) < 0)
        exit((fprintf(stderr, "%s\n", f->call.status.message), 1));
}

static void finished(struct grpc_call *c)
{
    struct file *f = container_of(c, struct file, call);
    int client = (int) (intptr_t) c->user;

    f->latency = clock_mono() - f->due;
    f->ok = c->status.code == GRPC_OK;
    if (!f->ok && done_files < 3)
        fprintf(stderr, "serve_load: %s\n", c->status.message);
    grpc_call_done(c);
    done_files++;
    if (rate <= 0 && next_file < n_files)
        send_next(client);
    if (done_files == n_files)
        loop_stop(loop);
}

/* Sends what is due. */
static void tick(struct loop_timer *t)
{
    while (next_file < n_files) {
        int64_t due = started + (int64_t) ((double) next_file / rate * 1e9);

        if (due > clock_mono()) {
            loop_timer_set(loop, t, due);
            return;
        }
        files[next_file].due = due;
        send_next((int) (next_file % (size_t) n_clients));
    }
}

static int by_latency(const void *a, const void *b)
{
    const struct file *x = a, *y = b;

    return (x->latency > y->latency) - (x->latency < y->latency);
}

static void report(void)
{
    double seconds = (double) (clock_mono() - started) / 1e9;
    uint64_t samples = 0, failed = 0;
    int64_t value = 0;

    for (size_t i = 0; i < n_files; i++) {
        failed += !files[i].ok;
        samples += files[i].ok ? files[i].samples : 0;
        value += files[i].ok ? files[i].value : 0;
    }
    qsort(files, n_files, sizeof *files, by_latency);
    printf("%zu %llu %llu %.3f %.2f %.2f %.2f %lld\n", n_files, (unsigned long long) failed,
           (unsigned long long) samples, seconds, (double) files[n_files / 2].latency / 1e6,
           (double) files[n_files * 99 / 100].latency / 1e6, (double) files[n_files - 1].latency / 1e6,
           (long long) value);
}

int main(int argc, char **argv)
{
    char url[256];
    struct err e = {0};
    size_t first, count;

    if (argc < 7)
        return fprintf(stderr, "usage: serve_load HOST:PORT CONNECTIONS RATE FIRST COUNT DIR...\n"), 2;
    files = mem_zalloc_array(FILES_MAX, sizeof *files);
    for (int i = 6; i < argc; i++)
        find_files(argv[i]);
    qsort(files, n_files, sizeof *files, compare);
    first = MIN((size_t) atol(argv[4]), n_files);
    count = MIN((size_t) atol(argv[5]), n_files - first);
    memmove(files, files + first, count * sizeof *files);
    n_files = count;
    shift = getenv("SERVE_LOAD_SHIFT") ? atol(getenv("SERVE_LOAD_SHIFT")) * NS_PER_S : 0;
    for (size_t i = 0; i < n_files; i++)
        read_file(&files[i]);
    fprintf(stderr, "sending\n");
    n_clients = MIN(MAX(atoi(argv[2]), 1), CONNECTIONS_MAX);
    rate = atof(argv[3]);
    snprintf(url, sizeof url, "http://%s", argv[1]);
    if (!n_files || loop_new(&loop, &e) < 0)
        return 1;
    for (int i = 0; i < n_clients; i++) {
        struct client_options o = {.loop = loop, .url = url, .protocol = CLIENT_HTTP2};

        if (client_new(&o, &clients[i], &e) < 0)
            return fprintf(stderr, "%s\n", e.message), 1;
    }
    timer.fire = tick;
    started = clock_mono();
    if (rate > 0)
        tick(&timer);
    else
        for (int i = 0; i < n_clients && next_file < n_files; i++)
            send_next(i);
    loop_run(loop);
    report();
    return 0;
}
