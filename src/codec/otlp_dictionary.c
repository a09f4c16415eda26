/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protobuf decoder's dictionary (second pass). Fields of ProfilesDictionary: 1 mapping_table, 2 location_table,
 * 3 function_table, 4 link_table, 5 string_table, 6 attribute_table, 7 stack_table.
 */
#include "base/mem.h"
#include "codec/otlp_decode.h"
#include "codec/otlp_fields.h"

int otlp_grow_pool(struct otlp_decoder *d, int owned, void *pool, size_t *cap, size_t n, size_t need, size_t size)
{
    size_t more = MAX(need, *cap + *cap / 2) - *cap;
    void **at = pool, *p;

    if (d->used + more * size > d->memory)
        more = need - *cap;
    if (d->used + more * size > d->memory)
        return -EFBIG;
    p = mem_realloc(d->b->owned[owned], (*cap + more) * size);
    if (!p)
        return -ENOMEM;
    if (!d->b->owned[owned] && n) /* it was inside the block */
        memcpy(p, *at, n * size);
    *at = d->b->owned[owned] = p;
    d->used += more * size;
    *cap += more;
    return 0;
}

int otlp_decode_refs(struct otlp_decoder *d, const struct wire_field *f, const uint8_t *next,
                     const struct otlp_table *t, const char *field, struct run *run)
{
    struct dict *dict = &d->b->dict;
    const uint8_t *p = f->data;
    size_t most = dict->n_indices + (size_t) (next - p); /* an index takes at least one byte */
    uint32_t *out, *q, n = t->n, shift = t->shift;
    uint64_t v;
    int r;

    if (unlikely(most > d->cap_indices)) {
        r = otlp_grow_pool(d, OWNED_INDICES, &dict->indices, &d->cap_indices, dict->n_indices, most, sizeof *q);
        if (r < 0)
            return r;
    }
    out = q = dict->indices + dict->n_indices;
    while (p < next) {
        const uint8_t *here = p;

        p = varint_read(p, next, &v);
        if (unlikely(!p))
            return wire_fail(&d->w, here, field, "truncated number");
        if (unlikely(v >= n))
            return wire_path(&d->w, otlp_ref(t, v, here, "", &d->w, q), field, (uint32_t) (q - out) + run->n);
        *q++ = (uint32_t) v + shift;
    }
    if (!run->n)
        run->off = dict->n_indices;
    run->n += (uint32_t) (q - out);
    dict->n_indices += (uint32_t) (q - out);
    return 0;
}

int otlp_decode_id(struct otlp_decoder *d, const struct wire_field *f, const char *field, uint8_t *ret, size_t n)
{
    if (f->v && f->v != n)
        return wire_fail(&d->w, f->at, field, "it has %llu bytes, not %zu", (unsigned long long) f->v, n);
    if (f->v)
        memcpy(ret, f->data, n);
    return 0;
}

int otlp_decode_strings(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end)
{
    struct dict *dict = &d->b->dict;

    while (p < end) {
        struct wire_field f;

        p = wire_next(p, end, &f); /* well-formed: the first pass checked it */
        if (f.tag == WIRE_TAG(5, WIRE_LEN))
            dict->strings[dict->n_strings++] = wire_str(&f);
    }
    return 0;
}

static int decode_message(struct otlp_decoder *d, const struct otlp_message *m, const uint8_t *p, const uint8_t *end,
                          void *entry);

static int decode_line(struct otlp_decoder *d, const struct wire_field *f, const uint8_t *next, struct run *lines)
{
    struct dict *dict = &d->b->dict;
    int r = 0;

    if (unlikely(!f->v && ++d->empty > WIRE_EMPTY_MAX))
        return -EFBIG;
    if (!lines->n)
        lines->off = dict->n_lines;
    if (unlikely(dict->n_lines == d->cap_lines))
        r = otlp_grow_pool(d, OWNED_LINES, &dict->lines, &d->cap_lines, dict->n_lines, dict->n_lines + (size_t) 1,
                           sizeof(struct line));
    if (unlikely(r < 0))
        return r;
    r = decode_message(d, &otlp_line, f->data, next, &dict->lines[dict->n_lines++]);
    return wire_path(&d->w, r, "lines", lines->n++);
}

static const struct otlp_table *target_of(const struct otlp_decoder *d, const struct otlp_field *m)
{
    static const uint16_t offsets[OTLP_TARGETS] = {
        [TO_STRINGS] = offsetof(struct otlp_decoder, values.string_table),
        [TO_MAPPINGS] = offsetof(struct otlp_decoder, mappings),
        [TO_FUNCTIONS] = offsetof(struct otlp_decoder, functions),
        [TO_LOCATIONS] = offsetof(struct otlp_decoder, locations),
        [TO_ATTRS] = offsetof(struct otlp_decoder, attrs),
    };

    return (const void *) ((const char *) d + offsets[m->to]);
}

static int decode_field(struct otlp_decoder *d, const struct otlp_field *m, const struct wire_field *f,
                        const uint8_t *next, void *at)
{
    switch (m->kind) {
    case OTLP_U64:
    case OTLP_I64:
        *(uint64_t *) at = f->v;
        return 0;
    case OTLP_REF:
        return otlp_ref(target_of(d, m), f->v, f->at, m->name, &d->w, at);
    case OTLP_REF_OPTIONAL:
        return otlp_ref_optional(target_of(d, m), f->v, f->at, m->name, &d->w, at);
    case OTLP_REFS:
        return otlp_decode_refs(d, f, next, target_of(d, m), m->name, at);
    case OTLP_ID:
        return otlp_decode_id(d, f, m->name, at, m->size);
    case OTLP_LINES:
        return decode_line(d, f, next, at);
    default:
        return wire_path(&d->w, otlp_value_decode(&d->values, f->data, next, 0, at), m->name, WIRE_NO_INDEX);
    }
}

/* Decodes an entry by its table of fields. Fields of another wire type are skipped, as unknown ones are. */
static int decode_message(struct otlp_decoder *d, const struct otlp_message *m, const uint8_t *p, const uint8_t *end,
                          void *entry)
{
    struct wire_field f;
    int r = 0;

    for (uint32_t i = 0; i < m->size / sizeof(uint64_t); i++)
        ((uint64_t *) entry)[i] = 0;
    if (m->required)
        *(uint32_t *) (void *) ((char *) entry + m->required->offset) = target_of(d, m->required)->shift;
    while (wire_each(&d->w, &p, end, &f, &r)) {
        uint32_t i = (f.tag >> 3) - 1, type = f.tag & 7; /* a tag's number is never 0 */
        uint8_t kind = i < m->n ? m->fields[i].kind : OTLP_NONE;

        if (likely(kind != OTLP_NONE) &&
            (type == (kind < OTLP_ID ? WIRE_VARINT : WIRE_LEN) || (kind == OTLP_REFS && type == WIRE_LEN)))
            r = decode_field(d, &m->fields[i], &f, p, (char *) entry + m->fields[i].offset);
    }
    return r;
}

/* By hand: stacks are most of a dictionary. */
static int decode_stack(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct run *s)
{
    struct wire_field f;
    int r = 0;

    *s = (struct run){0};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_LIST_OF(1, WIRE_VARINT):
            r = otlp_decode_refs(d, &f, p, &d->locations, "location_indices", s);
            break;
        }
    }
    return r;
}

/* Entry i of the batch's table is the sender's entry i - shift. */
static int entry_path(struct otlp_decoder *d, int r, const struct otlp_table *t, uint32_t i)
{
    return wire_path(&d->w, r, t->name, i - t->shift);
}

int otlp_decode_dictionary(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end)
{
    struct dict *dict = &d->b->dict;
    int r = 0;

    while (p < end && r == 0) {
        struct wire_field f;
        uint32_t i;

        p = wire_next(p, end, &f);
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            i = dict->n_mappings++;
            r = entry_path(d, decode_message(d, &otlp_mapping, f.data, p, &dict->mappings[i]), &d->mappings, i);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            i = dict->n_locations++;
            r = entry_path(d, decode_message(d, &otlp_location, f.data, p, &dict->locations[i]), &d->locations, i);
            break;
        case WIRE_TAG(3, WIRE_LEN):
            i = dict->n_functions++;
            r = entry_path(d, decode_message(d, &otlp_function, f.data, p, &dict->functions[i]), &d->functions, i);
            break;
        case WIRE_TAG(4, WIRE_LEN):
            i = dict->n_links++;
            r = entry_path(d, decode_message(d, &otlp_link, f.data, p, &dict->links[i]), &d->links, i);
            break;
        case WIRE_TAG(6, WIRE_LEN):
            i = dict->n_attrs++;
            r = entry_path(d, decode_message(d, &otlp_attr, f.data, p, &dict->attrs[i]), &d->attrs, i);
            break;
        case WIRE_TAG(7, WIRE_LEN):
            i = dict->n_stacks++;
            r = entry_path(d, decode_stack(d, f.data, p, &dict->stacks[i]), &d->stacks, i);
            break;
        }
    }
    return wire_path(&d->w, r, "dictionary", WIRE_NO_INDEX);
}
