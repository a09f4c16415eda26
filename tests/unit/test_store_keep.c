/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a segment store keeps, where and for how long: levels, retention by size, bounded memtables, deletions and when
 * they are removed from the disk, the cache, one process at a time, damaged sums.
 */
#include "store/engines/segment/engine.h"
#include "store_dir.h"

/* --- deletion --- */

static struct store_stats stats_of(struct suite *s)
{
    struct store_stats st = {0};

    s->store->ops->stats(s->store, &st);
    return st;
}

/* Looks in all files for the bytes of an ID that only the deleted profiles have. */
static int found;

static int find_id(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    (void) st;
    (void) ftw;
    if (type == FTW_F && fd_read_file(path, 1 << 24, &b, NULL) == 0 && memmem(b.p, b.n, "\x77\x78\x79\x7a\x77", 5))
        found++;
    return 0;
}

static int files_with_id(void)
{
    found = 0;
    nftw(dir, find_id, 16, FTW_PHYS);
    return found;
}

static void append_id(struct suite *s, const char *service)
{
    _cleanup_(batch_unrefp) struct batch *b =
        simple_batch((struct simple[]){{.value = 5, .service = service, .time = suite_clock}}, 1);

    memcpy(b->profiles[0].id, "\x77\x78\x79\x7a\x77\x78\x79\x7a\x77\x78\x79\x7a\x77\x78\x79\x7a", 16);
    append(s, b);
}

/* Hidden by the call; still in the log and the segment; removed from both by the next compaction. */
static void test_deleted_from_disk(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};

    begin(&s);
    append_id(&s, "gone");
    APPEND(&s, {.value = 1, .service = "stays"});
    flush(&s);
    suite_clock += NS_PER_S;
    append_id(&s, "gone");
    eq_int(files_with_id(), 2);
    delete_from(&s, "{service.name=\"gone\"}", ALL);
    eq_int(total(&s, "cpu", ALL), 1);
    eq_int(files_with_id(), 2);
    eq_int(stats_of(&s).deletions, 1);
    reopen(&s);
    eq_int(total(&s, "cpu", ALL), 1);
    eq_int(stats_of(&s).deletions, 1);
    ok(s.store->ops->retain(s.store, false, NULL) == 0);
    eq_int(files_with_id(), 0);
    eq_int(stats_of(&s).deletions, 0);
    eq_int(stats_of(&s).stored_profiles, 1);
    eq_int(total(&s, "cpu", ALL), 1);
    end(&s);
}

/* Where only sums are left, five minutes are deleted as a whole or not at all; a sum over all series does not bring a
 * part back. */
static void test_delete_without_detail(void)
{
    static const char *const hosts[] = {"h1", "h2", "h3", "h4", "h5"};
    struct suite s = {.config = {.keep = -1, .keep_detail = DAYS(1)}};

    begin(&s);
    for (int i = 0; i < 5; i++)
        APPEND(&s, {.value = 1, .host = hosts[i], .time = EARLY}, {.value = 10, .host = hosts[i], .time = GEN_T0});
    flush(&s);
    suite_clock += DAYS(3);
    retain(&s);
    eq_int(profiles(&s), 0);
    eq_int(total(&s, "cpu", ALL), 55);
    delete_from(&s, "cpu{host.name=\"h2\"}", EARLY - 600 * NS_PER_S, EARLY + 600 * NS_PER_S);
    for (int i = 0; i < 2; i++, retain(&s)) {
        eq_int(total(&s, "cpu", ALL), 54);
        eq_int(total(&s, "cpu{host.name=\"h2\"}", ALL), 10);
        eq_int(total(&s, "cpu", EARLY - 600 * NS_PER_S, EARLY + 600 * NS_PER_S), 4);
    }
    eq_int(stats_of(&s).deletions, 0);
    end(&s);
}

/* A copy of the store hides deleted data, and accepts new data of the same time; its logs continue the numbering. */
static void test_snapshot_with_deletion(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}}, copy = s;
    char to[160];

    snprintf(to, sizeof to, "%s-copy", dir);
    nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    begin(&s);
    APPEND(&s, {.value = 1}, {.value = 2, .service = "gone"});
    flush(&s);
    delete_from(&s, "cpu{service.name=\"gone\"}", ALL);
    eq_int(s.store->ops->snapshot(s.store, to, NULL), 0);
    copy.config = s.config;
    copy.config.dir = to;
    ok(store_open(&store_segment, &copy.config, &copy.store, NULL) == 0);
    if (copy.store) {
        eq_int(total(&copy, "cpu", ALL), 1);
        eq_int(stats_of(&copy).damaged, 0);
        APPEND(&copy, {.value = 4, .service = "gone"});
        eq_int(total(&copy, "cpu", ALL), 5);
        retain(&copy);
        eq_int(total(&copy, "cpu", ALL), 5);
    }
    store_close(copy.store);
    nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    end(&s);
}

/* --- the cache --- */

static uint64_t kept_after(struct suite *s, const char *selector)
{
    struct asked k;
    struct store_stats st;
    int n = 0;

    total(s, selector, ALL);
    ask(&k, selector, ALL);
    s->store->ops->profiles(s->store, &k.q, count_profile, &n, NULL);
    s->store->ops->export(s->store, &k.q, count_exported, &n, NULL);
    s->store->ops->each_series(s->store, &(struct store_range){"", ALL, NULL}, count_series, &n);
    ask_done(&k);
    st = stats_of(s);
    return st.cache_bytes;
}

/* Many segments, each with its own dictionary and footer, and many trees: the answers are the same whatever the size of
 * the cache. */
static void test_cache_bound(void)
{
    enum { SEGMENTS = 120, ROOM = 48 << 10 };
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    _cleanup_(buf_done) struct buf roomy = BUF_INIT, tight = BUF_INIT;
    uint64_t all, most = 0;

    begin(&s);
    for (int i = 0; i < SEGMENTS; i++) {
        struct gen g = {.state = (uint64_t) i + 1, .services = 12, .instances = 3, .stacks = 30, .depth = 10};
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, GEN_T0 - i * 3600 * NS_PER_S);

        append(&s, b);
        flush(&s);
    }
    eq_int(stats_of(&s).segments, SEGMENTS);
    dump_answers(&roomy, s.store, GEN_T0 - DAYS(7), GEN_T0 + DAYS(1));
    all = stats_of(&s).cache_bytes;
    ok(all > 10 * ROOM); /* there is something to bound */
    s.config.cache = ROOM;
    reopen(&s);
    dump_answers(&tight, s.store, GEN_T0 - DAYS(7), GEN_T0 + DAYS(1));
    ok(roomy.n == tight.n && memcmp(roomy.p, tight.p, roomy.n) == 0);
    most = MAX(kept_after(&s, "cpu"), kept_after(&s, "heap"));
    most = MAX(most, stats_of(&s).cache_bytes);
    printf("# %llu bytes without a bound, at most %llu of %d with it\n", (unsigned long long) all,
           (unsigned long long) most, ROOM);
    ok(most && most <= ROOM);
    end(&s);
}

/* --- levels --- */

struct levels {
    int n[3], problems;
};

static void count_level(void *ctx, bool problem, const char *line)
{
    struct levels *l = ctx;
    const char *at = strstr(line, ": level ");

    l->problems += problem;
    if (at)
        l->n[(at[8] - '0') % 3]++;
}

static struct levels levels_of(struct suite *s)
{
    struct levels l = {0};

    eq_int(s->store->ops->check(s->store, count_level, &l, NULL), 0);
    eq_int(l.problems, 0);
    return l;
}

/* Five-minute segments become segments of hours that are over, and those become segments of days that are over. */
static void test_levels(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    int64_t day = GEN_T0 - GEN_T0 % DAYS(1);

    begin(&s);
    suite_clock = day;
    for (int i = 0; i < 8; i++, suite_clock += 900 * NS_PER_S) { /* two hours, a segment every quarter */
        APPEND(&s, {.value = 1, .time = suite_clock});
        flush(&s);
    }
    eq_int(levels_of(&s).n[0], 8);
    ok(s.store->ops->retain(s.store, false, NULL) == 0); /* the first hour is over, the second not for long enough */
    eq_int(levels_of(&s).n[0], 4);
    eq_int(levels_of(&s).n[1], 1);
    suite_clock += 3600 * NS_PER_S;
    ok(s.store->ops->retain(s.store, false, NULL) == 0);
    eq_int(levels_of(&s).n[0], 0);
    eq_int(levels_of(&s).n[1], 2);
    suite_clock += DAYS(1);
    ok(s.store->ops->retain(s.store, false, NULL) == 0);
    eq_int(levels_of(&s).n[1], 0);
    eq_int(levels_of(&s).n[2], 1);
    eq_int(total(&s, "cpu", ALL), 8);
    eq_int(total(&s, "cpu", day + 900 * NS_PER_S, day + 2 * 3600 * NS_PER_S - 1), 7);
    end(&s);
}

/* --- limits --- */

/* What `du` shows for a part of the store. */
static uint64_t du_sum;

static int add_blocks(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) path;
    (void) type;
    (void) ftw;
    du_sum += (uint64_t) st->st_blocks * 512;
    return 0;
}

static uint64_t du(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    du_sum = 0;
    nftw(path, add_blocks, 16, FTW_PHYS);
    return du_sum;
}

static int64_t total_as(struct suite *s, const char *tenant)
{
    struct asked k;
    int64_t v;

    ask(&k, "cpu", ALL);
    k.q.tenant = tenant;
    v = total_of(s, &k.q);
    ask_done(&k);
    return v;
}

static uint64_t limit_of_some, beside_some;

static uint64_t limit_of(void *ctx, const char *tenant)
{
    (void) ctx;
    return strcmp(tenant, "some") == 0 ? limit_of_some : 0;
}

static uint64_t beside_of(void *ctx, const char *tenant)
{
    (void) ctx;
    return strcmp(tenant, "some") == 0 ? beside_some : 0;
}

/* Segments of one hour each, the value says which are there. */
static void append_hours(struct suite *s, const char *tenant, int n)
{
    for (int i = 0; i < n; i++) {
        _cleanup_(batch_unrefp) struct batch *b =
            simple_batch((struct simple[]){{.value = 1 << i, .time = GEN_T0 - (n - i) * 3600 * NS_PER_S}}, 1);

        append_as(s, b, &(struct sink_context){.tenant = tenant, .received_ns = suite_clock}, NULL);
        flush(s);
    }
}

static void retain_at(struct suite *s, uint64_t keep_bytes)
{
    struct err e = {0};

    s->config.keep_bytes = keep_bytes;
    s->store->ops->set_retention(s->store, &s->config);
    if (s->store->ops->retain(s->store, false, &e) < 0)
        tap_fail("retain: %s", e.message);
}

static struct suite begin_sizes(void)
{
    struct suite s = {.config = {.keep = -1,
                                 .keep_detail = -1,
                                 .keep_bytes = UINT64_MAX,
                                 .tenant_limit = limit_of,
                                 .tenant_beside = beside_of}};

    limit_of_some = beside_some = 0;
    begin(&s);
    append_hours(&s, "some", 20);
    append_hours(&s, "other", 16);
    retain_at(&s, UINT64_MAX);
    return s;
}

/* Everything counts, as du does; the tenant with the most loses its oldest, and only as much as is over. */
static void test_retention_by_size(void)
{
    enum { SOME = (1 << 20) - 1, OTHER = (1 << 16) - 1 };
    struct suite s = begin_sizes();
    uint64_t now;

    for (int again = 0; again < 2; again++) {
        int64_t all = again ? SOME - 1 : SOME;

        now = du(".");
        retain_at(&s, now + 1);
        eq_int(total_as(&s, "some"), all);
        eq_int(du("."), now);
        retain_at(&s, now);
        eq_int(total_as(&s, "some"), all);
        retain_at(&s, now - 1);
        eq_int(total_as(&s, "some"), again ? SOME - 3 : SOME - 1);
        eq_int(total_as(&s, "other"), OTHER);
        ok(du(".") < now);
        s.config.keep_bytes = UINT64_MAX;
        reopen(&s);
        retain_at(&s, UINT64_MAX);
    }
    now = du(".");
    retain_at(&s, now - (40 << 10)); /* now both have as much */
    ok(du(".") <= now - (40 << 10));
    ok(total_as(&s, "some") < SOME - 3 && total_as(&s, "other") < OTHER);
    ok((total_as(&s, "some") >> 19) == 1 && (total_as(&s, "other") >> 15) == 1); /* the newest are there */
    ok(stats_of(&s).dropped_bytes >= 40 << 10);
    end(&s);
}

/* A file that the store does not know counts, but never displaces more than three quarters. */
static void test_retention_beside(void)
{
    struct suite s = begin_sizes();
    static char content[100 << 10];
    uint64_t now = du(".");
    char path[256];

    s.store->ops->retain(s.store, false, NULL);
    snprintf(path, sizeof path, "%s/binaries", dir);
    ok(fd_mkdir_all(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/binaries/file", dir);
    memset(content, 1, sizeof content);
    ok(fd_write_file(path, content, sizeof content, NULL) == 0);
    ok(du(".") >= now + (100 << 10) && stats_of(&s).beside_bytes >= 100 << 10);
    retain_at(&s, now + (90 << 10));
    ok(du(".") <= now + (90 << 10));
    ok(total_as(&s, "some") > 0 && total_as(&s, "other") == (1 << 16) - 1);
    retain_at(&s, 110 << 10);
    ok(du("1") + du("2") >= (110 << 10) / 4 - 8192 && total_as(&s, "some") > 0 && total_as(&s, "other") > 0);
    end(&s);
}

/* A tenant over its own limit loses its own, also for what is kept beside its profiles; others do not. */
static void test_tenant_limit(void)
{
    enum { SOME = (1 << 20) - 1, OTHER = (1 << 16) - 1 };
    struct suite s = begin_sizes();
    struct store_disk disk;

    for (int again = 0; again < 2; again++) {
        uint64_t own = du("1");

        ok(s.store->ops->disk(s.store, "some", &disk) == 0);
        eq_int(disk.profiles, own);
        eq_int(disk.beside, again ? 1000 : 0);
        own += disk.beside;
        for (int over = -1; over <= 1; over++) {
            limit_of_some = own - (uint64_t) over;
            retain_at(&s, UINT64_MAX);
            eq_int(total_as(&s, "some"), SOME - (over > 0 ? 1 : 0) - (again ? 1 : 0) * (over > 0 ? 2 : 1));
        }
        eq_int(total_as(&s, "other"), OTHER);
        ok(du("1") + beside_some <= limit_of_some);
        limit_of_some = 0;
        beside_some = 1000;
        reopen(&s);
    }
    end(&s);
}

/* Data that is not in a segment yet is bounded: when segments cannot be written, writers get a status that tells them
 * to wait. */
static void test_heads_bounded(void)
{
    struct suite s = {.config = {.memory = 1, .keep = -1, .keep_detail = -1}};
    struct ack_result r = {0};
    int taken = 0;

    begin(&s);
    for (; taken < 100; taken++) {
        _cleanup_(batch_unrefp) struct batch *b =
            simple_batch((struct simple[]){{.value = 1, .time = GEN_T0 + taken}}, 1);

        store_append_wait(s.store, b, &(struct sink_context){.tenant = "", .received_ns = suite_clock}, &r);
        if (r.status != SINK_OK)
            break;
    }
    ok(taken > 1 && taken < 10);
    ok(r.status == SINK_UNAVAILABLE && r.retry_ns > 0 && r.message[0]);
    eq_int(total(&s, "cpu", ALL), taken);
    flush(&s);
    APPEND(&s, {.value = 1, .time = GEN_T0 + 1000});
    eq_int(total(&s, "cpu", ALL), taken + 1);
    end(&s);
}

/* Each kill leaves a small log. They do not keep a server that is killed again and again from accepting data, but their
 * number has a limit. */
static void test_killed_again_and_again(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    struct ack_result r = {0};
    int taken = 0;

    begin(&s);
    for (; taken < 200; taken++) {
        _cleanup_(batch_unrefp) struct batch *b =
            simple_batch((struct simple[]){{.value = 1, .time = GEN_T0 + taken}}, 1);

        store_append_wait(s.store, b, &(struct sink_context){.tenant = "", .received_ns = suite_clock}, &r);
        if (r.status != SINK_OK)
            break;
        reopen(&s); /* `manual`: nothing is flushed on closing */
    }
    ok(taken > 50 && taken < 100);
    ok(r.status == SINK_UNAVAILABLE && r.retry_ns > 0 && r.message[0]);
    eq_int(total(&s, "cpu", ALL), taken);
    flush(&s);
    APPEND(&s, {.value = 1, .time = GEN_T0 + 1000});
    eq_int(total(&s, "cpu", ALL), taken + 1);
    end(&s);
}

static void test_async(void)
{
    struct suite s = {.config = {.async = true, .keep = -1, .keep_detail = -1}};

    begin(&s);
    APPEND(&s, {.value = 3});
    eq_int(total(&s, "cpu", ALL), 3);
    reopen(&s);
    eq_int(total(&s, "cpu", ALL), 3);
    end(&s);
}

/* --- one process --- */

static void test_one_process(void)
{
    struct suite s = {0};
    struct store *other = NULL;
    struct err e = {0};

    begin(&s);
    eq_int(store_open(&store_segment, &s.config, &other, &e), -EBUSY);
    ok(strstr(e.message, dir) != NULL);
    end(&s);
}

static void test_other_format(void)
{
    struct suite s = {0};
    struct store *other = NULL;
    struct err e = {0};
    char path[160];

    begin(&s);
    store_close(s.store);
    snprintf(path, sizeof path, "%s/FORMAT", dir);
    eq_int(fd_write_file(path, "wick store 9\n", 13, NULL), 0);
    eq_int(store_open(&store_segment, &s.config, &other, &e), -EPROTONOSUPPORT);
    ok(strstr(e.message, "wick store 9") && strstr(e.message, "wick store 1"));
    s.store = NULL;
    end(&s);
}

/* --- damage --- */

static void turn_over(const char *name, off_t at)
{
    char path[200], c = 0;
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDWR);
    ok(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= 4;
    ok(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

/* Asks for everything, 9. Returns 0 when it is not there and the answer reports damage; 1 when the answer reports
 * damage and everything is there; 2 when no damage was found. */
static int ask_damaged(struct suite *s, off_t at)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct store_notes notes = {0};
    struct asked k;
    bool whole;

    ask(&k, "cpu", ALL);
    k.q.notes = &notes;
    ok(s->store->ops->select(s->store, &k.q, &t, NULL) == 0);
    ask_done(&k);
    whole = t && t->total[0][0] == 9;
    if (!whole && !notes.damaged)
        tap_fail("byte %lld is wrong, something is missing, and nobody says so", (long long) at);
    if (notes.damaged && !strstr(notes.damage, "segment "))
        tap_fail("byte %lld: '%s' does not say where", (long long) at, notes.damage);
    return whole ? (notes.damaged ? 1 : 2) : 0;
}

/* Finds the only segment. */
static void find_segment(char name[static 64], off_t *ret_size)
{
    struct stat st = {0};
    char path[200];

    name[0] = 0;
    for (int i = 1; i < 20 && !there(name[0] ? name : "none"); i++)
        snprintf(name, 64, "1/seg/%012d.seg", i);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    ok(stat(path, &st) == 0);
    *ret_size = st.st_size;
}

/* A day of three hours: whichever byte is wrong, the answer reports it. Where it belongs to a sum, the underlying data
 * is used instead, and nothing is missing. */
static void test_damaged_sums(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .cache = 1}};
    int count[3] = {0};
    char name[64];
    off_t size;

    begin(&s);
    for (int i = 0; i < 3; i++) {
        APPEND(&s, {.value = 1, .time = EARLY - i * 3600 * NS_PER_S},
               {.value = 2, .time = EARLY - i * 3600 * NS_PER_S + 1});
        flush(&s);
    }
    suite_clock += DAYS(2);
    retain(&s);
    eq_int(stats_of(&s).segments, 1);
    find_segment(name, &size);
    for (off_t at = 0; at < size; at += 3) {
        turn_over(name, at);
        count[ask_damaged(&s, at)]++;
        turn_over(name, at);
    }
    printf("# bytes wrong: %d not on the way to the answer, %d with the whole answer, %d with a part of it\n", count[2],
           count[1], count[0]);
    ok(count[1] > 0);
    eq_int(ask_damaged(&s, -1), 2);
    end(&s);
}

/* Damage that the second thread of a query over many services finds is in the answer's notes. */
static void test_damage_of_many(void)
{
    static const char *const services[] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"};
    struct suite s = {.config = {.keep = -1, .keep_detail = -1, .cache = 1}};
    struct simple rows[ARRAY_SIZE(services)];
    int count[3] = {0};
    char name[64];
    off_t size;

    begin(&s);
    to_engine(s.store)->cpus = 2; /* so that it has one on a machine with one CPU as well */
    for (size_t i = 0; i < ARRAY_SIZE(services); i++)
        rows[i] = (struct simple){.value = 1, .time = EARLY, .service = services[i]};
    append_simple(&s, rows, ARRAY_SIZE(rows));
    flush(&s);
    find_segment(name, &size);
    for (off_t at = 0; at < size; at += 5) {
        turn_over(name, at);
        for (int i = 0; i < 8; i++) /* either thread may find it */
            count[ask_damaged(&s, at)]++;
        turn_over(name, at);
    }
    ok(count[0] + count[1] > 0);
    eq_int(ask_damaged(&s, -1), 2);
    end(&s);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/wick-keep-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int) getpid());
    tap_run(test_deleted_from_disk);
    tap_run(test_delete_without_detail);
    tap_run(test_snapshot_with_deletion);
    tap_run(test_cache_bound);
    tap_run(test_levels);
    tap_run(test_retention_by_size);
    tap_run(test_retention_beside);
    tap_run(test_tenant_limit);
    tap_run(test_heads_bounded);
    tap_run(test_killed_again_and_again);
    tap_run(test_async);
    tap_run(test_one_process);
    tap_run(test_other_format);
    tap_run(test_damaged_sums);
    tap_run(test_damage_of_many);
    return tap_done();
}
