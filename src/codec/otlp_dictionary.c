/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protobuf decoder's dictionary (second pass). Fields of ProfilesDictionary: 1 mapping_table, 2 location_table,
 * 3 function_table, 4 link_table, 5 string_table, 6 attribute_table, 7 stack_table.
 */
#include "base/mem.h"
#include "codec/otlp_decode.h"

int otlp_grow_pool(struct otlp_decoder *d, const struct otlp_pool *pool, size_t need)
{
    size_t *cap = pool->cap, size = pool->size, more = MAX(need, *cap + *cap / 2) - *cap;
    void **at = pool->elements, **owned = &d->b->owned[pool->owned], *p;

    if (d->used + more * size > d->memory)
        more = need - *cap;
    if (d->used + more * size > d->memory)
        return -EFBIG;
    p = mem_realloc(*owned, (*cap + more) * size);
    if (!p)
        return -ENOMEM;
    if (!*owned && pool->n) /* it was inside the block */
        memcpy(p, *at, pool->n * size);
    *at = *owned = p;
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
        r = otlp_grow_pool(
            d, &(struct otlp_pool){OWNED_INDICES, &dict->indices, &d->cap_indices, dict->n_indices, sizeof *q}, most);
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

static int decode_mapping(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct mapping *m)
{
    struct wire_field f;
    int r = 0;

    *m = (struct mapping){0};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_VARINT):
            m->start = f.v;
            break;
        case WIRE_TAG(2, WIRE_VARINT):
            m->limit = f.v;
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            m->offset = f.v;
            break;
        case WIRE_TAG(4, WIRE_VARINT):
            r = otlp_ref_optional(&d->values.string_table, f.v, f.at, "filename_strindex", &d->w, &m->filename);
            break;
        case WIRE_LIST_OF(5, WIRE_VARINT):
            r = otlp_decode_refs(d, &f, p, &d->attrs, "attribute_indices", &m->attrs);
            break;
        }
    }
    return r;
}

static int decode_function(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct function *fn)
{
    struct wire_field f;
    const struct otlp_table *strings = &d->values.string_table;
    int r = 0;

    *fn = (struct function){.name = strings->shift};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_VARINT):
            r = otlp_ref(strings, f.v, f.at, "name_strindex", &d->w, &fn->name);
            break;
        case WIRE_TAG(2, WIRE_VARINT):
            r = otlp_ref_optional(strings, f.v, f.at, "system_name_strindex", &d->w, &fn->system_name);
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            r = otlp_ref_optional(strings, f.v, f.at, "filename_strindex", &d->w, &fn->filename);
            break;
        case WIRE_TAG(4, WIRE_VARINT):
            fn->start_line = (int64_t) f.v;
            break;
        }
    }
    return r;
}

static int decode_line(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct line *l)
{
    struct wire_field f;
    int r = 0;

    *l = (struct line){.function = d->functions.shift};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_VARINT):
            r = otlp_ref(&d->functions, f.v, f.at, "function_index", &d->w, &l->function);
            break;
        case WIRE_TAG(2, WIRE_VARINT):
            l->line = (int64_t) f.v;
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            l->column = (int64_t) f.v;
            break;
        }
    }
    return r;
}

static int decode_location(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct location *l)
{
    struct wire_field f;
    struct dict *dict = &d->b->dict;
    int r = 0;

    *l = (struct location){.mapping = d->mappings.shift};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_VARINT):
            r = otlp_ref(&d->mappings, f.v, f.at, "mapping_index", &d->w, &l->mapping);
            break;
        case WIRE_TAG(2, WIRE_VARINT):
            l->address = f.v;
            break;
        case WIRE_TAG(3, WIRE_LEN):
            if (unlikely(!f.v && ++d->empty > WIRE_EMPTY_MAX))
                return -EFBIG;
            if (!l->lines.n)
                l->lines.off = dict->n_lines;
            if (unlikely(dict->n_lines == d->cap_lines))
                r = otlp_grow_pool(
                    d,
                    &(struct otlp_pool){OWNED_LINES, &dict->lines, &d->cap_lines, dict->n_lines, sizeof(struct line)},
                    dict->n_lines + (size_t) 1);
            if (unlikely(r < 0))
                return r;
            r = wire_path(&d->w, decode_line(d, f.data, p, &dict->lines[dict->n_lines++]), "lines", l->lines.n++);
            break;
        case WIRE_LIST_OF(4, WIRE_VARINT):
            r = otlp_decode_refs(d, &f, p, &d->attrs, "attribute_indices", &l->attrs);
            break;
        }
    }
    return r;
}

static int decode_link(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct link *l)
{
    struct wire_field f;
    int r = 0;

    *l = (struct link){0};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = otlp_decode_id(d, &f, "trace_id", l->trace_id, sizeof l->trace_id);
        else if (f.tag == WIRE_TAG(2, WIRE_LEN))
            r = otlp_decode_id(d, &f, "span_id", l->span_id, sizeof l->span_id);
    }
    return r;
}

static int decode_attr(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct attr *a)
{
    struct wire_field f;
    const struct otlp_table *strings = &d->values.string_table;
    int r = 0;

    *a = (struct attr){.key = strings->shift};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_VARINT):
            r = otlp_ref(strings, f.v, f.at, "key_strindex", &d->w, &a->key);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            r = wire_path(&d->w, otlp_value_decode(&d->values, f.data, p, &a->value), "value", WIRE_NO_INDEX);
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            r = otlp_ref_optional(strings, f.v, f.at, "unit_strindex", &d->w, &a->unit);
            break;
        }
    }
    return r;
}

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
            r = entry_path(d, decode_mapping(d, f.data, p, &dict->mappings[i]), &d->mappings, i);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            i = dict->n_locations++;
            r = entry_path(d, decode_location(d, f.data, p, &dict->locations[i]), &d->locations, i);
            break;
        case WIRE_TAG(3, WIRE_LEN):
            i = dict->n_functions++;
            r = entry_path(d, decode_function(d, f.data, p, &dict->functions[i]), &d->functions, i);
            break;
        case WIRE_TAG(4, WIRE_LEN):
            i = dict->n_links++;
            r = entry_path(d, decode_link(d, f.data, p, &dict->links[i]), &d->links, i);
            break;
        case WIRE_TAG(6, WIRE_LEN):
            i = dict->n_attrs++;
            r = entry_path(d, decode_attr(d, f.data, p, &dict->attrs[i]), &d->attrs, i);
            break;
        case WIRE_TAG(7, WIRE_LEN):
            i = dict->n_stacks++;
            r = entry_path(d, decode_stack(d, f.data, p, &dict->stacks[i]), &d->stacks, i);
            break;
        }
    }
    return wire_path(&d->w, r, "dictionary", WIRE_NO_INDEX);
}
