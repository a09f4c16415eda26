/* SPDX-License-Identifier: Apache-2.0 */
/* Records: a table of fields to JSON and back, limits with the place of an error, tables of text, and schemas. */
#include "base/record.h"

#include <errno.h>

#include "base/json.h"
#include "base/mem.h"
#include "client/record_text.h"
#include "tap.h"

struct person {
    struct str name;
    const char *job;
    char code[8];
    bool here;
    int64_t age, born, seen;
    uint64_t coins, id;
    double size;
    int mood;
    struct record_list nicknames, friends;
    struct {
        struct str town;
    } home;
};

static const char *const moods[] = {"calm", "glad", NULL};

static const struct record_field home_fields[] = {{"town", RECORD_STR, 0, 10, "where it is"}, {0}};

static const struct record_field friend_fields[] = {
    {"name", RECORD_STR, offsetof(struct person, name), 8, NULL, RECORD_REQUIRED},
    {"age", RECORD_INT, offsetof(struct person, age), 150},
    {0},
};

static const struct record_field fields[] = {
    {"name", RECORD_STR, offsetof(struct person, name), 20, "what it is called", RECORD_REQUIRED, .column = 1},
    {"job", RECORD_TEXT, offsetof(struct person, job), 20, NULL, RECORD_SPARSE, .column = 2},
    {"code", RECORD_CHARS, offsetof(struct person, code), .size = sizeof(((struct person *) 0)->code)},
    {"here", RECORD_BOOL, offsetof(struct person, here), .flags = RECORD_SPARSE},
    {"age", RECORD_INT, offsetof(struct person, age), 150, "in years", .column = 3},
    {"born", RECORD_NS, offsetof(struct person, born)},
    {"seen", RECORD_TIME, offsetof(struct person, seen), .column = 4},
    {"coins", RECORD_COUNT, offsetof(struct person, coins), .flags = RECORD_SPARSE},
    {"id", RECORD_ID, offsetof(struct person, id), .flags = RECORD_OURS},
    {"size", RECORD_NUMBER, offsetof(struct person, size), 3},
    {"mood", RECORD_WORD, offsetof(struct person, mood), .words = moods},
    {"nicknames", RECORD_STRS, offsetof(struct person, nicknames), 12, NULL, RECORD_SPARSE},
    {"friends", RECORD_LIST, offsetof(struct person, friends), 20, .fields = friend_fields,
     .size = sizeof(struct person)},
    {"home", RECORD_ONE, offsetof(struct person, home), .fields = home_fields},
    {0},
};

static const char sample[] =
    "{\"name\":\"Zo\xc3\xab\",\"job\":\"\\u0062aker\",\"code\":\"x-1\",\"here\":true,\"age\":41,\"born\":\"1700000000000000001\","
    "\"seen\":\"2026-11-15T10:00:00Z\",\"coins\":18446744073709551615,\"id\":\"00000000000000ff\",\"size\":1.5,\"mood\":\"glad\","
    "\"nicknames\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"],\"friends\":[{\"name\":\"Bo\",\"age\":7}],\"home\":{\"town\":\"Ulm\"}}";

static int read_it(const char *text, enum record_source from, struct arena *a, struct person *p, struct err *e)
{
    arena_init(a, 0);
    *p = (struct person){0};
    *e = (struct err){0};
    return record_read(str_from(text), fields, from, a, p, e);
}

static void test_there_and_back(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct arena a;
    struct person p;
    struct err e;

    eq_int(read_it(sample, RECORD_FILE, &a, &p, &e), 0);
    eq_str(p.name, STR("Zo\xc3\xab"));
    eq_str(str_from(p.job), STR("baker"));
    eq_int(p.born, 1700000000000000001);
    eq_int(p.nicknames.n, 9);
    eq_str(((struct str *) p.nicknames.v)[8], STR("i"));
    eq_int(((struct person *) p.friends.v)[0].age, 7);
    ok(p.coins == UINT64_MAX && p.id == 255 && p.here && p.mood == 1);
    record_put(&out, fields, &p);
    eq_int(out.n, sizeof sample - 1 - 5); /* the escape is a letter now */
    arena_done(&a);
    eq_int(read_it(buf_cstr(&out), RECORD_FILE, &a, &p, &e), 0);
    eq_str(p.home.town, STR("Ulm"));
    arena_done(&a);
    buf_reset(&out);
    p = (struct person){.name = STR("n"), .size = 1234.5678};
    record_put(&out, fields, &p);
    eq_str(buf_str(&out),
           STR("{\"name\":\"n\",\"code\":\"\",\"age\":0,\"born\":\"0\",\"seen\":null,\"id\":\"0000000000000000\","
               "\"size\":1.23e+03,\"mood\":\"calm\",\"friends\":[],\"home\":{\"town\":\"\"}}"));
}

static void test_errors_have_a_place(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "name is missing at byte 2"},
        {"{\"name\":\"x\",\"friends\":[{\"name\":\"a\"},{\"name\":\"123456789\"}]}",
         "friends[1].name: longer than 8 bytes at byte 55"},
        {"{\"name\":\"x\",\"friends\":[{\"name\":\"a\"},{\"age\":1}]}", "friends[1]: name is missing at byte 45"},
        {"{\"name\":\"x\",\"age\":151}", "age: not between 0 and 150 at byte 21"},
        {"{\"name\":\"x\",\"age\":-1}", "age: not between 0 and 150 at byte 20"},
        {"{\"name\":\"x\",\"born\":-1}", "born: not a time in nanoseconds since 1970 at byte 21"},
        {"{\"name\":\"x\",\"born\":\"many\"}", "born: invalid integer at byte 25"},
        {"{\"name\":\"x\",\"seen\":\"soon\"}", "seen: not a time at byte 25"},
        {"{\"name\":\"x\",\"code\":\"12345678\"}", "code: longer than 7 bytes at byte 29"},
        {"{\"name\":\"x\",\"mood\":\"bad\"}", "mood: not one of its words at byte 24"},
        {"{\"name\":\"x\",\"nicknames\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\"]}",
         "nicknames[11]: too many nicknames (limit 12) at byte 73"},
        {"{\"name\":\"x\",\"home\":[]}", "home: expected an object at byte 19"},
        {"{\"name\":\"x\",\"nmae\":1}", "unknown key 'nmae'; did you mean 'name'? at byte 19"},
        {"{\"name\":\"x\"} 1", "unexpected text after the end of the JSON at byte 13"},
        {"{\"name\":7}", "name: expected a string at byte 8"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct arena a;
        struct person p;
        struct err e;

        eq_int(read_it(cases[i].text, RECORD_CLIENT, &a, &p, &e), -EINVAL);
        eq_str(str_from(e.message), str_from(cases[i].message));
        arena_done(&a);
    }
}

static void test_sources(void)
{
    struct arena a;
    struct person p;
    struct err e;

    eq_int(read_it("{\"name\":\"x\",\"later\":{\"a\":[1]},\"id\":\"000000000000000a\",\"home\":null}", RECORD_FILE, &a,
                   &p, &e),
           0);
    ok(p.id == 10);
    ok(p.job && !*p.job);
    arena_done(&a);
    eq_int(read_it("{\"name\":\"x\",\"id\":{}}", RECORD_CLIENT, &a, &p, &e),
           0); /* ours: what a client sends is ignored */
    ok(p.id == 0);
    arena_done(&a);
    eq_int(read_it("{\"name\":\"x\",\"id\":\"0x0000000000000a\"}", RECORD_FILE, &a, &p, &e), -EINVAL);
    arena_done(&a);
}

/* --- what answers consist of --- */

struct inner {
    const char *word;
    uint8_t kind;
};

struct answer {
    uint32_t n_columns, small;
    int64_t pair[2], ns;
    double two[2];
    uint8_t id[4];
    uint64_t wide[2];
    int64_t *ints;
    uint32_t n_ints;
    double *numbers;
    uint32_t n_numbers;
    struct record_list *lists;
    uint32_t n_lists;
    struct record_entry *labels;
    uint32_t n_labels;
    struct inner *maybe, part;
    bool known;
    uint32_t depth;
};

static const struct record_field inner_fields[] = {
    {"word", RECORD_TEXT, offsetof(struct inner, word)},
    {"kind", RECORD_WORD, offsetof(struct inner, kind), .words = moods, .size = 1},
    {0},
};

#define AT(member) offsetof(struct answer, member)
static const struct record_field answer_fields[] = {
    {"pair", RECORD_PAIR, AT(pair), 0, "of both", .unit = UNIT_VALUE, .size = AT(n_columns)},
    {"small", RECORD_U32, AT(small)},
    {"ns", RECORD_NS, AT(ns)},
    {"two", RECORD_NUMBERS2, AT(two)},
    {"id", RECORD_BYTES, AT(id), .size = 4},
    {"wide", RECORD_ID, AT(wide), .size = 16},
    {"ints", RECORD_INTS, AT(ints), 3},
    {"numbers", RECORD_NUMBERS, AT(numbers)},
    {"lists", RECORD_LISTS, AT(lists)},
    {"labels", RECORD_MAP, AT(labels)},
    {"maybe", RECORD_MAYBE, AT(maybe), .fields = inner_fields, .size = sizeof(struct inner)},
    {"", RECORD_INLINE, AT(part), .fields = inner_fields},
    {"depth", RECORD_U32, AT(depth), .when = AT(known)},
    {0},
};

static const char full[] =
    "{\"pair\":[3,-4],\"small\":4294967295,\"ns\":\"-5\",\"two\":[0.5,2],\"id\":\"00ff10a0\","
    "\"wide\":\"00000000000000010000000000000002\",\"ints\":[1,2,3],\"numbers\":[1.5,null],\"lists\":[[1],[],[2,3]],"
    "\"labels\":{\"a\":\"x\",\"b\":\"\"},\"maybe\":{\"word\":\"w\",\"kind\":\"glad\"},\"word\":\"own\",\"kind\":\"calm\","
    "\"depth\":0}";

static int read_answer(const char *text, enum record_source from, struct arena *a, struct answer *x, struct err *e)
{
    arena_init(a, 0);
    *x = (struct answer){.n_columns = 1};
    *e = (struct err){0};
    return record_read(str_from(text), answer_fields, from, a, x, e);
}

static void test_kinds_of_answers(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct answer x;
    struct arena a;
    struct err e;

    eq_int(read_answer(full, RECORD_ANSWER, &a, &x, &e), 0);
    ok(x.n_columns == 2 && x.pair[1] == -4 && x.small == UINT32_MAX && x.ns == -5 && x.two[0] == 0.5);
    ok(x.id[1] == 0xff && x.wide[0] == 1 && x.wide[1] == 2 && x.n_ints == 3 && x.ints[2] == 3 && x.n_numbers == 2);
    ok(x.n_lists == 3 && x.lists[2].n == 2 && ((int64_t *) x.lists[2].v)[1] == 3 && x.n_labels == 2);
    eq_str(x.labels[0].value, STR("x"));
    ok(x.maybe && x.maybe->kind == 1 && x.part.kind == 0 && x.known && x.depth == 0);
    x.numbers[1] = 0;
    record_put(&out, answer_fields, &x);
    ok(str_find(buf_str(&out), STR("\"numbers\":[1.5,0]")) > 0);
    eq_int(out.n, sizeof full - 1 - 3); /* null is read as 0 */
    arena_done(&a);
    buf_reset(&out);
    x = (struct answer){.n_columns = 1, .pair = {7, 8}};
    record_put(&out, answer_fields, &x);
    eq_str(buf_str(&out),
           STR("{\"pair\":7,\"small\":0,\"ns\":\"0\",\"two\":[0,0],\"id\":\"00000000\",\"wide\":"
               "\"00000000000000000000000000000000\",\"ints\":[],\"numbers\":[],\"lists\":[],\"labels\":{},\"word\":\"\","
               "\"kind\":\"calm\"}"));
}

static void test_bad_answers(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"small\":4294967296}", "small: more than 4294967295 at byte 19"},
        {"{\"id\":\"00ff10\"}", "id: not 8 hexadecimal digits at byte 14"},
        {"{\"wide\":\"1\"}", "wide: not 32 hexadecimal digits at byte 11"},
        {"{\"ints\":[1,2,3,4]}", "ints[2]: too many ints (limit 3) at byte 15"},
        {"{\"two\":[1,2,3]}", "two: too many numbers (limit 2) at byte 12"},
        {"{\"lists\":[[1],2]}", "lists[1]: expected an array at byte 14"},
        {"{\"kind\":\"new\",\"maybe\":{\"kind\":\"newer\"},\"more\":[{}]}", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct answer x;
        struct arena a;
        struct err e;

        eq_int(read_answer(cases[i].text, RECORD_ANSWER, &a, &x, &e), cases[i].message ? -EINVAL : 0);
        eq_str(str_from(e.message), str_from(cases[i].message));
        arena_done(&a);
    }
}

static void test_a_list_alone(void)
{
    const struct record_field list = {.kind = RECORD_LIST, .fields = inner_fields, .size = sizeof(struct inner)};
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct record_list l = {0};
    struct arena a;
    struct err e = {0};

    arena_init(&a, 0);
    eq_int(record_read_value(STR("[{\"word\":\"a\"},{\"kind\":\"glad\"}]"), &list, RECORD_ANSWER, &a, &l, &e), 0);
    eq_int(l.n, 2);
    eq_int(((struct inner *) l.v)[1].kind, 1);
    record_put_value(&out, &list, &l);
    eq_str(buf_str(&out), STR("[{\"word\":\"a\",\"kind\":\"calm\"},{\"word\":\"\",\"kind\":\"glad\"}]"));
    eq_int(record_read_value(STR("[{\"word\":1}]"), &list, RECORD_ANSWER, &a, &l, &e), -EINVAL);
    arena_done(&a);
}

static void test_for_people(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    record_outline(&out, &(struct record_field){.kind = RECORD_ONE, .fields = fields});
    ok(str_find(buf_str(&out), STR("nicknames, friends[name, age], home{town}}")) > 0);
    buf_reset(&out);
    record_reference(&out, answer_fields, 0);
    ok(str_starts(buf_str(&out), STR("- `pair` (an integer, or two for a comparison, the answer's unit): of both\n")));
    ok(str_find(buf_str(&out), STR("- `maybe` (object)\n  - `word` (text)\n  - `kind` (word: calm, glad)\n")) > 0);
    ok(str_find(buf_str(&out), STR("\n- `kind` (word: calm, glad)\n- `depth` (integer, if any)\n")) > 0);
}

static void test_table(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct person people[] = {{.name = STR("Zo\xc3\xab"), .job = "baker", .age = 9},
                              {.name = STR("B\x1b"
                                           "b"),
                               .age = 123,
                               .seen = 1763200800000000000}};

    eq_int(record_text(&out, 0, fields, sizeof people[0], &(struct record_list){people, 2}, NULL), 0);
    eq_str(buf_str(&out), STR("NAME    JOB    AGE  SEEN\n"
                              "Zo\xc3\xab     baker    9  -\n"
                              "B\\x1bb  -      123  2025-11-15T10:00:00Z\n"));
}

static void test_schema(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    record_schema(&out, friend_fields);
    eq_str(buf_str(&out), STR("{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},"
                              "\"age\":{\"type\":\"integer\",\"maximum\":150}},\"required\":[\"name\"]}"));
}

static int torture_both_ways(void)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct arena a;
    struct person p;
    struct err e;
    int r = read_it(sample, RECORD_FILE, &a, &p, &e);

    if (r == 0) {
        record_put(&out, fields, &p);
        r = buf_error(&out);
    }
    arena_done(&a);
    return r;
}

int main(void)
{
    tap_run(test_there_and_back);
    tap_run(test_errors_have_a_place);
    tap_run(test_sources);
    tap_run(test_kinds_of_answers);
    tap_run(test_bad_answers);
    tap_run(test_a_list_alone);
    tap_run(test_for_people);
    tap_run(test_table);
    tap_run(test_schema);
    tap_torture(torture_both_ways);
    return tap_done();
}
