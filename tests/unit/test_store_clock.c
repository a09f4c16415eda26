/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention with a wrong wall clock: jumps of 400 days in both directions, with and without a restart, and a machine
 * that was off for a month. Each case has two tenants; nothing may be deleted because of time that did not pass for the
 * server.
 */
#include "store/engines/segment/write/keep_clock.h"
#include "store_dir.h"

static int64_t passed; /* elapsed time of the machine, independent of the wall clock */

static int64_t test_elapsed(void)
{
    return passed;
}

static void pass(int64_t ns)
{
    passed += ns;
    suite_clock += ns;
}

static void append_tenant(struct suite *s, const char *tenant, int64_t time, struct ack_result *ret)
{
    _cleanup_(batch_unrefp) struct batch *b = simple_batch((struct simple[]){{.value = 1, .time = time}}, 1);

    append_as(s, b, &(struct sink_context){.tenant = tenant, .received_ns = suite_clock}, ret);
}

static int64_t tenant_total(struct suite *s, const char *tenant)
{
    struct asked k;
    int64_t v;

    ask(&k, "cpu", ALL);
    k.q.tenant = tenant;
    v = total_of(s, &k.q);
    ask_done(&k);
    return v;
}

static bool has_detail(struct suite *s)
{
    return profiles(s) > 0;
}

static void begin_clock(struct suite *s)
{
    passed = DAYS(1000);
    begin(s);
    s->config.elapsed = test_elapsed;
    reopen(s);
    append_tenant(s, "", suite_clock, NULL);
    append_tenant(s, "other", suite_clock, NULL);
    flush(s);
    retain(s);
}

#define KEPT(s)                              \
    do {                                     \
        retain(s);                           \
        eq_int(tenant_total(s, ""), 1);      \
        eq_int(tenant_total(s, "other"), 1); \
        ok(has_detail(s));                   \
    } while (0)

static int64_t ahead(struct suite *s)
{
    struct store_stats st;

    s->store->ops->stats(s->store, &st);
    return st.clock_ahead_ns;
}

static void test_jump_forward(void)
{
    struct suite s = {0};
    struct ack_result result = {0};

    begin_clock(&s);
    suite_clock += DAYS(400);
    KEPT(&s);
    ok(ahead(&s) == DAYS(400));
    ok(there("1/seg"));
    reopen(&s); /* a restart does not make it trusted */
    KEPT(&s);
    for (int i = 0; i < 10; i++) { /* nor do many restarts */
        pass(3600 * NS_PER_S);
        reopen(&s);
        KEPT(&s);
    }
    flush(&s);
    append_tenant(&s, "third", GEN_T0 + 60 * NS_PER_S, &result); /* senders whose clocks are right are accepted */
    eq_int(result.rejected, 0);
    append_tenant(&s, "third", suite_clock, &result);
    eq_int(result.rejected, 0);
    suite_clock -= DAYS(400);
    KEPT(&s);
    pass(DAYS(31)); /* time that passes while the server runs counts */
    retain(&s);
    eq_int(tenant_total(&s, ""), 0);
    eq_int(tenant_total(&s, "other"), 0);
    end(&s);
}

static void test_jump_back(void)
{
    struct suite s = {0};
    struct ack_result result = {0};

    begin_clock(&s);
    suite_clock -= DAYS(400);
    KEPT(&s);
    append_tenant(&s, "third", suite_clock, &result);
    append_tenant(&s, "third", GEN_T0 + 60 * NS_PER_S, &result); /* a sender whose clock is right */
    eq_int(result.rejected, 0);
    flush(&s);
    KEPT(&s);
    eq_int(tenant_total(&s, "third"), 2);
    reopen(&s);
    KEPT(&s);
    eq_int(tenant_total(&s, "third"), 2);
    suite_clock += DAYS(400);
    KEPT(&s);
    end(&s);
}

/* A store that was created while the clock was wrong: data that arrives after the correction is not old. */
static void test_born_ahead(void)
{
    struct suite s = {0};

    begin_clock(&s);
    suite_clock -= DAYS(400);
    for (int i = 0; i < 5; i++) {
        append_tenant(&s, "third", suite_clock, NULL);
        flush(&s);
        retain(&s);
        pass(DAYS(1) / 2);
        eq_int(tenant_total(&s, "third"), i + 1);
    }
    suite_clock += DAYS(300); /* the corrected time is trusted by now: this is a jump like any other */
    retain(&s);
    eq_int(tenant_total(&s, "third"), 5);
    end(&s);
}

static void test_off_for_a_month(void)
{
    struct suite s = {0};

    begin_clock(&s);
    store_close(TAKE(s.store));
    suite_clock += DAYS(35);
    passed = 60 * NS_PER_S; /* it booted */
    reopen(&s);
    KEPT(&s);
    ok(ahead(&s) == DAYS(35));
    eq_int(s.store->ops->confirm(s.store, STORE_CONFIRM_CLOCK, NULL), 0);
    ok(ahead(&s) == 0);
    retain(&s);
    eq_int(tenant_total(&s, ""), 0);
    eq_int(tenant_total(&s, "other"), 0);
    reopen(&s); /* the confirmation is kept */
    ok(ahead(&s) == 0);
    end(&s);
}

/* A restart, an upgrade, a night: these do not need a confirmation. */
static void test_off_for_a_day(void)
{
    struct suite s = {0};

    begin_clock(&s);
    for (int i = 0; i < 31; i++) {
        suite_clock += DAYS(1);
        passed = 60 * NS_PER_S;
        reopen(&s);
        retain(&s);
        ok(ahead(&s) == 0);
    }
    eq_int(tenant_total(&s, ""), 0);
    eq_int(tenant_total(&s, "other"), 0);
    end(&s);
}

static void test_rules(void)
{
    struct keep_clock c;

    keep_clock_start(&c, 0, 5000, 10, 100);
    eq_int(keep_clock_time(&c, 20), 5010);
    keep_clock_start(&c, 4900, 5000, 10, 100);
    eq_int(keep_clock_time(&c, 10), 5000);
    keep_clock_start(&c, 4899, 5000, 10, 100);
    eq_int(keep_clock_time(&c, 10), 4899);
    eq_int(keep_clock_now(&c, 5000, 15), 4904);
    eq_int(keep_clock_now(&c, 100, 15), 100);
    keep_clock_start(&c, 4899, 5000, 10, INT64_MAX);
    eq_int(keep_clock_time(&c, 10), 5000);
    eq_int(keep_clock_time(&c, 5), 5000); /* never backwards */
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/wick-clock-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int) getpid());
    tap_run(test_rules);
    tap_run(test_jump_forward);
    tap_run(test_jump_back);
    tap_run(test_born_ahead);
    tap_run(test_off_for_a_month);
    tap_run(test_off_for_a_day);
    return tap_done();
}
