/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/printable.h"
#include "base/queue.h"
#include "base/regex.h"
#include "base/sha256.h"
#include "base/url.h"

static void test_printable(void)
{
    static const struct {
        const char *in, *out;
    } table[] = {
        {"plain", "plain"},
        {"tab\tline\n", "tab\tline\n"},
        {"\x1b[2J", "\\x1b[2J"},
        {"a\rb\x7f", "a\\x0d"
                     "b\\x7f"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5"}, /* é € and a flame */
        {"\xc2\x9b"
         "2J",
         "\\xc2\\x9b"
         "2J"}, /* CSI as UTF-8 */
        {"\x9b"
         "2J",
         "\\x9b"
         "2J"},                    /* CSI as a byte */
        {"\xe2\x82", "\xe2\\x82"}, /* cut off */
    };
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct err e = {0};
    char text[8];

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char fixed[64];

        buf_reset(&b);
        printable_put(&b, str_from(table[i].in), true);
        eq_str(buf_str(&b), str_from(table[i].out));
        snprintf(fixed, sizeof fixed, "%s", table[i].in);
        printable_fix(fixed, sizeof fixed);
        eq_str(str_from(fixed), str_from(table[i].out));
    }
    buf_reset(&b);
    printable_put(&b, STR("a\nb"), false);
    eq_str(buf_str(&b), STR("a\\x0ab"));
    for (size_t n = 1; n < sizeof text; n++) { /* never beyond its room */
        memset(text, 1, sizeof text);
        text[n - 1] = 0;
        printable_fix(text, n);
        ok(strlen(text) < n);
        eq_int(n < sizeof text - 1 ? text[n] : 1, 1);
    }
    err_set(&e, -EINVAL, "'%s' is wrong", "\x1b]0;x\x07");
    eq_str(str_from(e.message), STR("'\\x1b]0;x\\x07' is wrong"));
}

static void test_str(void)
{
    struct str s = STR("a,b,c"), part;
    uint64_t u;
    int64_t i;

    part = str_cut(&s, ',');
    eq_str(part, STR("a"));
    eq_str(s, STR("b,c"));
    eq_str(str_trim(STR("  x\t")), STR("x"));
    eq_int(str_to_u64(STR("0x1F"), 0, &u), 0);
    eq_int(u, 31);
    eq_int(str_to_u64(STR("18446744073709551616"), 10, &u), -ERANGE);
    eq_int(str_to_i64(STR("-9223372036854775808"), 10, &i), 0);
    ok(i == INT64_MIN);
    eq_int(str_to_i64(STR("12x"), 10, &i), -EINVAL);
    ok(str_is_utf8(STR("caf\xc3\xa9 \xf0\x9f\x94\xa5")));
    ok(!str_is_utf8(STR("\xc0\xaf")));
    ok(!str_is_utf8(STR("\xed\xa0\x80")));
    ok(!str_is_utf8(STR("\xe2\x82")));
}

static void test_arena(void)
{
    struct arena a;
    char *p, *q;

    arena_init(&a, 100000);
    p = arena_alloc(&a, 10);
    q = arena_alloc(&a, 50000);
    ok(p && q && (uintptr_t) q % 8 == 0);
    ok(!arena_alloc(&a, 60000));
    ok(!arena_alloc(&a, SIZE_MAX - 4));
    eq_str(str_from(arena_printf(&a, "%d-%s", 7, "x")), STR("7-x"));
    arena_done(&a);
}

static void test_buf(void)
{
    struct buf b;

    buf_init(&b, 8);
    buf_puts(&b, "12345678");
    eq_int(buf_error(&b), 0);
    buf_putc(&b, '9');
    eq_int(buf_error(&b), -E2BIG);
    buf_puts(&b, "more");
    eq_int(b.n, 8);
    buf_done(&b);
}

static void test_map(void)
{
    enum { N = 10000 };
    struct map m = MAP_INIT;
    uint64_t hash[3] = {1ull << 32, 1ull << 32, 2ull << 32};
    int found = 0;

    for (uint32_t i = 0; i < N; i++)
        eq_int(map_insert(&m, hash64_u64(i), i), 0);
    for (uint32_t i = 0; i < N; i++)
        for (struct map_pos p = map_find(&m, hash64_u64(i)); p.index != MAP_NONE; p = map_next(&m, p))
            found += p.index == i;
    eq_int(found, N);
    map_reset(&m);
    for (uint32_t i = 0; i < 3; i++)
        map_insert(&m, hash[i], i);
    found = 0;
    for (struct map_pos p = map_find(&m, hash[0]); p.index != MAP_NONE; p = map_next(&m, p))
        found++;
    eq_int(found, 2);
    map_done(&m);
}

static void test_hash_is_pinned(void)
{
    struct id128 id = hash128("wick", 4);
    char text[200];

    /* Stored identities depend on these: a change here is a change of the disk format. */
    ok(id.hi == 0x7abbe7b66d5859d9ull && id.lo == 0x269d653a277b2402ull);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char) (i * 7);
    id = hash128_long(text, sizeof text);
    ok(id.hi == 0x9e988a90acb6c6eaull && id.lo == 0xad797482ef150ab0ull);
    for (size_t i = 0; i < sizeof text; i++) { /* every byte counts, in whichever lane it is */
        struct id128 other;

        text[i] ^= 1;
        other = hash128_long(text, sizeof text);
        ok(other.hi != id.hi && other.lo != id.lo);
        text[i] ^= 1;
    }
    ok(!id128_eq(id, hash128_long(text, sizeof text - 1)));
    eq_int(crc32c(0, "123456789", 9), 0xe3069283);
}

/* Strings that all hashed to one value, whatever the seed, while an operand of the multiplication was public. */
static void test_hash_cannot_be_aimed_at(void)
{
    static const uint64_t constants[] = {0xa0761d6478bd642full, 0xe7037ed1a0b428dbull, 0x8ebc6af09c88c6e3ull,
                                         0x589965cc75374cc3ull, 0x9e3779b97f4a7c15ull, 0};

    for (size_t c = 0; c < ARRAY_SIZE(constants); c++)
        for (size_t n = 8; n <= 40; n += 8) {
            uint64_t first[5] = {constants[c], 1, constants[c], 2, 3}, last = 0;
            int equal = 0;

            for (uint64_t i = 0; i < 100; i++) {
                uint64_t h;

                first[1] = n > 8 ? i : first[1];
                h = hash64(first, n);
                equal += i && n > 8 && h == last;
                last = h;
            }
            eq_int(equal, 0);
        }
}

/* The hash depends on the key, and on nothing else: a change of the function shows here. */
static void test_hash_is_keyed(void)
{
    uint64_t before = hash64("wick", 4), u = hash64_u64(7);

    hash_set_key(1);
    ok(hash64("wick", 4) != before && hash64_u64(7) != u);
    ok(hash64("wick", 4) == 0x971aed184309568ull &&
       hash64("a string of thirty-two bytes....", 32) == 0x2be250575d5ce0b2ull);
    ok(hash64_u64(7) == 0xb27e96de7d942a9eull);
    hash_set_key(2);
    ok(hash64("wick", 4) != 0x971aed184309568ull);
    for (size_t i = 0; i < ARRAY_SIZE(hash_key); i++)
        ok(hash_key[i] & 1 && __builtin_popcountll(hash_key[i]) >= 28);
}

static void test_sha256(void)
{
    /* FIPS 180-4's own examples, and a length around the padding's edges. */
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint8_t sum[SHA256_SIZE];
        char hex[65];

        sha256_of(cases[i].text, strlen(cases[i].text), sum);
        for (int k = 0; k < SHA256_SIZE; k++)
            snprintf(hex + 2 * k, 3, "%02x", sum[k]);
        eq_str(str_from(hex), str_from(cases[i].hex));
    }
}

static void test_time(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int64_t t, d;

    eq_int(clock_parse(STR("2026-11-15T10:00:00.5+01:00"), 0, &t, NULL), 0);
    clock_format(&b, t);
    eq_str(buf_str(&b), STR("2026-11-15T09:00:00.5Z"));
    eq_int(clock_parse(STR("now-1h30m"), 10000 * NS_PER_S, &t, NULL), 0);
    eq_int(t, 4600 * NS_PER_S);
    eq_int(clock_parse(STR("1700000000"), 0, &t, NULL), 0);
    eq_int(t, 1700000000 * NS_PER_S);
    eq_int(clock_parse(STR("1700000000123"), 0, &t, NULL), 0);
    eq_int(t, 1700000000123 * NS_PER_MS);
    eq_int(clock_parse(STR("yesterday"), 0, &t, NULL), -EINVAL);
    static const char *const far[] = {"17000000010", "99999999999999", "99999999999999999", "9223372036854775807",
                                      "8.9e9",       "2261-01-01",     "now+100000d"};
    for (size_t i = 0; i < ARRAY_SIZE(far); i++) { /* as far as it goes, without an overflow */
        eq_int(clock_parse(str_from(far[i]), 1700000000 * NS_PER_S, &t, NULL), 0);
        ok(t == CLOCK_MAX);
    }
    eq_int(clock_parse(STR("0001-01-01T00:00:00Z"), 0, &t, NULL), 0);
    ok(t == CLOCK_MIN);
    eq_int(clock_parse(STR("-9223372036854775808"), 0, &t, NULL), 0);
    ok(t == CLOCK_MIN);
    eq_int(clock_parse_duration(STR("1.5s"), &d, NULL), 0);
    eq_int(d, 1500 * NS_PER_MS);
    eq_int(clock_parse_duration(STR("4600000000000000000ns"), &d, NULL), 0);
    eq_int(clock_parse_duration(STR("4611686018427387904ns"), &d, NULL), -EINVAL); /* longer than CLOCK_MAX */
    eq_int(clock_parse_duration(STR("5 parsecs"), &d, NULL), -EINVAL);
}

static void test_json(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct arena a;
    struct json r;
    struct str key;
    int n = 0;

    json_put_str(&b, STR("a\"\n<\xff\xc3\xa9\x01"));
    eq_str(buf_str(&b), STR("\"a\\\"\\n\\u003c\xef\xbf\xbd\xc3\xa9\\u0001\""));
    arena_init(&a, 0);
    json_init(&r, STR("{\"a\": [1, \"2\", 3e0], \"b\\u00e9\": {\"c\": null}, \"d\": true, \"e\": \"\\ud83d\\udd25\"}"),
              &a);
    json_begin_object(&r);
    while (json_next_key(&r, &key)) {
        if (str_is(key, "a")) {
            json_begin_array(&r);
            while (json_next_item(&r))
                n += (int) json_i64(&r);
        } else if (str_is(key, "e")) {
            eq_str(json_str(&r), STR("\xf0\x9f\x94\xa5"));
        } else {
            json_skip(&r);
        }
    }
    eq_int(json_end(&r), 0);
    eq_int(n, 6);
    arena_done(&a);
}

static void test_json_errors(void)
{
    static const char *const bad[] = {"",      "{",   "[1,]",       "{\"a\" 1}", "\"abc",
                                      "[1 2]", "tru", "{\"a\":1}x", "\"\\q\"",   "[\"\x01\"]"};
    struct arena a;

    arena_init(&a, 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct json r;

        json_init(&r, str_from(bad[i]), &a);
        json_skip(&r);
        if (json_end(&r) == 0)
            tap_fail("accepted: %s", bad[i]);
    }
    arena_done(&a);
}

static void test_url(void)
{
    static const struct {
        const char *url, *shown;
    } rows[] = {
        {"http://user:secret@host:80/a@b:c", "http://user:xxxxx@host:80/a@b:c"},
        {"http://host:80/x?u=a:b@c", "http://host:80/x?u=a:b@c"},
        {"grpc://u:p:q@host", "grpc://u:xxxxx@host"},
        {"http://user@host", "http://user@host"},
        {"u:secret@host:4317", "u:xxxxx@host:4317"},
        {"http://u:sec@ret@host", "http://u:xxxxx@host"},
        {"", ""},
    };
    char shown[URL_SHOWN];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        eq_str(str_from(url_redact(rows[i].url, shown, sizeof shown)), str_from(rows[i].shown));
}

static void test_regex(void)
{
    struct regex *r = NULL;
    struct str groups[2];
    struct err e;
    size_t start, end;

    eq_int(regex_new(STR("(f)(o+)"), &r, &e), 0);
    ok(regex_search(r, STR("xfoo")));
    ok(!regex_full(r, STR("xfoo")));
    ok(regex_find(r, STR("xfoo"), 0, &start, &end, groups, 2));
    eq_int(start, 1);
    eq_int(end, 4);
    eq_str(groups[1], STR("oo"));
    regex_free(r);
    eq_int(regex_new(STR("a(b"), &r, &e), -EINVAL);
}

static void test_varint(void)
{
    static const uint64_t values[] = {0,       1,       127,        128,        16383,     16384,
                                      2097151, 2097152, UINT32_MAX, 1ull << 62, UINT64_MAX};
    uint8_t bytes[16] = {0};

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        size_t n = (size_t) (varint_write(bytes, values[i]) - bytes);
        uint64_t v = 0;

        eq_int(n, varint_size(values[i]));
        eq_int(varint_count(bytes, n), 1);
        ok(varint_read(bytes, bytes + n, &v) == bytes + n && v == values[i]);
        ok(varint_read(bytes, bytes + sizeof bytes, &v) == bytes + n && v == values[i]);
        ok(varint_skip(bytes, bytes + n) == bytes + n);
        for (size_t cut = 0; cut < n; cut++) {
            struct cursor c = cursor_of(bytes, cut);

            ok(!varint_read(bytes, bytes + cut, &v));
            eq_int(get_varint(&c), 0);
            ok(c.bad && c.p == c.end);
        }
    }
    memset(bytes, 0x80, sizeof bytes); /* an eleventh byte */
    ok(!varint_read(bytes, bytes + sizeof bytes, &(uint64_t){0}));
    ok(unzigzag(zigzag(INT64_MIN)) == INT64_MIN && unzigzag(zigzag(-1)) == -1);
}

static void test_cursor(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        int64_t v;
    } sleb[] = {{"\x02", 1, 2},        {"\x7e", 1, -2},
                {"\xff\x00", 2, 127},  {"\x81\x7f", 2, -127},
                {"\x80\x7f", 2, -128}, {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 10, INT64_MIN}};
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct cursor c;

    for (size_t i = 0; i < ARRAY_SIZE(sleb); i++) {
        c = cursor_of(sleb[i].bytes, sleb[i].n);
        eq_int(get_sleb(&c), sleb[i].v);
        ok(!c.bad && c.p == c.end);
    }
    put_u16(&b, 0x1234);
    put_u32(&b, 0xdeadbeef);
    put_u64(&b, 0x0123456789abcdef);
    put_bytes(&b, "abc", 3);
    eq_int((uint8_t) b.p[0], 0x34);
    c = cursor_of(b.p, b.n);
    eq_int(get_u16(&c), 0x1234);
    eq_int(get_u32(&c), 0xdeadbeef);
    eq_int(get_u64(&c), 0x0123456789abcdef);
    eq_str(get_bytes(&c), STR("abc"));
    ok(!c.bad);
    eq_int(get_u8(&c), 0);
    ok(c.bad);
    eq_int(load_be32("\x01\x02\x03\x04"), 0x01020304);
}

static void test_hex(void)
{
    char text[17] = {0};
    uint64_t v = 0;

    eq_int(hex_write(text, "\x00\xfa\x9f", 3) - text, 6);
    eq_str(str_from(text), STR("00fa9f"));
    ok(hex_number(STR("ffffFFFFffffFFFF"), &v) && v == UINT64_MAX);
    ok(!hex_number(STR("10000000000000000"), &v) && !hex_number(STR(""), &v) && !hex_number(STR("0x1"), &v));
    ok(hex_digit('F') == 15 && hex_digit_lower('F') < 0 && hex_digit('g') < 0 && hex_digit('@') < 0);
}

static void test_array(void)
{
    struct pair {
        int a;
        char b;
    } *v = NULL;
    size_t n = 0, cap = 0;
    uint8_t *small = NULL, small_n = 0, small_cap = 0;

    for (int i = 0; i < 1000; i++)
        eq_int(array_push(v, n, cap, 1000, (struct pair){i, (char) i}), 0);
    eq_int(n, 1000);
    eq_int(cap, 1000);
    eq_int(array_push(v, n, cap, 1000, (struct pair){0}), -E2BIG);
    eq_int(n, 1000);
    eq_int(array_push(v, n, cap, 2000, v[7]), 0); /* the value is read before the array moves */
    eq_int(v[1000].a, 7);
    mem_fail_at(1, false);
    eq_int(array_reserve(v, cap, cap + 1, 1 << 20), -ENOMEM);
    mem_fail_at(0, false);
    ok(v[999].a == 999 && v[999].b == (char) 999);
    eq_int(array_reserve(v, cap, SIZE_MAX / 4, SIZE_MAX), -ENOMEM); /* n * size overflows */
    for (int i = 0; i < 255; i++)
        eq_int(array_push(small, small_n, small_cap, UINT32_MAX, (uint8_t) i), 0);
    eq_int(small_cap, 255); /* a capacity never grows beyond its type */
    eq_int(array_push(small, small_n, small_cap, UINT32_MAX, 1), -E2BIG);
    eq_int(small[254], 254);
    mem_free(v);
    mem_free(small);
}

static void test_queue(void)
{
    struct queue q;
    struct queue_item a, b, c;

    eq_int(queue_init(&q, 2), 0);
    eq_int(queue_push(&q, &a), 0);
    eq_int(queue_push(&q, &b), 0);
    eq_int(queue_push(&q, &c), -EAGAIN);
    ok(queue_wait(&q, -1) == &a && a.next == &b && !b.next);
    ok(!queue_wait(&q, 0));
    queue_close(&q);
    eq_int(queue_push(&q, &c), -ESHUTDOWN);
    queue_done(&q);
}

static int calls;

static int count(int v)
{
    calls++;
    return v;
}

static void test_macros_evaluate_once(void)
{
    char *texts[2] = {NULL, NULL}, **next = texts;
    size_t big = 5;

    calls = 0;
    eq_int(MAX(count(-3), -2), -2);
    eq_int(MIN(count(7), count(3)), 3);
    eq_int(MAX(1, MIN(count(9), MAX(count(2), 4))), 4);
    eq_int(ALIGN_UP(count(9), 8), 16);
    eq_int(calls, 6);
    ok(MIN(big, 3) == 3 && MAX(big, 3) == 5 && MIN(-1.5, 2.0) == -1.5);
    ok(ALIGN_UP((uint64_t) UINT32_MAX, 8) == 1ull << 32);
    ok(TAKE(*next++) == NULL && next == texts + 1);
}

int main(void)
{
    tap_run(test_macros_evaluate_once);
    tap_run(test_printable);
    tap_run(test_str);
    tap_run(test_arena);
    tap_run(test_buf);
    tap_run(test_map);
    tap_run(test_hash_is_pinned);
    tap_run(test_hash_cannot_be_aimed_at);
    tap_run(test_hash_is_keyed);
    tap_run(test_sha256);
    tap_run(test_time);
    tap_run(test_json);
    tap_run(test_json_errors);
    tap_run(test_url);
    tap_run(test_regex);
    tap_run(test_varint);
    tap_run(test_cursor);
    tap_run(test_hex);
    tap_run(test_array);
    tap_run(test_queue);
    return tap_done();
}
