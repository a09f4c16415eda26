/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes attributes, resources, scopes, headers and mappings of a batch as blobs, and decodes them; see blobs.h. */
#include "store/engines/segment/format/blobs.h"

#include <errno.h>

#include "model/labels.h"

enum { DEPTH_MAX = 32 };

static void put_str(struct buf *b, struct str s)
{
    put_bytes(b, s.p, s.n);
}

static void put_value(struct buf *b, const struct value *v, int depth)
{
    if (depth > DEPTH_MAX) {
        buf_putc(b, VALUE_EMPTY);
        return;
    }
    buf_putc(b, (char) v->kind);
    switch (v->kind) {
    case VALUE_STR:
    case VALUE_BYTES:
        put_str(b, value_str(v));
        break;
    case VALUE_BOOL:
        buf_putc(b, v->boolean);
        break;
    case VALUE_INT:
        put_zigzag(b, v->integer);
        break;
    case VALUE_DOUBLE: {
        uint64_t u;

        memcpy(&u, &v->number, 8);
        put_u64(b, u);
        break;
    }
    case VALUE_ARRAY:
        put_varint(b, v->n);
        for (uint32_t i = 0; i < v->n; i++)
            put_value(b, &v->array[i], depth + 1);
        break;
    case VALUE_MAP:
        put_varint(b, v->n);
        for (uint32_t i = 0; i < v->n; i++) {
            put_str(b, v->map[i].key);
            put_value(b, &v->map[i].value, depth + 1);
        }
        break;
    default:
        break;
    }
}

/* Lists are allocated in the arena. */
static void get_value(struct cursor *r, struct arena *a, struct value *v, int depth)
{
    const unsigned char *kind = get_raw(r, 1);

    *v = (struct value){.kind = kind ? *kind : VALUE_EMPTY};
    if (!kind || depth > DEPTH_MAX || v->kind > VALUE_MAP) {
        r->bad = true;
        v->kind = VALUE_EMPTY;
        return;
    }
    if (v->kind == VALUE_STR || v->kind == VALUE_BYTES) {
        struct str s = get_bytes(r);

        v->str = s.p;
        v->n = s.n;
    } else if (v->kind == VALUE_BOOL) {
        const unsigned char *p = get_raw(r, 1);

        v->boolean = p && *p;
    } else if (v->kind == VALUE_INT) {
        v->integer = get_zigzag(r);
    } else if (v->kind == VALUE_DOUBLE) {
        uint64_t u = get_u64(r);

        memcpy(&v->number, &u, 8);
    } else if (v->kind == VALUE_ARRAY) {
        v->n = get_below(r, (uint64_t) (r->end - r->p) + 1);
        v->array = arena_zalloc_array(a, v->n + 1, sizeof *v->array);
        for (uint32_t i = 0; v->array && i < v->n && !r->bad; i++)
            get_value(r, a, &v->array[i], depth + 1);
        v->n = v->array ? v->n : 0;
    } else if (v->kind == VALUE_MAP) {
        v->n = get_below(r, (uint64_t) (r->end - r->p) + 1);
        v->map = arena_zalloc_array(a, v->n + 1, sizeof *v->map);
        for (uint32_t i = 0; v->map && i < v->n && !r->bad; i++) {
            v->map[i].key = get_bytes(r);
            get_value(r, a, &v->map[i].value, depth + 1);
        }
        v->n = v->map ? v->n : 0;
    }
}

uint32_t blobs_attr(struct blobs *b, const struct batch *from, uint32_t attr)
{
    const struct attr *a = &from->dict.attrs[attr];

    buf_reset(&b->scratch);
    put_str(&b->scratch, batch_string(from, a->key));
    put_str(&b->scratch, batch_string(from, a->unit));
    put_value(&b->scratch, &a->value, 0);
    return buf_error(&b->scratch) < 0 ? UINT32_MAX : blobs_put(b, BLOB_ATTR, buf_str(&b->scratch));
}

uint32_t blobs_set_of(struct blobs *b, const uint32_t *attrs, uint32_t n)
{
    buf_reset(&b->scratch);
    put_varint(&b->scratch, n);
    for (uint32_t i = 0; i < n; i++)
        put_varint(&b->scratch, attrs[i]);
    return buf_error(&b->scratch) < 0 ? UINT32_MAX : blobs_put(b, BLOB_SET, buf_str(&b->scratch));
}

uint32_t blobs_set(struct blobs *b, const struct batch *from, struct run attrs)
{
    uint32_t n = MIN(attrs.n, (uint32_t) BLOB_SET_MAX), list[BLOB_SET_MAX];

    for (uint32_t i = 0; i < n; i++) {
        list[i] = blobs_attr(b, from, from->dict.indices[attrs.off + i]);
        if (list[i] == UINT32_MAX)
            return UINT32_MAX;
    }
    return n ? blobs_set_of(b, list, n) : 0;
}

static void put_kvs(struct buf *b, const struct kvs *kvs)
{
    put_varint(b, kvs->n);
    for (uint32_t i = 0; i < kvs->n; i++) {
        put_str(b, kvs->v[i].key);
        put_value(b, &kvs->v[i].value, 0);
    }
}

uint32_t blobs_resource(struct blobs *b, const struct resource *r, struct id128 instance)
{
    buf_reset(&b->scratch);
    put_u64(&b->scratch, instance.hi);
    put_u64(&b->scratch, instance.lo);
    put_varint(&b->scratch, r->dropped_attrs);
    put_str(&b->scratch, r->schema_url);
    put_str(&b->scratch, r->entity_refs);
    put_kvs(&b->scratch, &r->attrs);
    return buf_error(&b->scratch) < 0 ? UINT32_MAX : blobs_put(b, BLOB_RESOURCE, buf_str(&b->scratch));
}

uint32_t blobs_scope(struct blobs *b, const struct scope *s)
{
    buf_reset(&b->scratch);
    put_str(&b->scratch, s->name);
    put_str(&b->scratch, s->version);
    put_str(&b->scratch, s->schema_url);
    put_varint(&b->scratch, s->dropped_attrs);
    put_kvs(&b->scratch, &s->attrs);
    return buf_error(&b->scratch) < 0 ? UINT32_MAX : blobs_put(b, BLOB_SCOPE, buf_str(&b->scratch));
}

uint32_t blobs_header(struct blobs *b, const struct blob_header *h)
{
    buf_reset(&b->scratch);
    put_varint(&b->scratch, h->resource);
    put_varint(&b->scratch, h->scope);
    put_str(&b->scratch, h->type);
    put_str(&b->scratch, h->unit);
    put_zigzag(&b->scratch, h->scale);
    put_str(&b->scratch, h->twin_type);
    put_str(&b->scratch, h->twin_unit);
    put_zigzag(&b->scratch, h->twin_scale);
    put_str(&b->scratch, h->period_type);
    put_str(&b->scratch, h->period_unit);
    put_zigzag(&b->scratch, h->period);
    put_varint(&b->scratch, h->default_type);
    put_varint(&b->scratch, h->attrs);
    put_varint(&b->scratch, h->dropped);
    put_varint(&b->scratch, h->mappings);
    put_varint(&b->scratch, h->payload);
    return buf_error(&b->scratch) < 0 ? UINT32_MAX : blobs_put(b, BLOB_HEADER, buf_str(&b->scratch));
}

uint32_t blobs_mappings(struct blobs *b, const struct batch *from, const uint8_t *marked)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    uint32_t n = 0;

    for (uint32_t i = 1; i < from->dict.n_mappings; i++)
        n += marked[i];
    if (!n)
        return 0;
    put_varint(&out, n);
    for (uint32_t i = 1; i < from->dict.n_mappings; i++) {
        const struct mapping *m = &from->dict.mappings[i];
        uint32_t set = marked[i] ? blobs_set(b, from, m->attrs) : 0;

        if (!marked[i])
            continue;
        if (set == UINT32_MAX)
            return UINT32_MAX;
        put_str(&out, batch_string(from, m->filename));
        put_varint(&out, m->start);
        put_varint(&out, m->limit);
        put_varint(&out, m->offset);
        put_varint(&out, set);
    }
    return buf_error(&out) < 0 ? UINT32_MAX : blobs_put(b, BLOB_MAPPINGS, buf_str(&out));
}

uint32_t blobs_payload(struct blobs *b, struct str format, struct str bytes)
{
    if (!format.n && !bytes.n)
        return 0;
    buf_reset(&b->scratch);
    put_str(&b->scratch, format);
    put_str(&b->scratch, bytes);
    return buf_error(&b->scratch) < 0 ? UINT32_MAX : blobs_put(b, BLOB_PAYLOAD, buf_str(&b->scratch));
}

void blob_attrs_encode(struct buf *out, const struct batch *from, struct run attrs, struct str except)
{
    for (uint32_t i = 0; i < MIN(attrs.n, (uint32_t) BLOB_SET_MAX); i++) {
        const struct attr *a = &from->dict.attrs[from->dict.indices[attrs.off + i]];

        if (str_eq(batch_string(from, a->key), except))
            continue;
        put_str(out, batch_string(from, a->key));
        put_str(out, batch_string(from, a->unit));
        put_value(out, &a->value, 0);
    }
}

/* --- decoding --- */

uint32_t blob_attrs_emit(struct str bytes, struct builder *to, uint32_t *list, uint32_t n)
{
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint32_t k = 0;
    struct arena a;

    arena_init(&a, 1 << 20);
    while (k < n && r.p < r.end) {
        struct str key = get_bytes(&r), unit = get_bytes(&r);
        struct value v;

        get_value(&r, &a, &v, 0);
        if (r.bad)
            break;
        list[k++] = builder_attr(to, builder_string(to, key), builder_string(to, unit), &v);
    }
    arena_done(&a);
    return k;
}

uint32_t blobs_read_mappings(const struct blobs *b, uint32_t i, struct blob_mapping *ret, uint32_t n)
{
    struct str bytes = blobs_get(b, BLOB_MAPPINGS, i);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint32_t count = bytes.n ? get_below(&r, bytes.n) : 0, k = 0;

    for (; k < MIN(n, count); k++) {
        ret[k].filename = get_bytes(&r);
        ret[k].start = get_varint(&r);
        ret[k].limit = get_varint(&r);
        ret[k].offset = get_varint(&r);
        ret[k].attrs = get_below(&r, pinned_count(&b->tables[BLOB_SET]));
        if (r.bad)
            break;
    }
    return k;
}

bool blobs_read_payload(const struct blobs *b, uint32_t i, struct str *ret_format, struct str *ret_bytes)
{
    struct str bytes = blobs_get(b, BLOB_PAYLOAD, i);
    struct cursor r = cursor_of(bytes.p, bytes.n);

    *ret_format = get_bytes(&r);
    *ret_bytes = get_bytes(&r);
    return i && !r.bad;
}

bool blobs_read_header(const struct blobs *b, uint32_t i, struct blob_header *h)
{
    struct str bytes = blobs_get(b, BLOB_HEADER, i);
    struct cursor r = cursor_of(bytes.p, bytes.n);

    h->resource = get_below(&r, pinned_count(&b->tables[BLOB_RESOURCE]));
    h->scope = get_below(&r, pinned_count(&b->tables[BLOB_SCOPE]));
    h->type = get_bytes(&r);
    h->unit = get_bytes(&r);
    h->scale = get_zigzag(&r);
    h->twin_type = get_bytes(&r);
    h->twin_unit = get_bytes(&r);
    h->twin_scale = get_zigzag(&r);
    h->period_type = get_bytes(&r);
    h->period_unit = get_bytes(&r);
    h->period = get_zigzag(&r);
    h->default_type = get_below(&r, UINT32_MAX);
    h->attrs = get_below(&r, pinned_count(&b->tables[BLOB_SET]));
    h->dropped = get_below(&r, (uint64_t) UINT32_MAX + 1);
    h->mappings = get_below(&r, pinned_count(&b->tables[BLOB_MAPPINGS]));
    h->payload = get_below(&r, pinned_count(&b->tables[BLOB_PAYLOAD]));
    if (!h->scale)
        h->scale = 1;
    return !r.bad;
}

struct id128 blobs_instance(const struct blobs *b, uint32_t resource)
{
    struct str bytes = blobs_get(b, BLOB_RESOURCE, resource);

    if (bytes.n < 16)
        return (struct id128){0, 0};
    return (struct id128){load_u64(bytes.p), load_u64(bytes.p + 8)};
}

static bool find_kvs(struct cursor *r, struct str name, struct buf *out)
{
    uint64_t n = get_varint(r);
    struct arena a;
    bool found = false;

    arena_init(&a, 1 << 20);
    while (n-- > 0 && !r->bad && !found) {
        struct str key = get_bytes(r);
        struct value v;

        get_value(r, &a, &v, 0);
        if (!r->bad && label_name_eq(key, name)) {
            value_print(out, &v);
            found = true;
        }
    }
    arena_done(&a);
    return found;
}

bool blobs_resource_find(const struct blobs *b, uint32_t resource, struct str name, struct buf *out)
{
    struct str bytes = blobs_get(b, BLOB_RESOURCE, resource);
    struct cursor r = cursor_of(bytes.p, bytes.n);

    get_raw(&r, 16);
    get_varint(&r);
    get_bytes(&r);
    get_bytes(&r);
    return find_kvs(&r, name, out);
}

uint32_t blobs_set_attrs(const struct blobs *b, uint32_t set, uint32_t *ret, uint32_t n)
{
    struct str bytes = blobs_get(b, BLOB_SET, set);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint64_t count = set ? get_varint(&r) : 0;
    uint32_t k = 0;

    while (k < n && k < count && !r.bad)
        ret[k++] = get_below(&r, UINT32_MAX);
    return r.bad && k ? k - 1 : k;
}

bool blobs_attr_find(const struct blobs *b, uint32_t attr, struct str name, struct buf *out)
{
    struct str bytes = blobs_get(b, BLOB_ATTR, attr);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    struct arena a;
    struct value v;

    if (!label_name_eq(get_bytes(&r), name))
        return false;
    get_bytes(&r);
    arena_init(&a, 1 << 20);
    get_value(&r, &a, &v, 0);
    if (!r.bad)
        value_print(out, &v);
    arena_done(&a);
    return !r.bad;
}

bool blobs_set_find(const struct blobs *b, uint32_t set, struct str name, struct buf *out)
{
    uint32_t attrs[BLOB_SET_MAX], n = blobs_set_attrs(b, set, attrs, BLOB_SET_MAX);

    for (uint32_t i = 0; i < n; i++)
        if (blobs_attr_find(b, attrs[i], name, out))
            return true;
    return false;
}

static int each_kv(struct str key, struct cursor *r, blob_attr_fn fn, void *ctx)
{
    struct value v;
    struct arena a;
    int rc = 0;

    arena_init(&a, 1 << 20);
    get_value(r, &a, &v, 0);
    if (!r->bad)
        rc = fn(ctx, key, &v);
    arena_done(&a);
    return rc;
}

int blobs_set_each(const struct blobs *b, uint32_t set, blob_attr_fn fn, void *ctx)
{
    uint32_t attrs[BLOB_SET_MAX], n = blobs_set_attrs(b, set, attrs, BLOB_SET_MAX);
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        struct str bytes = blobs_get(b, BLOB_ATTR, attrs[i]);
        struct cursor r = cursor_of(bytes.p, bytes.n);
        struct str key = get_bytes(&r);

        get_bytes(&r);
        rc = each_kv(key, &r, fn, ctx);
    }
    return rc;
}

int blobs_resource_each(const struct blobs *b, uint32_t resource, blob_attr_fn fn, void *ctx)
{
    struct str bytes = blobs_get(b, BLOB_RESOURCE, resource);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint64_t n;
    int rc = 0;

    get_raw(&r, 16);
    get_varint(&r);
    get_bytes(&r);
    get_bytes(&r);
    n = get_varint(&r);
    while (rc == 0 && n-- > 0 && !r.bad) {
        struct str key = get_bytes(&r);

        rc = each_kv(key, &r, fn, ctx);
    }
    return rc;
}

static void emit_kvs(struct cursor *r, struct builder *to,
                     void (*put)(struct builder *, struct str, const struct value *))
{
    uint64_t n = get_varint(r);
    struct arena a;

    arena_init(&a, 1 << 20);
    while (n-- > 0 && !r->bad) {
        struct str key = get_bytes(r);
        struct value v;

        get_value(r, &a, &v, 0);
        if (!r->bad)
            put(to, key, &v);
    }
    arena_done(&a);
}

void blobs_emit_resource(const struct blobs *b, uint32_t resource, struct builder *to)
{
    struct str bytes = blobs_get(b, BLOB_RESOURCE, resource);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint32_t at = builder_resource(to), dropped;
    struct str schema, refs;

    get_raw(&r, 16);
    dropped = (uint32_t) get_varint(&r);
    schema = get_bytes(&r);
    refs = get_bytes(&r);
    if (r.bad || builder_error(to))
        return;
    builder_batch(to)->resources[at].dropped_attrs = dropped;
    builder_batch(to)->resources[at].schema_url = arena_str(&builder_batch(to)->arena, schema);
    builder_batch(to)->resources[at].entity_refs = arena_str(&builder_batch(to)->arena, refs);
    emit_kvs(&r, to, builder_resource_attr);
}

void blobs_emit_scope(const struct blobs *b, uint32_t scope, struct builder *to)
{
    struct str bytes = blobs_get(b, BLOB_SCOPE, scope);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    struct str name = get_bytes(&r), version = get_bytes(&r), schema = get_bytes(&r);
    uint32_t dropped = (uint32_t) get_varint(&r), at = builder_scope(to, name, version);

    if (r.bad || builder_error(to))
        return;
    builder_batch(to)->scopes[at].schema_url = arena_str(&builder_batch(to)->arena, schema);
    builder_batch(to)->scopes[at].dropped_attrs = dropped;
    emit_kvs(&r, to, builder_scope_attr);
}

struct run blobs_emit_set(const struct blobs *b, uint32_t set, struct builder *to)
{
    struct str bytes = blobs_get(b, BLOB_SET, set);
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint32_t n = set ? get_below(&r, BLOB_SET_MAX + 1) : 0, list[BLOB_SET_MAX], k = 0;
    struct arena a;

    arena_init(&a, 1 << 20);
    for (; k < n && !r.bad; k++) {
        struct str attr = blobs_get(b, BLOB_ATTR, get_below(&r, UINT32_MAX));
        struct cursor ar = cursor_of(attr.p, attr.n);
        struct str key = get_bytes(&ar), unit = get_bytes(&ar);
        struct value v;

        get_value(&ar, &a, &v, 0);
        list[k] = ar.bad ? 0 : builder_attr(to, builder_string(to, key), builder_string(to, unit), &v);
    }
    arena_done(&a);
    return builder_attrs(to, list, k);
}
