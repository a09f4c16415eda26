/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes AnyValue and KeyValue (otlp_value.h). Lists are counted, then filled: memory is proportional to the elements
 * that are present. */
#include "codec/otlp_value.h"

enum { ARENA_SLACK = 1 << 20 }; /* maximum size of an arena's chunk */

int otlp_alloc(struct arena *a, uint64_t n, size_t size, void *ret)
{
    uint64_t total = n * size;
    void *p = n <= SIZE_MAX / 2 / size ? arena_alloc(a, total) : NULL;

    if (!p)
        return a->limit && a->used + total + ARENA_SLACK > a->limit ? -EFBIG : -ENOMEM;
    memcpy(ret, &p, sizeof p);
    return 0;
}

/* Counts the elements of the LEN field with this tag in [p, end). */
static int count_field(struct otlp_values *d, const uint8_t *p, const uint8_t *end, uint32_t tag, uint32_t *ret)
{
    struct wire_field f;
    uint32_t n = 0;
    int r = 0;

    while (wire_each(d->w, &p, end, &f, &r))
        n += f.tag == tag;
    if (r == 0)
        *ret = n;
    return r;
}

static int decode_kv(struct otlp_values *d, const uint8_t *p, const uint8_t *end, struct kv *ret)
{
    struct wire_field f;
    uint32_t i = 0;
    int r = 0;

    *ret = (struct kv){0};
    while (wire_each(d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            if (f.v || !ret->key.n) /* an empty key beside a reference counts as not set */
                ret->key = wire_str(&f);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            r = wire_path(d->w, otlp_value_decode(d, f.data, p, &ret->value), "value", WIRE_NO_INDEX);
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            r = otlp_ref_optional(&d->string_table, f.v, f.at, "key_strindex", d->w, &i);
            if (r == 0 && i)
                ret->key = d->strings[i];
            break;
        }
    }
    return r;
}

static int alloc_kvs(struct otlp_values *d, uint32_t n, struct kv **ret)
{
    if (d->depth || n > d->n_pool)
        return otlp_alloc(d->arena, n, sizeof **ret, ret);
    *ret = d->pool;
    d->pool += n;
    d->n_pool -= n;
    return 0;
}

int otlp_kvs_decode(struct otlp_values *d, const uint8_t *p, const uint8_t *end, uint32_t field, const char *name,
                    struct kvs *ret)
{
    uint32_t tag = WIRE_TAG(field, WIRE_LEN), i = 0, n = 0;
    int r = count_field(d, p, end, tag, &n);

    *ret = (struct kvs){0};
    if (r < 0 || !n)
        return r;
    r = alloc_kvs(d, n, &ret->v);
    if (r < 0)
        return r;
    ret->n = n;
    while (i < n) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        if (f.tag != tag)
            continue;
        r = decode_kv(d, f.data, p, &ret->v[i]);
        if (r < 0)
            return wire_path(d->w, r, name, i);
        i++;
    }
    return 0;
}

static int decode_array(struct otlp_values *d, const uint8_t *p, const uint8_t *end, struct value *ret)
{
    uint32_t i = 0, n = 0;
    int r = count_field(d, p, end, WIRE_TAG(1, WIRE_LEN), &n);

    if (r < 0)
        return r;
    *ret = (struct value){.kind = VALUE_ARRAY, .n = n};
    if (!n)
        return 0;
    r = otlp_alloc(d->arena, n, sizeof *ret->array, &ret->array);
    if (r < 0)
        return r;
    while (i < n) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        if (f.tag != WIRE_TAG(1, WIRE_LEN))
            continue;
        r = otlp_value_decode(d, f.data, p, &ret->array[i]);
        if (r < 0)
            return wire_path(d->w, r, "values", i);
        i++;
    }
    return 0;
}

static int decode_list(struct otlp_values *d, const struct wire_field *f, struct value *ret)
{
    const uint8_t *end = f->data + f->v;
    struct kvs kvs;
    int r;

    if (d->depth >= OTLP_VALUE_DEPTH_MAX)
        return wire_fail(d->w, f->at, NULL, "lists are nested more than %d deep", OTLP_VALUE_DEPTH_MAX);
    d->depth++;
    if (f->tag == WIRE_TAG(5, WIRE_LEN)) {
        r = wire_path(d->w, decode_array(d, f->data, end, ret), "array_value", WIRE_NO_INDEX);
    } else {
        r = wire_path(d->w, otlp_kvs_decode(d, f->data, end, 1, "values", &kvs), "kvlist_value", WIRE_NO_INDEX);
        if (r >= 0)
            *ret = (struct value){.kind = VALUE_MAP, .n = kvs.n, .map = kvs.v};
    }
    d->depth--;
    return r;
}

int otlp_value_decode(struct otlp_values *d, const uint8_t *p, const uint8_t *end, struct value *ret)
{
    struct wire_field f;
    uint32_t i = 0;
    int r = 0;

    *ret = (struct value){.kind = VALUE_EMPTY};
    while (wire_each(d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            *ret = (struct value){.kind = VALUE_STR, .n = (uint32_t) f.v, .str = (const char *) f.data};
            break;
        case WIRE_TAG(2, WIRE_VARINT):
            *ret = (struct value){.kind = VALUE_BOOL, .boolean = f.v != 0};
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            *ret = (struct value){.kind = VALUE_INT, .integer = (int64_t) f.v};
            break;
        case WIRE_TAG(4, WIRE_I64):
            *ret = (struct value){.kind = VALUE_DOUBLE};
            memcpy(&ret->number, &f.v, sizeof ret->number);
            break;
        case WIRE_TAG(5, WIRE_LEN):
        case WIRE_TAG(6, WIRE_LEN):
            r = decode_list(d, &f, ret);
            break;
        case WIRE_TAG(7, WIRE_LEN):
            *ret = (struct value){.kind = VALUE_BYTES, .n = (uint32_t) f.v, .str = (const char *) f.data};
            break;
        case WIRE_TAG(8, WIRE_VARINT):
            r = otlp_ref(&d->string_table, f.v, f.at, "string_value_strindex", d->w, &i);
            if (r == 0)
                *ret = (struct value){.kind = VALUE_STR, .n = d->strings[i].n, .str = d->strings[i].p};
            break;
        }
    }
    return r;
}
