/* SPDX-License-Identifier: Apache-2.0 */
/* The pprof decoder against profiles written by hand, byte by byte, and against damaged ones. */
#include "batch_validate.h"
#include "tap.h"

#include "base/compress.h"
#include "codec/pprof.h"

/* --- a small protobuf writer --- */

static void put_varint(struct buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_putc(b, (char) (v | 0x80));
    buf_putc(b, (char) v);
}

static void put_u(struct buf *b, unsigned field, uint64_t v)
{
    put_varint(b, field << 3);
    put_varint(b, v);
}

static void put_len(struct buf *b, unsigned field, const void *p, size_t n)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    buf_put(b, p, n);
}

/* The same of a message, with its error. */
static void put_buf(struct buf *b, unsigned field, const struct buf *m)
{
    put_len(b, field, m->p, m->n);
    if (m->err)
        b->err = m->err;
}

static void put_text(struct buf *b, unsigned field, const char *s)
{
    put_len(b, field, s, strlen(s));
}

/* A message of varints: pairs of field and value, ended by field 0. */
static void put_msg(struct buf *b, unsigned field, const uint64_t (*v)[2])
{
    _cleanup_(buf_done) struct buf m = BUF_INIT;

    for (; (*v)[0]; v++)
        put_u(&m, (unsigned) (*v)[0], (*v)[1]);
    put_buf(b, field, &m);
}
#define MSG(...)          \
    (const uint64_t[][2]) \
    {                     \
        __VA_ARGS__,      \
        {                 \
            0, 0          \
        }                 \
    }

enum { S_EMPTY, S_CPU, S_NS, S_SAMPLES, S_COUNT, S_MAIN, S_WORK, S_FILE, S_BIN, S_ID, S_KEY, S_VALUE, S_BYTES, S_NOTE };
static const char *const texts[] = {"",      "cpu",      "nanoseconds", "samples", "count", "main",  "work",
                                    "app.c", "/bin/app", "abcdef",      "key",     "value", "bytes", "a note"};

static void put_strings(struct buf *b)
{
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        put_text(b, 6, texts[i]);
}

/* `ids`: what the first mapping, function and location are called; the second is one more. */
static void put_symbols(struct buf *b, uint64_t ids)
{
    _cleanup_(buf_done) struct buf loc = BUF_INIT;

    put_msg(b, 3, MSG({1, ids}, {2, 0x1000}, {3, 0x2000}, {4, 0x10}, {5, S_BIN}, {6, S_ID}, {7, 1}, {10, 1}));
    put_msg(b, 5, MSG({1, ids}, {2, S_MAIN}, {3, S_MAIN}, {4, S_FILE}, {5, 3}));
    put_msg(b, 5, MSG({1, ids + 1}, {2, S_WORK}, {4, S_FILE}));
    put_u(&loc, 1, ids);
    put_u(&loc, 2, ids);
    put_u(&loc, 3, 0x1234);
    put_msg(&loc, 4, MSG({1, ids + 1}, {2, 20}, {3, 7}));
    put_msg(&loc, 4, MSG({1, ids}, {2, 10}));
    put_buf(b, 4, &loc);
    put_msg(b, 4, MSG({1, ids + 1}, {3, 0x99}, {5, 1}));
}

static void put_samples(struct buf *b, uint64_t ids)
{
    _cleanup_(buf_done) struct buf s = BUF_INIT, packed = BUF_INIT;

    put_varint(&packed, ids);
    put_varint(&packed, ids + 1);
    put_buf(&s, 1, &packed);
    put_len(&s, 2, "\x01\xac\x02", 3); /* 1, 300 */
    put_msg(&s, 3, MSG({1, S_KEY}, {2, S_VALUE}));
    put_msg(&s, 3, MSG({1, S_BYTES}, {3, 4096}, {4, S_BYTES}));
    put_msg(&s, 3, MSG({1, S_KEY}));
    put_buf(b, 2, &s);
    put_msg(b, 2, MSG({1, ids + 1}, {2, 2}, {2, (uint64_t) -5})); /* not packed */
}

static void put_profile(struct buf *b, uint64_t ids)
{
    put_msg(b, 1, MSG({1, S_SAMPLES}, {2, S_COUNT}));
    put_msg(b, 1, MSG({1, S_CPU}, {2, S_NS}));
    put_samples(b, ids);
    put_symbols(b, ids);
    put_strings(b);
    put_u(b, 9, 1234567890);
    put_u(b, 10, 5000);
    put_msg(b, 11, MSG({1, S_CPU}, {2, S_NS}));
    put_u(b, 12, 100);
    put_u(b, 13, S_NOTE);
    put_u(b, 14, S_SAMPLES);
    put_u(b, 15, S_FILE);
    put_u(b, 7, S_WORK);
    put_u(b, 200, 7); /* unknown */
}

static void check_symbols(const struct batch *b)
{
    const struct dict *d = &b->dict;
    const struct location *l = &d->locations[1];

    eq_int(d->n_mappings, 2);
    eq_int(d->n_functions, 3);
    eq_int(d->n_locations, 3);
    eq_int(d->mappings[1].start, 0x1000);
    eq_int(d->mappings[1].offset, 0x10);
    eq_str(batch_string(b, d->mappings[1].filename), STR("/bin/app"));
    eq_int(d->mappings[1].attrs.n, 3);
    eq_str(value_str(&batch_attr(b, d->mappings[1].attrs, STR("process.executable.build_id.gnu"))->value),
           STR("abcdef"));
    ok(batch_attr(b, d->mappings[1].attrs, STR("pprof.mapping.has_inline_frames"))->value.boolean);
    eq_str(batch_string(b, d->functions[2].name), STR("work"));
    eq_int(l->mapping, 1);
    eq_int(l->address, 0x1234);
    eq_int(l->lines.n, 2);
    eq_int(d->lines[l->lines.off].function, 2);
    eq_int(d->lines[l->lines.off].column, 7);
    eq_int(d->lines[l->lines.off + 1].line, 10);
    ok(batch_attr(b, d->locations[2].attrs, STR("pprof.location.is_folded")));
}

static void check_profile(const struct batch *b)
{
    const struct profile *p = b->profiles;
    const struct attr *a;
    struct err e = {0};

    ok(batch_validate(b, &e) == 0 || (printf("# %s\n", e.message), false));
    check_symbols(b);
    eq_int(b->n_samples, 2);
    eq_int(p->n_types, 2);
    eq_int(p->default_type, 1);
    eq_int(p->time_ns, 1234567890);
    eq_int(p->period, 100);
    eq_str(batch_string(b, p->types[1].unit), STR("nanoseconds"));
    eq_int(batch_sample_value(b, p, &b->samples[0], 1), 300);
    eq_int(batch_sample_value(b, p, &b->samples[1], 1), -5);
    eq_int(b->samples[0].attrs.n, 2);
    eq_str(value_str(&batch_attr(b, b->samples[0].attrs, STR("key"))->value), STR("value"));
    a = batch_attr(b, b->samples[0].attrs, STR("bytes"));
    eq_int(a->value.integer, 4096);
    eq_str(batch_string(b, a->unit), STR("bytes"));
    eq_int(b->dict.stacks[b->samples[0].stack].n, 2);
    eq_int(b->dict.indices[b->dict.stacks[b->samples[0].stack].off + 1], 2);
    a = batch_attr(b, p->attrs, STR("pprof.profile.comment"));
    eq_int(a->value.n, 1);
    eq_str(value_str(a->value.array), STR("a note"));
    eq_str(value_str(&batch_attr(b, p->attrs, STR("pprof.profile.doc_url"))->value), STR("app.c"));
    eq_str(value_str(&batch_attr(b, p->attrs, STR("pprof.profile.drop_frames"))->value), STR("work"));
    ok(!batch_attr(b, p->attrs, STR("pprof.profile.keep_frames")));
}

static int decode_with_ids(uint64_t ids, enum compression c, struct batch **ret)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT, in = BUF_INIT;
    int r;

    put_profile(&plain, ids);
    r = buf_error(&plain);
    if (r == 0)
        r = compress_deflate(c, 0, plain.p, plain.n, &in, NULL);
    return r < 0 ? r : pprof_decode(&in, NULL, ret, NULL);
}

static void test_decode(void)
{
    static const enum compression ways[] = {COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_ZSTD};
    static const uint64_t ids[] = {1, 2, 77, 1ull << 60, UINT64_MAX - 1};

    for (size_t c = 0; c < ARRAY_SIZE(ways); c++)
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
            _cleanup_(batch_unrefp) struct batch *b = NULL;

            eq_int(decode_with_ids(ids[i], ways[c], &b), 0);
            if (b)
                check_profile(b);
        }
}

/* Two numbers of a list: packed, one by one, or the first packed and the second alone. */
static void put_list(struct buf *b, unsigned field, uint64_t first, uint64_t second, int form)
{
    _cleanup_(buf_done) struct buf packed = BUF_INIT;

    put_varint(&packed, first);
    if (form == 0)
        put_varint(&packed, second);
    if (form == 1)
        put_u(b, field, first);
    else
        put_buf(b, field, &packed);
    if (form != 0)
        put_u(b, field, second);
}

/* Each list of numbers that profile.proto has, in each form. */
static void test_lists(void)
{
    enum { LOCATIONS, VALUES, COMMENTS, LISTS };

    for (int list = 0; list < LISTS; list++)
        for (int form = 0; form < 3; form++) {
            _cleanup_(buf_done) struct buf in = BUF_INIT, s = BUF_INIT;
            _cleanup_(batch_unrefp) struct batch *b = NULL;
            const struct attr *comment;
            const struct run *stack;

            put_msg(&in, 1, MSG({1, S_SAMPLES}, {2, S_COUNT}));
            put_msg(&in, 1, MSG({1, S_CPU}, {2, S_NS}));
            put_list(&s, 1, 1, 2, list == LOCATIONS ? form : 0);
            put_list(&s, 2, 7, 300, list == VALUES ? form : 0);
            put_buf(&in, 2, &s);
            put_symbols(&in, 1);
            put_strings(&in);
            put_list(&in, 13, S_NOTE, S_FILE, list == COMMENTS ? form : 0);
            eq_int(pprof_decode(&in, NULL, &b, NULL), 0);
            if (!b)
                continue;
            stack = &b->dict.stacks[b->samples[0].stack];
            eq_int(stack->n, 2);
            eq_int(b->dict.indices[stack->off], 1);
            eq_int(b->dict.indices[stack->off + 1], 2);
            eq_int(batch_sample_value(b, b->profiles, &b->samples[0], 0), 7);
            eq_int(batch_sample_value(b, b->profiles, &b->samples[0], 1), 300);
            comment = batch_attr(b, b->profiles->attrs, STR("pprof.profile.comment"));
            eq_int(comment->value.n, 2);
            eq_str(value_str(&comment->value.array[1]), STR("app.c"));
        }
}

static int torture_decode(void)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;

    return decode_with_ids(1ull << 60, COMPRESS_NONE, &b);
}

/* Decoded, encoded and decoded again it is the same, and encoding that gives the same bytes. */
static int encode_again(uint64_t ids)
{
    _cleanup_(batch_unrefp) struct batch *a = NULL, *b = NULL;
    _cleanup_(buf_done) struct buf one = BUF_INIT, two = BUF_INIT, copy = BUF_INIT;
    int r = decode_with_ids(ids, COMPRESS_NONE, &a);

    if (r == 0)
        r = pprof_encode(a, a->profiles, &one, NULL);
    if (r < 0)
        return r;
    buf_put(&copy, one.p, one.n);
    r = buf_error(&copy) < 0 ? buf_error(&copy) : pprof_decode(&copy, NULL, &b, NULL);
    if (r == 0)
        r = pprof_encode(b, b->profiles, &two, NULL);
    if (r < 0)
        return r;
    check_profile(b);
    eq_str(buf_str(&two), buf_str(&one));
    return 0;
}

static void test_encode(void)
{
    eq_int(encode_again(1), 0);
    eq_int(encode_again(77), 0);
    eq_int(encode_again(1ull << 60), 0);
}

static int torture_encode(void)
{
    return encode_again(3);
}

static void expect(struct buf *in, int want, const char *words)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct err e = {0};
    int r = pprof_decode(in, NULL, &b, &e);

    eq_int(r, want);
    if (!strstr(e.message, words))
        tap_fail("'%s' is not in '%s'", words, e.message);
}

/* Each case appends one thing to a good profile. */
static void test_refused(void)
{
    static const struct {
        unsigned field;
        const char *bytes;
        size_t n;
        int want;
        const char *words;
    } cases[] = {
        {1, "\x0a\x00", 2, -EBADMSG, "value_type.type at byte"},
        {2, "\x0a\x01\x09", 3, -EINVAL, "sample.location_id at byte"},
        {2, "\x0a\x01\x01", 3, -EINVAL, "mismatch: sample has 0 values vs. 2 types"},
        {2, "\x0a\x02\x01\x81", 4, -EBADMSG, "a varint runs past the end"},
        {2, "\x12\x7f", 2, -EBADMSG, "a length runs past the end"},
        {2, "\x1a\x02\x08\x7f", 4, -EBADMSG, "label.key at byte"},
        {3, "", 0, -EINVAL, "found mapping with reserved id=0"},
        {3, "\x08\x01", 2, -EINVAL, "multiple mappings with same id: 1"},
        {3, "\x08\x02\x28\x7f", 4, -EBADMSG, "mapping.filename at byte"},
        {4, "\x08\x03\x22\x02\x08\x09", 6, -EINVAL, "there is no function 9"},
        {4, "\x08\x03\x22\x00", 4, -EINVAL, "there is no function 0"},
        {5, "\x08\x01", 2, -EINVAL, "multiple functions with same id: 1"},
        {5, "\x08\x03\x10\x7f", 4, -EBADMSG, "function.name at byte"},
        {13, "\x7f", 1, -EBADMSG, "profile.comment at byte"},
        {7, "\x01", 1, -EBADMSG, "profile.drop_frames at byte"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(buf_done) struct buf in = BUF_INIT;

        put_profile(&in, 1);
        put_len(&in, cases[i].field, cases[i].bytes, cases[i].n);
        expect(&in, cases[i].want, cases[i].words);
    }
}

static void test_refused_whole(void)
{
    _cleanup_(buf_done) struct buf empty = BUF_INIT, twice = BUF_INIT, none = BUF_INIT, text = BUF_INIT;

    expect(&empty, -ENODATA, "empty");
    put_profile(&twice, 1);
    put_profile(&twice, 1);
    expect(&twice, -EINVAL, "concatenated profiles");
    put_u(&none, 9, 1);
    expect(&none, -EBADMSG, "string_table is missing");
    buf_puts(&text, "heap profile: 1: 2 [3: 4] @ heap");
    expect(&text, -EBADMSG, "at byte");
}

/* Every prefix and every single damaged byte: an error or a valid batch. */
static void test_damage(void)
{
    _cleanup_(buf_done) struct buf good = BUF_INIT;

    put_profile(&good, 1);
    for (size_t i = 0; i < good.n * 9; i++) {
        _cleanup_(buf_done) struct buf in = BUF_INIT;
        _cleanup_(batch_unrefp) struct batch *b = NULL;
        struct err e = {0};

        buf_put(&in, good.p, i < good.n ? i : good.n);
        if (i >= good.n)
            in.p[i % good.n] ^= (char) (1 << (i / good.n - 1));
        if (pprof_decode(&in, NULL, &b, &e) == 0 && batch_validate(b, &e) < 0)
            tap_fail("damage %zu: %s", i, e.message);
    }
}

/* Many tiny messages: refused, by what they lack or would need, before anything is allocated. */
static void test_bombs(void)
{
    for (unsigned field = 2; field <= 6; field++) {
        _cleanup_(buf_done) struct buf in = BUF_INIT;
        struct pprof_limits limits = {.inflated = 1 << 20, .memory = 4 << 20};
        _cleanup_(batch_unrefp) struct batch *b = NULL;
        struct err e = {0};

        put_msg(&in, 1, MSG({1, S_SAMPLES}, {2, S_COUNT}));
        for (size_t i = 0; i < 500000; i++)
            put_len(&in, field, "", 0);
        eq_int(pprof_decode(&in, &limits, &b, &e), field == 6 ? -EFBIG : -EINVAL);
    }
}

int main(void)
{
    tap_run(test_decode);
    tap_run(test_lists);
    tap_torture(torture_decode);
    tap_run(test_encode);
    tap_torture(torture_encode);
    tap_run(test_refused);
    tap_run(test_refused_whole);
    tap_run(test_damage);
    tap_run(test_bombs);
    return tap_done();
}
