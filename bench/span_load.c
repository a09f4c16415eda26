/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the span index is: span_load DIR [REQUESTS [SPANS]]. Two threads append requests of SPANS spans each (OTLP in
 * protobuf, 20 names, 5 services) and wait for each acknowledgement, as senders do; then every span is read, and one
 * trace is looked for. Prints spans per second of intake (wall and CPU), bytes per span, and the times of the questions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "made_spans.h"
#include "span/span_index.h"

enum { THREADS = 2, NAMES = 20 };

struct span_load {
    struct span_index *x;
    uint32_t number, requests, spans;
};

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void *send_all(void *arg)
{
    struct span_load *l = arg;
    struct made_span *v = calloc(l->spans, sizeof *v);
    char names[NAMES][24], service[16];

    for (int i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "GET /api/v1/item/%02d", i);
    for (uint32_t r = 0; v && r < l->requests; r++) {
        struct buf b = BUF_INIT;

        for (uint32_t i = 0; i < l->spans; i++) {
            uint32_t n = (r * THREADS + l->number) * l->spans + i;

            v[i] = (struct made_span){n / 8 + 1, n + 1, n % 8, names[n % NAMES], clock_wall(), 1000000 + n, 2, 0};
        }
        snprintf(service, sizeof service, "service-%u", r % 5);
        put_request(&b, service, "1.0", v, l->spans);
        if (append(l->x, "", buf_str(&b), false).status != SINK_OK)
            exit(1);
        buf_done(&b);
    }
    free(v);
    return NULL;
}

static int count_span(void *ctx, const struct span_row *s)
{
    (void) s;
    ++*(uint64_t *) ctx;
    return 0;
}

static double ask(struct span_index *x, struct span_filter f, uint64_t *ret)
{
    int64_t start = clock_mono();
    struct err e = {0};

    *ret = 0;
    f.tenant = "";
    f.to = INT64_MAX;
    if (span_index_each(x, &f, count_span, ret, &e) < 0)
        exit(1);
    return (double) (clock_mono() - start) / 1e6;
}

int main(int argc, char **argv)
{
    struct span_load l[THREADS];
    pthread_t threads[THREADS];
    struct span_index_config c = {.dir = argc > 1 ? argv[1] : NULL, .min_free = -1};
    struct span_index *x;
    struct span_index_stats st;
    struct err e = {0};
    uint32_t requests = argc > 2 ? (uint32_t) atoi(argv[2]) : 500, spans = argc > 3 ? (uint32_t) atoi(argv[3]) : 500;
    double wall, cpu, all, one, named;
    uint64_t n, of_trace, of_name;

    if (span_index_open(&c, &x, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        return 1;
    }
    wall = (double) clock_mono() / 1e9;
    cpu = cpu_seconds();
    for (uint32_t i = 0; i < THREADS; i++) {
        l[i] = (struct span_load){x, i, requests, spans};
        pthread_create(&threads[i], NULL, send_all, &l[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    wall = (double) clock_mono() / 1e9 - wall;
    cpu = cpu_seconds() - cpu;
    span_index_stats(x, &st);
    all = ask(x, (struct span_filter){0}, &n);
    one = ask(x, (struct span_filter){.of_trace = true, .trace_id = {1, 1}}, &of_trace);
    named = ask(x, (struct span_filter){.service = STR("service-1"), .name = STR("GET /api/v1/item/03")}, &of_name);
    printf("spans %llu\nspans_per_second %.0f\nspans_per_cpu_second %.0f\nbytes_per_span %.1f\n"
           "read_all_ms %.1f\nread_trace_ms %.1f\nread_name_ms %.1f\n",
           (unsigned long long) n, (double) st.spans / wall, (double) st.spans / cpu,
           (double) st.bytes / (double) st.spans, all, one, named);
    span_index_close(x);
    return n == st.spans && n == 2ull * requests * spans && of_trace && of_name ? 0 : 1;
}
