/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes OTLP profiles in protobuf into a batch. See otlp.h for what is accepted and what is refused, otlp_scan.h for
 * the first pass, otlp_dictionary.c for the tables. This file allocates the tables by count and decodes the body.
 *
 *   ExportProfilesServiceRequest  1 resource_profiles[]  2 dictionary
 *   ResourceProfiles              1 resource  2 scope_profiles[]  3 schema_url
 *   Resource                      1 attributes[]  2 dropped_attributes_count  3 entity_refs[]
 *   ScopeProfiles                 1 scope  2 profiles[]  3 schema_url
 *   InstrumentationScope          1 name  2 version  3 attributes[]  4 dropped_attributes_count
 *   Profile                       1 sample_type  2 samples[]  3 time fixed64  4 duration  5 period_type  6 period
 *                                 7 profile_id  8 dropped_attributes_count  9 original_payload_format
 *                                 10 original_payload  11 attribute_indices[]
 *   Sample                        1 stack_index  2 attribute_indices[]  3 link_index  4 values[]  5 times[] fixed64
 */
#include "codec/otlp_decode.h"

#include "base/mem.h"
#include "codec/otlp_group.h"

enum { SLACK_PARTS = 8, SMALL_BLOCK = 64 << 10 }; /* up to this fraction of a large block may stay unused */

/* --- body --- */

static int decode_values(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct run *run)
{
    struct batch *b = d->b;
    int64_t *out = b->values + b->n_values, *q = out;
    uint64_t v;

    while (p < end) {
        const uint8_t *here = p;

        p = varint_read(p, end, &v);
        if (unlikely(!p))
            return wire_fail(&d->w, here, "values", "truncated number");
        *q++ = (int64_t) v;
    }
    if (!run->n)
        run->off = b->n_values;
    run->n += (uint32_t) (q - out);
    b->n_values += (uint32_t) (q - out);
    return 0;
}

static int decode_timestamps(struct otlp_decoder *d, const struct wire_field *f, const uint8_t *next, struct run *run)
{
    struct batch *b = d->b;
    uint64_t *out = b->timestamps + b->n_timestamps;
    size_t size = (size_t) (next - f->data);
    uint32_t n = (uint32_t) (size / 8);

    if (unlikely(size % 8))
        return wire_fail(&d->w, f->at, "timestamps_unix_nano", "%zu bytes are not a list of 8-byte numbers", size);
    for (uint32_t i = 0; i < n; i++)
        out[i] = load_u64(f->data + (size_t) i * 8);
    if (!run->n)
        run->off = b->n_timestamps;
    run->n += n;
    b->n_timestamps += n;
    return 0;
}

static int decode_sample(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct sample *s)
{
    const uint8_t *start = p;
    int r = 0;

    *s = (struct sample){.stack = d->stacks.shift};
    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f); /* well-formed: the first pass checked it */
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_VARINT):
            r = otlp_ref(&d->stacks, f.v, f.at, "stack_index", &d->w, &s->stack);
            break;
        case WIRE_LIST_OF(2, WIRE_VARINT):
            r = otlp_decode_refs(d, &f, p, &d->attrs, "attribute_indices", &s->attrs);
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            r = otlp_ref_optional(&d->links, f.v, f.at, "link_index", &d->w, &s->link);
            break;
        case WIRE_LIST_OF(4, WIRE_VARINT):
            r = decode_values(d, f.data, p, &s->values);
            break;
        case WIRE_LIST_OF(5, WIRE_I64):
            r = decode_timestamps(d, &f, p, &s->timestamps);
            break;
        }
    }
    if (r == 0 && unlikely(s->values.n != s->timestamps.n && s->values.n && s->timestamps.n))
        return wire_fail(&d->w, start, NULL, "it has %u values and %u timestamps", s->values.n, s->timestamps.n);
    return r;
}

static int decode_value_type(struct otlp_decoder *d, const struct wire_field *m, const char *name,
                             struct value_type *ret)
{
    const struct otlp_table *strings = &d->values.string_table;
    const uint8_t *p = m->data, *end = p + m->v;
    struct wire_field f;
    int r = 0;

    *ret = (struct value_type){.type = m->v ? strings->shift : 0};
    while (wire_each(&d->w, &p, end, &f, &r)) {
        if (f.tag == WIRE_TAG(1, WIRE_VARINT))
            r = otlp_ref(strings, f.v, f.at, "type_strindex", &d->w, &ret->type);
        else if (f.tag == WIRE_TAG(2, WIRE_VARINT))
            r = otlp_ref_optional(strings, f.v, f.at, "unit_strindex", &d->w, &ret->unit);
    }
    return wire_path(&d->w, r, name, WIRE_NO_INDEX);
}

/* The profile's own attribute list. Samples use the same pool, so it is read after them. */
static int decode_profile_attrs(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct profile *pr)
{
    int r = 0;

    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        switch (f.tag) {
        case WIRE_LIST_OF(11, WIRE_VARINT):
            r = otlp_decode_refs(d, &f, p, &d->attrs, "attribute_indices", &pr->attrs);
            break;
        }
    }
    return r;
}

static int decode_profile_field(struct otlp_decoder *d, const struct wire_field *f, struct profile *pr)
{
    switch (f->tag) {
    case WIRE_TAG(1, WIRE_LEN):
        return decode_value_type(d, f, "sample_type", pr->types);
    case WIRE_TAG(3, WIRE_I64):
        pr->time_ns = (int64_t) f->v;
        break;
    case WIRE_TAG(4, WIRE_VARINT):
        pr->duration_ns = (int64_t) f->v;
        break;
    case WIRE_TAG(5, WIRE_LEN):
        return decode_value_type(d, f, "period_type", &pr->period_type);
    case WIRE_TAG(6, WIRE_VARINT):
        pr->period = (int64_t) f->v;
        break;
    case WIRE_TAG(7, WIRE_LEN):
        return otlp_decode_id(d, f, "profile_id", pr->id, sizeof pr->id);
    case WIRE_TAG(8, WIRE_VARINT):
        pr->dropped_attrs = (uint32_t) f->v;
        break;
    case WIRE_TAG(9, WIRE_LEN):
        pr->payload_format = wire_str(f);
        break;
    case WIRE_TAG(10, WIRE_LEN):
        pr->payload = wire_str(f);
        break;
    }
    return 0;
}

static int decode_profile(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct profile *pr)
{
    struct batch *b = d->b;
    const uint8_t *start = p;
    bool attrs = false;
    int r = 0;

    *pr = (struct profile){.types = d->types++, .n_types = 1, .samples.off = b->n_samples};
    *pr->types = (struct value_type){0};
    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        if (f.tag == WIRE_TAG(2, WIRE_LEN)) {
            r = decode_sample(d, f.data, p, &b->samples[b->n_samples++]);
            if (unlikely(r < 0))
                return wire_path(&d->w, r, "samples", pr->samples.n);
            pr->samples.n++;
        } else {
            attrs |= f.tag >> 3 == 11;
            r = decode_profile_field(d, &f, pr);
        }
    }
    if (r == 0 && attrs)
        r = decode_profile_attrs(d, start, end, pr);
    return r;
}

static int decode_scope_message(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct scope *s)
{
    int r = otlp_kvs_decode(&d->values, p, end, 3, "attributes", &s->attrs);

    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f); /* well-formed: otlp_kvs_decode() checked it */
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            s->name = wire_str(&f);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            s->version = wire_str(&f);
            break;
        case WIRE_TAG(4, WIRE_VARINT):
            s->dropped_attrs = (uint32_t) f.v;
            break;
        }
    }
    return wire_path(&d->w, r, "scope", WIRE_NO_INDEX);
}

static int decode_scope(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct scope *s)
{
    struct batch *b = d->b;
    int r = 0;

    *s = (struct scope){.profiles.off = b->n_profiles};
    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            r = decode_scope_message(d, f.data, p, s);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            r = decode_profile(d, f.data, p, &b->profiles[b->n_profiles++]);
            if (r < 0)
                return wire_path(&d->w, r, "profiles", s->profiles.n);
            s->profiles.n++;
            break;
        case WIRE_TAG(3, WIRE_LEN):
            s->schema_url = wire_str(&f);
            break;
        }
    }
    return r;
}

/* Keeps field 3 as received, tags included. It is usually one contiguous part of the request; otherwise the parts are
 * copied together. */
static int keep_entity_refs(struct otlp_decoder *d, struct resource *res, const uint8_t *at, const uint8_t *end)
{
    struct str more = {(const char *) at, (uint32_t) (end - at)};
    char *q;
    int r;

    if (!res->entity_refs.n) {
        res->entity_refs = more;
    } else if (res->entity_refs.p + res->entity_refs.n == more.p) {
        res->entity_refs.n += more.n;
    } else {
        r = otlp_alloc(&d->b->arena, 1, (size_t) res->entity_refs.n + more.n, &q);
        if (r < 0)
            return r;
        memcpy(q, res->entity_refs.p, res->entity_refs.n);
        memcpy(q + res->entity_refs.n, more.p, more.n);
        res->entity_refs = (struct str){q, res->entity_refs.n + more.n};
    }
    return 0;
}

static int decode_resource_message(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct resource *res)
{
    int r = otlp_kvs_decode(&d->values, p, end, 1, "attributes", &res->attrs);

    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f); /* well-formed: otlp_kvs_decode() checked it */
        if (f.tag == WIRE_TAG(2, WIRE_VARINT))
            res->dropped_attrs = (uint32_t) f.v;
        else if (f.tag == WIRE_TAG(3, WIRE_LEN))
            r = keep_entity_refs(d, res, f.at, p);
    }
    return wire_path(&d->w, r, "resource", WIRE_NO_INDEX);
}

static int decode_resource(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, struct resource *res)
{
    struct batch *b = d->b;
    int r = 0;

    *res = (struct resource){.scopes.off = b->n_scopes};
    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            r = decode_resource_message(d, f.data, p, res);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            r = decode_scope(d, f.data, p, &b->scopes[b->n_scopes++]);
            if (r < 0)
                return wire_path(&d->w, r, "scope_profiles", res->scopes.n);
            res->scopes.n++;
            break;
        case WIRE_TAG(3, WIRE_LEN):
            res->schema_url = wire_str(&f);
            break;
        }
    }
    return r;
}

/* --- tables --- */

/* The size of the batch's table: the sender's entries, and one more if a zero value is inserted at the front. */
static uint32_t table_size(const struct otlp_table_count *c)
{
    return c->n + (c->shifted || !c->n);
}

static struct otlp_table table_of(const struct otlp_table_count *c, const char *name)
{
    return (struct otlp_table){.n = MAX(c->n, 1u), .shift = c->shifted, .name = name};
}

static void *carve(uintptr_t *at, uint64_t n, size_t size)
{
    uintptr_t p = *at;

    *at = p + ALIGN_UP(n * size, (uint64_t) 8);
    return (void *) p;
}

/* Lays out all tables from `at` on; returns the end. With at == 0 it only measures. */
static uintptr_t lay_out(struct otlp_decoder *d, const struct otlp_counts *c, uintptr_t at)
{
    struct batch *b = d->b;
    struct dict *dict = &b->dict;

    dict->strings = carve(&at, table_size(&c->strings), sizeof *dict->strings);
    dict->mappings = carve(&at, table_size(&c->mappings), sizeof *dict->mappings);
    dict->functions = carve(&at, table_size(&c->functions), sizeof *dict->functions);
    dict->locations = carve(&at, table_size(&c->locations), sizeof *dict->locations);
    dict->stacks = carve(&at, table_size(&c->stacks), sizeof *dict->stacks);
    dict->links = carve(&at, table_size(&c->links), sizeof *dict->links);
    dict->attrs = carve(&at, table_size(&c->attrs), sizeof *dict->attrs);
    b->resources = carve(&at, c->resources, sizeof *b->resources);
    b->scopes = carve(&at, c->scopes, sizeof *b->scopes);
    b->profiles = carve(&at, c->profiles, sizeof *b->profiles);
    b->samples = carve(&at, c->samples, sizeof *b->samples);
    b->values = carve(&at, c->values, sizeof *b->values);
    b->timestamps = carve(&at, c->timestamps, sizeof *b->timestamps);
    d->types = carve(&at, c->profiles, sizeof *d->types);
    d->values.pool = carve(&at, c->kvs, sizeof *d->values.pool);
    d->values.n_pool = (uint32_t) c->kvs;
    dict->lines = carve(&at, d->cap_lines, sizeof *dict->lines); /* the pools are last, so that the excess can be
                                                                    trimmed */
    dict->indices = carve(&at, d->cap_indices, sizeof *dict->indices);
    return at;
}

static void zero_entries(struct dict *dict)
{
    dict->mappings[0] = (struct mapping){0};
    dict->functions[0] = (struct function){0};
    dict->locations[0] = (struct location){0};
    dict->stacks[0] = (struct run){0};
    dict->links[0] = (struct link){0};
    dict->attrs[0] = (struct attr){0};
}

/* Inserts the zero value at the front where the sender has none. */
static void begin_tables(struct otlp_decoder *d, const struct otlp_counts *c)
{
    struct dict *dict = &d->b->dict;

    dict->strings[0] = (struct str){0};
    zero_entries(dict);
    dict->n_strings = table_size(&c->strings) - c->strings.n;
    dict->n_mappings = table_size(&c->mappings) - c->mappings.n;
    dict->n_functions = table_size(&c->functions) - c->functions.n;
    dict->n_locations = table_size(&c->locations) - c->locations.n;
    dict->n_stacks = table_size(&c->stacks) - c->stacks.n;
    dict->n_links = table_size(&c->links) - c->links.n;
    dict->n_attrs = table_size(&c->attrs) - c->attrs.n;
}

/* Estimates the number of elements of all locations from the n of those that were examined; rounded up, plus a few. */
static size_t extrapolate(uint64_t n, const struct otlp_counts *c)
{
    return c->looked ? n * c->locations.n / c->looked * 33 / 32 + 8 : c->locations.n;
}

/* One block for everything, not in the arena, whose chunks would be larger than most requests. */
static int allocate(struct otlp_decoder *d, const struct otlp_counts *c)
{
    struct batch *b = d->b;
    struct dict keep = b->dict;
    size_t size;

    d->cap_lines = extrapolate(c->lines, c);
    d->cap_indices = c->indices + c->stack_indices + extrapolate(c->attr_indices, c);
    size = lay_out(d, c, 0);
    b->dict = keep; /* still valid if the allocation fails */
    if (size > d->memory || c->empty > WIRE_EMPTY_MAX)
        return -EFBIG;
    b->owned[OWNED_BLOCK] = mem_alloc_block(size);
    if (!b->owned[OWNED_BLOCK])
        return -ENOMEM;
    b->owned_size = d->used = size;
    lay_out(d, c, (uintptr_t) b->owned[OWNED_BLOCK]);
    begin_tables(d, c);
    return 0;
}

/* Adjusts the pointers from the block into the block after it has moved by `delta` bytes. */
static void rebase(struct batch *b, ptrdiff_t delta)
{
    for (uint32_t i = 0; i < b->n_resources; i++)
        if (b->resources[i].attrs.n)
            b->resources[i].attrs.v = (struct kv *) ((char *) b->resources[i].attrs.v + delta);
    for (uint32_t i = 0; i < b->n_scopes; i++)
        if (b->scopes[i].attrs.n)
            b->scopes[i].attrs.v = (struct kv *) ((char *) b->scopes[i].attrs.v + delta);
    for (uint32_t i = 0; i < b->n_profiles; i++)
        b->profiles[i].types = (struct value_type *) ((char *) b->profiles[i].types + delta);
}

/* Shrinks a pool outside the block to its size. Returns its bytes. */
static size_t trim_pool(struct batch *b, int owned, void *pool, size_t n, size_t size)
{
    void *p = mem_realloc(b->owned[owned], n * size);

    if (p)
        b->owned[owned] = p;
    memcpy(pool, &b->owned[owned], sizeof p);
    return n * size;
}

/* Releases the excess at the end of the block, where the pools are, or were until they grew. A small excess is left
 * alone: malloc is slow with blocks that shrink before they are freed. */
static void trim_block(struct otlp_decoder *d, const struct otlp_counts *c, size_t block_size)
{
    struct batch *b = d->b;
    struct dict *dict = &b->dict, full = *dict;
    char *old = b->owned[OWNED_BLOCK], *block = NULL;
    size_t size;

    d->cap_lines = b->owned[OWNED_LINES] ? 0 : dict->n_lines;
    d->cap_indices = b->owned[OWNED_INDICES] ? 0 : dict->n_indices;
    size = lay_out(d, c, (uintptr_t) old) - (uintptr_t) old;
    if (d->cap_indices)
        memmove(dict->indices, full.indices, dict->n_indices * sizeof *dict->indices);
    b->owned_size = block_size;
    if (block_size < SMALL_BLOCK || block_size - size > block_size / SLACK_PARTS)
        block = mem_realloc(old, size);
    if (block) {
        b->owned_size = size;
        b->owned[OWNED_BLOCK] = block;
        lay_out(d, c, (uintptr_t) block);
        rebase(b, block - old);
    }
    if (b->owned[OWNED_LINES])
        b->owned_size += trim_pool(b, OWNED_LINES, &dict->lines, dict->n_lines, sizeof *dict->lines);
    if (b->owned[OWNED_INDICES])
        b->owned_size += trim_pool(b, OWNED_INDICES, &dict->indices, dict->n_indices, sizeof *dict->indices);
}

/* --- the request --- */

static int decode_top(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end, uint32_t tag,
                      int (*decode)(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end))
{
    int r = 0;

    while (p < end && r == 0) {
        struct wire_field f;

        p = wire_next(p, end, &f); /* well-formed: the first pass checked it */
        if (f.tag == tag)
            r = decode(d, f.data, p);
    }
    return r;
}

static int decode_resource_profiles(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end)
{
    struct batch *b = d->b;
    uint32_t i = b->n_resources++;

    return wire_path(&d->w, decode_resource(d, p, end, &b->resources[i]), "resource_profiles", i);
}

static int decode_request(struct otlp_decoder *d, const uint8_t *p, const uint8_t *end)
{
    struct dict *dict = &d->b->dict;
    int r = decode_top(d, p, end, WIRE_TAG(2, WIRE_LEN), otlp_decode_strings);

    if (r == 0)
        r = decode_top(d, p, end, WIRE_TAG(2, WIRE_LEN), otlp_decode_dictionary);
    if (r < 0)
        return r;
    zero_entries(dict); /* an accepted zero entry may hold a list of zeros, or point at entry 1 of a shifted table */
    return decode_top(d, p, end, WIRE_TAG(1, WIRE_LEN), decode_resource_profiles);
}

static void decoder_init(struct otlp_decoder *d, struct batch *b, const struct otlp_counts *c)
{
    *d = (struct otlp_decoder){.b = b};
    d->values.string_table = table_of(&c->strings, "string_table");
    d->mappings = table_of(&c->mappings, "mapping_table");
    d->functions = table_of(&c->functions, "function_table");
    d->locations = table_of(&c->locations, "location_table");
    d->stacks = table_of(&c->stacks, "stack_table");
    d->links = table_of(&c->links, "link_table");
    d->attrs = table_of(&c->attrs, "attribute_table");
}

/* Whether the error that stopped the decoder is an attribute index of a sample. */
static bool is_bad_attribute(const struct otlp_decoder *d)
{
    return strstr(d->w.path, "attribute_indices") && strstr(d->w.path, "samples[");
}

static int decode_counted(const uint8_t *p, size_t n, const struct otlp_counts *c, size_t memory, struct batch **ret,
                          struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct otlp_decoder d;
    int r = batch_new(memory, &b);

    if (r < 0)
        return r;
    decoder_init(&d, b, c);
    d.memory = memory;
    r = allocate(&d, c);
    if (r == 0) {
        d.values.arena = &b->arena;
        d.values.strings = b->dict.strings;
        d.values.w = &d.w;
        r = decode_request(&d, p, p + n);
    }
    if (r == -EFBIG && MAX(c->empty, d.empty) > WIRE_EMPTY_MAX)
        return err_set(e, r, "a request of %zu bytes has more than %d empty messages", n, WIRE_EMPTY_MAX);
    if (r == -EFBIG)
        return err_set(e, r, "a request of %zu bytes needs more than %zu bytes of memory", n, memory);
    if (r == -EINVAL && is_bad_attribute(&d) && otlp_generation_of_bad_attribute(c) != OTLP_G5)
        return otlp_generation_refuse(otlp_generation_of_bad_attribute(c), e);
    if (r < 0)
        return wire_report(&d.w, p, r, "OTLP profiles", e);
    trim_block(&d, c, b->owned_size);
    otlp_group_profiles(b);
    *ret = TAKE(b);
    return 0;
}

int otlp_decode_borrowed(const void *p, size_t n, const struct otlp_limits *limits, struct batch **ret, struct err *e)
{
    static const struct otlp_limits defaults;
    const struct otlp_limits *l = limits ? limits : &defaults;
    size_t input = l->input ? l->input : OTLP_INPUT_MAX;
    const uint8_t *start = p ? p : (const uint8_t *) "";
    struct otlp_counts counts;
    struct wire_err w = {0};
    enum otlp_generation g;
    int r;

    if (n > MIN(input, (size_t) INT32_MAX))
        return err_set(e, -EFBIG, "a request of %zu bytes is over the limit of %zu", n, input);
    r = otlp_scan(start, start + n, &counts, &w);
    g = otlp_generation_verdict(&counts);
    if (g != OTLP_G5)
        return otlp_generation_refuse(g, e);
    if (r < 0)
        return wire_report(&w, start, r, "OTLP profiles", e);
    return decode_counted(start, n, &counts, l->memory ? l->memory : ((size_t) 1 << 20) + 8 * n, ret, e);
}

void otlp_own(struct batch *b, struct buf *in)
{
    mem_free(b->input);
    b->input = buf_take(in, &b->input_size);
}

int otlp_decode(struct buf *in, const struct otlp_limits *limits, struct batch **ret, struct err *e)
{
    int r = otlp_decode_borrowed(in->p, in->n, limits, ret, e);

    if (r == 0)
        otlp_own(*ret, in);
    return r;
}
