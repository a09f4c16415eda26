/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ext_use FILE [URL]: an extension of libwick, as an interpreter's would be: named frames, samples out of a signal handler, a walker
 * that merges its frames with native ones, an allocator of its own, forks meanwhile.
 * ext_use FILE scribble: only a slow walker that writes to all frames and keeps one of them.
 * ext_use FILE helper: a helper that works for a second and adds samples, and is all that is left in the end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sdk/ext.h"

static volatile unsigned long sink;
static uint64_t script[2];
static int handled, label_key;

static void check(int ok, const char *what)
{
    if (!ok) {
        printf("not fine: %s\n", what);
        exit(1);
    }
}

__attribute__((noipa)) static void evaluate(double s)
{
    struct timespec t;
    double end = 0;

    do {
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005ull + 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        end = end ? end : t.tv_sec + t.tv_nsec / 1e9 + s;
    } while (t.tv_sec + t.tv_nsec / 1e9 < end);
}

/* The function of the script that runs, on top of the native frames of the interpreter. */
static void walk(struct wick_ext_stack *s)
{
    s->n = s->n + 1 < s->max ? s->n : s->max - 1;
    memmove(s->frames + 1, s->frames, s->n * sizeof *s->frames);
    s->frames[0] = WICK_EXT_LATE | 42;
    s->n++;
    s->span = 1;
    memset(s->trace_id, 0x11, sizeof s->trace_id);
    memset(s->span_id, 0x22, sizeof s->span_id);
    wick_ext_label(s, label_key, "t-7", 3);
}

static void scribble(struct wick_ext_stack *s)
{
    struct timespec from, now;

    memset(s->frames, 0xff, s->max * sizeof *s->frames);
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < 3000000);
    s->frames[0] = WICK_EXT_LATE | 42;
    s->n = 1;
}

static int name(uint64_t number, struct wick_ext_frame *ret)
{
    *ret = (struct wick_ext_frame){.function = "tax", .file = "shop.py", .kind = "cpython", .line = (int) number};
    return number == 42;
}

static void sample(unsigned type, int64_t value, const char *thread, const uint8_t *trace, const uint8_t *span)
{
    struct wick_ext_sample s = WICK_EXT_SAMPLE_INIT;

    s.type = type;
    s.value = value;
    s.count = 1;
    s.frames = script;
    s.n_frames = 2;
    s.thread = thread;
    s.trace_id = trace;
    s.span_id = span;
    handled += wick_ext_sample(&s) == WICK_OK;
}

static void on_signal(int sig)
{
    sample(WICK_WALL, 2000000, "worker-1", NULL, NULL);
}

__attribute__((noipa)) static void allocate(void)
{
    static char arena[1 << 20];

    for (int i = 0; i < 20000; i++) {
        void *p = arena + i % 1024 * 1024;

        if (i >= 1024)
            wick_ext_free(p);
        wick_ext_alloc(p, 1000);
    }
}

static int run_scribble(const char *file)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats stats = WICK_STATS_INIT;
    struct wick_provider *p;

    o.types = WICK_CPU;
    o.file = file;
    o.rate = 250;
    o.cpu_budget = 1;
    p = wick_provider_new(&o);
    check(p != NULL, wick_last_error());
    wick_ext_set_namer(name);
    wick_ext_set_walker(scribble);
    evaluate(3);
    wick_ext_set_walker(NULL);
    wick_get_stats(p, &stats);
    wick_provider_free(p);
    printf("lost %llu\n", (unsigned long long) stats.lost);
    return 0;
}

__attribute__((noipa)) static void *help(void *unused)
{
    struct wick_ext_sample s = WICK_EXT_SAMPLE_INIT;
    static const uint8_t label[] = {0, 2, 't', '1'};

    check(wick_ext_helper_begin() == WICK_OK && wick_ext_helper_interval() > 0, "helper");
    evaluate(1);
    s.type = WICK_WALL;
    s.frames = script;
    s.n_frames = 2;
    s.labels = label;
    s.labels_n = sizeof label;
    s.value = 100000000;
    for (s.count = 1; s.count <= 10; s.count++)
        check(wick_ext_sample(&s) == WICK_OK, "sample of a helper");
    wick_ext_helper_interval();
    for (;;)
        pause();
}

static int run_helper(const char *file, const struct wick_ext_frame *f)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats stats = WICK_STATS_INIT;
    pthread_t t;

    o.types = WICK_CPU | WICK_WALL;
    o.file = file;
    check(wick_provider_new(&o) != NULL, wick_last_error());
    check(wick_ext_label_key("task") == 0, "the first key");
    script[0] = script[1] = wick_ext_frame(f);
    check(pthread_create(&t, NULL, help, NULL) == 0, "thread");
    for (int i = 0; i < 50 && stats.background_ns < 900000000; i++) {
        usleep(200000);
        wick_get_stats(NULL, &stats);
    }
    printf("background %llu\n", (unsigned long long) stats.background_ns);
    fflush(stdout);
    pthread_exit(NULL);
}

int main(int argc, char **argv)
{
    static const uint8_t trace[16] = {0xab}, span[8] = {0xcd};
    struct wick_ext_frame f = {
        .function = "<module>", .file = "shop.py", .kind = "cpython", .line = 40, .start_line = 1};
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;
    int status;

    if (argc > 2 && strcmp(argv[2], "scribble") == 0)
        return run_scribble(argv[1]);
    if (argc > 2 && strcmp(argv[2], "helper") == 0)
        return run_helper(argv[1], &f);
    o.types = WICK_CPU | WICK_WALL | WICK_HEAP;
    o.file = argv[1];
    o.endpoint = argc > 2 ? argv[2] : NULL;
    o.alloc_interval = 4096;
    p = wick_provider_new(&o);
    check(p != NULL, wick_last_error());
    script[1] = wick_ext_frame(&f);
    f.function = "price";
    f.line = 7;
    script[0] = wick_ext_frame(&f);
    check(script[0] && script[0] == wick_ext_frame(&f) && script[0] != script[1], "interned");
    check(wick_ext_thread() == WICK_OK, "thread");
    for (int i = 0; i < 50; i++)
        sample(WICK_WALL, 1000000, NULL, trace, span);
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 50; i++)
        raise(SIGUSR1);
    sample(WICK_LOCK, 1, NULL, NULL, NULL); /* not on */
    check(handled == 100, "taken");
    label_key = wick_ext_label_key("task");
    wick_ext_set_namer(name);
    wick_ext_set_walker(walk);
    allocate();
    evaluate(0.5);
    wick_ext_set_walker(NULL);
    if (fork() == 0) {
        f.line++;
        check(wick_ext_frame(&f) != 0, "interned in the child");
        _exit(0);
    }
    wait(&status);
    check(status == 0, "the child");
    wick_provider_free(p);
    puts("fine");
    return 0;
}
