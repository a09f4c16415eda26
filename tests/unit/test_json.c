/* SPDX-License-Identifier: Apache-2.0 */
/* json.h and base64.h at their edges: the fast paths must agree with the slow ones. */
#include "base/json.h"

#include "base/base64.h"
#include "base/bytes.h"
#include "tap.h"

static struct json reader(const char *text, size_t n, struct arena *a)
{
    struct json r;

    json_init(&r, (struct str){text, (uint32_t) n}, a);
    return r;
}

/* Each special byte at each place of a string longer than two machine words. */
static void test_string_scan(void)
{
    for (int c = 1; c < 256; c++)
        for (int at = 0; at < 20; at++) {
            struct arena a;
            char text[24];
            struct json r;
            struct str s;

            arena_init(&a, 0);
            memset(text, 'x', sizeof text);
            text[0] = text[21] = '"';
            text[1 + at] = (char) c;
            r = reader(text, 22, &a);
            s = json_str(&r);
            if (c == '"')
                ok(!r.err && s.n == (uint32_t) at);
            else if (c < 0x20 || c == '\\')
                ok(r.err == -EINVAL); /* \x is no escape, nor is \" at the end an end */
            else
                ok(!r.err && s.n == 20 && memcmp(s.p, text + 1, 20) == 0);
            arena_done(&a);
        }
}

static void test_integers(void)
{
    static const struct {
        const char *text;
        int err;
        int64_t want;
    } cases[] = {
        {"0", 0, 0},
        {"-7", 0, -7},
        {"\"12\"", 0, 12},
        {" \"-12\" ", 0, -12},
        {"999999999999999999", 0, 999999999999999999},
        {"9223372036854775807", 0, INT64_MAX},
        {"\"-9223372036854775808\"", 0, INT64_MIN},
        {"9223372036854775808", -EINVAL, 0},
        {"1e3", 0, 1000},
        {"5.0", 0, 5},
        {"5.5", -EINVAL, 0},
        {"\"\"", -EINVAL, 0},
        {"\"1", -EINVAL, 0},
        {"-", -EINVAL, 0},
        {"null", 0, 0},
        {"true", -EINVAL, 0},
        {"\"1x\"", -EINVAL, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct arena a;
        struct json r;
        int64_t v;

        arena_init(&a, 0);
        r = reader(cases[i].text, strlen(cases[i].text), &a);
        v = json_i64(&r);
        if (r.err != cases[i].err || v != cases[i].want)
            tap_fail("%s: %d, %" PRId64, cases[i].text, r.err, v);
        arena_done(&a);
    }
}

static void test_unsigned(void)
{
    struct arena a;
    struct json r = reader("18446744073709551615", 20, &a);

    arena_init(&a, 0);
    ok(json_u64(&r) == UINT64_MAX && !r.err);
    r = reader("-1", 2, &a);
    json_u64(&r);
    eq_int(r.err, -EINVAL);
    r = reader("\"-0\"", 4, &a);
    ok(json_u64(&r) == 0 && !r.err);
    arena_done(&a);
}

/* Both ways of skipping end at the same place. */
static void test_skip(void)
{
    static const char *const good[] = {
        "{\"a\":[1,\"]}\\\"\",{}],\"b\":-1.5e+3} ", "[[],[[\"\\\\\"]]]", "\"a\\\\\"", "12,", "true]", "null}", "\"\""};
    static const char *const bad[] = {"[1,", "{\"a\"", "\"x", "1.e", "-", "[1 2]", "nul"};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct arena a;
        struct json x, y;

        arena_init(&a, 0);
        x = y = reader(good[i], strlen(good[i]), &a);
        json_skip(&x);
        json_skip_unchecked(&y);
        ok(!x.err && !y.err);
        ok(x.p == y.p);
        arena_done(&a);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct arena a;
        struct json x;

        arena_init(&a, 0);
        x = reader(bad[i], strlen(bad[i]), &a);
        json_skip(&x);
        if (!x.err)
            tap_fail("%s was taken", bad[i]);
        arena_done(&a);
    }
}

/* One item less than the table has entries, as many, and one more. */
static void test_item_of(void)
{
    static const char *const texts[] = {"[1]", "[1,2]", "[1,2,3]"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct arena a;
        struct json j;
        struct err e = {0};
        size_t n = 0;

        arena_init(&a, 0);
        json_init(&j, str_from(texts[i]), &a);
        json_begin_array(&j);
        while (json_next_item_of(&j, n, 2, "numbers"))
            eq_int(json_i64(&j), (int64_t) ++n);
        eq_int(n, MIN(i + 1, 2u));
        eq_int(json_end(&j), i < 2 ? 0 : -EINVAL);
        if (i == 2 && json_error(&j, &e) < 0)
            eq_str(str_from(e.message), STR("too many numbers (limit 2) at byte 5"));
        arena_done(&a);
    }
}

static void test_base64(void)
{
    static const struct {
        const char *plain, *text;
    } cases[] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                 {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\xfd", "//79"}};
    char out[16];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;

        base64_encode(&b, cases[i].plain, strlen(cases[i].plain));
        eq_str(buf_str(&b), str_from(cases[i].text));
        eq_int(base64_decode(str_from(cases[i].text), out), strlen(cases[i].plain));
        ok(memcmp(out, cases[i].plain, strlen(cases[i].plain)) == 0);
    }
    eq_int(base64_decode(STR("__79"), out), 3);
    eq_int(base64_decode(STR("Zm8"), out), 2);
    eq_int(base64_decode(STR("Z"), out), -EINVAL);
    eq_int(base64_decode(STR("Zm8 "), out), -EINVAL);
    eq_int(hex_decode(STR("00fFa9"), out), 0);
    ok(memcmp(out, "\x00\xff\xa9", 3) == 0);
    eq_int(hex_decode(STR("0"), out), -EINVAL);
    eq_int(hex_decode(STR("0g"), out), -EINVAL);
}

int main(void)
{
    tap_run(test_string_scan);
    tap_run(test_integers);
    tap_run(test_unsigned);
    tap_run(test_skip);
    tap_run(test_item_of);
    tap_run(test_base64);
    return tap_done();
}
