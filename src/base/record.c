/* SPDX-License-Identifier: Apache-2.0 */
/* Records to JSON and back: see record.h. */
#include "base/record.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"

enum { DEPTH_MAX = 8, ID_DIGITS = 16, FIRST_ITEMS = 8 };

struct reader {
    struct json *j;
    struct arena *arena;
    enum record_source from;
    uint32_t depth; /* the path to what is read now: it stays as it is after the first error */
    struct {
        const char *name;
        uint32_t index; /* UINT32_MAX: not in a list */
    } path[DEPTH_MAX];
};

static void get_record(struct reader *r, const struct record_field *fields, void *record);
static void get_value(struct reader *r, const struct record_field *f, void *at);

static const void *place(const struct record_field *f, const void *record)
{
    return (const char *) record + f->offset;
}

/* text: NULL when there was no memory for it. */
static void fail(struct reader *r, const char *text)
{
    json_fail(r->j, text ? text : "invalid value");
}

/* --- text --- */

static struct str text_of(const struct record_field *f, const void *at)
{
    const char *text = f->kind == RECORD_CHARS ? at : f->kind == RECORD_TEXT ? *(const char *const *) at : NULL;

    return f->kind == RECORD_STR ? *(const struct str *) at : text ? str_from(text) : (struct str){"", 0};
}

static bool is_no_text(const struct record_field *f, const void *at)
{
    return text_of(f, at).n == 0;
}

static void put_text(struct buf *out, const struct record_field *f, const void *at)
{
    json_put_str(out, text_of(f, at));
}

static struct str read_str(struct reader *r, const struct record_field *f)
{
    struct str s = json_str(r->j);

    if (f->limit && s.n > f->limit)
        fail(r, arena_printf(r->arena, "longer than %llu bytes", (unsigned long long) f->limit));
    return s;
}

static void get_str(struct reader *r, const struct record_field *f, void *at)
{
    *(struct str *) at = read_str(r, f);
}

static void get_text(struct reader *r, const struct record_field *f, void *at)
{
    *(const char **) at = arena_cstr(r->arena, read_str(r, f));
}

static void get_chars(struct reader *r, const struct record_field *f, void *at)
{
    struct str s = json_str(r->j);

    if (s.n >= f->size)
        fail(r, arena_printf(r->arena, "longer than %llu bytes", (unsigned long long) (f->size - 1)));
    else if (s.n)
        memcpy(at, s.p, s.n);
    ((char *) at)[r->j->err ? 0 : s.n] = 0;
}

/* --- numbers --- */

static bool is_false(const struct record_field *f, const void *at)
{
    (void) f;
    return !*(const bool *) at;
}

static void put_bool(struct buf *out, const struct record_field *f, const void *at)
{
    buf_puts(out, is_false(f, at) ? "false" : "true");
}

static void get_bool(struct reader *r, const struct record_field *f, void *at)
{
    (void) f;
    *(bool *) at = json_bool(r->j);
}

static bool is_zero_64(const struct record_field *f, const void *at)
{
    (void) f;
    return *(const int64_t *) at == 0;
}

static bool is_zero_32(const struct record_field *f, const void *at)
{
    (void) f;
    return *(const uint32_t *) at == 0;
}

static void put_int(struct buf *out, const struct record_field *f, const void *at)
{
    (void) f;
    json_put_i64(out, *(const int64_t *) at);
}

static void get_int(struct reader *r, const struct record_field *f, void *at)
{
    int64_t v = json_i64(r->j);

    if (f->limit && (v < 0 || (uint64_t) v > f->limit))
        fail(r, arena_printf(r->arena, "not between 0 and %llu", (unsigned long long) f->limit));
    *(int64_t *) at = v;
}

static void put_count(struct buf *out, const struct record_field *f, const void *at)
{
    json_put_u64(out, f->kind == RECORD_U32 ? *(const uint32_t *) at : *(const uint64_t *) at);
}

static void get_count(struct reader *r, const struct record_field *f, void *at)
{
    uint64_t v = json_u64(r->j), max = f->limit ? f->limit : f->kind == RECORD_U32 ? UINT32_MAX : UINT64_MAX;

    if (v > max)
        fail(r, arena_printf(r->arena, "more than %llu", (unsigned long long) max));
    if (f->kind == RECORD_U32)
        *(uint32_t *) at = (uint32_t) v;
    else
        *(uint64_t *) at = v;
}

static bool is_zero_number(const struct record_field *f, const void *at)
{
    (void) f;
    return *(const double *) at == 0;
}

static void put_number(struct buf *out, const struct record_field *f, const void *at)
{
    if (f->limit)
        buf_printf(out, "%.*g", (int) f->limit, *(const double *) at);
    else
        json_put_double(out, *(const double *) at);
}

static void get_number(struct reader *r, const struct record_field *f, void *at)
{
    (void) f;
    *(double *) at = json_double(r->j);
}

/* --- pairs --- */

static uint32_t *pair_count(const struct record_field *f, const void *at)
{
    return (uint32_t *) ((uintptr_t) at - f->offset + f->size);
}

static void put_pair(struct buf *out, const struct record_field *f, const void *at)
{
    const int64_t *v = at;

    if (*pair_count(f, at) == 2)
        buf_printf(out, "[%lld,%lld]", (long long) v[0], (long long) v[1]);
    else
        json_put_i64(out, v[0]);
}

/* What follows the second number is ignored. */
static void get_pair(struct reader *r, const struct record_field *f, void *at)
{
    int64_t *v = at;

    v[0] = v[1] = 0;
    if (json_peek(r->j) != JSON_ARRAY) {
        v[0] = json_i64(r->j);
        *pair_count(f, at) = MAX(*pair_count(f, at), 1u);
        return;
    }
    json_begin_array(r->j);
    for (size_t i = 0; json_next_item(r->j); i++)
        if (i < 2)
            v[i] = json_i64(r->j);
        else
            json_skip(r->j);
    *pair_count(f, at) = 2;
}

static bool is_zero_pair(const struct record_field *f, const void *at)
{
    const int64_t *v = at;

    (void) f;
    return !v[0] && !v[1];
}

static void put_numbers2(struct buf *out, const struct record_field *f, const void *at)
{
    const double *v = at;

    buf_putc(out, '[');
    put_number(out, f, &v[0]);
    buf_putc(out, ',');
    put_number(out, f, &v[1]);
    buf_putc(out, ']');
}

static void get_numbers2(struct reader *r, const struct record_field *f, void *at)
{
    double *v = at;

    (void) f;
    json_begin_array(r->j);
    for (size_t i = 0; json_next_item_of(r->j, i, 2, "numbers"); i++)
        v[i] = json_double(r->j);
}

/* --- times, IDs, words --- */

static void put_ns(struct buf *out, const struct record_field *f, const void *at)
{
    (void) f;
    buf_printf(out, "\"%lld\"", (long long) *(const int64_t *) at);
}

static void get_ns(struct reader *r, const struct record_field *f, void *at)
{
    int64_t v = json_i64(r->j);

    (void) f;
    if (r->from != RECORD_ANSWER && (v < 0 || v > CLOCK_MAX))
        fail(r, "not a time in nanoseconds since 1970");
    *(int64_t *) at = v;
}

static void put_time(struct buf *out, const struct record_field *f, const void *at)
{
    if (is_zero_64(f, at)) {
        buf_puts(out, "null");
        return;
    }
    buf_putc(out, '"');
    clock_format(out, *(const int64_t *) at);
    buf_putc(out, '"');
}

static void get_time(struct reader *r, const struct record_field *f, void *at)
{
    struct str s = json_str(r->j);

    (void) f;
    *(int64_t *) at = 0;
    if (s.n && clock_parse(s, 0, at, NULL) < 0)
        fail(r, "not a time");
}

static void put_id(struct buf *out, const struct record_field *f, const void *at)
{
    const uint64_t *v = at;

    buf_printf(out, "\"%016llx", (unsigned long long) v[0]);
    if (f->size)
        buf_printf(out, "%016llx", (unsigned long long) v[1]);
    buf_putc(out, '"');
}

static void get_id(struct reader *r, const struct record_field *f, void *at)
{
    struct str s = json_str(r->j);
    uint32_t digits = f->size ? 2 * ID_DIGITS : ID_DIGITS;
    bool ok = s.n == digits;

    for (uint32_t i = 0; ok && i < digits / ID_DIGITS; i++)
        ok = hex_number(str_slice(s, i * ID_DIGITS, (i + 1) * ID_DIGITS), (uint64_t *) at + i);
    if (!ok)
        fail(r, arena_printf(r->arena, "not %u hexadecimal digits", digits));
}

static bool is_zero_bytes(const struct record_field *f, const void *at)
{
    for (size_t i = 0; i < f->size; i++)
        if (((const uint8_t *) at)[i])
            return false;
    return true;
}

static void put_hex(struct buf *out, const struct record_field *f, const void *at)
{
    buf_putc(out, '"');
    hex_encode(out, at, f->size);
    buf_putc(out, '"');
}

static void get_hex(struct reader *r, const struct record_field *f, void *at)
{
    struct str s = json_str(r->j);

    if (s.n != 2 * f->size || hex_decode(s, at) < 0)
        fail(r, arena_printf(r->arena, "not %zu hexadecimal digits", 2 * (size_t) f->size));
}

static int word_at(const struct record_field *f, const void *at)
{
    return f->size ? *(const uint8_t *) at : *(const int *) at;
}

static bool is_first_word(const struct record_field *f, const void *at)
{
    return word_at(f, at) == 0;
}

static void put_word(struct buf *out, const struct record_field *f, const void *at)
{
    json_put_str(out, str_from(f->words[word_at(f, at)]));
}

static void get_word(struct reader *r, const struct record_field *f, void *at)
{
    struct str s = json_str(r->j);
    int i = 0;

    while (f->words[i] && !str_is(s, f->words[i]))
        i++;
    if (!f->words[i] && r->from != RECORD_ANSWER)
        fail(r, "not one of its words");
    i = f->words[i] ? i : 0;
    if (f->size)
        *(uint8_t *) at = (uint8_t) i;
    else
        *(int *) at = i;
}

/* --- lists --- */

/* Copied, because the pointer is one to the items' own type. */
struct record_list record_list_at(const void *at)
{
    struct record_list l;

    memcpy(&l.v, at, sizeof l.v);
    memcpy(&l.n, (const char *) at + sizeof l.v, sizeof l.n);
    return l;
}

static bool is_empty_list(const struct record_field *f, const void *at)
{
    (void) f;
    return record_list_at(at).n == 0;
}

/* An item as a field: that of a list of structs has no name or place of its own. */
static struct record_field item_of(const struct record_field *f)
{
    static const struct record_field items[] = {
        [RECORD_STRS] = {.kind = RECORD_STR, .size = sizeof(struct str)},
        [RECORD_INTS] = {.kind = RECORD_INT, .size = sizeof(int64_t)},
        [RECORD_NUMBERS] = {.kind = RECORD_NUMBER, .size = sizeof(double)},
        [RECORD_LISTS] = {.kind = RECORD_INTS, .size = sizeof(struct record_list)},
    };

    return f->kind == RECORD_LIST ? (struct record_field){.kind = RECORD_ONE, .fields = f->fields, .size = f->size}
                                  : items[f->kind];
}

static void put_list(struct buf *out, const struct record_field *f, const void *at)
{
    struct record_list l = record_list_at(at);
    struct record_field item = item_of(f);

    buf_putc(out, '[');
    for (uint32_t i = 0; i < l.n; i++) {
        if (i)
            buf_putc(out, ',');
        record_put_value(out, &item, (const char *) l.v + i * item.size);
    }
    buf_putc(out, ']');
}

/* Room for one more item; NULL: there is an error now. */
static void *next_item(struct reader *r, struct record_list *l, uint32_t *cap, size_t size)
{
    if (l->n == *cap) {
        uint32_t more = *cap ? 2 * *cap : FIRST_ITEMS;
        void *v = arena_zalloc_array(r->arena, more, size);

        if (!v) {
            r->j->err = -ENOMEM;
            return NULL;
        }
        if (l->n)
            memcpy(v, l->v, l->n * size);
        l->v = v;
        *cap = more;
    }
    if (r->depth)
        r->path[r->depth - 1].index = l->n;
    return (char *) l->v + l->n++ * size;
}

static void set_list(void *at, const struct record_list *l)
{
    memcpy(at, &l->v, sizeof l->v);
    memcpy((char *) at + sizeof l->v, &l->n, sizeof l->n);
}

static void get_list(struct reader *r, const struct record_field *f, void *at)
{
    struct record_field item = item_of(f);
    struct record_list l = {0};
    uint32_t cap = 0;
    void *to;

    set_list(at, &l);
    if (json_peek(r->j) == JSON_NULL) {
        json_skip(r->j);
        return;
    }
    json_begin_array(r->j);
    while (json_next_item_of(r->j, l.n, f->limit ? f->limit : UINT32_MAX, f->name) &&
           (to = next_item(r, &l, &cap, item.size)))
        get_value(r, &item, to);
    set_list(at, &l);
}

static void put_map(struct buf *out, const struct record_field *f, const void *at)
{
    struct record_list l = record_list_at(at);
    const struct record_entry *v = l.v;

    (void) f;
    buf_putc(out, '{');
    for (uint32_t i = 0; i < l.n; i++) {
        if (i)
            buf_putc(out, ',');
        json_put_str(out, v[i].name);
        buf_putc(out, ':');
        json_put_str(out, v[i].value);
    }
    buf_putc(out, '}');
}

static void get_map(struct reader *r, const struct record_field *f, void *at)
{
    struct record_list l = {0};
    struct record_entry *to;
    uint32_t cap = 0;
    struct str key;

    (void) f;
    set_list(at, &l);
    if (json_peek(r->j) == JSON_NULL) {
        json_skip(r->j);
        return;
    }
    json_begin_object(r->j);
    while (json_next_key(r->j, &key) && (to = next_item(r, &l, &cap, sizeof *to)))
        *to = (struct record_entry){key, json_str(r->j)};
    set_list(at, &l);
}

/* --- structs in structs --- */

static void put_one(struct buf *out, const struct record_field *f, const void *at)
{
    record_put(out, f->fields, at);
}

static void get_one(struct reader *r, const struct record_field *f, void *at)
{
    get_record(r, f->fields, at);
}

static bool is_null(const struct record_field *f, const void *at)
{
    (void) f;
    return !*(const void *const *) at;
}

static void put_maybe(struct buf *out, const struct record_field *f, const void *at)
{
    record_put(out, f->fields, *(const void *const *) at);
}

static void get_maybe(struct reader *r, const struct record_field *f, void *at)
{
    void *one = arena_zalloc_array(r->arena, 1, f->size);

    *(void **) at = one;
    if (one)
        get_record(r, f->fields, one);
    else
        r->j->err = -ENOMEM;
}

/* --- kinds --- */

static const struct kind {
    bool (*is_empty)(const struct record_field *f, const void *at); /* NULL: never */
    void (*put)(struct buf *out, const struct record_field *f, const void *at);
    void (*get)(struct reader *r, const struct record_field *f, void *at);
} kinds[] = {
    [RECORD_STR] = {is_no_text, put_text, get_str},
    [RECORD_TEXT] = {is_no_text, put_text, get_text},
    [RECORD_CHARS] = {is_no_text, put_text, get_chars},
    [RECORD_BOOL] = {is_false, put_bool, get_bool},
    [RECORD_INT] = {is_zero_64, put_int, get_int},
    [RECORD_COUNT] = {is_zero_64, put_count, get_count},
    [RECORD_U32] = {is_zero_32, put_count, get_count},
    [RECORD_NUMBER] = {is_zero_number, put_number, get_number},
    [RECORD_PAIR] = {is_zero_pair, put_pair, get_pair},
    [RECORD_NUMBERS2] = {NULL, put_numbers2, get_numbers2},
    [RECORD_NS] = {is_zero_64, put_ns, get_ns},
    [RECORD_TIME] = {is_zero_64, put_time, get_time},
    [RECORD_ID] = {is_zero_64, put_id, get_id},
    [RECORD_BYTES] = {is_zero_bytes, put_hex, get_hex},
    [RECORD_WORD] = {is_first_word, put_word, get_word},
    [RECORD_STRS] = {is_empty_list, put_list, get_list},
    [RECORD_INTS] = {is_empty_list, put_list, get_list},
    [RECORD_NUMBERS] = {is_empty_list, put_list, get_list},
    [RECORD_LISTS] = {is_empty_list, put_list, get_list},
    [RECORD_MAP] = {is_empty_list, put_map, get_map},
    [RECORD_ONE] = {NULL, put_one, get_one},
    [RECORD_MAYBE] = {is_null, put_maybe, get_maybe},
    [RECORD_LIST] = {is_empty_list, put_list, get_list},
};

/* --- writing --- */

static bool is_empty(const struct record_field *f, const void *at)
{
    return kinds[f->kind].is_empty && kinds[f->kind].is_empty(f, at);
}

static bool is_written(const struct record_field *f, const void *record)
{
    if (f->when && !*((const bool *) record + f->when))
        return false;
    return !((f->flags & RECORD_SPARSE || f->kind == RECORD_MAYBE) && is_empty(f, place(f, record)));
}

void record_put_value(struct buf *out, const struct record_field *f, const void *value)
{
    kinds[f->kind].put(out, f, value);
}

void record_put_list(struct buf *out, const struct record_field *fields, size_t size, const struct record_list *l)
{
    put_list(out, &(struct record_field){.kind = RECORD_LIST, .fields = fields, .size = size}, l);
}

void record_put_fields(struct buf *out, bool *first, const struct record_field *fields, const void *record)
{
    for (const struct record_field *f = fields; f->kind; f++) {
        if (f->kind == RECORD_INLINE)
            record_put_fields(out, first, f->fields, place(f, record));
        if (f->kind == RECORD_INLINE || !is_written(f, record))
            continue;
        json_put_key(out, first, f->name);
        record_put_value(out, f, place(f, record));
    }
}

void record_put(struct buf *out, const struct record_field *fields, const void *record)
{
    bool first = true;

    buf_putc(out, '{');
    record_put_fields(out, &first, fields, record);
    buf_putc(out, '}');
}

/* --- reading --- */

static void get_value(struct reader *r, const struct record_field *f, void *at)
{
    kinds[f->kind].get(r, f, at);
}

static void fail_unknown(struct reader *r, const struct record_field *fields, struct str key)
{
    struct str_guess guess = {key};

    for (const struct record_field *f = fields; f->kind; f++)
        str_guess_offer(&guess, f->name);
    fail(r, arena_printf(r->arena, "unknown key '%.*s'%s%s%s", (int) MIN(key.n, 80u), key.p,
                         guess.best ? "; did you mean '" : "", guess.best ? guess.best : "", guess.best ? "'?" : ""));
}

/* The field of this name; *record becomes the struct that it is in. */
static const struct record_field *find_field(const struct record_field *f, struct str key, char **record)
{
    for (; f->kind; f++) {
        char *in = *record + f->offset;
        const struct record_field *found = f->kind == RECORD_INLINE ? find_field(f->fields, key, &in) : NULL;

        if (found) {
            *record = in;
            return found;
        }
        if (f->kind != RECORD_INLINE && str_is(key, f->name))
            return f;
    }
    return NULL;
}

static void get_field(struct reader *r, const struct record_field *fields, struct str key, char *record)
{
    const struct record_field *f = find_field(fields, key, &record);

    if (!f && r->from == RECORD_CLIENT)
        fail_unknown(r, fields, key);
    else if (!f || (f->flags & RECORD_OURS && r->from == RECORD_CLIENT))
        json_skip(r->j);
    else if (r->depth == DEPTH_MAX)
        fail(r, "nested too deeply");
    else {
        r->path[r->depth].name = f->name;
        r->path[r->depth++].index = UINT32_MAX;
        if (f->when)
            *(bool *) (record + f->when) = true;
        get_value(r, f, record + f->offset);
        r->depth -= !r->j->err;
    }
}

static void get_record(struct reader *r, const struct record_field *fields, void *record)
{
    struct str key;

    if (json_peek(r->j) == JSON_NULL) {
        json_skip(r->j);
        return;
    }
    json_begin_object(r->j);
    while (json_next_key(r->j, &key))
        get_field(r, fields, key, record);
    for (const struct record_field *f = fields; !r->j->err && f->kind; f++) {
        if (f->kind == RECORD_TEXT && !*(const char **) ((char *) record + f->offset))
            *(const char **) ((char *) record + f->offset) = "";
        if (f->flags & RECORD_REQUIRED && is_empty(f, place(f, record)))
            fail(r, arena_printf(r->arena, "%s is missing", f->name));
    }
}

static int set_error(const struct reader *r, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;

    if (r->j->err == -ENOMEM)
        return -ENOMEM;
    for (uint32_t i = 0; i < r->depth; i++) {
        buf_printf(&path, "%s%s", i ? "." : "", r->path[i].name);
        if (r->path[i].index != UINT32_MAX)
            buf_printf(&path, "[%u]", r->path[i].index);
    }
    if (path.n)
        buf_puts(&path, ": ");
    return err_set(e, r->j->err, "%.*s%s at byte %zu", STR_FMT(buf_str(&path)),
                   r->j->what ? r->j->what : "invalid JSON", (size_t) (r->j->p - r->j->start));
}

int record_read_value(struct str text, const struct record_field *f, enum record_source from, struct arena *a,
                      void *ret, struct err *e)
{
    struct json j;
    struct reader r = {.j = &j, .arena = a, .from = from};

    json_init(&j, text, a);
    get_value(&r, f, ret);
    if (json_end(&j) < 0)
        return set_error(&r, e);
    return a->failed ? -ENOMEM : 0;
}

int record_read(struct str text, const struct record_field *fields, enum record_source from, struct arena *a, void *ret,
                struct err *e)
{
    return record_read_value(text, &(struct record_field){.kind = RECORD_ONE, .fields = fields}, from, a, ret, e);
}
