/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the pipeline that need no network: opaque requests, conditions, differences, batching, discovery, fan-out. */
#include "base/clock.h"
#include "model/builder.h"
#include "net/address.h"
#include "pipeline/delivery/batcher.h"
#include "pipeline/delivery/blob.h"
#include "pipeline/exporters/otlp_client.h"
#include "pipeline/graph/fanout.h"
#include "pipeline/processors/ottl.h"
#include "pipeline/receivers/scrape_delta.h"
#include "pipeline/receivers/scrape_discovery.h"
#include "pipeline/receivers/scrape_target.h"
#include "tap.h"

static void test_blob_count(void)
{
    /* resource_spans { scope_spans { span {} span { 1: "x" } } } */
    static const char spans[] = "\x0a\x09\x12\x07\x12\x00\x12\x03\x0a\x01x";
    /* resource_metrics { scope_metrics { metric { 7 sum { point {} point {} } } } } */
    static const char points[] = "\x0a\x0a\x12\x08\x12\x06\x3a\x04\x0a\x00\x0a\x00";
    uint32_t n = 99;

    eq_int(blob_count(SIGNAL_TRACES, spans, sizeof spans - 1, &n), 0);
    eq_int(n, 2);
    eq_int(blob_count(SIGNAL_METRICS, points, sizeof points - 1, &n), 0);
    eq_int(n, 2);
    eq_int(blob_count(SIGNAL_LOGS, "", 0, &n), 0);
    eq_int(n, 0);
    eq_int(blob_count(SIGNAL_TRACES, spans, sizeof spans - 2, &n), -EINVAL);
    eq_int(blob_count(SIGNAL_TRACES, "\x08\x01", 2, &n), -EINVAL); /* field 1 must be a message */
}

/* A profile as pprof's heap has it: allocated and in use. */
static int heap(int64_t allocated, int64_t used, struct batch **ret)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct value_type types[2];
    uint32_t fn, loc;
    int r = builder_new(NULL, &b);

    if (r < 0)
        return r;
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("checkout"));
    types[0] = (struct value_type){builder_string(b, STR("alloc_space")), builder_string(b, STR("bytes"))};
    types[1] = (struct value_type){builder_string(b, STR("inuse_space")), builder_string(b, STR("bytes"))};
    builder_profile(b, types, 2);
    fn = builder_function(b, &(struct function){.name = builder_string(b, STR("work"))});
    loc = builder_location(
        b, &(struct builder_location){.lines = &(struct line){.function = fn, .line = 1}, .n_lines = 1});
    builder_sample(b, &(struct builder_sample){
                          .stack = builder_stack(b, &loc, 1), .values = (int64_t[]){allocated, used}, .n_values = 2});
    return builder_finish(b, ret, NULL);
}

static void check_delta(struct delta *d, int64_t allocated, int64_t used, int64_t want, int64_t want_used)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;

    ok(heap(allocated, used, &b) == 0);
    ok(delta_apply(d, b) >= 0);
    if (!want && !want_used) {
        eq_int(b->profiles[0].samples.n, 0);
        return;
    }
    eq_int(b->profiles[0].samples.n, 1);
    eq_int(b->values[b->samples[0].values.off], want);
    eq_int(b->values[b->samples[0].values.off + 1], want_used);
}

static void test_delta(void)
{
    struct delta *d = NULL;

    ok(delta_new(&d) == 0);
    check_delta(d, 100, 7, 0, 7); /* the first only remembers what counts up */
    check_delta(d, 130, 8, 30, 8);
    check_delta(d, 130, 0, 0, 0);
    check_delta(d, 20, 3, 20, 3); /* started again */
    check_delta(d, 25, 3, 5, 3);
    delta_free(d);
}

static int torture_delta(void)
{
    _cleanup_(batch_unrefp) struct batch *a = NULL, *b = NULL;
    struct delta *d = NULL;
    int r = heap(1, 2, &a);

    if (r == 0)
        r = heap(2, 2, &b);
    if (r == 0)
        r = delta_new(&d);
    if (r == 0)
        r = delta_apply(d, a);
    if (r >= 0)
        r = delta_apply(d, b);
    delta_free(d);
    return MIN(r, 0);
}

static bool matches(const char *condition, enum ottl_scope scope)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct ottl_subject s;
    struct ottl *o = NULL;
    struct arena a;
    struct err e = {0};
    bool result = false;

    arena_init(&a, 0);
    ok(heap(1, 2, &b) == 0);
    s = (struct ottl_subject){b, &b->resources[0], &b->scopes[0], &b->profiles[0], &b->samples[0]};
    if (ottl_compile(str_from(condition), scope, &a, &o, &e) < 0)
        tap_fail("%s", e.message);
    else
        result = ottl_matches(o, &s);
    ottl_free(o);
    arena_done(&a);
    return result;
}

static void test_ottl(void)
{
    ok(matches("resource.attributes[\"service.name\"] == \"checkout\"", OTTL_PROFILE));
    ok(matches("attributes[\"service.name\"] != \"x\"", OTTL_RESOURCE));
    ok(!matches("attributes[\"service.name\"] == nil", OTTL_RESOURCE));
    ok(matches("attributes[\"none\"] == nil", OTTL_RESOURCE));
    ok(!matches("attributes[\"none\"] > 3", OTTL_RESOURCE));
    ok(matches("type == \"alloc_space\" and sample_type.unit == \"bytes\"", OTTL_PROFILE));
    ok(matches("type == \"x\" or (period == 0 and not IsMatch(type, \"^in\"))", OTTL_PROFILE));
    ok(matches("period < 1.5 and period > -2", OTTL_PROFILE));
    ok(matches("function == \"work\"", OTTL_SAMPLE));
    ok(!matches("function != \"work\"", OTTL_SAMPLE));
    ok(matches("HasSuffix(function, \"rk\") and HasPrefix(function, \"wo\")", OTTL_SAMPLE));
    ok(matches("true", OTTL_PROFILE));
    ok(!matches("not true or false", OTTL_PROFILE));
}

static struct work *work_of(struct batch *b, const char *tenant)
{
    struct work *w = mem_zalloc(sizeof *w);

    if (!w)
        return NULL;
    w->batch = batch_ref(b);
    context_keep(&w->kept, &(struct sink_context){.tenant = tenant});
    return w;
}

/* Four batches of one sample become two of two. Whatever fails, the four are still there. */
static int run_batcher(void)
{
    struct batch_settings s = {.timeout = 10, .send_batch_size = 4, .send_batch_max_size = 2};
    _cleanup_(batcher_freep) struct batcher *b = NULL;
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    struct batch **parts = NULL;
    struct work *w[5] = {NULL}, *list;
    uint32_t n = 0, samples = 0, members = 0;
    int r = heap(1, 2, &x);

    if (r == 0)
        r = batcher_new(&s, &b);
    for (int i = 0; r == 0 && i < 5; i++)
        r = (w[i] = work_of(x, i < 4 ? "" : "b")) ? 0 : -ENOMEM;
    for (int i = 0; r == 0 && i < 4; i++) {
        batcher_add(b, w[i], 100 + i);
        if (i == 2 && (batcher_ready(b, 105) || !batcher_ready(b, 110) || batcher_deadline(b) != 110))
            tap_fail("not ready when it should be");
    }
    if (r == 0 && (!batcher_ready(b, 102) || !batcher_must_flush(b, w[4])))
        tap_fail("four samples are enough");
    if (r == 0) {
        list = batcher_take(b);
        r = batcher_merge(b, list, &parts, &n, NULL);
        for (; list; list = batcher_next(list))
            members += list->batch == x;
        if (members != 4 || !batcher_empty(b))
            tap_fail("%u members after %d", members, r);
    }
    for (uint32_t i = 0; i < n; i++)
        samples += parts[i]->n_samples;
    if (r == 0 && (n != 2 || samples != 4))
        tap_fail("%u batches of %u samples", n, samples);
    batcher_parts_free(parts, n);
    for (int i = 0; i < 5; i++)
        work_free(w[i]);
    return r;
}

static void test_discovery(void)
{
    struct scrape_list *l = scrape_list_new();
    struct err e = {0};

    ok(scrape_parse_file(l, STR("- targets: [a:1, 'http://b:2/x']\n  labels: {service_name: s, __meta: no}\n"), "f",
                         &e) == 0);
    eq_int(l->n, 2);
    eq_str(str_from(l->v[0].url), STR("http://a:1"));
    eq_str(l->v[0].labels[0].name, STR("service.name"));
    eq_int(l->v[0].n_labels, 2); /* with service.instance.id, without __meta */
    ok(scrape_parse_file(l, STR("{}"), "f", &e) < 0);
    ok(scrape_parse_pods(l,
                         STR("{\"items\": [{\"metadata\": {\"name\": \"p\", \"annotations\": {\"x/scrape\": \"true\", "
                             "\"x/port\": \"80\"}}, \"status\": {\"podIP\": \"::1\", \"phase\": \"Running\"}}]}"),
                         "x", &e) == 0);
    eq_str(str_from(l->v[2].url), STR("http://[::1]:80"));
    ok(scrape_parse_pods(l, STR("{\"items\": [{]"), "x", &e) < 0);
    /* Without a prefix: wick.dev, which also names the service, before the one of others; "scrape" must be "true". */
    ok(scrape_parse_pods(
           l,
           STR("{\"items\": [{\"metadata\": {\"name\": \"p\", \"uid\": \"u\", \"annotations\": {"
               "\"wick.dev/scrape\": \"true\", \"wick.dev/port\": \"81\", \"wick.dev/service\": \"shop\", "
               "\"profiles.grafana.com/scrape\": \"true\", \"profiles.grafana.com/port\": \"82\"}}, "
               "\"status\": {\"podIP\": \"10.0.0.1\", \"phase\": \"Running\"}}, "
               "{\"metadata\": {\"name\": \"q\", \"annotations\": {\"wick.dev/scrape\": \"false\", "
               "\"wick.dev/port\": \"81\", \"profiles.grafana.com/cpu.scrape\": \"true\", "
               "\"profiles.grafana.com/cpu.port\": \"83\"}}, "
               "\"status\": {\"podIP\": \"10.0.0.2\", \"phase\": \"Running\"}}]}"),
           NULL, &e) == 0);
    eq_int(l->n, 5);
    eq_str(str_from(l->v[3].url), STR("http://10.0.0.1:81"));
    eq_str(l->v[3].labels[0].value, STR("shop"));
    eq_str(l->v[3].labels[3].name, STR("k8s.pod.uid"));
    eq_str(str_from(l->v[4].url), STR("http://10.0.0.2:83"));
    eq_int(l->v[4].types, 1u << SCRAPE_CPU);
    scrape_list_free(l);
    ok(address_is_link_local("169.254.169.254:80") && address_is_link_local("[fe80::1]:80") &&
       address_is_link_local("fe80::1") && address_is_link_local("::ffff:169.254.169.254") &&
       address_is_link_local("169.254.169.254") && address_is_link_local("[::ffff:169.254.1.1]:80"));
    ok(!address_is_link_local("127.0.0.1:80") && !address_is_link_local("[::1]:80") &&
       !address_is_link_local("example.org"));
}

struct test_sink {
    struct sink sink;
    struct ack *ack;
};

static void hold(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    (void) data.batch;
    (void) ctx;
    container_of(s, struct test_sink, sink)->ack = ack;
}

struct test_ack {
    struct ack ack;
    int calls;
    struct ack_result result;
};

static void told(struct ack *a, const struct ack_result *r)
{
    struct test_ack *t = container_of(a, struct test_ack, ack);

    t->calls++;
    t->result = *r;
}

static void test_fanout(void)
{
    struct test_sink a = {.sink = {hold}}, b = {.sink = {hold}};
    struct sink_context ctx = {.tenant = ""};
    struct test_ack t = {.ack = {told}};
    struct fanout *f = NULL;

    ok(fanout_new((struct sink *[]){&a.sink, &b.sink}, 2, &f) == 0);
    sink_consume(fanout_sink(f), NULL, &ctx, &t.ack);
    ack_ok(a.ack);
    eq_int(t.calls, 0); /* waits for the slower one */
    ack_fail(b.ack, SINK_UNAVAILABLE, 5, "later");
    eq_int(t.calls, 1);
    eq_int(t.result.status, SINK_UNAVAILABLE);
    sink_consume(fanout_sink(f), NULL, &ctx, &t.ack);
    ack_fail(a.ack, SINK_UNAVAILABLE, 5, "later");
    ack_fail(b.ack, SINK_INVALID, 0, "never");
    eq_int(t.result.status, SINK_INVALID); /* sending again would not help, and would double the first branch's data */
    fanout_free(f);
}

/* An acknowledgement with three holders: one result, the worst, when the last is done. */
static void test_ack_join(void)
{
    struct test_ack t = {.ack = {told}};

    ack_hold(&t.ack, 2);
    ack_complete(&t.ack, &(struct ack_result){.status = SINK_OK, .rejected = 2, .message = "two"});
    ack_fail(&t.ack, SINK_UNAVAILABLE, 7, "later");
    eq_int(t.calls, 0);
    ack_complete(&t.ack, &(struct ack_result){.status = SINK_OK, .rejected = 3});
    eq_int(t.calls, 1);
    eq_int(t.result.status, SINK_UNAVAILABLE);
    eq_int(t.result.retry_ns, 7);
    eq_int(t.result.rejected, 5);
    ok(t.result.again && strcmp(t.result.message, "later") == 0);

    ack_hold(&t.ack, 1); /* the same one again, and a holder that splits its work once more */
    ack_hold(&t.ack, 1);
    ack_fail(&t.ack, SINK_INVALID, 0, "never");
    ack_fail(&t.ack, SINK_UNAVAILABLE, 0, "later");
    ack_ok(&t.ack);
    eq_int(t.calls, 2);
    eq_int(t.result.status, SINK_INVALID);
    ok(t.result.again); /* a part of it could be retried: a log keeps its record */

    ack_ok(&t.ack); /* without a join it is completed at once */
    eq_int(t.calls, 3);
    eq_int(t.result.status, SINK_OK);
    ack_hold(NULL, 3);
    ack_ok(NULL);
}

/* partial_success {rejected 300, a message of 200 bytes}: lengths that need two bytes. */
static void test_partial_success(void)
{
    _cleanup_(buf_done) struct buf inner = BUF_INIT, m = BUF_INIT;
    struct ack_result r = {0};
    char text[201] = "";

    memset(text, 'x', 200);
    buf_put(&inner, "\x08\xac\x02\x12\xc8\x01", 6);
    buf_puts(&inner, text);
    buf_put(&m, "\x0a\xce\x01", 3);
    eq_int(inner.n, 206);
    buf_put_str(&m, buf_str(&inner));
    otlp_read_partial(buf_str(&m), &r);
    eq_int(r.rejected, 300);
    eq_str(str_from(r.message), str_from(text));
    for (uint32_t n = 1; n < m.n; n++) { /* cut short: nothing is taken from it */
        r = (struct ack_result){0};
        otlp_read_partial((struct str){m.p, n}, &r);
        ok(!r.rejected && !*r.message);
    }
    r = (struct ack_result){0};
    otlp_read_partial(STR("\x0a\x02\x08\x05"), &r);
    eq_int(r.rejected, 5);
    otlp_read_partial((struct str){0}, &r);
    eq_int(r.rejected, 0);
}

int main(void)
{
    tap_run(test_partial_success);
    tap_run(test_ack_join);
    tap_run(test_blob_count);
    tap_run(test_delta);
    tap_torture(torture_delta);
    tap_run(test_ottl);
    tap_torture(run_batcher);
    tap_run(test_discovery);
    tap_run(test_fanout);
    return tap_done();
}
