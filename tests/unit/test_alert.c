/* SPDX-License-Identifier: Apache-2.0 */
/* Alert rules, states and their file, with a clock of the test's own. The whole is tested in tests/integration/test_alerts.py. */
#include "tap.h"

#include "alert/alert_rules.h"
#include "alert/alert_state.h"
#include "base/clock.h"

#define T0 (1700000000ll * NS_PER_S)
#define MINUTE (60 * NS_PER_S)

/* The rules of a text, or NULL with an error message. */
static struct alert_rules *rules_of(const char *text, struct err *e)
{
    static const struct option both[] = {
        {"alerts", OPT_TABLE, 0, NULL, "", .table = alert_options},
        {"recording", OPT_TABLES, sizeof(struct alert_config), NULL, "", .table = recording_options,
         .size = sizeof(struct alert_recording_config)},
        {0},
    };
    struct {
        struct alert_config alerts;
        struct option_tables recording;
    } config = {0};
    struct alert_rules *rules = NULL;
    struct conf c;
    int r;

    conf_init(&c);
    r = conf_parse(&c, str_from(text), "a.yaml", &c.root, e);
    if (r == 0)
        r = option_parse(&c, both, c.root, &config, e);
    if (r == 0)
        r = alert_rules_new(&(struct alert_sections){&config.alerts, &config.recording, conf_get(c.root, "alerts"),
                                                     conf_get(c.root, "recording")},
                            &rules, e);
    conf_done(&c);
    e->code = r;
    return r < 0 ? NULL : rules;
}

static struct alert_rules *must(const char *text)
{
    struct err e = {0};
    struct alert_rules *r = rules_of(text, &e);

    if (!r)
        tap_fail("%s", e.message);
    return r;
}

/* --- rules --- */

static const char four[] =
    "alerts:\n"
    "  webhooks: [http://a/x, http://b/]\n"
    "  alertmanagers: http://c/\n"
    "  rules:\n"
    "    - {name: a, type: threshold, selector: 'cpu{service.name=\"s\"}', function: f, over: 10%}\n"
    "    - {name: b, type: threshold, selector: 'cpu{service_name=\"s\"}', function: g, over: 2 cores, for: 1m}\n"
    "    - {name: c, type: threshold, selector: 'cpu{service.name=\"s\"}', over: 3, window: 1m}\n"
    "    - {name: a, type: lost, tenant: t, webhooks: http://b/}\n"
    "recording:\n"
    "  - {name: r, selector: 'cpu{service.name=\"s\"}', function: f}\n";

static void test_rules(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(four);

    if (!x)
        return;
    eq_int(x->n, 4);
    eq_int(x->n_targets, 3);
    eq_str(str_from(x->targets[2].url), STR("http://c/api/v2/alerts"));
    eq_int(x->v[0].targets, 7);
    eq_int(x->v[3].targets, 2); /* its own receiver, which is one of the others */
    eq_int(x->n_sources, 3);    /* two thresholds and the recording rule look at the same data */
    eq_int(x->v[0].source, x->v[1].source);
    eq_int(x->recordings[0].source, x->v[0].source);
    eq_int(x->sources[x->v[0].source].n_rules, 2);
    ok(x->v[0].source != x->v[2].source);
    ok(x->v[0].unit == ALERT_SHARE && x->v[0].limit == 0.1 && x->v[1].unit == ALERT_RATE && x->v[1].limit == 2);
    eq_int(x->v[0].hold, 10 * MINUTE);
    eq_int(x->v[1].hold, MINUTE);
    eq_int(x->v[3].hold, 0); /* silence has lasted for its window already */
    ok(x->v[3].each && !x->v[0].each);
}

static void test_default_rule(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *told = must("alerts: {webhooks: http://a/}"),
                                                     *silent = must("alerts: {}"),
                                                     *none = must("alerts: {webhooks: http://a/, rules: []}");

    if (!told || !silent || !none)
        return;
    eq_int(told->n, 1);
    ok(told->v[0].type == ALERT_VERDICT && told->v[0].each && told->v[0].targets == 1);
    eq_int(silent->n, 0);
    eq_int(none->n, 0);
}

/* Where clouds serve credentials is no receiver; a URL that is refused is not printed, it may contain a secret. */
static void test_receivers(void)
{
    static const char *const bad[] = {"alerts:\n  webhooks: ['http://169.254.169.254/s3cret']",
                                      "alerts:\n  webhooks: ['http://[fe80::1]:80/s3cret']",
                                      "alerts:\n  webhooks: ['http://[::ffff:169.254.0.1]/s3cret']",
                                      "alerts:\n  webhooks: ['ftp://a/s3cret']",
                                      "alerts:\n  webhooks: ['http://u:s3cret@a/']",
                                      "alerts:\n  webhooks: ['http://a:99999/s3cret']",
                                      "alerts:\n  webhooks: ['http://a/s3cret b']"};
    _cleanup_(alert_rules_unrefp) struct alert_rules *on =
        must("alerts: {webhooks: 'http://169.254.1.1/', allow_link_local: true}");

    ok(on && on->n_targets == 1);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct err e = {0};
        struct alert_rules *x = rules_of(bad[i], &e);

        if (x || strstr(e.message, "s3cret") || !strstr(e.message, "a.yaml:2:"))
            tap_fail("%s: %s", bad[i], x ? "accepted" : e.message);
        alert_rules_unref(x);
    }
}

static void test_limits(void)
{
    static const struct {
        const char *type, *text;
        enum alert_unit unit;
        double value; /* negative: refused */
    } rows[] = {
        {"cpu", "20%", ALERT_SHARE, 0.2},
        {"cpu", " 1.5 cores ", ALERT_RATE, 1.5},
        {"cpu", "1 core", ALERT_RATE, 1},
        {"cpu", "0.25", ALERT_RATE, 0.25},
        {"cpu", "5MiB/s", 0, -1},
        {"cpu", "101%", 0, -1},
        {"cpu", "-1", 0, -1},
        {"cpu", "", 0, -1},
        {"cpu", "nan", 0, -1},
        {"alloc", "100MiB/s", ALERT_RATE, 100 << 20},
        {"alloc", "1kB/s", ALERT_RATE, 1000},
        {"alloc", "7", ALERT_RATE, 7},
        {"alloc", "2 cores", 0, -1},
        {"heap", "2GiB", ALERT_RATE, 0x1p31},
        {"heap", "2GiB/s", 0, -1},
        {"goroutine", "1000", ALERT_RATE, 1000},
        {"alloc_objects", "12/s", ALERT_RATE, 12},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        enum alert_unit unit = 0;
        struct err e = {0};
        double value = -1;
        struct type t;
        int r;

        type_by_name(str_from(rows[i].type), &t);
        r = alert_limit_parse(str_from(rows[i].text), &t, &unit, &value, &e);
        if ((r < 0) != (rows[i].value < 0) || (r == 0 && (value != rows[i].value || unit != rows[i].unit)))
            tap_fail("%s %s: %d, %g", rows[i].type, rows[i].text, r, value);
        if (r < 0 && !strstr(e.message, rows[i].type))
            tap_fail("%s", e.message);
    }
}

static void test_durations(void)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "0s"}, {MINUTE, "1m"}, {90 * MINUTE, "1h30m"}, {7 * 24 * 60 * MINUTE, "7d"}, {1500 * NS_PER_MS, "1s500ms"}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        struct err e = {0};
        int64_t back = -1;

        alert_put_duration(&b, rows[i].ns);
        eq_str(buf_str(&b), str_from(rows[i].text));
        eq_int(clock_parse_duration(buf_str(&b), &back, &e), 0);
        eq_int(back, rows[i].ns);
    }
}

static int torture_rules(void)
{
    struct err e = {0};
    struct alert_rules *x = rules_of(four, &e);

    alert_rules_unref(x);
    return x ? 0 : e.code;
}

/* --- states --- */

static const char one_rule[] =
    "alerts: {rules: [{name: r, type: threshold, function: .*, over: 1%, for: 5m, keep: 2m}]}";
static const char no_rule[] = "alerts: {rules: []}";

/* The function names of the findings are letters: "ab" are two findings. */
static int at(struct alert_states *s, const struct alert_rules *x, int64_t minutes, const char *functions)
{
    struct alert_finding v[8] = {0};
    uint32_t n = 0;

    for (; functions[n]; n++)
        v[n] = (struct alert_finding){.service = STR("s"),
                                      .function = {functions + n, 1},
                                      .value = (double) minutes,
                                      .summary = STR("sum"),
                                      .link = STR("l")};
    return alert_states_apply(s, x, 0, v, n, T0 + minutes * MINUTE);
}

static const struct alert *find(const struct alert_states *s, char function)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i]->function[0] == function)
            return s->v[i];
    return NULL;
}

static void is_in(const struct alert_states *s, char function, enum alert_stage stage, int64_t since)
{
    const struct alert *a = find(s, function);

    if (!a || a->stage != stage || a->since != T0 + since * MINUTE)
        tap_fail("%c is %s since %lld", function, a ? alert_stage_names[a->stage] : "absent",
                 a ? (long long) ((a->since - T0) / MINUTE) : 0);
}

static void test_stages(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(one_rule);
    struct alert_states s = {0};

    eq_int(at(&s, x, 0, "ab"), 2);
    is_in(&s, 'a', ALERT_PENDING, 0);
    eq_int(at(&s, x, 1, "a"), 1); /* b is gone before it fired: it never was */
    ok(!find(&s, 'b'));
    eq_int(at(&s, x, 4, "ab"), 1);
    is_in(&s, 'a', ALERT_PENDING, 0);
    eq_int(at(&s, x, 5, "ab"), 1);
    is_in(&s, 'a', ALERT_FIRING, 5);
    is_in(&s, 'b', ALERT_PENDING, 4); /* its time began anew */
    eq_int(at(&s, x, 6, ""), 1);      /* b again; a is kept for two minutes */
    is_in(&s, 'a', ALERT_FIRING, 5);
    eq_int(at(&s, x, 7, ""), 1);
    is_in(&s, 'a', ALERT_RESOLVED, 7);
    eq_int(at(&s, x, 8, "a"), 1); /* again: it waits as a new one does */
    is_in(&s, 'a', ALERT_PENDING, 8);
    ok(find(&s, 'a')->value == 8);
    alert_states_done(&s);
}

static void test_unknown_stays(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(one_rule);
    struct alert_finding unknown = {.service = STR("s"), .function = STR("a"), .as_before = true};
    struct alert_states s = {0};

    eq_int(alert_states_apply(&s, x, 0, &unknown, 1, T0), 0);
    eq_int(s.n, 0);
    at(&s, x, 0, "a");
    at(&s, x, 5, "a");
    eq_int(alert_states_apply(&s, x, 0, &unknown, 1, T0 + 90 * MINUTE), 0);
    is_in(&s, 'a', ALERT_FIRING, 5);
    alert_states_done(&s);
}

/* A service that could not be evaluated keeps its alerts; those of others are judged. */
static void test_skipped_service(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(one_rule);
    struct alert_finding skipped = {.service = STR("s"), .as_before = true, .of_service = true},
                         other = {.service = STR("t"), .function = STR("b"), .summary = STR("x"), .link = STR("l")};
    struct alert_states s = {0};

    at(&s, x, 0, "a");
    eq_int(alert_states_apply(&s, x, 0, &other, 1, T0 + MINUTE), 2); /* a is gone, b is new */
    at(&s, x, 2, "a");
    at(&s, x, 7, "a");
    is_in(&s, 'a', ALERT_FIRING, 7);
    eq_int(alert_states_apply(&s, x, 0, &skipped, 1, T0 + 90 * MINUTE), 0);
    is_in(&s, 'a', ALERT_FIRING, 7);
    eq_int(s.n, 1);
    alert_states_done(&s);
}

/* One tenant cannot use up the room of another. */
static void test_room_of_tenant(void)
{
    enum { N = ALERTS_OF_TENANT_MAX + 500 };
    _cleanup_(alert_rules_unrefp) struct alert_rules *x =
        must("alerts: {rules: [{name: a, type: threshold, over: 1, for: 0s, tenant: loud}, "
             "{name: a, type: threshold, over: 1, for: 0s, tenant: quiet}]}");
    struct alert_finding *v = mem_zalloc_array(N, sizeof *v);
    char(*names)[8] = mem_zalloc_array(N, sizeof *names);
    struct alert_states s = {0};

    for (uint32_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof *names, "f%u", i);
        v[i] = (struct alert_finding){.service = STR("s"), .function = str_from(names[i])};
    }
    eq_int(alert_states_apply(&s, x, 0, v, N, T0), ALERTS_OF_TENANT_MAX);
    eq_int(s.dropped, 500);
    eq_int(alert_states_apply(&s, x, 0, v, N, T0 + MINUTE), 0);
    eq_int(alert_states_apply(&s, x, 1, v, 10, T0), 10);
    alert_states_done(&s);
    mem_free(names);
    mem_free(v);
}

/* The clock is set back by a day: alerts fire and are forgotten as if it had not been. */
static void test_clock_back(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(one_rule);
    struct alert_states s = {0};
    const int64_t back = -24 * 60;

    at(&s, x, 0, "a");
    at(&s, x, back, "a");
    alert_states_sweep(&s, &(struct alert_sweep){.now = T0 + back * MINUTE});
    at(&s, x, back + 5, "a");
    is_in(&s, 'a', ALERT_FIRING, back + 5);
    at(&s, x, back + 10, "");
    alert_states_sweep(&s, &(struct alert_sweep){.now = T0 + (back + 10) * MINUTE});
    is_in(&s, 'a', ALERT_RESOLVED, back + 10);
    alert_states_sweep(&s, &(struct alert_sweep){.now = T0 + (back + 30) * MINUTE});
    eq_int(s.n, 0);
    alert_states_done(&s);
}

static void test_break(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(one_rule);
    struct alert_states s = {0};

    at(&s, x, 0, "a");
    eq_int(at(&s, x, 300, "a"), 0); /* the server was down for five hours: nobody knows that it was true all the time */
    is_in(&s, 'a', ALERT_PENDING, 0);
    eq_int(at(&s, x, 305, "a"), 1);
    is_in(&s, 'a', ALERT_FIRING, 305);
    alert_states_done(&s);
}

static void test_sweep(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(one_rule), *none = must(no_rule);
    struct alert_sweep w = {.used = 3, .webhooks = 1, .repeat = 60 * MINUTE, .now = T0 + 10 * MINUTE};
    struct alert_states s = {0};

    at(&s, x, 0, "ab");
    at(&s, x, 5, "a");
    at(&s, x, 6, "ab");
    s.v[0]->notified = 7; /* of a receiver that is gone, too */
    s.v[0]->notified_at = T0 + 5 * MINUTE;
    alert_states_sweep(&s, &w);
    eq_int(s.v[0]->notified, 3);
    eq_int(s.v[0]->remind, 0);
    w.now = T0 + 65 * MINUTE;
    alert_states_sweep(&s, &w);
    eq_int(s.v[0]->remind, 1); /* webhooks only */
    eq_int(s.n, 2);
    eq_int(alert_states_bind(&s, none), 0); /* the rule is gone */
    alert_states_sweep(&s, &w);
    eq_int(s.n, 1); /* the pending one is forgotten */
    is_in(&s, 'a', ALERT_RESOLVED, 65);
    w.now += 60 * MINUTE;
    alert_states_sweep(&s, &w);
    eq_int(s.n, 1); /* a receiver is still to be notified */
    s.v[0]->notified = 0;
    alert_states_sweep(&s, &w);
    eq_int(s.n, 0);
    alert_states_done(&s);
}

static const struct alert_target targets[ALERT_TARGETS_MAX] = {{.id = 0x1234}, {.id = 0xfedcba9876543210}, {.id = 5}};
static const struct alert_target moved[ALERT_TARGETS_MAX] = {{.id = 5}, {.id = 0x1234}};

static void test_file(void)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = must(one_rule);
    _cleanup_(buf_done) struct buf b = BUF_INIT, again = BUF_INIT;
    struct alert_states s = {0}, t = {0};
    struct err e = {0};

    at(&s, x, 0, "a\"");
    at(&s, x, 5, "a");
    at(&s, x, 6, "a\"");
    s.v[0]->notified = 3;
    alert_states_print(&s, targets, &b);
    eq_int(alert_states_read(&t, buf_str(&b), targets, &e), 0);
    alert_states_print(&t, targets, &again);
    eq_str(buf_str(&again), buf_str(&b));
    eq_int(alert_states_bind(&t, x), 0);
    is_in(&t, 'a', ALERT_FIRING, 5);
    is_in(&t, '"', ALERT_PENDING, 6);
    eq_int(find(&t, 'a')->notified, 3);
    eq_int(at(&t, x, 11, "a\""), 1); /* it goes on as if nothing had happened */
    is_in(&t, '"', ALERT_FIRING, 11);
    alert_states_done(&t);

    eq_int(alert_states_read(&t, buf_str(&b), moved, &e), 0); /* receivers were added and removed meanwhile */
    eq_int(find(&t, 'a')->notified, 2);
    alert_states_done(&t);
    alert_states_done(&s);
}

static void test_bad_file(void)
{
    static const char *const bad[] = {
        "", "{", "[]", "{\"alerts\":[{\"rule\":\"a\"}", "{\"version\":2}", "{\"alerts\":[1]}"};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct alert_states s = {0};
        struct err e = {0};

        if (alert_states_read(&s, str_from(bad[i]), targets, &e) >= 0)
            tap_fail("'%s' was read", bad[i]);
        ok(e.message[0]);
        alert_states_done(&s);
    }
}

static int torture_states(void)
{
    struct alert_states s = {0}, t = {0};
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct alert_rules *x = rules_of(one_rule, &e);
    int r = x ? at(&s, x, 0, "abc") : e.code;

    if (r >= 0)
        r = at(&s, x, 5, "abcd");
    if (r >= 0) {
        alert_states_print(&s, targets, &b);
        r = buf_error(&b);
    }
    if (r >= 0)
        r = alert_states_read(&t, buf_str(&b), targets, &e);
    if (r >= 0)
        r = alert_states_bind(&t, x);
    alert_states_done(&s);
    alert_states_done(&t);
    alert_rules_unref(x);
    buf_done(&b);
    return r;
}

int main(void)
{
    tap_run(test_rules);
    tap_run(test_default_rule);
    tap_run(test_receivers);
    tap_run(test_limits);
    tap_run(test_durations);
    tap_torture(torture_rules);
    tap_run(test_stages);
    tap_run(test_unknown_stays);
    tap_run(test_break);
    tap_run(test_skipped_service);
    tap_run(test_room_of_tenant);
    tap_run(test_clock_back);
    tap_run(test_sweep);
    tap_run(test_file);
    tap_run(test_bad_file);
    tap_torture(torture_states);
    return tap_done();
}
