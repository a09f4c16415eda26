/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage to a store: what it destroys is reported, and nothing else is lost. There are two tenants, several flushes and
 * a compaction; then bits of one file after the other are flipped, and files are truncated, swapped and removed (1,000
 * mutations with WICK_MUTATIONS=1000). The store must open, report what is missing from an answer, and never return a
 * wrong value.
 */
#include "store/engines/segment/engine.h"
#include "store_dir.h"

enum { ROUNDS = 6 };

static char copy_dir[160];

static struct store_stats stats_of(struct suite *s)
{
    struct store_stats st = {0};

    s->store->ops->stats(s->store, &st);
    return st;
}

static void append_to(struct suite *s, const char *tenant, int64_t value, const char *service, int64_t time)
{
    _cleanup_(batch_unrefp) struct batch *b =
        simple_batch((struct simple[]){{.value = value, .service = service, .time = time, .stack = "main work"}}, 1);

    append_as(s, b, &(struct sink_context){.tenant = tenant, .received_ns = suite_clock}, NULL);
}

static int64_t tenant_total(struct suite *s, const char *tenant, struct store_notes *notes)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct asked k;
    struct err e = {0};
    int64_t v = 0;

    ask(&k, "cpu", ALL);
    k.q.tenant = tenant;
    k.q.notes = notes;
    if (s->store->ops->select(s->store, &k.q, &t, &e) < 0)
        tap_fail("select: %s", e.message);
    else
        v = t->total[0][0];
    ask_done(&k);
    return v;
}

/* Every acknowledged profile adds 1 to its tenant's total: flushed ones, some of them compacted, and some in the
 * log. */
static void fill(struct suite *s)
{
    begin(s);
    for (int i = 0; i < ROUNDS; i++) {
        char service[2][16];

        snprintf(service[0], sizeof service[0], "s%d", i);
        snprintf(service[1], sizeof service[1], "t%d", i);
        append_to(s, "", 1, service[0], suite_clock);
        append_to(s, "shop", 1, service[1], suite_clock);
        append_to(s, "shop", 1, "same", suite_clock);
        if (i < ROUNDS - 1)
            flush(s);
        if (i == 2)
            retain(s);
        suite_clock += 60 * NS_PER_S;
    }
}

static bool is_whole(struct suite *s, struct store_notes *notes)
{
    return tenant_total(s, "", notes) == ROUNDS && tenant_total(s, "shop", notes) == 2 * ROUNDS;
}

/* --- copies of the directory, as a crash leaves it --- */

static int copy_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char to[400];

    (void) st;
    (void) ftw;
    snprintf(to, sizeof to, "%s%s", copy_dir, path + strlen(dir));
    if (type == FTW_D)
        return mkdir(to, 0755) < 0 && errno != EEXIST;
    if (fd_read_file(path, 1 << 28, &b, NULL) < 0)
        return 1;
    return fd_write_file(to, b.p, b.n, NULL) < 0;
}

static void make_copy(void)
{
    nftw(copy_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    eq_int(nftw(dir, copy_one, 16, FTW_PHYS), 0);
}

static char told[8][256];
static int n_told;

static void on_tell(void *ctx, const char *line)
{
    (void) ctx;
    snprintf(told[n_told++ % 8], sizeof told[0], "%s", line);
}

static int open_copy(struct suite *c, const struct suite *s, struct err *e)
{
    *c = (struct suite){.config = s->config};
    c->config.dir = copy_dir;
    c->config.report = on_tell;
    n_told = 0;
    return store_open(&store_segment, &c->config, &c->store, e);
}

static void flip_at(const char *name, off_t at)
{
    char path[400];
    int fd;
    unsigned char byte;

    snprintf(path, sizeof path, "%s/%s", copy_dir, name);
    fd = open(path, O_RDWR);
    if (fd < 0 || pread(fd, &byte, 1, at) != 1 ||
        (byte ^= (unsigned char) (1 << at % 8), pwrite(fd, &byte, 1, at)) != 1)
        tap_fail("cannot turn a bit of %s over", path);
    close(fd);
}

static off_t size_of(const char *name)
{
    char path[400];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", copy_dir, name);
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* --- the catalogue's log --- */

/* A flipped bit of catalog.db-wal: all segments exist, so everything is shown, with the tenants' names. */
static void test_catalog_log(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}}, c;
    off_t size, step;
    int named = 0, tried = 0;

    fill(&s);
    make_copy();
    size = size_of("catalog.db-wal");
    ok(size > 4096);
    step = MAX(size / 61, 1);
    for (off_t at = 3; at < size && tap_bad < 5; at += step, tried++) {
        struct store_notes notes = {0};
        struct err e = {0};

        make_copy();
        flip_at("catalog.db-wal", at);
        if (open_copy(&c, &s, &e) < 0) {
            tap_fail("byte %lld: %s", (long long) at, e.message);
            break;
        }
        if (!is_whole(&c, &notes))
            tap_fail("byte %lld of catalog.db-wal: %lld and %lld are shown; %s", (long long) at,
                     (long long) tenant_total(&c, "", &notes), (long long) tenant_total(&c, "shop", &notes),
                     stats_of(&c).damage);
        named += stats_of(&c).damaged > 0 || stats_of(&c).torn > 0;
        flush(&c); /* and it continues to work */
        retain(&c);
        if (!is_whole(&c, &notes))
            tap_fail("byte %lld of catalog.db-wal: lost later", (long long) at);
        store_close(TAKE(c.store));
        if (open_copy(&c, &s, &e) < 0 || !is_whole(&c, &notes))
            tap_fail("byte %lld of catalog.db-wal: lost at the next opening", (long long) at);
        store_close(c.store);
    }
    printf("# %d bits, %d of them named\n", tried, named);
    ok(named > 0);
    end(&s);
}

/* Segments that an earlier version moved to lost/ are restored by a rebuild. */
static void test_rebuild_from_lost(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}}, c;
    struct store_notes notes = {0};
    char from[400], to[400];
    struct err e = {0};
    int moved = 0;

    fill(&s);
    flush(&s);
    make_copy();
    for (int t = 1; t <= 2; t++)
        for (int i = 0; i < 40; i++) {
            snprintf(to, sizeof to, "%s/lost", copy_dir);
            mkdir(to, 0755);
            snprintf(from, sizeof from, "%s/%d/seg/%012d.seg", copy_dir, t, i);
            snprintf(to, sizeof to, "%s/lost/%d-%012d.seg", copy_dir, t, i);
            moved += rename(from, to) == 0;
        }
    ok(moved > 2);
    snprintf(from, sizeof from, "%s/catalog.db", copy_dir);
    unlink(from);
    snprintf(from, sizeof from, "%s/catalog.db-wal", copy_dir);
    unlink(from);
    eq_int(open_copy(&c, &s, &e), 0);
    ok(is_whole(&c, &notes));
    store_close(c.store);
    reopen(&s);
    end(&s);
}

/* --- what stays visible --- */

static int lines_seen;

static void count_noted(void *ctx, bool problem, const char *line)
{
    (void) ctx;
    lines_seen += problem && strncmp(line, "noted ", 6) == 0;
}

static int noted(struct suite *s)
{
    lines_seen = 0;
    s->store->ops->check(s->store, count_noted, NULL, NULL);
    return lines_seen;
}

/* Damage is reported once in the log, and stays in the metrics across a restart and a compaction until a user
 * acknowledges it. */
static void test_damage_is_kept(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}}, c;
    struct store_notes notes = {0};
    struct err e = {0};
    char name[64];

    fill(&s);
    flush(&s);
    make_copy();
    snprintf(name, sizeof name, "1/seg/%012d.seg", 0);
    for (int i = 0; i < 40 && !size_of(name); i++)
        snprintf(name, sizeof name, "1/seg/%012d.seg", i);
    flip_at(name, 20);
    eq_int(open_copy(&c, &s, &e), 0);
    eq_int(stats_of(&c).damaged, 0);
    for (int i = 0; i < 3; i++)
        tenant_total(&c, "", &notes);
    profiles(&c);
    ok(stats_of(&c).damaged > 0);
    ok(n_told == (int) stats_of(&c).damaged);
    ok(strstr(told[0], "segment ") && strstr(told[0], "damage: "));
    retain(&c);
    ok(stats_of(&c).damaged > 0);
    store_close(TAKE(c.store));
    eq_int(open_copy(&c, &s, &e), 0);
    ok(stats_of(&c).damaged > 0);
    ok(noted(&c) > 0);
    eq_int(c.store->ops->confirm(c.store, STORE_CONFIRM_DAMAGE, &e), 0);
    eq_int(stats_of(&c).damaged, 0);
    store_close(TAKE(c.store));
    eq_int(open_copy(&c, &s, &e), 0);
    eq_int(noted(&c), 0);
    store_close(c.store);
    end(&s);
}

/* A segment of a later version is reported and is not damage. */
static void test_later_version(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}}, c;
    struct store_notes notes = {0};
    struct err e = {0};
    char name[400];
    unsigned char tail[SEGMENT_TAIL];
    int fd;

    fill(&s);
    flush(&s);
    make_copy();
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "%s/2/seg/%012d.seg", copy_dir, i);
        if (access(name, F_OK) == 0)
            break;
    }
    fd = open(name, O_RDWR);
    ok(lseek(fd, -SEGMENT_TAIL, SEEK_END) > 0 && read(fd, tail, sizeof tail) == sizeof tail);
    store_u32(tail + 20, 99);
    store_u32(tail + 28, crc32c(0, tail, 28));
    ok(lseek(fd, -SEGMENT_TAIL, SEEK_END) > 0 && write(fd, tail, sizeof tail) == sizeof tail);
    close(fd);
    eq_int(open_copy(&c, &s, &e), 0);
    eq_int(stats_of(&c).damaged, 0);
    eq_int(stats_of(&c).newer, 1);
    ok(n_told == 1 && strstr(told[0], "version 99"));
    ok(tenant_total(&c, "", &notes) == ROUNDS);
    retain(&c);
    store_close(c.store);
    ok(access(name, F_OK) == 0);
    end(&s);
}

static int lost_of(int tenant)
{
    char name[64];
    int n = 0;

    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "lost/%d-%012d.seg", tenant, i);
        n += there(name);
    }
    return n;
}

/* lost/ keeps nothing that was deleted or is too old. */
static void test_lost_is_bounded(void)
{
    struct suite s = {.config = {.keep = DAYS(10), .keep_detail = -1}};
    char from[400], to[400];

    begin(&s);
    append_to(&s, "", 1, "a", suite_clock);
    append_to(&s, "shop", 1, "b", suite_clock);
    flush(&s);
    snprintf(to, sizeof to, "%s/lost", dir);
    mkdir(to, 0755);
    for (int t = 1; t <= 2; t++)
        for (int i = 0; i < 10; i++) {
            snprintf(from, sizeof from, "%s/%d/seg/%012d.seg", dir, t, i);
            snprintf(to, sizeof to, "%s/lost/%d-%012d.seg", dir, t, i);
            if (link(from, to) < 0 && errno != ENOENT)
                tap_fail("link: %m");
        }
    retain(&s);
    ok(lost_of(1) == 1 && lost_of(2) == 1);
    delete_from(&s, "{service.name=\"a\"}", ALL);
    retain(&s);
    ok(lost_of(1) == 0 && lost_of(2) == 1);
    suite_clock += DAYS(11);
    retain(&s);
    eq_int(lost_of(2), 0);
    end(&s);
}

/* --- symbols --- */

/* A flipped bit of a symbol file costs names: the rows stay, by tenant, type and service where the names allow it. */
static void test_symbols(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}}, c;
    off_t size;
    int tried = 0;

    fill(&s);
    flush(&s);
    make_copy();
    size = size_of("2/sym/000001.sym");
    ok(size > 100);
    for (off_t at = 0; at < size && tap_bad < 5; at += 7, tried++) {
        struct store_notes notes = {0};
        struct err e = {0};

        make_copy();
        flip_at("2/sym/000001.sym", at);
        eq_int(open_copy(&c, &s, &e), 0);
        if (!is_whole(&c, &notes))
            tap_fail("byte %lld of the symbols: %lld rows of %d are shown", (long long) at,
                     (long long) tenant_total(&c, "shop", &notes), 2 * ROUNDS);
        if (!stats_of(&c).damaged)
            tap_fail("byte %lld of the symbols: nobody says so", (long long) at);
        store_close(c.store);
    }
    printf("# %d bits\n", tried);
    end(&s);
}

/* --- any file --- */

static struct {
    char name[128][128];
    int n;
} files;

static int list_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) ftw;
    if (type == FTW_F && st->st_size && files.n < 128 && !strstr(path, "LOCK") && !strstr(path, "FORMAT"))
        snprintf(files.name[files.n++], 128, "%s", path + strlen(copy_dir) + 1);
    return 0;
}

static void mutate(struct gen *seed, char *what, size_t size)
{
    const char *name;
    char path[400], other[400];
    off_t at, n;

    files.n = 0;
    nftw(copy_dir, list_one, 16, FTW_PHYS);
    name = files.name[gen_next(seed) % (uint64_t) files.n];
    n = size_of(name);
    at = (off_t) (gen_next(seed) % (uint64_t) n);
    snprintf(path, sizeof path, "%s/%s", copy_dir, name);
    switch (gen_next(seed) % 6) {
    case 0:
        snprintf(what, size, "%s is cut to %lld bytes", name, (long long) at);
        if (truncate(path, at) < 0)
            abort();
        break;
    case 1:
        snprintf(what, size, "%s is gone", name);
        unlink(path);
        break;
    case 2:
        snprintf(other, sizeof other, "%s/%s", copy_dir, files.name[gen_next(seed) % (uint64_t) files.n]);
        snprintf(what, size, "%s has the content of %s", name, other + strlen(copy_dir) + 1);
        if (strcmp(path, other) != 0) {
            _cleanup_(buf_done) struct buf b = BUF_INIT;

            if (fd_read_file(other, 1 << 28, &b, NULL) < 0 || fd_write_file(path, b.p, b.n, NULL) < 0)
                abort();
        }
        break;
    default:
        snprintf(what, size, "a bit of %s at %lld of %lld", name, (long long) at, (long long) n);
        flip_at(name, at);
        break;
    }
}

static void test_mutations(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}}, c;
    const char *want = getenv("WICK_MUTATIONS");
    int rounds = want ? (int) strtol(want, NULL, 10) : 60, harmless = 0, lost = 0, refused = 0;
    struct gen seed = {.state = 4711};

    fill(&s);
    for (int i = 0; i < rounds && tap_bad < 10; i++) {
        struct store_notes notes = {0};
        struct err e = {0};
        char what[300];
        int64_t a, b;

        make_copy();
        mutate(&seed, what, sizeof what);
        if (open_copy(&c, &s, &e) < 0) {
            refused++;
            if (!e.message[0])
                tap_fail("%d: %s: it does not open, and nobody says why", i, what);
            continue;
        }
        a = tenant_total(&c, "", &notes);
        b = tenant_total(&c, "shop", &notes);
        if (a > ROUNDS || b > 2 * ROUNDS)
            tap_fail("%d: %s: %lld and %lld are too many", i, what, (long long) a, (long long) b);
        if (a == ROUNDS && b == 2 * ROUNDS)
            harmless++;
        else if (!stats_of(&c).damaged && !stats_of(&c).torn && !notes.damaged)
            tap_fail("%d: %s: %lld and %lld are shown, and nobody says so", i, what, (long long) a, (long long) b);
        else
            lost++;
        store_close(c.store);
    }
    printf("# %d mutations: %d with all data, %d with a part that was named, %d refused by name\n", rounds, harmless,
           lost, refused);
    end(&s);
}

int main(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    snprintf(dir, sizeof dir, "%s/wick-damage-%d", base, (int) getpid());
    snprintf(copy_dir, sizeof copy_dir, "%s/wick-damaged-%d", base, (int) getpid());
    tap_run(test_catalog_log);
    tap_run(test_rebuild_from_lost);
    tap_run(test_damage_is_kept);
    tap_run(test_later_version);
    tap_run(test_lost_is_bounded);
    tap_run(test_symbols);
    tap_run(test_mutations);
    nftw(copy_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
