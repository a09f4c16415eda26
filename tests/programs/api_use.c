/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_use ENDPOINT [WHAT]: libwick by its API. Burns CPU inside of a span with a label, and outside; flushes; prints the
 * statistics. WHAT: "context" stops inside of the span until a line comes on standard input, for readers from outside.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wick.h>

static volatile unsigned long sink;

__attribute__((noinline)) void burn(double s)
{
    struct timespec t;
    double end = 0;

    for (;;) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        if (!end)
            end = t.tv_sec + t.tv_nsec / 1e9 + s;
        if (t.tv_sec + t.tv_nsec / 1e9 >= end)
            return;
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005ull + i;
    }
}

__attribute__((noinline)) void in_span(void)
{
    static const uint8_t trace[16] = {0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, outer[8] = {0xb0, 1},
                         inner[8] = {0xb1, 2};

    wick_span_enter(trace, outer);
    wick_label_set("route", "/checkout");
    burn(0.3);
    wick_span_enter(trace, inner);
    burn(0.3);
    wick_span_leave();
    wick_label_set("route", NULL);
    wick_span_leave();
}

__attribute__((noinline)) void outside(void)
{
    burn(0.3);
    sink++; /* no tail call */
}

static void *thread(void *arg)
{
    outside();
    return NULL;
}

static void refusals(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;

    o.rate = 1000000;
    if (wick_provider_new(&o) || wick_last_code() != WICK_EINVAL || !strstr(wick_last_error(), "rate"))
        printf("wrong rate not refused\n");
    o = (struct wick_options) WICK_OPTIONS_INIT;
    o.endpoint = "ftp://x";
    if (wick_provider_new(&o) || !strstr(wick_last_error(), "ftp"))
        printf("wrong endpoint not refused\n");
    if (wick_flush(NULL, 0) != WICK_ESTATE || wick_serve_pprof(NULL, ":0") != WICK_ESTATE)
        printf("no provider not noticed\n");
}

int main(int argc, char **argv)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats s = WICK_STATS_INIT;
    struct wick_provider *p;
    pthread_t t;
    void *snapshot;
    size_t size;
    int r;

    refusals();
    pthread_create(&t, NULL, thread, NULL); /* before the provider: found by scanning */
    o.service_name = "api-use";
    o.resource_attributes = "deployment.environment=test,team=a%20b";
    o.endpoint = argv[1];
    o.insecure = 1;
    o.timeout_ms = 3000;
    p = wick_provider_new(&o);
    if (!p) {
        printf("failed: %s\n", wick_last_error());
        return 1;
    }
    if (wick_provider_new(&o) || wick_last_code() != WICK_EBUSY)
        printf("second provider not refused\n");
    if (argc > 2 && strcmp(argv[2], "context") == 0) {
        static const uint8_t trace[16] = "0123456789abcdef", span[8] = "ABCDEFGH";

        wick_span_enter(trace, span);
        wick_label_set("route", "/x");
        puts("ready");
        fflush(stdout);
        getchar();
    }
    in_span();
    outside();
    pthread_join(t, NULL);
    r = wick_snapshot(p, WICK_CPU, &snapshot, &size);
    if (r == 0)
        wick_snapshot_free(snapshot, size);
    r = wick_flush(p, 0);
    printf("flush %d %s\n", r, r < 0 ? wick_last_error() : "");
    wick_get_stats(p, &s);
    printf("samples %lu lost %lu truncated %lu exports %lu failed %lu\n", (unsigned long) s.samples[0],
           (unsigned long) s.lost, (unsigned long) s.truncated, (unsigned long) s.exports,
           (unsigned long) s.failed_exports);
    wick_pause(p);
    burn(0.1);
    wick_get_stats(p, &s);
    r = (int) s.samples[0];
    burn(0.1);
    wick_get_stats(p, &s);
    if (r != (int) s.samples[0])
        printf("sampled while paused\n");
    wick_resume(p);
    burn(0.2);
    wick_get_stats(p, &s);
    if (r == (int) s.samples[0])
        printf("not resumed\n");
    wick_stop(p);
    wick_start(p);
    burn(0.1);
    wick_provider_free(p);
    printf("done\n");
    return 0;
}
