/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments in an object store (cold.h): the conformance suite with every segment there, few round trips, and nothing lost
 * when the object store fails, keeps half an object, forgets one, or refuses the credentials.
 */
#include "fake_s3.h"
#include "store/engines/segment/engine.h"
#include "store_dir.h"

#define ALWAYS (-(1ll << 60)) /* cold_after: everything that is sealed */

static struct fake_s3 fake;

static void forget_objects(void)
{
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < ARRAY_SIZE(fake.v); i++) {
        buf_done(&fake.v[i].data);
        fake.v[i].used = false;
    }
    pthread_mutex_unlock(&fake.lock);
}

static struct store_stats stats_of(struct suite *s)
{
    struct store_stats st = {0};

    s->store->ops->stats(s->store, &st);
    return st;
}

static struct suite cold_suite(void)
{
    forget_objects();
    return (struct suite){
        .config = {.cold = fake.place, .cold_after = ALWAYS, .keep = -1, .keep_detail = -1, .reserve = 4096}};
}

/* Begins shortly after midnight, so that a few hours are one segment. */
static void begin_night(struct suite *s)
{
    begin(s);
    suite_clock += 7200 * NS_PER_S;
}

/* --- the suite --- */

static void clear_all(struct suite *s)
{
    (void) s;
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    forget_objects();
}

static void test_conformance(void)
{
    struct suite s = {.ops = &store_segment, .settle = SETTLE_COMPACTED, .after = clear_all};

    s.config = (struct store_config){
        .dir = dir, .manual = true, .min_free = -1, .reserve = 4096, .cold = fake.place, .cold_after = ALWAYS};
    clear_all(NULL);
    store_conformance(&s);
    clear_all(NULL);
}

/* --- data --- */

/* Appends `hours` hours of three services to both stores. */
static void fill(struct suite *s, struct store *oracle, int hours)
{
    struct gen g = {.state = 99, .services = 3, .instances = 2, .stacks = 40, .depth = 12};
    struct sink_context ctx = {.tenant = ""};

    for (int i = 0; i < hours * 12; i++) {
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, suite_clock);
        struct ack_result r = {0};

        ctx.received_ns = suite_clock;
        if (!b || store_append_wait(s->store, b, &ctx, &r) < 0 ||
            (oracle && store_append_wait(oracle, b, &ctx, &r) < 0))
            tap_fail("append: %s", r.message);
        suite_clock += 300 * NS_PER_S;
        if (i % 60 == 59)
            flush(s);
    }
    flush(s);
}

static void same_answers(struct store *a, struct store *b, int64_t from, int64_t to, const char *when)
{
    _cleanup_(buf_done) struct buf x = BUF_INIT, y = BUF_INIT;

    dump_answers(&x, a, from, to);
    dump_answers(&y, b, from, to);
    if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0)
        tap_fail("%s: the answers differ (%zu and %zu bytes)", when, x.n, y.n);
}

static void test_same_answers(void)
{
    struct suite s = cold_suite();
    struct store_config oc = {.now = suite_now};
    struct store *oracle = NULL;
    struct err e = {0};

    s.config.cache = 1; /* the smallest cache: 16 blocks */
    begin_night(&s);
    ok(store_open(&store_memory, &oc, &oracle, &e) == 0);
    fill(&s, oracle, 7);
    retain(&s);
    eq_int(stats_of(&s).cold_segments, stats_of(&s).segments);
    ok(stats_of(&s).cold_bytes > 0 && stats_of(&s).cold_bytes == stats_of(&s).segment_bytes);
    eq_int(fake_count(&fake), stats_of(&s).segments);
    same_answers(oracle, s.store, GEN_T0, suite_clock, "all");
    same_answers(oracle, s.store, GEN_T0 + 3700 * NS_PER_S, suite_clock - 5000 * NS_PER_S, "a part");
    reopen(&s);
    same_answers(oracle, s.store, GEN_T0 + 77 * NS_PER_S, suite_clock, "reopened");
    store_close(oracle);
    end(&s);
}

/* --- round trips --- */

static void flame(struct suite *s, int64_t from, int64_t to, struct store_notes *notes, struct err *e, int *ret)
{
    struct selector sel = {0};
    struct store_query q = {
        .tenant = "", .n_columns = 1, .columns = {{.selector = &sel, .from = from, .to = to}}, .notes = notes};
    struct tree *t = NULL;
    struct arena a;

    arena_init(&a, 0);
    *notes = (struct store_notes){0};
    *ret = selector_parse(STR("cpu{service.name=\"svc-1\"}"), &a, &sel, e);
    if (*ret == 0)
        *ret = s->store->ops->select(s->store, &q, &t, e);
    if (*ret == 0 && !(t && notes->profiles))
        tap_fail("the flame graph is empty");
    tree_free(t);
    selector_done(&sel);
    arena_done(&a);
}

static void test_round_trips(void)
{
    struct suite s = cold_suite();
    struct store_notes notes;
    struct err e = {0};
    int64_t day, from[] = {0, 60, 4000, 1}, to[] = {86400, 86000, 80000, 86399};
    int r;

    begin(&s);
    suite_clock = day = window_start(GEN_T0, WINDOW_1D) + WINDOW_1D;
    fill(&s, NULL, 24);
    suite_clock += WINDOW_1D;
    s.config.cold_after = 0; /* the default: a day */
    reopen(&s);
    retain(&s);
    eq_int(stats_of(&s).cold_segments, 1);
    for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
        struct store_stats st;

        reopen(&s); /* an empty cache */
        flame(&s, day + from[i] * NS_PER_S, day + to[i] * NS_PER_S, &notes, &e, &r);
        st = stats_of(&s);
        if (r < 0 || st.cold_rounds > 3 || !st.cold_rounds)
            tap_fail("range %zu: %llu round trips, %llu requests: %s", i, (unsigned long long) st.cold_rounds,
                     (unsigned long long) st.cold_requests, e.message);
        flame(&s, day + from[i] * NS_PER_S, day + to[i] * NS_PER_S, &notes, &e, &r);
        eq_int(stats_of(&s).cold_rounds, st.cold_rounds); /* cached */
    }
    end(&s);
}

/* --- failures --- */

static int try_retain(struct suite *s, struct err *e)
{
    *e = (struct err){0};
    return s->store->ops->retain(s->store, true, e);
}

static void test_half_written(void)
{
    struct suite s = cold_suite();
    struct store_notes notes;
    struct err e = {0};
    int r;

    begin_night(&s);
    fill(&s, NULL, 2);
    atomic_store(&fake.cut_puts, 1);
    ok(try_retain(&s, &e) == -EREMOTEIO);
    ok(strstr(e.message, "bytes instead of"));
    eq_int(stats_of(&s).cold_segments, 0);
    flame(&s, GEN_T0, suite_clock, &notes, &e, &r); /* from disk */
    eq_int(r, 0);
    eq_int(stats_of(&s).damaged, 0);
    retain(&s);
    eq_int(stats_of(&s).cold_segments, 1);
    flame(&s, GEN_T0, suite_clock, &notes, &e, &r);
    eq_int(r, 0);
    end(&s);
}

/* The server refuses, then answers again: a clear error, no damage, no data lost. */
static void test_refused(void)
{
    struct suite s = cold_suite();
    struct store_notes notes;
    struct err e = {0};
    int r;

    begin_night(&s);
    fill(&s, NULL, 2);
    atomic_store(&fake.refuse_all, true);
    ok(try_retain(&s, &e) == -EACCES);
    ok(strstr(e.message, "s3://bucket/some/prefix") && strstr(e.message, "403"));
    atomic_store(&fake.refuse_all, false);
    retain(&s);
    reopen(&s);
    atomic_store(&fake.refuse_all, true);
    flame(&s, GEN_T0, suite_clock, &notes, &e, &r);
    ok(r == -EREMOTEIO && strstr(e.message, "InvalidAccessKeyId"));
    eq_int(stats_of(&s).damaged, 0);
    eq_int(notes.damaged, 0);
    APPEND(&s, {.value = 5, .service = "new", .time = suite_clock}); /* writing goes on */
    flush(&s);
    atomic_store(&fake.refuse_all, false);
    flame(&s, GEN_T0, suite_clock, &notes, &e, &r);
    eq_int(r, 0);
    atomic_store(&fake.drop_calls, 0);
    end(&s);
}

/* An object that is missing, or has other bytes, is damage: it is reported, and the rest is answered. */
static void test_missing_object(void)
{
    struct suite s = cold_suite();
    struct store_notes notes;
    struct err e = {0};
    int r;

    begin_night(&s);
    fill(&s, NULL, 2);
    retain(&s);
    APPEND(&s, {.value = 5, .service = "svc-1", .time = suite_clock});
    forget_objects();
    reopen(&s);
    flame(&s, GEN_T0, suite_clock + 1, &notes, &e, &r);
    eq_int(r, 0);
    ok(notes.damaged > 0 && strstr(notes.damage, "does not exist"));
    end(&s);
}

/* A crash after the upload: N.seg and N.cold both exist, and N.seg is used and moved again. */
static void test_both_files(void)
{
    struct suite s = cold_suite();
    _cleanup_(buf_done) struct buf full = BUF_INIT;
    char path[300], cold[300];
    struct segment_meta m;
    struct err e = {0};

    begin_night(&s);
    fill(&s, NULL, 2);
    s.store->ops->retain(s.store, true, &e);
    m = to_engine(s.store)->snapshot->segments[0].segment->meta;
    store_close(s.store);
    s.store = NULL;
    snprintf(path, sizeof path, "%s/1/seg/%012llu.seg", dir, (unsigned long long) m.number);
    snprintf(cold, sizeof cold, "%s/1/seg/%012llu.cold", dir, (unsigned long long) m.number);
    ok(access(path, F_OK) < 0 && access(cold, F_OK) == 0);
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < ARRAY_SIZE(fake.v); i++)
        if (fake.v[i].used)
            buf_put_buf(&full, &fake.v[i].data);
    pthread_mutex_unlock(&fake.lock);
    ok(fd_write_file(path, full.p, full.n, &e) == 0);
    atomic_store(&fake.puts, 0);
    ok(store_open(&store_segment, &s.config, &s.store, &e) == 0);
    eq_int(stats_of(&s).cold_segments, 0);
    retain(&s);
    eq_int(stats_of(&s).cold_segments, 1);
    eq_int(atomic_load(&fake.puts), 0); /* the object is there already */
    ok(access(path, F_OK) < 0);
    eq_int(stats_of(&s).damaged, 0);
    end(&s);
}

/* --- removal --- */

static void test_objects_removed(void)
{
    struct suite s = cold_suite();
    struct err e = {0};

    s.config.keep = 5 * WINDOW_1D;
    begin_night(&s);
    fill(&s, NULL, 2);
    retain(&s);
    eq_int(fake_count(&fake), 1);
    suite_clock += 3 * WINDOW_1D;
    retain(&s);
    eq_int(fake_count(&fake), 1);
    suite_clock += 3 * WINDOW_1D;
    atomic_store(&fake.refuse_all, true);
    ok(try_retain(&s, &e) == -EACCES); /* the segment is gone, its object not yet */
    eq_int(stats_of(&s).segments, 0);
    eq_int(fake_count(&fake), 1);
    reopen(&s);
    atomic_store(&fake.refuse_all, false);
    retain(&s);
    eq_int(fake_count(&fake), 0);
    end(&s);
}

/* The limit of size is about the disk: what is in the object store does not count. */
static void test_size_limit(void)
{
    struct suite s = cold_suite();

    begin_night(&s);
    fill(&s, NULL, 2);
    retain(&s);
    eq_int(stats_of(&s).cold_segments, 1);
    s.config.keep_bytes = 1;
    reopen(&s);
    retain(&s);
    eq_int(stats_of(&s).cold_segments, 1);
    end(&s);
}

static void test_deletion(void)
{
    struct suite s = cold_suite();
    struct selector sel = {0};
    struct store_column what = {.selector = &sel, .from = 0, .to = INT64_MAX};
    struct store_notes notes;
    struct err e = {0};
    uint64_t before;
    struct arena a;
    int r;

    arena_init(&a, 0);
    begin_night(&s);
    fill(&s, NULL, 2);
    retain(&s);
    before = stats_of(&s).stored_profiles;
    ok(selector_parse(STR("{service.name=\"svc-2\"}"), &a, &sel, &e) == 0);
    ok(s.store->ops->delete (s.store, "", &what, &e) == 0);
    atomic_store(&fake.refuse_all, true);
    try_retain(&s, &e); /* cannot be carried out yet: hidden */
    eq_int(stats_of(&s).deletions, 1);
    atomic_store(&fake.refuse_all, false);
    retain(&s);
    retain(&s);
    eq_int(stats_of(&s).deletions, 0);
    ok(stats_of(&s).stored_profiles < before);
    eq_int(stats_of(&s).cold_segments, 1);
    eq_int(fake_count(&fake), 1); /* the new object; the old one is deleted */
    flame(&s, GEN_T0, suite_clock, &notes, &e, &r);
    eq_int(r, 0);
    selector_done(&sel);
    arena_done(&a);
    end(&s);
}

/* A copy of the store is complete without the object store; a lost catalogue is rebuilt with the segments there. */
static void test_copy_and_rebuild(void)
{
    struct suite s = cold_suite();
    struct store_config oc = {.now = suite_now};
    struct store *oracle = NULL, *copy = NULL;
    struct err e = {0};
    char to[200], path[200];

    begin_night(&s);
    ok(store_open(&store_memory, &oc, &oracle, &e) == 0);
    fill(&s, oracle, 3);
    retain(&s);
    snprintf(to, sizeof to, "%s.copy", dir);
    nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    ok(store_snapshot(s.store, to, &e) == 0);
    ok(store_open(&store_segment, &(struct store_config){.dir = to, .read_only = true, .now = suite_now}, &copy, &e) ==
       0);
    atomic_store(&fake.refuse_all, true);
    if (copy)
        same_answers(oracle, copy, GEN_T0, suite_clock, "copy");
    atomic_store(&fake.refuse_all, false);
    store_close(copy);
    nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    store_close(s.store);
    s.store = NULL;
    snprintf(path, sizeof path, "%s/catalog.db", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/catalog.db-wal", dir);
    unlink(path);
    s.config.cold = NULL; /* DIR/COLD names the place */
    ok(store_open(&store_segment, &s.config, &s.store, &e) == 0);
    eq_int(stats_of(&s).cold_segments, 1);
    same_answers(oracle, s.store, GEN_T0, suite_clock, "rebuilt");
    store_close(oracle);
    end(&s);
}

/* --- check --- */

static int problems, objects_seen;

static void on_line(void *ctx, bool problem, const char *line)
{
    (void) ctx;
    problems += problem;
    objects_seen += strncmp(line, "object /bucket/some/prefix/", 27) == 0;
}

static void test_check(void)
{
    struct suite s = cold_suite();
    struct err e = {0};

    begin_night(&s);
    fill(&s, NULL, 2);
    retain(&s);
    problems = objects_seen = 0;
    ok(store_check(s.store, on_line, NULL, &e) == 0);
    eq_int(problems, 0);
    eq_int(objects_seen, 1);
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < ARRAY_SIZE(fake.v); i++)
        if (fake.v[i].used)
            fake.v[i].data.p[fake.v[i].data.n / 3] ^= 1;
    pthread_mutex_unlock(&fake.lock);
    ok(store_check(s.store, on_line, NULL, &e) == 0);
    eq_int(problems, 1);
    end(&s);
}

static void test_cache(void)
{
    struct cold_cache *c = NULL;
    char block[COLD_BLOCK], out[16];
    uint32_t max, there_now = 0;

    ok(cold_cache_new(40 * COLD_BLOCK, &c) == 0);
    max = cold_cache_max(c);
    eq_int(max, 40);
    for (uint64_t i = 0; i < 1000; i++) {
        memset(block, (int) i, sizeof block);
        cold_cache_add(c, i % 3, i, block, sizeof block);
        ok(cold_cache_has(c, 0, 0)); /* in use all the time: never dropped */
    }
    for (uint64_t i = 0; i < 1000; i++) {
        struct cold_cache_part part = {i % 3, i, 100, sizeof out};

        if (!cold_cache_copy(c, &part, out))
            continue;
        there_now++;
        eq_int((unsigned char) out[5], i & 0xff);
    }
    eq_int(there_now, max);
    cold_cache_free(c);
}

int main(void)
{
    snprintf(dir, sizeof dir, "/tmp/wick-cold-%d", (int) getpid());
    if (fake_start(&fake) < 0) {
        tap_fail("the fake server does not start");
        tap_end("start");
        return tap_done();
    }
    tap_run(test_cache);
    tap_run(test_same_answers);
    tap_run(test_round_trips);
    tap_run(test_half_written);
    tap_run(test_refused);
    tap_run(test_missing_object);
    tap_run(test_both_files);
    tap_run(test_objects_removed);
    tap_run(test_size_limit);
    tap_run(test_deletion);
    tap_run(test_copy_and_rebuild);
    tap_run(test_check);
    test_conformance();
    fake_stop(&fake);
    return tap_done();
}
