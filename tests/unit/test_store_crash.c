/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No acknowledged data is missing and none is duplicated: after a crash at any call, with any call failing, and with
 * any bit of any file flipped. WICK_CRASH_STATES sets how many states are tried (make test-all: 10,000).
 */
#include "tap.h"

#include <ftw.h>
#include <unistd.h>

#include "crash_fs.h"
#include "model/builder.h"
#include "store/store.h"
#include "store_gen.h"

enum { BATCHES_MAX = 64, BACKFILL = 44 };

static char live[64], made[64];
static int64_t now_ns = GEN_T0;

static int64_t test_now(void)
{
    return now_ns;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static void clear(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct store_config config_of(const char *dir)
{
    return (struct store_config){
        .dir = dir, .manual = true, .min_free = -1, .now = test_now, .keep = -1, .keep_detail = -1};
}

/* Batch i: one profile whose stack is main;f<i> with value 1; every third has a link and an attribute. */
static struct batch *make_batch(int i, int64_t time)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct value_type t;
    struct batch *out = NULL;
    struct profile *p;
    uint32_t loc[2], attr;
    int64_t one = 1;
    char name[32];

    if (builder_new(NULL, &b) < 0)
        return NULL;
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), gen_name(name, sizeof name, "s%u", (unsigned) i % 2));
    builder_scope(b, STR("t"), STR(""));
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    if (p)
        p->time_ns = time;
    for (int k = 0; k < 2; k++) {
        struct str fn = k ? STR("main") : gen_name(name, sizeof name, "f%u", (unsigned) i);
        struct line l = {.function = builder_function(b, &(struct function){.name = builder_string(b, fn)}), .line = 1};

        loc[k] = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    }
    attr = builder_attr_int(b, STR("thread.id"), i, (struct str){0});
    builder_sample(
        b, &(struct builder_sample){.stack = builder_stack(b, loc, 2),
                                    .link = i % 3 ? 0 : builder_link(b, &(struct link){.trace_id = {(uint8_t) i, 1}}),
                                    .attrs = builder_attrs(b, &attr, i % 3 ? 0 : 1),
                                    .values = &one,
                                    .n_values = 1});
    return builder_finish(b, &out, NULL) < 0 ? NULL : out;
}

/* --- the scenario --- */

struct story {
    struct store *s;
    size_t acked_at[BATCHES_MAX]; /* number of calls when the ack was completed + 1; 0 = never */
    /* the deletion that covers it: number of calls when it was requested, and when it was done, + 1; 0 = never */
    size_t delete_from[BATCHES_MAX], deleted_at[BATCHES_MAX];
    int deletion[BATCHES_MAX]; /* its number */
    int64_t time[BATCHES_MAX];
    int n, n_backfill, n_deletions;
    size_t close_at; /* number of calls when it was closed */
};

static void append_one(struct story *r, int i, const char *tenant, int64_t time)
{
    _cleanup_(batch_unrefp) struct batch *b = make_batch(i, time);
    struct ack_result result = {0};

    if (r->s && b)
        store_append_wait(r->s, b, &(struct sink_context){.tenant = tenant, .received_ns = now_ns}, &result);
    if (r->s && b && result.status == SINK_OK)
        r->acked_at[i] = crash.n + 1;
    r->time[i] = time;
}

static void append(struct story *r, int count)
{
    for (; count-- > 0; r->n++) {
        append_one(r, r->n, r->n % 5 == 4 ? "t2" : "", now_ns - r->n * NS_PER_S);
        now_ns += 7 * NS_PER_S;
    }
}

/* Batches from BACKFILL on, of both tenants and each of a different hour: one flush makes many segments of them. */
static void backfill(struct story *r, int count)
{
    for (; count-- > 0; r->n_backfill++)
        append_one(r, BACKFILL + r->n_backfill, r->n_backfill % 2 ? "t2" : "",
                   now_ns - (2 + 2 * r->n_backfill) * 3600 * NS_PER_S);
}

/* Deletes batches [first, last] of service s<first % 2> and the default tenant, by time; later ones are not
 * affected. */
static void delete_some(struct story *r, int first, int last)
{
    struct matcher m = {.name = STR("service.name"), .value = first % 2 ? STR("s1") : STR("s0")};
    struct selector sel = {.type = STR("cpu"), .v = &m, .n = 1};
    struct store_column c = {&sel, r->time[first], r->time[last] + 1};
    size_t before = crash.n + 1;
    bool done = r->s && r->s->ops->delete (r->s, "", &c, NULL) == 0;

    r->n_deletions++;
    for (int i = first; i <= last; i += 2)
        if (r->s && i % 5 != 4) {
            r->deletion[i] = r->n_deletions;
            r->delete_from[i] = before;
            r->deleted_at[i] = done ? crash.n + 1 : 0;
        }
}

static void reopen(struct story *r)
{
    struct store_config c = config_of(live);

    store_close(r->s);
    r->s = NULL;
    store_open(&store_segment, &c, &r->s, NULL);
}

static void scenario(struct story *r)
{
    now_ns = GEN_T0;
    reopen(r);
    append(r, 4);
    backfill(r, 6);
    if (r->s)
        r->s->ops->flush(r->s, NULL);
    append(r, 4);
    delete_some(r, 1, 5); /* in a segment and in memory */
    if (r->s)
        r->s->ops->flush(r->s, NULL);
    append(r, 2);
    delete_some(r, 6, 8);
    if (r->s)
        r->s->ops->retain(r->s, true, NULL);
    append(r, 2);
    now_ns += 4000 * NS_PER_S;
    reopen(r);
    delete_some(r, 7, 11); /* in a compacted segment and in a replayed log */
    append(r, 3);
    backfill(r, 6);
    if (r->s)
        r->s->ops->flush(r->s, NULL);
    if (r->s)
        r->s->ops->retain(r->s, true, NULL);
    append(r, 3);
    delete_some(r, 12, 16); /* waits for a compaction that never runs */
    r->close_at = crash.n;
    store_close(r->s);
    r->s = NULL;
}

/* --- checking --- */

/* Counts how often each batch is stored: counts[i] is the value of f<i>. */
static bool count_batches(struct store *s, int64_t counts[BATCHES_MAX], struct store_notes *notes)
{
    static const char *const tenants[] = {"", "t2", "t3"};

    memset(counts, 0, BATCHES_MAX * sizeof *counts);
    for (int t = 0; t < 3; t++) {
        struct selector sel = {.type = STR("cpu")};
        struct store_query q = {
            .tenant = tenants[t], .n_columns = 1, .columns = {{&sel, 0, INT64_MAX}}, .notes = notes};
        _cleanup_(tree_freep) struct tree *tree = NULL;
        struct err e = {0};

        if (s->ops->select(s, &q, &tree, &e) < 0) {
            tap_fail("select: %s", e.message);
            return false;
        }
        for (uint32_t i = 1; i < tree->n_nodes; i++) {
            struct str f = tree->frames[tree->frame[i]].function;
            uint64_t k;

            if (f.n > 1 && f.p[0] == 'f' && str_to_u64(str_slice(f, 1, f.n), 10, &k) == 0 && k < BATCHES_MAX)
                counts[k] += tree->self[0][i];
        }
    }
    return true;
}

static bool must_be_there(const struct story *r, int i, size_t k)
{
    return r->acked_at[i] && r->acked_at[i] <= k + 1 && (!r->delete_from[i] || k + 1 <= r->delete_from[i]);
}

/* A completed deletion hides everything it covers; an incomplete one everything or nothing. */
static void check_deleted(const struct story *r, size_t k, const int64_t counts[BATCHES_MAX], const char *what)
{
    for (int i = 0; i < BATCHES_MAX; i++) {
        if (r->deleted_at[i] && r->deleted_at[i] <= k + 1 && counts[i])
            tap_fail("%s: batch %d was deleted and is back", what, i);
        for (int j = 0; j < i; j++)
            if (r->deletion[i] && r->deletion[j] == r->deletion[i] && r->acked_at[i] && r->acked_at[j] &&
                r->delete_from[i] <= k + 1 && counts[i] != counts[j])
                tap_fail("%s: of batches %d and %d one is deleted", what, j, i);
    }
}

static void check_counts(struct store *s, const struct story *r, size_t k, const char *what)
{
    int64_t counts[BATCHES_MAX];
    struct store_notes notes = {0};

    if (!count_batches(s, counts, &notes))
        return;
    for (int i = 0; i < BATCHES_MAX; i++) {
        if (must_be_there(r, i, k) && counts[i] < 1)
            tap_fail("%s: batch %d was acknowledged and is missing", what, i);
        if (counts[i] > 1)
            tap_fail("%s: batch %d is there %lld times", what, i, (long long) counts[i]);
    }
    check_deleted(r, k, counts, what);
    if (notes.damaged)
        tap_fail("%s: damage: %s", what, notes.damage);
}

static void check_undamaged(struct store *s, const char *what)
{
    struct store_stats st;

    s->ops->stats(s, &st);
    if (st.damaged)
        tap_fail("%s: damage: %s", what, st.damage);
}

/* Writes more, first of a tenant of which the store knows nothing: it may get the number of one that the crash left half made.
 * Returns the store opened again. */
static struct store *write_on(struct store *s, const struct story *r, size_t k, const char *what)
{
    struct store_config c = config_of(made);
    struct story more = {.s = s, .n = 40};
    struct err e = {0};

    append_one(&more, 41, "t3", now_ns);
    append(&more, 1);
    if (!more.acked_at[40] || !more.acked_at[41])
        tap_fail("%s: cannot append after recovery", what);
    if (s->ops->flush(s, &e) < 0 || s->ops->retain(s, true, &e) < 0)
        tap_fail("%s: cannot flush after recovery: %s", what, e.message);
    check_counts(s, r, k, what);
    check_undamaged(s, what);
    store_close(s);
    s = NULL;
    if (store_open(&store_segment, &c, &s, &e) < 0) {
        tap_fail("%s: cannot open again: %s", what, e.message);
        return NULL;
    }
    check_counts(s, r, k, what);
    check_counts(s, &more, SIZE_MAX - 1, what);
    check_undamaged(s, what);
    return s;
}

/* Opens the store that was made, checks it, writes more, and checks again. */
static void check_state(const struct story *r, size_t k, const char *what, bool more)
{
    struct store_config c = config_of(made);
    struct store *s = NULL;
    struct err e = {0};

    if (store_open(&store_segment, &c, &s, &e) < 0) {
        tap_fail("%s: cannot open: %s", what, e.message);
        return;
    }
    check_undamaged(s, what);
    check_counts(s, r, k, what);
    if (more)
        s = write_on(s, r, k, what);
    store_close(s);
}

static int wanted_states(int normal)
{
    const char *v = getenv("WICK_CRASH_STATES");
    int n = v ? (int) strtol(v, NULL, 10) : normal;

#ifdef __SANITIZE_ADDRESS__
    n = MAX(n / 4, 40); /* sanitizers find memory errors early; the plain build tries all states */
#endif
    return n;
}

static void test_crash_states(void)
{
    struct story r = {0};
    int states = wanted_states(240), tried = 0;
    size_t total;

    clear(live);
    crash_reset(live);
    crash.recording = true;
    mkdir(live, 0755);
    scenario(&r);
    crash.recording = false;
    total = crash.n;
    printf("# %zu calls recorded, %d states\n", total, states);
    for (int i = 0; i < r.n; i++)
        if (!r.acked_at[i])
            tap_fail("batch %d was not acknowledged in the plain run", i);
    eq_int(r.n_backfill, 12);
    for (int i = 0; i < r.n_backfill; i++)
        ok(r.acked_at[BACKFILL + i] != 0);
    for (int i = 0; i < states && tap_bad < 10; i++, tried++) {
        enum crash_mode mode = (enum crash_mode)(i % CRASH_MODES);
        /* every call in turn when there are enough states, else spread over them */
        size_t k = (size_t) states >= total * CRASH_MODES ? (size_t) (i / CRASH_MODES) % (total + 1)
                                                          : (size_t) i * (total + 1) / (size_t) states;
        char what[96];

        snprintf(what, sizeof what, "state %d: after call %zu, mode %d", i, k, mode);
        clear(made);
        crash_make(k, mode, (uint64_t) i + 1, made);
        check_state(&r, k, what, i % 3 == 0);
    }
    clear(made);
    clear(live);
}

/* --- calls that fail --- */

static void run_failing(long at, int error, bool sticky)
{
    struct story r = {0};
    struct store_config c = config_of(live);
    struct store *s = NULL;
    struct err e = {0};
    char what[96];

    snprintf(what, sizeof what, "call %ld fails with %d%s", at, error, sticky ? " for good" : "");
    clear(live);
    crash_reset(live);
    mkdir(live, 0755);
    crash.fail_at = at;
    crash.fail_errno = error;
    crash.fail_sticky = sticky;
    scenario(&r);
    crash.fail_at = 0;
    if (store_open(&store_segment, &c, &s, &e) < 0) {
        tap_fail("%s: cannot open afterwards: %s", what, e.message);
        return;
    }
    check_counts(s, &r, SIZE_MAX - 1, what);
    store_close(s);
}

static void test_failing_calls(void)
{
    struct story r = {0};
    long changes, step;

    clear(live);
    crash_reset(live);
    mkdir(live, 0755);
    scenario(&r);
    changes = crash.changes;
    step = MAX(1, changes * 3 / wanted_states(240));
    for (long at = 1; at <= changes && tap_bad < 10; at += step) {
        run_failing(at, EIO, false);
        run_failing(at, ENOSPC, false);
        run_failing(at, ENOSPC, true);
    }
    clear(live);
}

/* --- flipped bits --- */

static struct flips {
    char path[64][192];
    off_t size[64];
    int n;
} files;

/* The second line of FORMAT only informs, and each start writes it anew. */
static int list_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *name = path + ftw->base;

    if (type == FTW_F && st->st_size && files.n < 64 && !strstr(path, "LOCK")) {
        snprintf(files.path[files.n], 192, "%s", path);
        files.size[files.n++] = strcmp(name, "FORMAT") == 0 ? (off_t) strlen("wick store 1\n") : st->st_size;
    }
    return 0;
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    char c;

    if (fd >= 0 && pread(fd, &c, 1, at) == 1) {
        c ^= 0x10;
        if (pwrite(fd, &c, 1, at) != 1)
            abort();
    }
    close(fd);
}

static void count_problem(void *ctx, bool problem, const char *line)
{
    (void) line;
    *(int *) ctx += problem;
}

/* Checks a store with one flipped bit: any missing data is reported, most of it is there, and the damage is
 * reported. */
static void check_flipped(const struct story *r, bool was_closed, const char *what, int *lost)
{
    struct store_config c = config_of(made);
    struct store *s = NULL;
    struct store_stats st = {0};
    struct store_notes notes = {0};
    struct err e = {0};
    int64_t counts[BATCHES_MAX] = {0};
    int missing = 0, back = 0, found = 0, here = 0;

    if (store_open(&store_segment, &c, &s, &e) < 0) { /* only FORMAT may prevent opening, with an error that names it */
        if (!e.message[0] || !strstr(what, "FORMAT"))
            tap_fail("%s: cannot open: %s", what, e.message);
        return;
    }
    count_batches(s, counts, &notes);
    s->ops->stats(s, &st);
    for (int k = 0; k < r->n; k++) {
        here += counts[k] > 0;
        missing += counts[k] < 1 && must_be_there(r, k, SIZE_MAX - 1);
        back += counts[k] && r->deleted_at[k];
        if (counts[k] > 1)
            tap_fail("%s: batch %d is there %lld times", what, k, (long long) counts[k]);
    }
    if ((missing || back) && !st.damaged && !st.torn)
        tap_fail("%s: %d batches are missing, %d are back, and nobody says so", what, missing, back);
    if (!here)
        tap_fail("%s: nothing is left", what);
    *lost += missing;
    if (s->ops->check(s, count_problem, &found, &e) < 0)
        tap_fail("%s: check: %s", what, e.message);
    /* a page that is also in the catalogue's log is overwritten without being read */
    if (!st.damaged && !st.torn && !found && (was_closed || !strstr(what, "/catalog.db")))
        tap_fail("%s: nobody names the damage", what);
    store_close(s);
}

/* A store that was closed, and one that was not: with its own logs and the catalogue's log. */
static void test_bit_flips(void)
{
    struct story r = {0};
    int rounds = wanted_states(240) / 2, lost = 0;

    clear(live);
    crash_reset(live);
    crash.recording = true;
    mkdir(live, 0755);
    scenario(&r);
    crash.recording = false;
    for (int i = 0; i < rounds && tap_bad < 10; i++) {
        char what[300];
        off_t at;
        int f;

        clear(made);
        crash_make(i % 2 ? r.close_at : crash.n, CRASH_ALL, 1, made);
        files.n = 0;
        nftw(made, list_one, 16, FTW_PHYS);
        if (!files.n)
            break;
        f = i / 2 % files.n;
        at = (off_t) (((uint64_t) i * 2654435761u) % (uint64_t) files.size[f]);
        flip(files.path[f], at);
        snprintf(what, sizeof what, "bit %lld of %s", (long long) at, files.path[f] + strlen(made));
        check_flipped(&r, i % 2 == 0, what, &lost);
    }
    printf("# %d flips, each of them named, %d batches lost in all\n", rounds, lost);
    clear(made);
    clear(live);
}

int main(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    snprintf(live, sizeof live, "%s/wick-crash-%d-live", base, (int) getpid());
    snprintf(made, sizeof made, "%s/wick-crash-%d-made", base, (int) getpid());
    crash_install();
    tap_run(test_crash_states);
    tap_run(test_failing_calls);
    tap_run(test_bit_flips);
    return tap_done();
}
