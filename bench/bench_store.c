/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store against its bars: bench_store WHAT DIR [N...]. Prints rows of a markdown table "what | measured | bar".
 * WHAT: synthetic SERVICES WINDOWS ROWS | files PATH | agent PROCESSES MINUTES [SECONDS OF AN EXPORT] | month DAYS | pids N | limits
 *
 * Samples are made or decoded outside the measured time; appending, syncing, flushing and compaction are inside it, as
 * CPU time of all threads until nothing is left to do. Requests of one window come at once and share a sync. Queries: median of nine, no cache of answers, ranges that begin
 * at no round time, first with segments as they were flushed, then compacted.
 */
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/input.h"
#include "model/builder.h"
#include "store/store.h"

#define T0 (1700000000ll * NS_PER_S + 123456789)

static _Atomic int64_t fake_now = T0;

static int64_t bench_now(void)
{
    return fake_now;
}

static uint64_t rnd_state = 88172645463325252ull;

static uint64_t rnd(void)
{
    rnd_state ^= rnd_state << 13;
    rnd_state ^= rnd_state >> 7;
    rnd_state ^= rnd_state << 17;
    return rnd_state;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t) ((rnd() >> 32) * n >> 32);
}

static void die(const char *what, const struct err *e)
{
    fprintf(stderr, "bench_store: %s: %s\n", what, e ? e->message : "failed");
    exit(1);
}

static bool in_dir = true; /* else a server keeps the data, and the bars of the engine on disk do not apply */

static const char *bar_of(const char *bar)
{
    return in_dir ? bar : "";
}

static struct store *open_bench(const char *dir)
{
    struct store_config c = {.dir = dir,
                             .min_free = -1,
                             .max_late = -1,
                             .max_early = -1,
                             .keep = -1,
                             .keep_detail = -1,
                             .keep_bytes = 1ull << 40,
                             .now = bench_now};
    struct store *s;
    struct err e = {0};

    if (store_open_place(&c, &s, &e) < 0)
        die("open", &e);
    in_dir = s->ops->in_dir;
    return s;
}

static double last_mean;   /* ms, of nine queries */
static double last_remote; /* ms of a query in a database server, if the engine is a client of one: mean of nine */

static uint64_t remote_ns(struct store *s)
{
    struct store_stats stats = {0};

    if (!s->ops->in_dir && s->ops->stats)
        s->ops->stats(s, &stats);
    return stats.remote_ns;
}

/* A query: what a clock on the wall says, and the CPU time, which says the same on a quiet machine. */
static void query_row(const char *what, double wall, double cpu, const char *bar)
{
    if (last_remote > 0)
        printf("| %s | %.2f ms (CPU %.2f ms; mean time in the server %.2f ms, elsewhere %.2f ms) | %s |\n", what, wall,
               cpu, last_remote, last_mean - last_remote, bar);
    else
        printf("| %s | %.2f ms (CPU %.2f ms) | %s |\n", what, wall, cpu, bar);
    last_remote = 0;
    fflush(stdout);
}

static double row(const char *what, double v, const char *unit, const char *bar)
{
    printf("| %s | %.*f %s | %s |\n", what, v >= 100 ? 0 : v >= 10 ? 1 : v >= 0.1 ? 2 : 4, v, unit, bar);
    fflush(stdout);
    return v;
}

/* --- what is measured --- */

static uint64_t n_samples;
static int64_t cpu_base, main_base, main_in_store; /* of all threads, of this one, of this one inside the store */
static int64_t wall_in_store;                      /* from sending to the acknowledgement */

/* Requests that come at once share a sync. */
enum { FLIGHT_MAX = 1024 };

static struct flight {
    struct ack ack;
    struct batch *batch;
    bool again;
} flights[FLIGHT_MAX];
static int n_flights;
static pthread_mutex_t flight_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flight_cond = PTHREAD_COND_INITIALIZER;
static int n_landed;

static void landed(struct ack *a, const struct ack_result *r)
{
    struct flight *f = container_of(a, struct flight, ack);

    if (r->status != SINK_OK && !sink_status_retryable(r)) {
        fprintf(stderr, "append: %s\n", r->message);
        exit(1);
    }
    pthread_mutex_lock(&flight_lock);
    f->again = r->status != SINK_OK;
    n_landed++;
    pthread_cond_signal(&flight_cond);
    pthread_mutex_unlock(&flight_lock);
}

static int64_t thread_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void cpu_begin(void)
{
    cpu_base = clock_cpu();
    main_base = thread_cpu();
    main_in_store = wall_in_store = 0;
    n_samples = 0;
}

/* What the store has used since: all threads, without what this one did on its own (making samples, asking). */
static double cpu_of_store(void)
{
    return (double) (clock_cpu() - cpu_base - (thread_cpu() - main_base) + main_in_store) / 1e9;
}

/* --- an engine that is a client of a server: requests are sent as they are made, some of them on their way at any time --- */

struct streamed {
    struct ack ack;
    struct batch *batch;
    struct streamed *next;
};
static struct streamed *refused; /* to be sent again */
static int in_air;
static int64_t stream_began;

static void stream_landed(struct ack *a, const struct ack_result *r)
{
    struct streamed *f = container_of(a, struct streamed, ack);

    if (r->status != SINK_OK && !sink_status_retryable(r)) {
        fprintf(stderr, "append: %s\n", r->message);
        exit(1);
    }
    pthread_mutex_lock(&flight_lock);
    if (r->status != SINK_OK) {
        f->next = refused;
        refused = f;
    } else {
        batch_unref(f->batch);
        mem_free(f);
        in_air--;
    }
    pthread_cond_signal(&flight_cond);
    pthread_mutex_unlock(&flight_lock);
}

static void stream_send(struct store *s, struct streamed *f)
{
    int64_t t = thread_cpu();

    f->ack.done = stream_landed;
    store_append(s, f->batch, &(struct sink_context){.tenant = "", .received_ns = fake_now}, &f->ack);
    main_in_store += thread_cpu() - t;
}

/* Waits until at most `left` are on their way. */
static void stream_wait(struct store *s, int left)
{
    pthread_mutex_lock(&flight_lock);
    while (in_air > left) {
        struct streamed *f = refused;

        if (!f) {
            pthread_cond_wait(&flight_cond, &flight_lock);
            continue;
        }
        refused = f->next;
        pthread_mutex_unlock(&flight_lock);
        usleep(1000);
        stream_send(s, f);
        pthread_mutex_lock(&flight_lock);
    }
    pthread_mutex_unlock(&flight_lock);
}

static void stream_append(struct store *s, struct batch *b, int most)
{
    struct streamed *f = mem_zalloc(sizeof *f);

    if (!f)
        exit(1);
    if (!stream_began)
        stream_began = clock_mono();
    f->batch = batch_ref(b);
    stream_wait(s, most - 1);
    pthread_mutex_lock(&flight_lock);
    in_air++;
    pthread_mutex_unlock(&flight_lock);
    stream_send(s, f);
}

/* Sends what was collected and waits until all of it is on disk. */
static void send_all(struct store *s)
{
    int64_t t = thread_cpu(), wall = clock_mono();

    if (stream_began) {
        stream_wait(s, 0);
        wall_in_store += clock_mono() - stream_began;
        stream_began = 0;
        wall = clock_mono(); /* the wait was in it */
    }
    while (n_flights) {
        int n = n_flights, left = 0;

        n_landed = 0;
        for (int i = 0; i < n; i++) {
            flights[i].ack.done = landed;
            store_append(s, flights[i].batch, &(struct sink_context){.tenant = "", .received_ns = fake_now},
                         &flights[i].ack);
        }
        pthread_mutex_lock(&flight_lock);
        while (n_landed < n)
            pthread_cond_wait(&flight_cond, &flight_lock);
        pthread_mutex_unlock(&flight_lock);
        for (int i = 0; i < n; i++) {
            if (flights[i].again)
                flights[left++].batch = flights[i].batch;
            else
                batch_unref(flights[i].batch);
        }
        n_flights = left;
        if (left)
            usleep(1000);
    }
    main_in_store += thread_cpu() - t;
    wall_in_store += clock_mono() - wall;
}

/* Collects a request; `together` of them are sent at once. */
static void append(struct store *s, struct batch *b, int together)
{
    const char *many = getenv("WICK_BENCH_TOGETHER"); /* as from that many senders */

    for (uint32_t i = 0; i < b->n_samples; i++)
        n_samples += b->samples[i].timestamps.n ? b->samples[i].timestamps.n : 1;
    if (!s->ops->in_dir) {
        stream_append(s, b, many ? MAX(atoi(many), 1) : together);
        return;
    }
    flights[n_flights++].batch = batch_ref(b);
    if (n_flights >= MIN(many ? MAX(atoi(many), 1) : MIN(together, 64), (int) FLIGHT_MAX))
        send_all(s);
}

static void settle(struct store *s, bool compact, bool days)
{
    struct err e = {0};
    int64_t t;

    send_all(s);
    t = thread_cpu();
    if (store_flush(s, &e) < 0)
        die("flush", &e);
    if (compact) {
        fake_now += 3 * 3600 * NS_PER_S;
        if (s->ops->retain(s, days, &e) < 0)
            die("compact", &e);
        fake_now -= 3 * 3600 * NS_PER_S;
    }
    main_in_store += thread_cpu() - t;
}

struct ask {
    struct arena arena;
    struct selector sel;
    struct store_query q;
};

static void ask_init(struct ask *a, const char *selector, int64_t from, int64_t to)
{
    struct err e = {0};

    memset(a, 0, sizeof *a);
    arena_init(&a->arena, 0);
    if (selector_parse(str_from(selector), &a->arena, &a->sel, &e) < 0)
        die(selector, &e);
    a->q = (struct store_query){.tenant = "", .n_columns = 1, .columns = {{&a->sel, from, to}}, .max_nodes = 8192};
}

static int cmp_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static int64_t last_total;
static uint32_t last_series;
static double last_cpu; /* ms, of the median query's neighbourhood: mean of nine */

static double time_select(struct store *s, const struct store_query *q)
{
    uint64_t remote = remote_ns(s);
    int64_t cpu = clock_cpu(), begin = clock_mono();
    double t[9];

    for (int i = 0; i < 9; i++) {
        struct tree *tree;
        struct err e = {0};
        int64_t a = clock_mono();

        if (s->ops->select(s, q, &tree, &e) < 0)
            die("select", &e);
        t[i] = (double) (clock_mono() - a) / 1e6;
        last_total = tree->total[0][0];
        tree_free(tree);
    }
    qsort(t, 9, sizeof *t, cmp_double);
    last_cpu = (double) (clock_cpu() - cpu) / 9e6;
    last_mean = (double) (clock_mono() - begin) / 9e6;
    last_remote = (double) (remote_ns(s) - remote) / 9e6;
    return t[4];
}

static double time_series(struct store *s, const struct store_query *q, const struct store_series_query *sq)
{
    double t[9];
    int64_t cpu = clock_cpu();

    for (int i = 0; i < 9; i++) {
        struct store_points p;
        struct err e = {0};
        int64_t a = clock_mono();

        if (s->ops->series(s, q, sq, &p, &e) < 0)
            die("series", &e);
        t[i] = (double) (clock_mono() - a) / 1e6;
        last_series = p.n_series;
        store_points_done(&p);
    }
    qsort(t, 9, sizeof *t, cmp_double);
    last_cpu = (double) (clock_cpu() - cpu) / 9e6;
    return t[4];
}

static int count_series(void *ctx, const struct type *t, const struct labels *l)
{
    (void) t;
    (void) l;
    ++*(int *) ctx;
    return 0;
}

static double time_list(struct store *s, int64_t from, int64_t to, int *n)
{
    double t[9];
    int64_t cpu = clock_cpu();

    for (int i = 0; i < 9; i++) {
        int64_t a = clock_mono();

        *n = 0;
        s->ops->each_series(s, &(struct store_range){"", from, to, NULL}, count_series, n);
        t[i] = (double) (clock_mono() - a) / 1e6;
    }
    qsort(t, 9, sizeof *t, cmp_double);
    last_cpu = (double) (clock_cpu() - cpu) / 9e6;
    return t[4];
}

static double rss_mb(void)
{
    char line[256];
    double v = 0;
    FILE *f = popen("grep VmRSS /proc/$PPID/status", "r");

    if (f && fgets(line, sizeof line, f))
        v = strtod(line + 6, NULL) / 1024;
    if (f)
        pclose(f);
    return v;
}

static void query(const char *what, double wall, const char *bar)
{
    query_row(what, wall, last_cpu, bar_of(bar));
}

static void report_queries(struct store *s, const char *service, int64_t from, int64_t to, const char *when,
                           const uint8_t *trace)
{
    int64_t hour = MIN(to - from, 3600 * NS_PER_S), a = from + 17 * NS_PER_S + 5, b = from + hour - 13 * NS_PER_S - 3;
    char sel[200], what[200];
    struct ask k;
    int n;

    snprintf(sel, sizeof sel, "cpu{service.name=\"%s\"}", service);
    ask_init(&k, sel, a, b);
    snprintf(what, sizeof what, "flame graph, one service, 1 h, %s", when);
    query(what, time_select(s, &k.q), "≤ 5 ms");
    snprintf(what, sizeof what, "series, one service, 1 h, step 15 s, %s", when);
    query(what, time_series(s, &k.q, &(struct store_series_query){.step = 15 * NS_PER_S}), "≤ 3 ms");
    k.q.n_columns = 2;
    k.q.columns[1] = k.q.columns[0];
    k.q.columns[0].to = k.q.columns[1].from = a + (b - a) / 2;
    snprintf(what, sizeof what, "diff 30 m / 30 m, %s", when);
    query(what, time_select(s, &k.q), "≤ 10 ms");
    ask_init(&k, "cpu", a, b);
    snprintf(what, sizeof what, "flame graph, all services, 1 h, %s", when);
    query(what, time_select(s, &k.q), "≤ 60 ms");
    snprintf(what, sizeof what, "label values, %s", when);
    query(what, time_list(s, a, b, &n), "≤ 1 ms");
    if (trace) {
        k.q.has_trace = true;
        memcpy(k.q.trace_id, trace, 16);
        snprintf(what, sizeof what, "one trace id, %s", when);
        query(what, time_select(s, &k.q), "≤ 2 ms");
        if (!last_total)
            fprintf(stderr, "bench_store: the trace was not found\n");
    }
}

/* From the first request until the last one was acknowledged. */
static void report_rate(struct store *s)
{
    if (!s->ops->in_dir)
        row("acknowledged, million samples per second", (double) n_samples / 1e6 / ((double) wall_in_store / 1e9),
            "M/s", "≥ 0.5 M/s");
}

static void report_size(struct store *s, const char *bar)
{
    double m = (double) n_samples / 1e6;
    struct store_stats st;

    s->ops->stats(s, &st);
    row("CPU per million samples, until quiescent", cpu_of_store() / m, "s", bar_of("≤ 0.5 s"));
    row("bytes per sample, everything counted", (double) st.disk_bytes / (double) n_samples, "B", bar_of(bar));
    printf("| (samples %llu, segments %.1f MB, symbols %.1f MB, catalogue %.2f MB) | | |\n",
           (unsigned long long) n_samples, (double) st.segment_bytes / 1e6, (double) st.symbol_bytes / 1e6,
           (double) st.catalog_bytes / 1e6);
}

static void report_open(struct store **s, const char *dir)
{
    int64_t a;

    store_close(*s);
    a = clock_mono();
    *s = open_bench(dir);
    row("open", (double) (clock_mono() - a) / 1e9, "s", bar_of("≤ 0.5 s"));
}

/* --- synthetic: services x windows x rows, Zipf over 4000 stacks of mean depth 30 each --- */

enum { STACKS = 4000 };

static struct batch *service_dict(int service)
{
    struct builder *b;
    struct batch *out;
    static uint32_t paths[STACKS][64], depths[STACKS]; /* root first */

    if (builder_new(NULL, &b) < 0)
        exit(1);
    for (int k = 0; k < STACKS; k++) { /* most of an earlier stack and ten frames of its own: ten nodes a stack */
        uint32_t from = k ? below((uint32_t) k) : 0, keep = k ? depths[from] * (50 + below(40)) / 100 : 0;
        uint32_t n = MIN(keep + 5 + below(12), 60u), list[64];

        memcpy(paths[k], paths[from], keep * sizeof paths[k][0]);
        for (uint32_t i = keep; i < n; i++) {
            uint32_t id = below(1080), own = i > 4;
            char name[64];
            struct line l = {.line = (int64_t) id};

            snprintf(name, sizeof name, own ? "service%d.function%u" : "runtime.common%d.%u", own ? service : 0,
                     id / 3);
            l.function =
                builder_function(b, &(struct function){.name = builder_string(b, str_from(name)),
                                                       .filename = builder_string(b, STR("src/some/file.go"))});
            paths[k][i] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
        }
        depths[k] = n;
        for (uint32_t i = 0; i < n; i++)
            list[i] = paths[k][n - 1 - i];
        builder_stack(b, list, n);
    }
    builder_string(b, STR("cpu"));
    builder_string(b, STR("nanoseconds"));
    if (builder_finish(b, &out, NULL) < 0)
        exit(1);
    builder_free(b);
    return out;
}

/* A batch whose dictionary is the service's: as a decoder would leave it, without the decoding. */
/* What run_synthetic() draws samples from: stacks by Zipf's law, and the traces of a window. */
struct draw {
    double zipf[STACKS], sum;
    uint64_t traces[100][2];
    int64_t seen[STACKS];
};

enum { LINKED = 50 }; /* rows of a window's profile that have a trace */

static int draw_stack(struct draw *d, int window)
{
    double u = (double) (rnd() >> 11) / 9007199254740992.0 * d->sum;
    int lo = 0, hi = STACKS - 1;

    while (lo < hi) {
        int mid = (lo + hi) / 2;

        if (d->zipf[mid] < u)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (lo * 2741 + window / 30 * 7) % STACKS;
}

/* A batch with an empty profile of `rows` rows of a service. */
static struct batch *window_batch(const struct batch *dict, int service, int window, int rows)
{
    struct value_type *type;
    struct batch *b;
    struct kv *kv;
    char *name;

    batch_new(0, &b);
    name = arena_printf(&b->arena, "service-%02d", service);
    kv = arena_zalloc(&b->arena, sizeof *kv);
    type = arena_zalloc(&b->arena, sizeof *type);
    b->dict = dict->dict;
    *type = (struct value_type){dict->dict.n_strings - 2, dict->dict.n_strings - 1};
    kv->key = STR("service.name");
    kv->value = (struct value){.kind = VALUE_STR, .n = (uint32_t) strlen(name), .str = name};
    b->resources = arena_zalloc(&b->arena, sizeof *b->resources);
    b->scopes = arena_zalloc(&b->arena, sizeof *b->scopes);
    b->profiles = arena_zalloc(&b->arena, sizeof *b->profiles);
    b->samples = arena_zalloc_array(&b->arena, (size_t) rows, sizeof *b->samples);
    b->values = arena_zalloc_array(&b->arena, (size_t) rows, sizeof *b->values);
    b->resources[0] = (struct resource){.attrs = {kv, 1}, .scopes = {0, 1}};
    b->scopes[0].profiles = (struct run){0, 1};
    b->profiles[0] = (struct profile){.types = type,
                                      .n_types = 1,
                                      .samples = {0, (uint32_t) rows},
                                      .period_type = *type,
                                      .period = 10000000,
                                      .time_ns = T0 + window * 10 * NS_PER_S,
                                      .duration_ns = 10 * NS_PER_S};
    b->n_resources = b->n_scopes = b->n_profiles = 1;
    b->n_samples = b->n_values = (uint32_t) rows;
    b->dict.links = arena_zalloc_array(&b->arena, LINKED + 1, sizeof *b->dict.links);
    b->dict.n_links = LINKED + 1;
    return b;
}

/* Fills the rows: distinct stacks with their counts, then LINKED rows of the window's traces. `trace` gets the last. */
static void fill_window(struct batch *b, struct draw *d, int window, int rows, uint8_t trace[16])
{
    memset(d->seen, 0, sizeof d->seen);
    for (int i = 0; i < rows; i++) {
        int linked = i - (rows - LINKED), k;

        do {
            k = draw_stack(d, window);
            d->seen[k]++;
        } while (linked < 0 && d->seen[k] > 1);
        b->samples[i].stack = 1 + (uint32_t) k;
        b->samples[i].values = (struct run){(uint32_t) i, 1};
        b->values[i] = 10000000;
        if (linked >= 0) {
            struct link *l = &b->dict.links[linked + 1];
            uint64_t span = rnd();

            memcpy(l->trace_id, d->traces[below(100)], 16);
            memcpy(l->span_id, &span, 8);
            b->samples[i].link = (uint32_t) linked + 1;
            memcpy(trace, l->trace_id, 16);
        }
    }
    for (int i = 0; i < rows - LINKED; i++)
        b->values[i] *= d->seen[b->samples[i].stack - 1];
}

static void run_synthetic(const char *dir, int services, int windows, int rows, bool day)
{
    struct batch **dicts = mem_alloc((size_t) services * sizeof *dicts);
    struct store *s = open_bench(dir);
    uint8_t trace[16] = {0}, last[16];
    static struct draw d;

    for (int i = 0; i < STACKS; i++)
        d.zipf[i] = d.sum += 1.0 / pow(i + 3, 0.9);
    for (int i = 0; i < services; i++)
        dicts[i] = service_dict(i);
    cpu_begin();
    for (int w = 0; w < windows; w++) {
        for (int i = 0; i < 100; i++)
            d.traces[i][0] = rnd(), d.traces[i][1] = rnd();
        for (int v = 0; v < services; v++) {
            struct batch *b = window_batch(dicts[v], v, w, rows);

            fill_window(b, &d, w, rows, w == windows / 2 ? trace : last);
            fake_now = T0 + (w + 1) * 10 * NS_PER_S;
            append(s, b, services);
            batch_unref(b);
        }
    }
    if (day) { /* as many profiles and stacks as a day has: what opening has to read */
        settle(s, true, true);
        report_open(&s, dir);
        store_close(s);
        return;
    }
    settle(s, false, false);
    report_rate(s);
    report_queries(s, "service-07", T0, fake_now, "just after ingest", trace);
    settle(s, true, false);
    report_size(s, "≤ 2.1 B");
    report_queries(s, "service-07", T0, fake_now, "compacted", trace);
    report_open(&s, dir);
    store_close(s);
}

/* --- real files --- */

static char **names;
static size_t n_names, cap_names;

/* By the last part of the path first: files of one window of all services follow each other, as they would arrive. */
static int cmp_names(const void *a, const void *b)
{
    const char *x = *(char *const *) a, *y = *(char *const *) b;
    int r = strcmp(strrchr(x, '/'), strrchr(y, '/'));

    return r ? r : strcmp(x, y);
}

static int add_name(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) ftw;
    if (type == FTW_F && array_reserve(names, cap_names, n_names + 1, 1 << 24) == 0)
        names[n_names++] = mem_strdup(path);
    return 0;
}

static void run_files(const char *dir, const char *path)
{
    char service[128] = "";
    struct store *s = open_bench(dir);
    int64_t from = INT64_MAX, to = 0;
    size_t n;

    if (nftw(path, add_name, 16, FTW_PHYS) < 0 || !n_names)
        die(path, NULL);
    n = n_names;
    qsort(names, n, sizeof *names, cmp_names);
    cpu_begin();
    for (size_t i = 0; i < n; i++) {
        struct batch *b;
        struct err err = {0};

        if (input_open(names[i], INPUT_AUTO, NULL, &b, NULL, &err) < 0)
            die(names[i], &err);
        for (uint32_t k = 0; k < b->n_profiles; k++) {
            from = MIN(from, b->profiles[k].time_ns);
            to = MAX(to, b->profiles[k].time_ns + 1);
        }
        fake_now = to;
        if (i == n / 3)
            snprintf(service, sizeof service, "%.*s",
                     STR_FMT(value_str(kvs_get(&b->resources[0].attrs, STR("service.name")))));
        append(s, b, 50);
        batch_unref(b);
    }
    settle(s, false, false);
    report_queries(s, service, from, to, "just after ingest", NULL);
    settle(s, true, false);
    report_size(s, "≤ 3.0 B");
    report_queries(s, service, from, to, "compacted", NULL);
    report_open(&s, dir);
    store_close(s);
}

/* --- a host's agent: events with ns timestamps, thread, cpu; 8 CPUs x 19 Hz --- */

enum { CPUS = 8 };

/* Where an export ends, in seconds: up to 2 ms late. */
static double export_end(int t, int seconds)
{
    return (double) (t + 1) * seconds + (t < 0 ? 0 : t * 7919ll % 1999 / 1e6);
}

static void run_agent(const char *dir, int processes, int minutes, int seconds)
{
    struct store *s = open_bench(dir);
    double next[CPUS];

    for (int c = 0; c < CPUS; c++)
        next[c] = 0.0066 * c;
    cpu_begin();
    for (int t = 0; t < minutes * 60 / seconds; t++) {
        struct builder *b;
        struct batch *out;
        struct {
            int process;
            double at;
            int cpu;
        } events[CPUS * 256];
        int n = 0;

        for (int c = 0; c < CPUS; c++)
            for (; next[c] < export_end(t, seconds) && n < CPUS * 256;
                 next[c] += 1.0 / 19 + ((double) below(40000) - 20000) / 1e9) {
                double u = (double) (rnd() >> 11) / 9007199254740992.0;

                events[n].process = (int) (processes * u * u * u);
                events[n].cpu = c;
                events[n++].at = next[c];
            }
        if (builder_new(NULL, &b) < 0)
            exit(1);
        for (int p = 0; p < processes; p++) {
            bool any = false;
            char name[64];

            for (int i = 0; i < n; i++) {
                uint32_t list[40], depth, seed, attrs[3];
                uint64_t ts = (uint64_t) (T0 + (int64_t) (events[i].at * 1e9));
                int64_t one = 1;

                if (events[i].process != p)
                    continue;
                if (!any) {
                    struct value_type type = {builder_string(b, STR("samples")), builder_string(b, STR("count"))};
                    struct profile *prof;

                    any = true;
                    builder_resource(b);
                    snprintf(name, sizeof name, "process-%d", p);
                    builder_resource_attr_str(b, STR("service.name"), str_from(name));
                    builder_resource_attr_str(b, STR("host.name"), STR("host-1"));
                    builder_resource_attr(b, STR("process.pid"),
                                          &(struct value){.kind = VALUE_INT, .integer = 1000 + p});
                    builder_scope(b, STR("agent"), STR("1"));
                    prof = builder_profile(b, &type, 1);
                    prof->time_ns = T0 + (int64_t) (export_end(t - 1, seconds) * 1e9);
                    prof->duration_ns = seconds * NS_PER_S;
                    prof->period = 52631578;
                    prof->period_type =
                        (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
                }
                seed = (uint32_t) p * 1000 + (uint32_t) (pow((double) (rnd() >> 11) / 9007199254740992.0, 3) * 60);
                depth = 8 + seed % 17;
                for (uint32_t k = 0; k < depth; k++) {
                    uint32_t id = builder_attr_str(b, STR("process.executable.build_id.gnu"), str_from(name));
                    uint32_t m =
                        builder_mapping(b, &(struct mapping){.filename = builder_string(b, str_from(name))}, &id, 1);

                    list[depth - 1 - k] = builder_location(
                        b,
                        &(struct builder_location){.mapping = m, .address = 0x1000 + (k < 4 ? k : seed * 64 + k) * 16});
                }
                attrs[0] = builder_attr_int(b, STR("thread.id"), 1000 + p * 7 + below(3), (struct str){0});
                attrs[1] = builder_attr_str(b, STR("thread.name"), str_from(name));
                attrs[2] = builder_attr_int(b, STR("cpu.logical_number"), events[i].cpu, (struct str){0});
                builder_sample(b, &(struct builder_sample){.stack = builder_stack(b, list, depth),
                                                           .attrs = builder_attrs(b, attrs, 3),
                                                           .values = &one,
                                                           .n_values = 1,
                                                           .timestamps = &ts,
                                                           .n_timestamps = 1});
            }
        }
        if (builder_finish(b, &out, NULL) < 0)
            exit(1);
        builder_free(b);
        fake_now = T0 + (t + 1) * seconds * NS_PER_S;
        append(s, out, 1);
        batch_unref(out);
        if (t % 60 == 59)
            settle(s, false, false);
    }
    settle(s, true, true);
    report_size(s, "≤ 7 B");
    store_close(s);
}

/* --- a month of one service, 200 new series a day; and 20,000 pids --- */

static struct batch *small_batch(const char *service, const char *version, const char *host, int pid, int64_t time,
                                 int rows)
{
    struct builder *b;
    struct batch *out;
    struct value_type type;
    struct profile *p;

    if (builder_new(NULL, &b) < 0)
        exit(1);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), str_from(service));
    if (version)
        builder_resource_attr_str(b, STR("service.version"), str_from(version));
    builder_resource_attr_str(b, STR("host.name"), str_from(host));
    builder_resource_attr(b, STR("process.pid"), &(struct value){.kind = VALUE_INT, .integer = pid});
    builder_scope(b, STR("t"), STR(""));
    type = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &type, 1);
    p->time_ns = time;
    p->duration_ns = 60 * NS_PER_S;
    for (int i = 0; i < rows; i++) {
        uint32_t list[32], depth = 12 + below(16);
        uint32_t stack = below(3000);
        int64_t v = 10000000 * (1 + (int64_t) below(5));

        for (uint32_t k = 0; k < depth; k++) {
            char name[32];
            struct line l = {.line = (int64_t) k};

            snprintf(name, sizeof name, "fn%u", k < 5 ? k : (stack >> (depth - k > 10 ? 10 : depth - k)) * 31 + k);
            l.function = builder_function(b, &(struct function){.name = builder_string(b, str_from(name))});
            list[depth - 1 - k] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
        }
        builder_sample(b,
                       &(struct builder_sample){.stack = builder_stack(b, list, depth), .values = &v, .n_values = 1});
    }
    if (builder_finish(b, &out, NULL) < 0)
        exit(1);
    builder_free(b);
    return out;
}

/* What trends ask: rates over the whole time, from the sums in the directories of the segments. */
static void report_month_series(struct store *s, int days)
{
    static const struct {
        const char *name, *by, *function;
        int64_t step;
    } all[] = {{"by service.version, step 1 h", "service.version", NULL, 3600 * NS_PER_S},
               {"by service.version, step 1 d", "service.version", NULL, 86400 * NS_PER_S},
               {"by host.name (200 new ones a day), step 1 d", "host.name", NULL, 86400 * NS_PER_S},
               {"of one function, step 1 h", NULL, "fn3", 3600 * NS_PER_S}};
    struct ask k;

    ask_init(&k, "cpu{service.name=\"shop\"}", T0, T0 + days * 86400 * NS_PER_S);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct str by = str_from(all[i].by ? all[i].by : "");
        struct store_series_query sq = {.step = all[i].step, .by = &by, .n_by = all[i].by != NULL};
        char what[160];
        double wall;

        if (all[i].function)
            sq.function = str_from(all[i].function);
        wall = time_series(s, &k.q, &sq);
        snprintf(what, sizeof what, "trend over %d days, %s (%u series)", days, all[i].name, last_series);
        query(what, wall, "≤ 100 ms");
    }
}

static void run_month(const char *dir, int days)
{
    struct store *s = open_bench(dir);
    struct ask k;

    for (int d = 0; d < days; d++) {
        for (int i = 0; i < 200; i++)
            for (int part = 0; part < 4; part++) {
                char host[32], version[32];
                struct batch *b;

                snprintf(version, sizeof version, "1.%d", d / 3);
                snprintf(host, sizeof host, "pod-%d-%d", d, i);
                fake_now = T0 + d * 86400 * NS_PER_S + part * 20000 * NS_PER_S;
                b = small_batch("shop", version, host, i, fake_now + i * NS_PER_S, 60);
                append(s, b, 16);
                batch_unref(b);
            }
        settle(s, true, true);
    }
    ask_init(&k, "cpu{service.name=\"shop\"}", T0 + 3601 * NS_PER_S, T0 + days * 86400 * NS_PER_S);
    {
        char what[100];

        snprintf(what, sizeof what, "flame graph, %d days, one service, 200 new series a day", days);
        query(what, time_select(s, &k.q), "≤ 100 ms");
    }
    report_month_series(s, days);
    report_open(&s, dir);
    store_close(s);
}

static void run_pids(const char *dir, int n)
{
    struct store *s = open_bench(dir);
    int series;

    for (int i = 0; i < n; i++) {
        char service[32];
        struct batch *b;

        snprintf(service, sizeof service, "tool-%d", i % 200);
        fake_now = T0 + (int64_t) i * (86400 * NS_PER_S / n);
        b = small_batch(service, NULL, "host-1", i, fake_now, 5);
        append(s, b, 16);
        batch_unref(b);
        if (i % 500 == 499)
            settle(s, i % 5000 == 4999, false);
    }
    settle(s, true, true);
    row("RSS after as many pids in a day on one host", rss_mb(), "MB", "≤ 150 MB");
    query("listing them", time_list(s, T0, fake_now, &series), "≤ 5 ms");
    store_close(s);
}

/* The all-services flame graph of a store that run_synthetic() made, again and again: for a profiler. */
static void run_again(const char *dir, int n, int what)
{
    struct store *s = open_bench(dir);
    struct ask k;

    fake_now = T0 + 3600 * NS_PER_S;
    ask_init(&k, what == 1 ? "cpu{service.name=\"service-07\"}" : "cpu", T0 + 17 * NS_PER_S + 5,
             T0 + 3587 * NS_PER_S - 3);
    for (int i = 0; i < n; i++)
        time_select(s, &k.q);
    query("again", time_select(s, &k.q), "");
    store_close(s);
}

static void run_limits(void)
{
    size_t n = 64 << 20, z;
    char *a = mem_alloc(n), *b = mem_alloc(n + (n >> 6));
    int64_t t;

    for (size_t i = 0; i < n; i++)
        a[i] = (char) (below(16) * below(16));
    memcpy(b, a, n);
    t = clock_mono();
    memcpy(b, a, n);
    printf("| memcpy | %.1f GB/s | |\n", (double) n / (double) (clock_mono() - t));
    t = clock_mono();
    z = ZSTD_compress(b, n + (n >> 6), a, n, 1);
    printf("| zstd -1 in | %.2f GB/s | |\n", (double) n / (double) (clock_mono() - t));
    t = clock_mono();
    ZSTD_decompress(a, n, b, z);
    printf("| zstd out | %.2f GB/s | |\n", (double) n / (double) (clock_mono() - t));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *dir = argc > 2 ? argv[2] : "";
    int a = argc > 3 ? (int) strtol(argv[3], NULL, 10) : 0, b = argc > 4 ? (int) strtol(argv[4], NULL, 10) : 0;
    int c = argc > 5 ? (int) strtol(argv[5], NULL, 10) : 0;

    if (strcmp(what, "limits") == 0)
        run_limits();
    else if (strcmp(what, "synthetic") == 0)
        run_synthetic(dir, a, b, c, false);
    else if (strcmp(what, "day") == 0)
        run_synthetic(dir, a, b, c, true);
    else if (strcmp(what, "files") == 0 && argc > 3)
        run_files(dir, argv[3]);
    else if (strcmp(what, "agent") == 0)
        run_agent(dir, a, b, c > 0 ? c : 5);
    else if (strcmp(what, "month") == 0)
        run_month(dir, a);
    else if (strcmp(what, "again") == 0)
        run_again(dir, a, b);
    else if (strcmp(what, "pids") == 0)
        run_pids(dir, a);
    else
        return 2;
    return 0;
}
