/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy profiles, small ones written here. What google/pprof makes of real ones: tests/integration/test_convert.py. */
#include "batch_validate.h"
#include "tap.h"

#include "base/buf.h"
#include "codec/pprof_legacy.h"
#include "model/batch.h"

static struct batch *decode(struct str text, int want)
{
    struct batch *b = NULL;
    struct err e = {0};
    int r = pprof_legacy_decode(text, 0, &b, &e);

    if (r != want)
        tap_fail("%d (%s), not %d", r, e.message, want);
    if (b && batch_validate(b, &e) < 0)
        tap_fail("%s", e.message);
    return b;
}

static const struct location *frame(const struct batch *b, uint32_t sample, uint32_t k)
{
    return &b->dict.locations[b->dict.indices[b->dict.stacks[b->samples[sample].stack].off + k]];
}

static int64_t value(const struct batch *b, uint32_t sample, uint32_t type)
{
    return batch_sample_value(b, b->profiles, &b->samples[sample], type);
}

static const char heap[] = "heap profile:      2:   1064 [     4:   2088] @ heap_v2/524288\n"
                           "     1:     1024 [     2:     2048] @ 0x401001 0x402001\n"
                           "     1:       40 [     2:       40] @ 0x401001\n"
                           "\nMAPPED_LIBRARIES:\n"
                           "00400000-00500000 r-xp 00000000 08:01 123  /bin/app\n"
                           "7f0000000000-7f0000001000 rw-p 00000000 08:01 124  /lib/libc.so.6\n";

static void test_heap(void)
{
    _cleanup_(batch_unrefp) struct batch *b = decode(str_from(heap), 0);

    if (!b)
        return;
    eq_int(b->profiles->n_types, 4);
    eq_str(batch_string(b, b->profiles->types[3].type), STR("inuse_space"));
    eq_int(b->profiles->period, 524288);
    eq_int(b->n_samples, 2);
    eq_int(value(b, 0, 2), 512); /* 1 / (1 - exp(-1024/524288)) */
    eq_int(value(b, 0, 3), 524800);
    eq_int(frame(b, 0, 0)->address, 0x401000);
    eq_int(frame(b, 0, 0)->mapping, 1);
    eq_int(b->dict.n_mappings, 2);
    eq_str(batch_string(b, b->dict.mappings[1].filename), STR("/bin/app"));
    eq_int(batch_attr(b, b->samples[0].attrs, STR("bytes"))->value.integer, 1024);
    ok(batch_attr(b, b->profiles->attrs, STR("pprof.profile.keep_frames")));
}

static void test_count(void)
{
    _cleanup_(batch_unrefp) struct batch *b =
        decode(STR("goroutine profile: total 7\n5 @ 0x11 0x21\n#\t0x10\tmain.f+0x1\n010 @ 0x11\n"), 0);

    if (!b)
        return;
    eq_str(batch_string(b, b->profiles->types[0].type), STR("goroutine"));
    eq_int(value(b, 0, 0), 5);
    eq_int(value(b, 1, 0), 8); /* octal, as strconv.ParseInt reads it */
    eq_int(frame(b, 1, 0)->address, 0x10);
    eq_int(b->dict.mappings[1].limit, -1); /* made up, for want of any */
}

static void test_contention(void)
{
    _cleanup_(batch_unrefp) struct batch *b =
        decode(STR("--- contentionz 5 ---\ncycles/second = 2000000000\nsampling period = 100\n20 3 @ 0x11\n"), 0);

    if (!b)
        return;
    eq_int(value(b, 0, 0), 300);
    eq_int(value(b, 0, 1), 1000);
    eq_int(b->profiles->period, 100);
}

static void test_thread(void)
{
    _cleanup_(batch_unrefp) struct batch *b =
        decode(STR("--- threadz 1 ---\n\n--- Thread 7f (name: main/14748) stack: ---\n  0x11\n  0x21\n"
                   "--- Thread 80 (name: x/1) stack: ---\n  [same as previous thread]\n"
                   "--- Memory map: ---\n  00000000-0000ffff: /bin/app (@10) abcd\n"),
               0);

    if (!b)
        return;
    eq_int(b->n_samples, 1);
    eq_int(value(b, 0, 0), 2);
    eq_int(frame(b, 0, 0)->address, 0x11);
    eq_int(frame(b, 0, 1)->address, 0x20);
    eq_int(b->dict.mappings[1].offset, 0x10);
    eq_str(value_str(&batch_attr(b, b->dict.mappings[1].attrs, STR("process.executable.build_id.gnu"))->value),
           STR("abcd"));
}

static void put_word(struct buf *b, unsigned size, bool big, uint64_t v)
{
    for (unsigned i = 0; i < size; i++)
        buf_putc(b, (char) (v >> (8 * (big ? size - 1 - i : i))));
}

static void test_cpu(void)
{
    static const uint64_t words[] = {0, 3, 0, 10000, 0, 2, 3, 0x11, 0x12, 0x31, 1, 1, 0x11, 0, 1, 0};

    for (unsigned form = 0; form < 4; form++) {
        _cleanup_(buf_done) struct buf in = BUF_INIT;
        _cleanup_(batch_unrefp) struct batch *b = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
            put_word(&in, form & 2 ? 8 : 4, form & 1, words[i]);
        buf_puts(&in, "build=/bin\n00000000-00001000 r-xp 00000000 00:00 0 $build/app\n");
        b = decode(buf_str(&in), 0);
        if (!b)
            continue;
        eq_int(b->n_samples, 2);
        eq_int(value(b, 0, 0), 2);
        eq_int(value(b, 0, 1), 20000000);
        eq_int(b->dict.stacks[b->samples[0].stack].n, 3);
        eq_int(frame(b, 0, 2)->address, 0x30);
        eq_str(batch_string(b, b->dict.mappings[1].filename), STR("/bin/app"));
    }
}

static const char java[] = "--- heapz 1 ---\nformat = java\nresolution = bytes\n"
                           "  4096  2 @ 0x1 0x2\n  100 1 @ 0x3\n"
                           "0x1 com.example.A.f (A.java:12)\n0x2 native (/usr/lib/libx.so)\n0x3 GC\n";

static void test_java(void)
{
    _cleanup_(batch_unrefp) struct batch *b = decode(str_from(java), 0);

    if (!b)
        return;
    eq_int(b->n_samples, 2);
    eq_int(b->dict.n_functions, 4);
    eq_str(batch_string(b, b->dict.functions[1].name), STR("com.example.A.f"));
    eq_str(batch_string(b, b->dict.functions[2].filename), STR("libx.so"));
    eq_int(b->dict.lines[frame(b, 0, 0)->lines.off].line, 12);
    eq_int(frame(b, 0, 0)->address, 0);
}

static void test_refused(void)
{
    decode(STR(""), -ENOMSG);
    decode(STR("hello\nworld\n"), -ENOMSG);
    decode(STR("heap profile: 1: 2 [ 3: 4 ] @ heapfoo\n"), -ENOMSG);
    decode(STR("heap profile: 1: 2 [ 3: 4 ] @ heap\nnonsense\n"), -EINVAL);
    decode(STR("heap profile: 1: 2 [ 3: 4 ] @ heap\n0: 5 [0: 0] @ 0x1\n"), -EINVAL);
    decode(STR("heap profile: 1: 2 [ 3: 4 ] @ heap\n1: 5 [1: 5] @ 0x11111111111111111\n"), -EINVAL);
    decode(STR("goroutine profile: total 7\n09 @ 0x11\n"), -EINVAL);
    decode(STR("--- threadz 1 ---\n--- Thread 7f (name: main/1) stack: ---\n"), -ENOMSG);
    decode(STR("--- heapz 1 ---\nformat = java\nresolution = bytes\n10 0 @ 0x1\n"), -EINVAL);
}

static int torture(void)
{
    _cleanup_(batch_unrefp) struct batch *a = NULL, *b = NULL;
    int r = pprof_legacy_decode(str_from(heap), 0, &a, NULL);

    return r < 0 ? r : pprof_legacy_decode(str_from(java), 0, &b, NULL);
}

int main(void)
{
    tap_run(test_heap);
    tap_run(test_count);
    tap_run(test_contention);
    tap_run(test_thread);
    tap_run(test_cpu);
    tap_run(test_java);
    tap_run(test_refused);
    tap_torture(torture);
    return tap_done();
}
