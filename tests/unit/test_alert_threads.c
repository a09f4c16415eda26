/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts while they run, also under ThreadSanitizer: rules are replaced, lists are read and rules are tried out while others are
 * evaluated and two receivers are away. */
#include "tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "alert/alert.h"
#include "base/clock.h"
#include "model/builder.h"

enum { ROUNDS = 12, READERS = 2 };

static atomic_bool over;

static struct alert_rules *rules_of(int round)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct alert_config config = {0};
    struct option_tables recording = {0};
    struct alert_rules *rules = NULL;
    struct err e = {0};
    struct conf c;
    int r;

    buf_printf(&b,
               "webhooks: ['http://127.0.0.1:1/', 'http://127.0.0.1:1/%d']\nalertmanagers: ['http://127.0.0.1:1']\n",
               round % 3);
    buf_puts(&b, "interval: 1s\nbudget: 0\nrules:\n");
    for (int i = 0; i < 40; i++)
        buf_printf(&b, "- {name: r%d, type: threshold, selector: 'cpu{a=\"%d\"}', over: 0, for: 0s, keep: 0s}\n",
                   i + round % 2, i);
    buf_puts(&b, "- {name: all, type: threshold, selector: cpu, over: 0, for: 0s}\n- {name: lost, type: lost}\n");
    conf_init(&c);
    r = conf_parse(&c, buf_str(&b), "a.yaml", &c.root, &e);
    if (r == 0)
        r = option_parse(&c, alert_options, c.root, &config, &e);
    if (r == 0)
        r = alert_rules_new(&(struct alert_sections){&config, &recording, c.root, NULL}, &rules, &e);
    if (r < 0)
        tap_fail("%s", e.message);
    conf_done(&c);
    return rules;
}

static struct store *filled(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    struct ack_result result = {0};
    struct store *s = NULL;
    struct value_type t;
    struct profile *p;
    struct function f;
    struct line l;
    uint32_t location, stack;
    int64_t value = 5;

    eq_int(store_open(&store_memory, &(struct store_config){0}, &s, NULL), 0);
    builder_new(NULL, &b);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("shop"));
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    p->time_ns = clock_wall() - NS_PER_S;
    p->duration_ns = NS_PER_S;
    f = (struct function){.name = builder_string(b, STR("main"))};
    l = (struct line){.function = builder_function(b, &f)};
    location = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    stack = builder_stack(b, &location, 1);
    builder_sample(b, &(struct builder_sample){.stack = stack, .values = &value, .n_values = 1});
    eq_int(builder_finish(b, &batch, NULL), 0);
    eq_int(store_append_wait(s, batch, &(struct sink_context){.tenant = "", .received_ns = clock_wall()}, &result), 0);
    return s;
}

static void *read_all(void *arg)
{
    while (!atomic_load(&over)) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        atomic_bool cancel = false;
        struct err e = {0};

        alerts_json(arg, "", &b);
        alerts_metrics(arg, &b);
        alerts_test(arg, &(struct alerts_test){.tenant = "", .rule = STR("all"), .cancel = &cancel}, &b, &e);
        usleep(1000);
    }
    return NULL;
}

static bool says(struct alerts *a, const char *what)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    alerts_metrics(a, &b);
    return str_find(buf_str(&b), str_from(what)) >= 0;
}

static void test_all_at_once(void)
{
    char dir[] = "/tmp/wick-alerts-XXXXXX", path[64];
    _cleanup_(store_closep) struct store *s = filled();
    struct alert_rules *first = rules_of(0);
    struct alerts *a = NULL;
    pthread_t readers[READERS];
    struct err e = {0};

    ok(mkdtemp(dir));
    eq_int(alerts_new(&(struct alerts_options){.store = s, .dir = dir, .url = "http://x/"}, first, &a, &e), 0);
    alert_rules_unref(first);
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_all, a);
    for (int i = 1; i <= ROUNDS; i++) {
        struct alert_rules *next = rules_of(i);

        eq_int(alerts_change(a, next, i % 2 ? NULL : "http://y/", &e), 0);
        alert_rules_unref(next);
        usleep(20000);
    }
    for (int i = 0; i < 6000 && !says(a, "wick_alerts{state=\"firing\"} 1\n"); i++)
        usleep(10000); /* the rule that matches fires; the others select nothing */
    ok(says(a, "wick_alerts{state=\"firing\"} 1\n"));
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    alerts_free(a);
    snprintf(path, sizeof path, "%s/alerts.json", dir);
    eq_int(unlink(path), 0);
    eq_int(rmdir(dir), 0);
}

int main(void)
{
    tap_run(test_all_at_once);
    return tap_done();
}
