/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a batch as OTLP profiles in JSON, as the Collector writes it: lowerCamelCase keys, zeros left out, 64-bit
 * numbers as strings, ids as hex, other bytes as base64, on one line. See otlp_encode.c for profiles of several types.
 */
#include <errno.h>
#include <math.h>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/json.h"
#include "base/wire.h"
#include "codec/otlp.h"
#include "codec/otlp_fields.h"
#include "codec/otlp_group.h"
#include "model/batch.h"

struct json_writer {
    const struct batch *b;
    struct buf *out;
};

/* --- scalars: each leaves a zero out --- */

static void put_key(struct json_writer *w, bool *first, const char *key)
{
    json_sep(w->out, first);
    buf_putc(w->out, '"');
    buf_puts(w->out, key); /* our own keys: nothing to escape */
    buf_put(w->out, "\":", 2);
}

static void field_u32(struct json_writer *w, bool *first, const char *key, uint32_t v)
{
    if (!v)
        return;
    put_key(w, first, key);
    json_put_u64(w->out, v);
}

static void field_u64(struct json_writer *w, bool *first, const char *key, uint64_t v)
{
    if (!v)
        return;
    put_key(w, first, key);
    buf_putc(w->out, '"');
    json_put_u64(w->out, v);
    buf_putc(w->out, '"');
}

static void put_i64_always(struct json_writer *w, bool *first, const char *key, int64_t v)
{
    put_key(w, first, key);
    buf_putc(w->out, '"');
    json_put_i64(w->out, v);
    buf_putc(w->out, '"');
}

static void put_i64(struct json_writer *w, bool *first, const char *key, int64_t v)
{
    if (v)
        put_i64_always(w, first, key, v);
}

static void put_string(struct json_writer *w, bool *first, const char *key, struct str s)
{
    if (!s.n)
        return;
    put_key(w, first, key);
    json_put_str(w->out, s);
}

static void put_base64(struct json_writer *w, bool *first, const char *key, struct str s)
{
    put_key(w, first, key);
    buf_putc(w->out, '"');
    base64_encode(w->out, s.p, s.n);
    buf_putc(w->out, '"');
}

static void put_hex(struct json_writer *w, bool *first, const char *key, const uint8_t *p, size_t n)
{
    static const uint8_t zeros[16];

    if (memcmp(p, zeros, n) == 0)
        return;
    put_key(w, first, key);
    buf_putc(w->out, '"');
    hex_encode(w->out, p, n);
    buf_putc(w->out, '"');
}

static void put_refs(struct json_writer *w, bool *first, const char *key, struct run run)
{
    const uint32_t *v;

    if (!run.n)
        return;
    v = w->b->dict.indices + run.off;
    put_key(w, first, key);
    for (uint32_t i = 0; i < run.n; i++) {
        buf_putc(w->out, i ? ',' : '[');
        json_put_u64(w->out, v[i]);
    }
    buf_putc(w->out, ']');
}

/* --- attributes --- */

static void put_value(struct json_writer *w, const struct value *v);

static void put_kv(struct json_writer *w, struct str key, const struct value *v)
{
    bool first = true;

    buf_putc(w->out, '{');
    put_string(w, &first, "key", key);
    put_key(w, &first, "value");
    put_value(w, v);
    buf_putc(w->out, '}');
}

static void put_double(struct json_writer *w, double v)
{
    if (isfinite(v))
        json_put_double(w->out, v);
    else
        buf_puts(w->out, isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

static void put_value_list(struct json_writer *w, const struct value *v)
{
    buf_puts(w->out, v->kind == VALUE_ARRAY ? "\"arrayValue\":{\"values\":[" : "\"kvlistValue\":{\"values\":[");
    for (uint32_t i = 0; i < v->n; i++) {
        if (i)
            buf_putc(w->out, ',');
        if (v->kind == VALUE_ARRAY)
            put_value(w, &v->array[i]);
        else
            put_kv(w, v->map[i].key, &v->map[i].value);
    }
    buf_puts(w->out, "]}");
}

static void put_value(struct json_writer *w, const struct value *v)
{
    bool first = true;

    buf_putc(w->out, '{');
    switch (v->kind) {
    case VALUE_STR:
        put_key(w, &first, "stringValue");
        json_put_str(w->out, value_str(v));
        break;
    case VALUE_BOOL:
        put_key(w, &first, "boolValue");
        buf_puts(w->out, v->boolean ? "true" : "false");
        break;
    case VALUE_INT:
        put_i64_always(w, &first, "intValue", v->integer);
        break;
    case VALUE_DOUBLE:
        put_key(w, &first, "doubleValue");
        put_double(w, v->number);
        break;
    case VALUE_BYTES:
        put_base64(w, &first, "bytesValue", value_str(v));
        break;
    case VALUE_ARRAY:
    case VALUE_MAP:
        put_value_list(w, v);
        break;
    }
    buf_putc(w->out, '}');
}

/* "attributes": [...], with one more attribute named `key` if it has a value. */
static void put_kvs(struct json_writer *w, bool *first, const struct kvs *kvs, const char *key, struct str value)
{
    struct value v = {.kind = VALUE_STR, .n = value.n, .str = value.p};
    bool none = true;

    if (!kvs->n && !value.n)
        return;
    put_key(w, first, "attributes");
    buf_putc(w->out, '[');
    for (uint32_t i = 0; i < kvs->n; i++) {
        json_sep(w->out, &none);
        put_kv(w, kvs->v[i].key, &kvs->v[i].value);
    }
    if (value.n) {
        json_sep(w->out, &none);
        put_kv(w, str_from(key), &v);
    }
    buf_putc(w->out, ']');
}

/* --- body --- */

static void put_sample(struct json_writer *w, const struct sample *s, uint32_t t, uint32_t n_types)
{
    const struct batch *b = w->b;
    struct run values = n_types > 1 ? (struct run){s->values.off + t, t < s->values.n} : s->values;
    bool first = true;

    buf_putc(w->out, '{');
    field_u32(w, &first, "stackIndex", s->stack);
    put_refs(w, &first, "attributeIndices", s->attrs);
    field_u32(w, &first, "linkIndex", s->link);
    if (values.n)
        put_key(w, &first, "values");
    for (uint32_t i = 0; i < values.n; i++) {
        buf_puts(w->out, i ? ",\"" : "[\"");
        json_put_i64(w->out, b->values[values.off + i]);
        buf_puts(w->out, i + 1 == values.n ? "\"]" : "\"");
    }
    if (s->timestamps.n)
        put_key(w, &first, "timestampsUnixNano");
    for (uint32_t i = 0; i < s->timestamps.n; i++) {
        buf_puts(w->out, i ? ",\"" : "[\"");
        json_put_u64(w->out, b->timestamps[s->timestamps.off + i]);
        buf_puts(w->out, i + 1 == s->timestamps.n ? "\"]" : "\"");
    }
    buf_putc(w->out, '}');
}

static void put_value_type(struct json_writer *w, bool *first, const char *key, struct value_type t)
{
    bool inner = true;

    if (!t.type && !t.unit)
        return;
    put_key(w, first, key);
    buf_putc(w->out, '{');
    field_u32(w, &inner, "typeStrindex", t.type);
    field_u32(w, &inner, "unitStrindex", t.unit);
    buf_putc(w->out, '}');
}

static void put_profile(struct json_writer *w, const struct profile *p, uint32_t t)
{
    bool first = true;
    uint8_t id[16];

    buf_putc(w->out, '{');
    put_value_type(w, &first, "sampleType", p->types[t]);
    for (uint32_t i = 0; i < p->samples.n; i++) {
        if (i == 0)
            put_key(w, &first, "samples");
        buf_putc(w->out, i ? ',' : '[');
        put_sample(w, &w->b->samples[p->samples.off + i], t, p->n_types);
    }
    if (p->samples.n)
        buf_putc(w->out, ']');
    field_u64(w, &first, "timeUnixNano", (uint64_t) p->time_ns);
    field_u64(w, &first, "durationNano", (uint64_t) p->duration_ns);
    put_value_type(w, &first, "periodType", p->period_type);
    put_i64(w, &first, "period", p->period);
    otlp_profile_id(p, t, id);
    put_hex(w, &first, "profileId", id, sizeof id);
    field_u32(w, &first, "droppedAttributesCount", p->dropped_attrs);
    put_string(w, &first, "originalPayloadFormat", p->payload_format);
    if (p->payload.n)
        put_base64(w, &first, "originalPayload", p->payload);
    put_refs(w, &first, "attributeIndices", p->attrs);
    buf_putc(w->out, '}');
}

static void put_scope(struct json_writer *w, const struct scope *s)
{
    bool first = true, inner = true, none = true;

    buf_putc(w->out, '{');
    put_key(w, &first, "scope");
    buf_putc(w->out, '{');
    put_string(w, &inner, "name", s->name);
    put_string(w, &inner, "version", s->version);
    put_kvs(w, &inner, &s->attrs, SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE, otlp_default_type(w->b, s));
    field_u32(w, &inner, "droppedAttributesCount", s->dropped_attrs);
    buf_putc(w->out, '}');
    put_key(w, &first, "profiles");
    buf_putc(w->out, '[');
    for (uint32_t i = 0; i < s->profiles.n; i++) {
        const struct profile *p = &w->b->profiles[s->profiles.off + i];

        for (uint32_t t = 0; t < p->n_types; t++) {
            json_sep(w->out, &none);
            put_profile(w, p, t);
        }
    }
    buf_putc(w->out, ']');
    put_string(w, &first, "schemaUrl", s->schema_url);
    buf_putc(w->out, '}');
}

static void put_entity_ref(struct json_writer *w, const uint8_t *p, const uint8_t *end)
{
    static const char *const keys[] = {NULL, "schemaUrl", "type", "idKeys", "descriptionKeys"};
    bool first = true;

    buf_putc(w->out, '{');
    for (uint32_t field = 1; field <= 4; field++) {
        bool none = true;
        struct wire_field f;

        for (const uint8_t *q = p; q && q < end;) {
            q = wire_next(q, end, &f);
            if (!q || f.tag != WIRE_TAG(field, WIRE_LEN))
                continue;
            if (none)
                put_key(w, &first, keys[field]);
            if (field >= 3)
                buf_putc(w->out, none ? '[' : ',');
            if (field >= 3 || none)
                json_put_str(w->out, wire_str(&f));
            none = false;
        }
        if (field >= 3 && !none)
            buf_putc(w->out, ']');
    }
    buf_putc(w->out, '}');
}

/* From their protobuf form: see batch.h. */
static void put_entity_refs(struct json_writer *w, bool *first, struct str refs)
{
    const uint8_t *p = (const uint8_t *) refs.p, *end;
    bool none = true;
    struct wire_field f;

    if (!refs.n)
        return;
    end = p + refs.n;
    put_key(w, first, "entityRefs");
    buf_putc(w->out, '[');
    while (p && p < end) {
        p = wire_next(p, end, &f);
        if (!p || f.tag != WIRE_TAG(3, WIRE_LEN))
            continue;
        json_sep(w->out, &none);
        put_entity_ref(w, f.data, p);
    }
    buf_putc(w->out, ']');
}

static void put_resource(struct json_writer *w, const struct resource *r)
{
    bool first = true, inner = true;

    buf_putc(w->out, '{');
    put_key(w, &first, "resource");
    buf_putc(w->out, '{');
    put_kvs(w, &inner, &r->attrs, "", (struct str){0});
    field_u32(w, &inner, "droppedAttributesCount", r->dropped_attrs);
    put_entity_refs(w, &inner, r->entity_refs);
    buf_putc(w->out, '}');
    put_key(w, &first, "scopeProfiles");
    buf_putc(w->out, '[');
    for (uint32_t i = 0; i < r->scopes.n; i++) {
        if (i)
            buf_putc(w->out, ',');
        put_scope(w, &w->b->scopes[r->scopes.off + i]);
    }
    buf_putc(w->out, ']');
    put_string(w, &first, "schemaUrl", r->schema_url);
    buf_putc(w->out, '}');
}

/* --- dictionary --- */

static void put_message(struct json_writer *w, const struct otlp_message *m, const void *entry);

static void put_lines(struct json_writer *w, bool *first, const char *key, struct run lines)
{
    if (!lines.n)
        return;
    put_key(w, first, key);
    for (uint32_t i = 0; i < lines.n; i++) {
        buf_putc(w->out, i ? ',' : '[');
        put_message(w, &otlp_line, &w->b->dict.lines[lines.off + i]);
    }
    buf_putc(w->out, ']');
}

/* Writes an entry by its table of fields. */
static void put_message(struct json_writer *w, const struct otlp_message *m, const void *entry)
{
    bool first = true;

    buf_putc(w->out, '{');
    for (const struct otlp_field *f = m->fields; f < m->fields + m->n; f++) {
        const void *at = (const char *) entry + f->offset;
        const char *key = f->key.p;

        switch (f->kind) {
        case OTLP_U64:
            field_u64(w, &first, key, *(const uint64_t *) at);
            break;
        case OTLP_I64:
            put_i64(w, &first, key, *(const int64_t *) at);
            break;
        case OTLP_REF:
        case OTLP_REF_OPTIONAL:
            field_u32(w, &first, key, *(const uint32_t *) at);
            break;
        case OTLP_REFS:
            put_refs(w, &first, key, *(const struct run *) at);
            break;
        case OTLP_ID:
            put_hex(w, &first, key, at, f->size);
            break;
        case OTLP_LINES:
            put_lines(w, &first, key, *(const struct run *) at);
            break;
        case OTLP_VALUE:
            put_key(w, &first, key);
            put_value(w, at);
            break;
        }
    }
    buf_putc(w->out, '}');
}

static void put_table(struct json_writer *w, bool *first, const char *key, const void *table, uint32_t n,
                      const struct otlp_message *m)
{
    put_key(w, first, key);
    for (uint32_t i = 0; i < n; i++) {
        buf_putc(w->out, i ? ',' : '[');
        put_message(w, m, (const char *) table + (size_t) i * m->size);
    }
    buf_putc(w->out, ']');
}

static void put_dictionary(struct json_writer *w)
{
    const struct dict *d = &w->b->dict;
    bool first = true;

    buf_putc(w->out, '{');
    put_table(w, &first, "mappingTable", d->mappings, d->n_mappings, &otlp_mapping);
    put_table(w, &first, "locationTable", d->locations, d->n_locations, &otlp_location);
    put_table(w, &first, "functionTable", d->functions, d->n_functions, &otlp_function);
    put_table(w, &first, "linkTable", d->links, d->n_links, &otlp_link);
    put_key(w, &first, "stringTable");
    for (uint32_t i = 0; i < d->n_strings; i++) {
        buf_putc(w->out, i ? ',' : '[');
        json_put_str(w->out, d->strings[i]);
    }
    buf_putc(w->out, ']');
    put_table(w, &first, "attributeTable", d->attrs, d->n_attrs, &otlp_attr);
    put_table(w, &first, "stackTable", d->stacks, d->n_stacks, &otlp_stack);
    buf_putc(w->out, '}');
}

int otlp_json_encode(const struct batch *b, struct buf *out, struct err *e)
{
    struct json_writer w = {b, out};
    size_t start = out->n;
    bool first = true;
    int r;

    buf_putc(out, '{');
    put_key(&w, &first, "resourceProfiles");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < b->n_resources; i++) {
        if (i)
            buf_putc(out, ',');
        put_resource(&w, &b->resources[i]);
    }
    buf_putc(out, ']');
    put_key(&w, &first, "dictionary");
    put_dictionary(&w);
    buf_putc(out, '}');
    r = buf_error(out);
    if (r < 0) {
        out->n = start;
        return err_set(e, r, "cannot encode OTLP profiles: %m");
    }
    return 0;
}
