/* SPDX-License-Identifier: Apache-2.0 */
/* Folded stacks and perf script in, folded stacks and speedscope out. */
#include "batch_validate.h"
#include "tap.h"

#include "base/bytes.h"
#include "base/json.h"
#include "codec/folded.h"
#include "codec/perf_data.h"
#include "codec/perf_script.h"
#include "codec/speedscope.h"
#include "model/batch.h"

static void check(const struct batch *b)
{
    struct err e = {0};

    if (batch_validate(b, &e) < 0)
        tap_fail("%s", e.message);
}

/* --- folded --- */

static struct batch *from_folded(const char *text, int want)
{
    struct batch *b = NULL;
    struct err e = {0};
    int r = folded_decode(str_from(text), NULL, &b, &e);

    if (r != want)
        tap_fail("%d (%s), not %d", r, e.message, want);
    if (b)
        check(b);
    return b;
}

static void check_folded(const char *in, bool annotate, const char *want)
{
    _cleanup_(batch_unrefp) struct batch *b = from_folded(in, 0);
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    if (!b)
        return;
    eq_int(folded_encode(b, b->profiles, 0, annotate, &out, NULL), 0);
    eq_str(buf_str(&out), str_from(want));
}

static void test_folded(void)
{
    check_folded("main;a;b 2\nmain;a 1\nmain;a;b 3\n", false, "main;a 1\nmain;a;b 5\n");
    check_folded("# comment\n\nmain (x y);a 1.6\r\n", false, "main (x y);a 2\n");
    check_folded("one 1", false, "one 1\n");
    check_folded(";a;;b 1\n", false, "[unknown];a;[unknown];b 1\n");
    check_folded("J.run_[j];J.f_[i];J.g_[i];read_[k] 7\n", true, "J.run_[j];J.f_[i];J.g_[i];read_[k] 7\n");
    check_folded("J.run_[0];J.f_[i];x 7\n", false, "J.run;J.f;x 7\n");
    check_folded("a -3\na 3\nb 1\n", false, "b 1\n"); /* adds up to nothing */
}

static void test_folded_inlines(void)
{
    _cleanup_(batch_unrefp) struct batch *b = from_folded("J.run_[j];J.f_[i];J.g_[i];read_[k] 7\n", 0);
    const struct dict *d;
    const struct location *l;

    if (!b)
        return;
    d = &b->dict;
    eq_int(d->stacks[b->samples[0].stack].n, 2);
    l = &d->locations[d->indices[d->stacks[b->samples[0].stack].off + 1]];
    eq_int(l->lines.n, 3);
    eq_str(batch_string(b, d->functions[d->lines[l->lines.off].function].name), STR("J.g"));
    eq_str(value_str(&batch_attr(b, l->attrs, STR("profile.frame.type"))->value), STR("jvm"));
}

static void test_folded_refused(void)
{
    from_folded("main;a\n", -EINVAL);
    from_folded("main;a 1\nmain;a x\n", -EINVAL);
    from_folded("12\n", -EINVAL);
    ok(folded_probe(STR("a;b 1\n")));
    ok(!folded_probe(STR("hello world\n")));
    ok(!folded_probe(STR("")));
    ok(!folded_probe(STR("\xff\xfe;b 1\n")));
}

/* --- perf script --- */

static const char perf[] = "# captured on: today\n"
                           "java worker 12/34 [003] 4711.123456:     250000 cpu-clock:pppH: \n"
                           "\tffffffff81051586 native_write_msr+0x6 ([kernel.kallsyms])\n"
                           "\t    7f12 std::vector<int>::push(int, char)+0x1f (/usr/lib/lib (1).so)\n"
                           "\t    4010 inner (inlined)\n"
                           "\t    4010 outer+0x10 (/bin/app)\n"
                           "  app.c:12\n"
                           "\t    7f00 [unknown] (/usr/lib/libc.so.6)\n"
                           "\n"
                           "java worker 12/34 [003] 4711.223456:     250000 cpu-clock:pppH: \n"
                           "\t    7f00 [unknown] (/usr/lib/libc.so.6)\n"
                           "\n"
                           "java worker 12/34 [003] 4711.323456:     250000 cpu-clock:pppH: \n"
                           "\t    7f00 [unknown] (/usr/lib/libc.so.6)\n"
                           "\n"
                           "swapper     0 [001] 4711.5: sched:sched_switch: prev_comm=swapper prev_pid=0\n"
                           "\tffffffff81 schedule ([kernel.kallsyms])\n";

static void check_perf_stack(const struct batch *b)
{
    const struct dict *d = &b->dict;
    struct run s = d->stacks[b->samples[0].stack];
    const struct location *l;

    eq_int(s.n, 4);
    eq_str(value_str(&batch_attr(b, d->locations[d->indices[s.off]].attrs, STR("profile.frame.type"))->value),
           STR("kernel"));
    l = &d->locations[d->indices[s.off + 1]];
    eq_str(batch_string(b, d->functions[d->lines[l->lines.off].function].name),
           STR("std::vector<int>::push(int, char)"));
    eq_str(batch_string(b, d->mappings[l->mapping].filename), STR("/usr/lib/lib (1).so"));
    l = &d->locations[d->indices[s.off + 2]];
    eq_int(l->lines.n, 2);
    eq_int(l->address, 0x4010);
    eq_int(d->lines[l->lines.off + 1].line, 12);
    l = &d->locations[d->indices[s.off + 3]];
    eq_int(l->lines.n, 0);
}

static void test_perf_script(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};

    ok(perf_script_probe(str_from(perf)));
    eq_int(perf_script_decode(str_from(perf), 0, false, &b, &e), 0);
    if (!b)
        return;
    check(b);
    eq_int(b->n_profiles, 2);
    eq_int(b->profiles[0].n_types, 2);
    eq_str(batch_string(b, b->profiles[0].types[1].unit), STR("nanoseconds"));
    eq_int(b->profiles[0].period, 250000);
    eq_int(b->profiles[0].samples.n, 2);
    eq_int(batch_sample_value(b, b->profiles, &b->samples[1], 0), 2);
    eq_int(batch_sample_value(b, b->profiles, &b->samples[1], 1), 500000);
    eq_str(value_str(&batch_attr(b, b->samples[0].attrs, STR("thread.name"))->value), STR("java worker"));
    eq_int(batch_attr(b, b->samples[0].attrs, STR("thread.id"))->value.integer, 34);
    eq_str(batch_string(b, b->profiles[1].types[0].type), STR("sched:sched_switch"));
    check_perf_stack(b);
}

static void test_perf_script_flat(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};

    eq_int(perf_script_decode(
               STR("            perf  2034 1234.5:          1 cycles:  ffffffff8106 msr ([kernel.kallsyms])\n"
                   "            perf  2034 1234.6:          9 cycles:  ffffffff8106 msr ([kernel.kallsyms])\n"),
               0, false, &b, &e),
           0);
    if (!b)
        return;
    eq_int(b->n_samples, 1);
    eq_int(batch_sample_value(b, b->profiles, b->samples, 1), 10);
    eq_int(b->dict.stacks[b->samples[0].stack].n, 1);
    ok(!perf_script_probe(STR("main;a 12\n")));
    ok(!perf_script_probe(STR("main 12\nb 3\n")));
    ok(perf_script_probe(STR("ls  7496 \n\tffffffff816df2b6 __d_lookup_rcu\n\n")));
    ok(perf_script_decode(STR("hello\n"), 0, false, &b, &e) < 0);
}

/* --- speedscope --- */

/* Where no binaries may be opened, copied stacks are refused, not shown as leaves. */
static void test_perf_data_copies(void)
{
    enum { HEADER = 104, ATTR = 144, SAMPLE_TYPE = HEADER + 24 };
    char file[HEADER + ATTR] = "PERFILE2";
    struct perf_data_options none = {0};
    struct batch *b = NULL;
    struct err e = {0};

    store_u64(file + 16, ATTR);
    store_u64(file + 24, HEADER); /* the attributes, and no data after them */
    store_u64(file + 32, ATTR);
    store_u64(file + 40, HEADER + ATTR);
    store_u64(file + SAMPLE_TYPE, 1 << 13);
    eq_int(perf_data_decode((struct str){file, sizeof file}, &none, &b, &e), -ENODATA);
    store_u64(file + SAMPLE_TYPE, 1 << 13 | 1 << 12);
    eq_int(perf_data_decode((struct str){file, sizeof file}, &none, &b, &e), -EOPNOTSUPP);
    ok(strstr(e.message, "--call-graph dwarf"));
}

static void test_speedscope(void)
{
    _cleanup_(batch_unrefp) struct batch *b = from_folded("main;a 2\nmain 1\n", 0);
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct arena a;
    struct json r;

    eq_int(speedscope_encode(b, b->profiles, STR("x\"y"), &out, NULL), 0);
    arena_init(&a, 0);
    json_init(&r, buf_str(&out), &a);
    json_skip(&r);
    eq_int(json_end(&r), 0);
    arena_done(&a);
    ok(str_find(buf_str(&out), STR("\"samples\":[[2,1],[2]]")) > 0);
    ok(str_find(buf_str(&out), STR("\"weights\":[2,1],\"startValue\":0,\"endValue\":3")) > 0);
}

static int torture(void)
{
    _cleanup_(batch_unrefp) struct batch *a = NULL, *b = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    int r = folded_decode(STR("a;b_[i];c_[k] 1\na 2\n"), NULL, &a, NULL);

    if (r == 0)
        r = perf_script_decode(str_from(perf), 0, false, &b, NULL);
    if (r == 0)
        r = folded_encode(b, b->profiles, 1, true, &out, NULL);
    if (r == 0)
        r = speedscope_encode(a, a->profiles, STR("x"), &out, NULL);
    return r < 0 ? r : buf_error(&out);
}

int main(void)
{
    tap_run(test_folded);
    tap_run(test_folded_inlines);
    tap_run(test_folded_refused);
    tap_run(test_perf_script);
    tap_run(test_perf_script_flat);
    tap_run(test_perf_data_copies);
    tap_run(test_speedscope);
    tap_torture(torture);
    return tap_done();
}
