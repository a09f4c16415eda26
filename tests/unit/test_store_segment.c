/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance suite on engine `segment`, with its data in every possible state, and compares both engines on
 * the same data. */
#include "store_conformance.c"

#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

static char dir[128];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static void clear_dir(struct suite *s)
{
    (void) s;
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_suite(enum settle settle, bool manual)
{
    struct suite s = {.ops = &store_segment, .settle = settle, .after = clear_dir};

    s.config.dir = dir;
    s.config.manual = manual;
    s.config.min_free = -1;
    s.config.reserve = 4096;
    s.config.cache = settle == SETTLE_COMPACTED ? 1 : 0; /* nothing is cached */
    clear_dir(NULL);
    store_conformance(&s);
}

/* --- against the oracle --- */

static void compare(struct store *a, struct store *b, int64_t from, int64_t to, const char *when)
{
    _cleanup_(buf_done) struct buf x = BUF_INIT, y = BUF_INIT;

    dump_answers(&x, a, from, to);
    dump_answers(&y, b, from, to);
    if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0) {
        size_t i = 0, line = 0;

        while (i < MIN(x.n, y.n) && x.p[i] == y.p[i]) {
            if (x.p[i] == '\n')
                line = i + 1;
            i++;
        }
        tap_fail("%s [%lld, %lld): want '%.*s', have '%.*s'", when, (long long) (from - GEN_T0) / NS_PER_S,
                 (long long) (to - GEN_T0) / NS_PER_S, (int) MIN(x.n - line, 300), x.p + line,
                 (int) MIN(y.n - line, 300), y.p + line);
    }
}

static void random_run(uint64_t seed, int steps)
{
    struct gen g = {.state = seed * 77777 + 1, .services = 3, .instances = 3, .stacks = 30, .depth = 10};
    struct store_config c = {
        .now = suite_now, .manual = true, .dir = dir, .min_free = -1, .cache = seed % 2 ? 1 : 20000};
    struct store *oracle = NULL, *s = NULL;
    struct err e = {0};
    int logs = 0;

    clear_dir(NULL);
    suite_clock = GEN_T0;
    if (store_open(&store_memory, &c, &oracle, &e) < 0 || store_open(&store_segment, &c, &s, &e) < 0) {
        tap_fail("open: %s", e.message);
        return;
    }
    for (int i = 0; i < steps && !tap_bad; i++) {
        uint32_t what = logs > 3 ? 13 : gen_below(&g, 20); /* only this test flushes: limits the number of logs */
        char when[64];

        suite_clock += gen_below(&g, 400) * NS_PER_S;
        snprintf(when, sizeof when, "seed %d step %d did %u", (int) seed, i, what);
        if (what < 13) {
            _cleanup_(batch_unrefp) struct batch *b =
                gen_batch(&g, suite_clock - (int64_t) gen_below(&g, 4000) * NS_PER_S);
            struct sink_context ctx = {.tenant = "", .received_ns = suite_clock};

            for (int k = 0; k < 1 + (what == 0); k++) { /* sometimes twice */
                struct ack_result x, y;

                store_append_wait(oracle, b, &ctx, &x);
                store_append_wait(s, b, &ctx, &y);
                eq_int(y.status, x.status);
                eq_int(y.rejected, x.rejected);
                if (y.status)
                    tap_fail("%s", y.message);
            }
        } else if (what < 15) {
            logs = 0;
            if (s->ops->flush(s, &e) < 0)
                tap_fail("flush: %s", e.message);
        } else if (what < 17) {
            if (s->ops->retain(s, what == 15, &e) < 0)
                tap_fail("retain: %s", e.message);
        } else if (what == 17) {
            logs++;
            store_close(s);
            s = NULL;
            if (store_open(&store_segment, &c, &s, &e) < 0) {
                tap_fail("open: %s", e.message);
                break;
            }
        } else if (what == 18) {
            static const char *const selectors[] = {"cpu{service.name=\"svc-1\"}", "heap", "{host.name=~\".*1\"}"};
            int64_t from = suite_clock - (int64_t) gen_below(&g, 4000) * NS_PER_S;
            struct asked k;

            logs++;
            ask(&k, selectors[gen_below(&g, 3)], from, from + (int64_t) (1 + gen_below(&g, 1500)) * NS_PER_S);
            eq_int(oracle->ops->delete (oracle, "", &k.q.columns[0], &e), 0);
            if (s->ops->delete (s, "", &k.q.columns[0], &e) < 0)
                tap_fail("delete: %s", e.message);
            ask_done(&k);
        }
        if (i % 4 == 3) {
            int64_t from = suite_clock - (int64_t) gen_below(&g, 9000) * NS_PER_S;

            compare(oracle, s, from, from + (int64_t) gen_below(&g, 9000) * NS_PER_S, when);
            compare(oracle, s, GEN_T0 - 86400 * NS_PER_S, suite_clock + 86400 * NS_PER_S, when);
        }
    }
    if (s) {
        struct store_stats st;

        s->ops->stats(s, &st);
        if (st.damaged)
            tap_fail("damage where there is none: %s", st.damage);
    }
    store_close(s);
    store_close(oracle);
    suite_clock = GEN_T0;
}

static void test_random(void)
{
    int seeds = getenv("WICK_TEST_SEEDS") ? (int) strtol(getenv("WICK_TEST_SEEDS"), NULL, 10) : 3;

    for (int seed = 1; seed <= seeds && !tap_bad; seed++)
        random_run((uint64_t) seed, 60);
}

int main(void)
{
    /* the cost of a sync is not tested here */
    snprintf(dir, sizeof dir, "%s/wick-store-test-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (int) getpid());
    for (int settle = 0; settle < SETTLES; settle++)
        run_suite(settle, true);
    run_suite(SETTLE_FLUSHED, false);
    tap_run(test_random);
    clear_dir(NULL);
    return tap_done();
}
