/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a batch as OTLP profiles in protobuf. See otlp.h; field numbers are in otlp_decode.c and otlp_dictionary.c.
 *
 * Fields are written in ascending order and zeros left out, as protoc's code does, except in the dictionary: its tables
 * of numbers come after those of the body, with all text together, which makes a compressed request about 1 % smaller.
 * A profile of N types becomes N Profiles in a row; only the first keeps the profile's id as it is, the others get one
 * of their own made from it, so that receivers do not take them for the same profile sent again.
 */
#include <errno.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/wire.h"
#include "codec/otlp.h"
#include "codec/otlp_fields.h"
#include "codec/otlp_group.h"
#include "model/batch.h"

enum { ENTRY_FIXED_MAX = 64, LINE_MAX_BYTES = 32, EXTRA_STRINGS_MAX = 1 << 20 };

struct encoder {
    const struct batch *b;
    struct buf *out;
    bool references;
    struct map strings; /* content -> index, with `references` only; indices from n_strings on are in `extra` */
    struct str *extra;
    size_t n_extra, cap_extra;
    int err;
};

/* --- attributes --- */

static struct str encoder_string(const struct encoder *en, uint32_t i)
{
    uint32_t n = en->b->dict.n_strings;

    return i < n ? en->b->dict.strings[i] : en->extra[i - n];
}

/* The index of s in the string table that will be written; 0 after a failure. */
static uint32_t string_ref(struct encoder *en, struct str s)
{
    uint64_t h = hash64_str(s);

    for (struct map_pos m = map_find(&en->strings, h); m.index != MAP_NONE; m = map_next(&en->strings, m))
        if (str_eq(encoder_string(en, m.index), s))
            return m.index;
    if (!en->err)
        en->err = array_reserve(en->extra, en->cap_extra, en->n_extra + 1, EXTRA_STRINGS_MAX);
    if (!en->err)
        en->err = map_insert(&en->strings, h, en->b->dict.n_strings + (uint32_t) en->n_extra);
    if (en->err)
        return 0;
    en->extra[en->n_extra++] = s;
    return en->b->dict.n_strings + (uint32_t) en->n_extra - 1;
}

static void put_value(struct encoder *en, uint32_t field, const struct value *v, bool references);

static void put_kv(struct encoder *en, uint32_t field, struct str key, const struct value *v, bool references)
{
    size_t m = wire_begin(en->out, field, key.n + 16);

    if (!references || !key.n)
        wire_put_str(en->out, 1, key);
    if (v->kind != VALUE_EMPTY)
        put_value(en, 2, v, references);
    if (references && key.n)
        wire_put_uint(en->out, 3, string_ref(en, key));
    wire_end(en->out, m);
}

static void put_value_list(struct encoder *en, const struct value *v, bool references)
{
    size_t m = wire_begin(en->out, v->kind == VALUE_ARRAY ? 5 : 6, 64);

    for (uint32_t i = 0; i < v->n; i++) {
        if (v->kind == VALUE_ARRAY)
            put_value(en, 1, &v->array[i], references);
        else
            put_kv(en, 1, v->map[i].key, &v->map[i].value, references);
    }
    wire_end(en->out, m);
}

static void put_value(struct encoder *en, uint32_t field, const struct value *v, bool references)
{
    size_t m = wire_begin(en->out, field, v->kind == VALUE_STR ? v->n + 4 : 16);
    uint64_t bits;

    switch (v->kind) {
    case VALUE_STR:
        if (references && v->n)
            wire_put_uint_always(en->out, 8, string_ref(en, value_str(v)));
        else
            wire_put_bytes_always(en->out, 1, v->str, v->n);
        break;
    case VALUE_BOOL:
        wire_put_uint_always(en->out, 2, v->boolean);
        break;
    case VALUE_INT:
        wire_put_uint_always(en->out, 3, (uint64_t) v->integer);
        break;
    case VALUE_DOUBLE:
        memcpy(&bits, &v->number, sizeof bits);
        wire_put_fixed64_always(en->out, 4, bits);
        break;
    case VALUE_ARRAY:
    case VALUE_MAP:
        put_value_list(en, v, references);
        break;
    case VALUE_BYTES:
        wire_put_bytes_always(en->out, 7, v->str, v->n);
        break;
    }
    wire_end(en->out, m);
}

static void put_kvs(struct encoder *en, uint32_t field, const struct kvs *kvs)
{
    for (uint32_t i = 0; i < kvs->n; i++)
        put_kv(en, field, kvs->v[i].key, &kvs->v[i].value, en->references);
}

/* --- body --- */

static void put_refs(struct encoder *en, uint32_t field, struct run run)
{
    if (run.n)
        wire_put_packed_u32(en->out, field, en->b->dict.indices + run.off, run.n);
}

/* A run of a pool of numbers that are `width` bytes wide; the pool may be NULL when there is none. */
static inline __attribute__((always_inline)) char *raw_packed(char *q, uint32_t field, const void *pool, size_t width,
                                                              struct run run)
{
    return run.n ? wire_raw_packed(q, field, (const char *) pool + run.off * width, run.n, width) : q;
}

static char *raw_uint(char *q, uint32_t field, uint64_t v)
{
    if (!v)
        return q;
    return wire_raw_varint(wire_raw_varint(q, WIRE_TAG(field, WIRE_VARINT)), v);
}

/* Messages that a request has by the thousand are written into space for their worst case, reserved once, so that
 * nothing inside checks for room: raw_begin(), the fields, raw_end() with the position after them. */
static char *raw_begin(struct encoder *en, size_t worst)
{
    char *start = wire_room(en->out, worst);

    return start ? start + 2 : NULL; /* after a tag and a length of one byte each */
}

static void raw_end(struct encoder *en, uint32_t field, char *body, char *q)
{
    size_t n = (size_t) (q - body), extra = varint_size(n) - 1;

    if (extra)
        memmove(body + extra, body, n);
    body[-2] = (char) WIRE_TAG(field, WIRE_LEN);
    wire_raw_varint(body - 1, n);
    en->out->n += 2 + extra + n;
}

/* One sample with the values of type t. */
static void put_sample(struct encoder *en, const struct sample *s, uint32_t t, uint32_t n_types)
{
    const struct batch *b = en->b;
    struct run values = n_types > 1 ? (struct run){s->values.off + t, t < s->values.n} : s->values;
    size_t worst = ENTRY_FIXED_MAX + 5 * (size_t) s->attrs.n + 10 * (size_t) values.n + 8 * (size_t) s->timestamps.n;
    char *body = raw_begin(en, worst), *q = body;

    if (!body)
        return;
    q = raw_uint(q, 1, s->stack);
    q = raw_packed(q, 2, b->dict.indices, sizeof *b->dict.indices, s->attrs);
    q = raw_uint(q, 3, s->link);
    q = raw_packed(q, 4, b->values, sizeof *b->values, values);
    if (s->timestamps.n)
        q = wire_raw_packed_fixed64(q, 5, b->timestamps + s->timestamps.off, s->timestamps.n);
    raw_end(en, 2, body, q);
}

static void put_value_type(struct encoder *en, uint32_t field, struct value_type t)
{
    size_t m;

    if (!t.type && !t.unit)
        return;
    m = wire_begin(en->out, field, 8);
    wire_put_uint(en->out, 1, t.type);
    wire_put_uint(en->out, 2, t.unit);
    wire_end(en->out, m);
}

static void put_profile(struct encoder *en, const struct profile *p, uint32_t t)
{
    static const uint8_t no_id[16];
    const struct batch *b = en->b;
    size_t m = wire_begin(en->out, 2, 16 * (size_t) p->samples.n + p->payload.n + 64);
    uint8_t id[16];

    put_value_type(en, 1, p->types[t]);
    for (uint32_t i = 0; i < p->samples.n; i++)
        put_sample(en, &b->samples[p->samples.off + i], t, p->n_types);
    wire_put_fixed64(en->out, 3, (uint64_t) p->time_ns);
    wire_put_uint(en->out, 4, (uint64_t) p->duration_ns);
    put_value_type(en, 5, p->period_type);
    wire_put_uint(en->out, 6, (uint64_t) p->period);
    otlp_profile_id(p, t, id);
    if (memcmp(id, no_id, sizeof id) != 0)
        wire_put_bytes(en->out, 7, id, sizeof id);
    wire_put_uint(en->out, 8, p->dropped_attrs);
    wire_put_str(en->out, 9, p->payload_format);
    wire_put_str(en->out, 10, p->payload);
    put_refs(en, 11, p->attrs);
    wire_end(en->out, m);
}

static void put_scope_message(struct encoder *en, const struct scope *s)
{
    struct str name = otlp_default_type(en->b, s);
    struct value type = {.kind = VALUE_STR, .n = name.n, .str = name.p};
    size_t m;

    if (!s->name.n && !s->version.n && !s->attrs.n && !s->dropped_attrs && !name.n)
        return;
    m = wire_begin(en->out, 1, 64);
    wire_put_str(en->out, 1, s->name);
    wire_put_str(en->out, 2, s->version);
    put_kvs(en, 3, &s->attrs);
    if (name.n)
        put_kv(en, 3, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE), &type, en->references);
    wire_put_uint(en->out, 4, s->dropped_attrs);
    wire_end(en->out, m);
}

static void put_scope(struct encoder *en, const struct scope *s, size_t guess)
{
    size_t m = wire_begin(en->out, 2, guess);

    put_scope_message(en, s);
    for (uint32_t i = 0; i < s->profiles.n; i++) {
        const struct profile *p = &en->b->profiles[s->profiles.off + i];

        for (uint32_t t = 0; t < p->n_types; t++)
            put_profile(en, p, t);
    }
    wire_put_str(en->out, 3, s->schema_url);
    wire_end(en->out, m);
}

static void put_resource_message(struct encoder *en, const struct resource *r)
{
    size_t m;

    if (!r->attrs.n && !r->dropped_attrs && !r->entity_refs.n)
        return;
    m = wire_begin(en->out, 1, 256);
    put_kvs(en, 1, &r->attrs);
    wire_put_uint(en->out, 2, r->dropped_attrs);
    buf_put_str(en->out, r->entity_refs); /* includes its tags */
    wire_end(en->out, m);
}

/* Estimates the number of bytes of the scope's profiles. */
static size_t guess_scope(const struct batch *b, const struct scope *s)
{
    size_t n = 64;

    for (uint32_t i = 0; i < s->profiles.n; i++)
        n += 64 + 16 * (size_t) b->profiles[s->profiles.off + i].samples.n;
    return n;
}

static void put_resource(struct encoder *en, const struct resource *r)
{
    size_t guess = 256, m;

    for (uint32_t i = 0; i < r->scopes.n; i++)
        guess += guess_scope(en->b, &en->b->scopes[r->scopes.off + i]);
    m = wire_begin(en->out, 1, guess);
    put_resource_message(en, r);
    for (uint32_t i = 0; i < r->scopes.n; i++) {
        const struct scope *s = &en->b->scopes[r->scopes.off + i];

        put_scope(en, s, guess_scope(en->b, s));
    }
    wire_put_str(en->out, 3, r->schema_url);
    wire_end(en->out, m);
}

/* --- dictionary --- */

static char *raw_line(char *q, uint32_t field, const struct line *l)
{
    char *length, *body;

    *q++ = (char) WIRE_TAG(field, WIRE_LEN);
    length = q++;
    body = q;
    q = raw_uint(q, 1, l->function);
    q = raw_uint(q, 2, (uint64_t) l->line);
    q = raw_uint(q, 3, (uint64_t) l->column);
    *length = (char) (q - body); /* at most 28 */
    return q;
}

static void put_location(struct encoder *en, const struct location *l)
{
    const struct dict *d = &en->b->dict;
    size_t worst = ENTRY_FIXED_MAX + LINE_MAX_BYTES * (size_t) l->lines.n + 5 * (size_t) l->attrs.n;
    char *body = raw_begin(en, worst), *q = body;

    if (!body)
        return;
    q = raw_uint(q, 1, l->mapping);
    q = raw_uint(q, 2, l->address);
    for (uint32_t i = 0; i < l->lines.n; i++)
        q = raw_line(q, 3, &d->lines[l->lines.off + i]);
    q = raw_packed(q, 4, d->indices, sizeof *d->indices, l->attrs);
    raw_end(en, 2, body, q);
}

static void put_function(struct encoder *en, const struct function *f)
{
    char *body = raw_begin(en, ENTRY_FIXED_MAX), *q = body;

    if (!body)
        return;
    q = raw_uint(q, 1, f->name);
    q = raw_uint(q, 2, f->system_name);
    q = raw_uint(q, 3, f->filename);
    q = raw_uint(q, 4, (uint64_t) f->start_line);
    raw_end(en, 3, body, q);
}

static void put_stack(struct encoder *en, struct run locations)
{
    char *body = raw_begin(en, ENTRY_FIXED_MAX + 5 * (size_t) locations.n);

    if (body)
        raw_end(en, 7, body, raw_packed(body, 1, en->b->dict.indices, sizeof *en->b->dict.indices, locations));
}

/* One field of an entry. Only OTLP_ID leaves nothing out: a link has both of its ids, or is the empty one. */
static void put_field(struct encoder *en, uint32_t number, const struct otlp_field *f, const void *at)
{
    const struct run *run = at;

    switch (f->kind) {
    case OTLP_U64:
    case OTLP_I64:
        wire_put_uint(en->out, number, *(const uint64_t *) at);
        break;
    case OTLP_REF:
    case OTLP_REF_OPTIONAL:
        wire_put_uint(en->out, number, *(const uint32_t *) at);
        break;
    case OTLP_REFS:
        put_refs(en, number, *run);
        break;
    case OTLP_ID:
        wire_put_bytes(en->out, number, at, f->size);
        break;
    case OTLP_VALUE:
        if (((const struct value *) at)->kind != VALUE_EMPTY)
            put_value(en, number, at, false);
        break;
    }
}

/* Writes an entry by its table of fields. Locations, functions and stacks are written by hand above. */
static void put_message(struct encoder *en, uint32_t number, const struct otlp_message *m, const void *entry)
{
    size_t at = wire_begin(en->out, number, 32);

    if (m != &otlp_link || !otlp_is_zero(m, entry, 0))
        for (uint32_t i = 0; i < m->n; i++)
            put_field(en, i + 1, &m->fields[i], (const char *) entry + m->fields[i].offset);
    wire_end(en->out, at);
}

static void put_table(struct encoder *en, uint32_t number, const struct otlp_message *m, const void *table, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        put_message(en, number, m, (const char *) table + (size_t) i * m->size);
}

static void put_dictionary(struct encoder *en)
{
    const struct dict *d = &en->b->dict;
    size_t m = wire_begin(en->out, 2,
                          24 * (size_t) d->n_strings + 16 * (size_t) d->n_locations + 8 * (size_t) d->n_functions +
                              16 * (size_t) d->n_attrs + 2 * (size_t) d->n_indices);

    put_table(en, 1, &otlp_mapping, d->mappings, d->n_mappings);
    for (uint32_t i = 0; i < d->n_locations; i++)
        put_location(en, &d->locations[i]);
    for (uint32_t i = 0; i < d->n_stacks; i++)
        put_stack(en, d->stacks[i]);
    put_table(en, 4, &otlp_link, d->links, d->n_links);
    for (uint32_t i = 0; i < d->n_strings; i++)
        wire_put_bytes_always(en->out, 5, d->strings[i].p, d->strings[i].n);
    for (size_t i = 0; i < en->n_extra; i++)
        wire_put_bytes_always(en->out, 5, en->extra[i].p, en->extra[i].n);
    for (uint32_t i = 0; i < d->n_functions; i++)
        put_function(en, &d->functions[i]);
    put_table(en, 6, &otlp_attr, d->attrs, d->n_attrs);
    wire_end(en->out, m);
}

static int index_strings(struct encoder *en)
{
    const struct dict *d = &en->b->dict;
    int r = map_reserve(&en->strings, d->n_strings);

    for (uint32_t i = 0; r == 0 && i < d->n_strings; i++)
        r = map_insert(&en->strings, hash64_str(d->strings[i]), i);
    return r;
}

int otlp_encode(const struct batch *b, const struct otlp_encode_options *opts, struct buf *out, struct err *e)
{
    struct encoder en = {.b = b, .out = out, .references = opts && opts->references};
    size_t start = out->n;
    int r;

    if (en.references)
        en.err = index_strings(&en);
    for (uint32_t i = 0; !en.err && i < b->n_resources; i++)
        put_resource(&en, &b->resources[i]);
    if (!en.err)
        put_dictionary(&en);
    map_done(&en.strings);
    mem_free(en.extra);
    r = en.err ? en.err : buf_error(out);
    if (r < 0) {
        out->n = start;
        return err_set(e, r, "cannot encode OTLP profiles: %m");
    }
    return 0;
}
