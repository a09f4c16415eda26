/* SPDX-License-Identifier: Apache-2.0 */
/* The base of the JSON decoder (otlp_json.h): errors, growing arrays, scalars, AnyValue. */
#include <math.h>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "codec/otlp_json.h"

/* --- errors and memory --- */

int otlp_json_stop(struct otlp_json *d, int r)
{
    if (!d->r.err)
        d->r.err = r;
    return d->r.err;
}

static const uint8_t *here(const struct otlp_json *d)
{
    return (const uint8_t *) d->r.p;
}

int otlp_json_check(struct otlp_json *d)
{
    if (d->r.err == -EINVAL && !d->w.at)
        wire_fail(&d->w, here(d), NULL, "%s", d->r.what ? d->r.what : "invalid JSON");
    return d->r.err;
}

/* Sets a sticky error of our own at byte `at`. */
static void fail_at(struct otlp_json *d, const char *at, const char *field, const char *what)
{
    if (d->r.err)
        return;
    wire_fail(&d->w, (const uint8_t *) at, field, "%s", what);
    d->r.err = -EINVAL;
}

void *otlp_json_add(struct otlp_json *d, enum otlp_array which, void *table, uint32_t *n, size_t size)
{
    void **p = table;

    if (d->r.err)
        return NULL;
    if (unlikely(*n >= d->cap[which])) {
        size_t cap = d->cap[which] ? d->cap[which] + d->cap[which] / 2 : 16, more = (cap - d->cap[which]) * size;
        void *q;

        if (d->used + d->b->arena.used + more > d->memory || cap > INT32_MAX) {
            otlp_json_stop(d, -EFBIG);
            return NULL;
        }
        q = mem_realloc(d->cap[which] ? *p : NULL, cap * size);
        if (!q) {
            otlp_json_stop(d, -ENOMEM);
            return NULL;
        }
        *p = d->b->owned[which] = q;
        d->cap[which] = cap;
        d->used += more;
    }
    return (char *) *p + (size_t) (*n)++ * size;
}

/* --- scalars --- */

static bool is_null(struct otlp_json *d)
{
    if (json_peek(&d->r) != JSON_NULL)
        return false;
    json_skip(&d->r);
    return true;
}

bool otlp_json_object(struct otlp_json *d)
{
    bool null = is_null(d);

    if (!null)
        json_begin_object(&d->r);
    if (unlikely(null || (d->r.p < d->r.end && *d->r.p == '}')) && ++d->empty > WIRE_EMPTY_MAX)
        otlp_json_stop(d, -EFBIG);
    return !null && !d->r.err;
}

bool otlp_json_array(struct otlp_json *d)
{
    if (is_null(d))
        return false;
    json_begin_array(&d->r);
    return !d->r.err;
}

uint32_t otlp_json_u32(struct otlp_json *d)
{
    const char *at = d->r.p;
    uint64_t v = json_u64(&d->r);

    if (v > UINT32_MAX)
        fail_at(d, at, NULL, "the number is larger than 32 bits");
    return (uint32_t) v;
}

uint32_t otlp_json_ref(struct otlp_json *d, const struct otlp_table *t, const char *field, bool optional)
{
    const uint8_t *at;
    uint32_t i = 0;
    int64_t v;
    int r;

    json_peek(&d->r); /* skips white space */
    at = here(d);
    v = json_i64(&d->r);
    if (d->r.err)
        return 0;
    r = optional ? otlp_ref_optional(t, (uint64_t) v, at, field, &d->w, &i)
                 : otlp_ref(t, (uint64_t) v, at, field, &d->w, &i);
    if (r < 0)
        d->r.err = r;
    return r < 0 ? 0 : i;
}

struct run otlp_json_refs(struct otlp_json *d, const struct otlp_table *t, const char *field)
{
    struct dict *dict = &d->b->dict;
    struct run run = {dict->n_indices, 0};

    if (!otlp_json_array(d))
        return (struct run){0};
    while (json_next_item(&d->r)) {
        uint32_t v = otlp_json_ref(d, t, "", false), *slot;

        if (d->r.err) {
            wire_path(&d->w, otlp_json_check(d), field, run.n);
            break;
        }
        slot = otlp_json_add(d, ARRAY_INDICES, &dict->indices, &dict->n_indices, sizeof *slot);
        if (slot)
            *slot = v;
        run.n++;
    }
    return run.n ? run : (struct run){0};
}

void otlp_json_id(struct otlp_json *d, const char *field, uint8_t *ret, size_t n)
{
    const char *at = d->r.p;
    struct str s = json_str(&d->r);
    uint8_t tmp[64];

    if (d->r.err || !s.n)
        return;
    if (s.n == 2 * n && hex_decode(s, ret) == 0)
        return;
    if (s.n <= 44 && base64_decode(s, tmp) == (ssize_t) n)
        memcpy(ret, tmp, n);
    else
        fail_at(d, at, field, "it is neither hex nor base64 of the right length");
}

struct str otlp_json_bytes(struct otlp_json *d, const char *field)
{
    const char *at = d->r.p;
    struct str s = json_str(&d->r);
    char *q;
    ssize_t n;
    int r;

    if (d->r.err || !s.n)
        return (struct str){0};
    r = otlp_alloc(&d->b->arena, 1, base64_decoded_max(s), &q);
    if (r < 0) {
        otlp_json_stop(d, r);
        return (struct str){0};
    }
    n = base64_decode(s, q);
    if (n < 0)
        fail_at(d, at, field, "it is not base64");
    return n < 0 ? (struct str){0} : (struct str){q, (uint32_t) n};
}

/* --- values --- */

/* Moves the content of the scratch buffer from `base` on into the arena. */
static void *keep_list(struct otlp_json *d, size_t base, size_t size)
{
    size_t n = d->scratch.n - base;
    void *p = NULL;
    int r;

    if (d->r.err || !n)
        return NULL;
    r = buf_error(&d->scratch);
    if (r == 0)
        r = otlp_alloc(&d->b->arena, n / size, size, &p);
    if (r < 0) {
        otlp_json_stop(d, r);
        return NULL;
    }
    memcpy(p, d->scratch.p + base, n);
    d->scratch.n = base;
    return p;
}

static int read_kv(struct otlp_json *d, unsigned depth, struct kv *ret)
{
    struct str key;
    uint32_t i;
    int r = 0;

    *ret = (struct kv){0};
    if (!otlp_json_object(d))
        return otlp_json_check(d);
    while (r == 0 && json_next_key(&d->r, &key)) {
        if (KEY_IS(key, "key")) {
            struct str s = json_str(&d->r);

            if (s.n || !ret->key.n)
                ret->key = s;
        } else if (KEY_IS(key, "value")) {
            r = wire_path(&d->w, otlp_json_value(d, depth, &ret->value), "value", WIRE_NO_INDEX);
        } else if (KEY_IS(key, "keyStrindex")) {
            i = otlp_json_ref(d, &d->strings, "keyStrindex", true);
            if (i)
                ret->key = d->b->dict.strings[i];
        } else {
            json_skip(&d->r);
        }
    }
    return otlp_json_check(d);
}

int otlp_json_kvs(struct otlp_json *d, const char *field, unsigned depth, struct kvs *ret)
{
    size_t base = d->scratch.n;
    uint32_t n = 0;

    *ret = (struct kvs){0};
    if (otlp_json_array(d))
        while (json_next_item(&d->r)) {
            struct kv kv;

            if (wire_path(&d->w, read_kv(d, depth, &kv), field, n) < 0)
                break;
            buf_put(&d->scratch, &kv, sizeof kv);
            n++;
        }
    ret->v = keep_list(d, base, sizeof *ret->v);
    ret->n = ret->v ? n : 0;
    d->scratch.n = base;
    return otlp_json_check(d);
}

static int read_array(struct otlp_json *d, unsigned depth, struct value *ret)
{
    size_t base = d->scratch.n;
    uint32_t n = 0;

    if (otlp_json_array(d))
        while (json_next_item(&d->r)) {
            struct value v;

            if (wire_path(&d->w, otlp_json_value(d, depth, &v), "values", n) < 0)
                break;
            buf_put(&d->scratch, &v, sizeof v);
            n++;
        }
    ret->array = keep_list(d, base, sizeof *ret->array);
    ret->n = ret->array ? n : 0;
    d->scratch.n = base;
    return otlp_json_check(d);
}

/* {"values": [...]} of an arrayValue or kvlistValue. */
static int read_list(struct otlp_json *d, enum value_kind kind, unsigned depth, struct value *ret)
{
    struct str key;
    struct kvs kvs;
    int r = 0;

    *ret = (struct value){.kind = (uint8_t) kind};
    if (depth >= OTLP_VALUE_DEPTH_MAX)
        fail_at(d, d->r.p, NULL, "lists are nested too deeply");
    if (d->r.err || !otlp_json_object(d))
        return otlp_json_check(d);
    while (r == 0 && json_next_key(&d->r, &key)) {
        if (!KEY_IS(key, "values")) {
            json_skip(&d->r);
        } else if (kind == VALUE_ARRAY) {
            r = read_array(d, depth + 1, ret);
        } else {
            r = otlp_json_kvs(d, "values", depth + 1, &kvs);
            if (r == 0)
                *ret = (struct value){.kind = VALUE_MAP, .n = kvs.n, .map = kvs.v};
        }
    }
    return otlp_json_check(d);
}

static double read_double(struct otlp_json *d)
{
    struct json before = d->r;

    if (json_peek(&d->r) == JSON_STRING) {
        struct str s = json_str(&d->r);

        if (KEY_IS(s, "NaN"))
            return NAN;
        if (KEY_IS(s, "Infinity"))
            return INFINITY;
        if (KEY_IS(s, "-Infinity"))
            return -INFINITY;
        d->r = before;
    }
    return json_double(&d->r);
}

static struct value value_of(enum value_kind kind, struct str s)
{
    return (struct value){.kind = (uint8_t) kind, .n = s.n, .str = s.p};
}

int otlp_json_value(struct otlp_json *d, unsigned depth, struct value *ret)
{
    struct str key;
    int r = 0;

    *ret = (struct value){.kind = VALUE_EMPTY};
    if (!otlp_json_object(d))
        return otlp_json_check(d);
    while (r == 0 && json_next_key(&d->r, &key)) {
        if (json_peek(&d->r) == JSON_NULL)
            json_skip(&d->r); /* a member of a oneof that is not set */
        else if (KEY_IS(key, "stringValue"))
            *ret = value_of(VALUE_STR, json_str(&d->r));
        else if (KEY_IS(key, "boolValue"))
            *ret = (struct value){.kind = VALUE_BOOL, .boolean = json_bool(&d->r)};
        else if (KEY_IS(key, "intValue"))
            *ret = (struct value){.kind = VALUE_INT, .integer = json_i64(&d->r)};
        else if (KEY_IS(key, "doubleValue"))
            *ret = (struct value){.kind = VALUE_DOUBLE, .number = read_double(d)};
        else if (KEY_IS(key, "arrayValue"))
            r = wire_path(&d->w, read_list(d, VALUE_ARRAY, depth, ret), "arrayValue", WIRE_NO_INDEX);
        else if (KEY_IS(key, "kvlistValue"))
            r = wire_path(&d->w, read_list(d, VALUE_MAP, depth, ret), "kvlistValue", WIRE_NO_INDEX);
        else if (KEY_IS(key, "bytesValue"))
            *ret = value_of(VALUE_BYTES, otlp_json_bytes(d, "bytesValue"));
        else if (KEY_IS(key, "stringValueStrindex"))
            *ret = value_of(VALUE_STR, d->b->dict.strings[otlp_json_ref(d, &d->strings, "stringValueStrindex", false)]);
        else
            json_skip(&d->r);
    }
    return otlp_json_check(d);
}
