/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes profile.proto (see pprof.h for the result). Two passes over the bytes:
 *
 *   scan    walks all fields once and counts the entries of the tables, so that each is allocated once at its exact
 *           size, and a file that would need more than the limit is refused before anything is allocated;
 *   fill    strings, types, mappings, functions, locations, samples, each over the part of the file where the scan
 *           found them, so that each is filled before others refer to it.
 *
 * Writers usually number entries 1, 2, 3...; an id is then already the dictionary's index, and no table of ids is
 * needed. The first id out of order creates one (struct pprof_ids).
 * Fields (all numbers varints; [] may be packed):
 *   Profile    1 sample_type[] 2 sample[] 3 mapping[] 4 location[] 5 function[] 6 string_table[] 7 drop_frames
 *              8 keep_frames 9 time_nanos 10 duration_nanos 11 period_type 12 period 13 comment[]
 *              14 default_sample_type 15 doc_url
 *   ValueType  1 type 2 unit            Label     1 key 2 str 3 num 4 num_unit
 *   Sample     1 location_id[] 2 value[] 3 label[]
 *   Mapping    1 id 2 memory_start 3 memory_limit 4 file_offset 5 filename 6 build_id 7-10 has_functions,
 *              filenames, line_numbers, inline_frames
 *   Location   1 id 2 mapping_id 3 address 4 line[] 5 is_folded
 *   Line       1 function_id 2 line 3 column
 *   Function   1 id 2 name 3 system_name 4 filename 5 start_line
 */
#include "codec/pprof.h"

#include <errno.h>
#include <inttypes.h>

#include "base/compress.h"
#include "base/mem.h"
#include "base/wire.h"
#include "codec/pprof_decoder.h"
#include "model/identity.h"
#include "model/semconv.h"

/* Room for our own names after the file's strings, and for lists of attributes with these names. */
enum { EXTRA_STRINGS = 16, OWN_INDICES = 8, MANY_SAMPLES = 10000 };

/* --- pass 2: strings and attributes --- */

static int fill_strings(struct pprof_decoder *d)
{
    struct dict *dict = &d->b->dict;
    const uint8_t *pos = NULL;
    struct pb_field f = {0};
    struct str *s = dict->strings;

    while (pprof_next(d, 6, &pos, &f))
        *s++ = (struct str){(const char *) f.p, (uint32_t) (f.end - f.p)};
    dict->n_strings = pprof_file_strings(d);
    if (!dict->n_strings)
        return err_set(d->e, -EBADMSG, "pprof: profile.string_table is missing");
    if (dict->strings[0].n)
        return pprof_bad(d, d->spans[6].first, "profile", "string_table", "the first string must be empty");
    return 0;
}

uint32_t pprof_own_string(struct pprof_decoder *d, struct str s)
{
    struct dict *dict = &d->b->dict;

    for (uint32_t i = pprof_file_strings(d); i < dict->n_strings; i++)
        if (str_eq(dict->strings[i], s))
            return i;
    dict->strings[dict->n_strings] = s;
    return dict->n_strings++;
}

static bool attr_same(const struct attr *a, const struct attr *b)
{
    /* Equal strings of a file are one entry with one address, so the content need not be compared. */
    return a->key == b->key && a->unit == b->unit && a->value.kind == b->value.kind && a->value.n == b->value.n &&
           a->value.integer == b->value.integer;
}

uint32_t pprof_intern_attr(struct pprof_decoder *d, const struct attr *a)
{
    struct dict *dict = &d->b->dict;
    uint64_t h = hash64_u64(((uint64_t) a->key << 32 | a->unit) ^ hash64_u64((uint64_t) a->value.integer));

    for (struct map_pos p = map_find(&d->attrs, h); p.index != MAP_NONE; p = map_next(&d->attrs, p))
        if (attr_same(&dict->attrs[p.index], a))
            return p.index;
    if (dict->n_attrs == d->cap_attrs) {
        struct attr *grown = mem_realloc_array(d->b->owned[0], d->cap_attrs * 2 + 16, sizeof *grown);

        if (!grown)
            return 0;
        if (!d->b->owned[0])
            grown[0] = (struct attr){0};
        d->b->owned_size += (d->cap_attrs + 16) * sizeof *grown;
        d->cap_attrs = d->cap_attrs * 2 + 16;
        d->b->owned[0] = dict->attrs = grown;
    }
    if (map_insert(&d->attrs, h, dict->n_attrs) < 0)
        return 0;
    dict->attrs[dict->n_attrs] = *a;
    return dict->n_attrs++;
}

static uint32_t intern_true(struct pprof_decoder *d, struct str key)
{
    struct attr a = {.key = pprof_own_string(d, key)};

    a.value.kind = VALUE_BOOL;
    a.value.boolean = true;
    return pprof_intern_attr(d, &a);
}

int pprof_put_index(struct pprof_decoder *d, struct run *run, uint32_t attr)
{
    struct dict *dict = &d->b->dict;

    if (!attr)
        return -ENOMEM;
    if (!run->n)
        run->off = dict->n_indices;
    dict->indices[dict->n_indices++] = attr;
    run->n++;
    return 0;
}

/* --- pass 2: symbols --- */

/* Of the fields that pprof does not know. */
static uint64_t skew_of(const struct pb_field *mapping)
{
    const uint8_t *p = mapping->p;
    struct pb_field f = {0};
    uint64_t skew = 0;

    while (p && p < mapping->end) {
        p = pb_field(p, mapping->end, &f);
        if (p && f.num == PPROF_MAPPING_SKEW && f.type == PB_VARINT)
            skew = f.u;
    }
    return skew;
}

static int fill_mapping(struct pprof_decoder *d, const struct pb_field *f, struct mapping *m, uint64_t *v)
{
    static const struct str has[] = {
        STR(SEMCONV_PPROF_HAS_FUNCTIONS),
        STR(SEMCONV_PPROF_HAS_FILENAMES),
        STR(SEMCONV_PPROF_HAS_LINE_NUMBERS),
        STR(SEMCONV_PPROF_HAS_INLINE_FRAMES),
    };
    int r = pprof_scalars(d, &pprof_mapping, f->p, f->end, v);

    if (r < 0)
        return r;
    if (v[5] >= pprof_file_strings(d) || v[6] >= pprof_file_strings(d))
        return pprof_bad(d, f->p, "mapping", v[5] >= pprof_file_strings(d) ? "filename" : "build_id", PPROF_NO_STRING);
    *m =
        (struct mapping){.start = v[2], .limit = v[3], .offset = v[4], .skew = skew_of(f), .filename = (uint32_t) v[5]};
    if (v[6]) {
        struct value id = pprof_string_value(d, (uint32_t) v[6]);
        uint32_t key = pprof_own_string(d, identity_build_id_key(value_str(&id)));

        if (id.n)
            r = pprof_put_index(d, &m->attrs, pprof_intern_attr(d, &(struct attr){.key = key, .value = id}));
    }
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(has); i++)
        if (v[7 + i])
            r = pprof_put_index(d, &m->attrs, intern_true(d, has[i]));
    return r;
}

static int fill_mappings(struct pprof_decoder *d)
{
    struct dict *dict = &d->b->dict;
    const uint8_t *pos = NULL;
    struct pb_field f = {0};

    while (pprof_next(d, 3, &pos, &f)) {
        uint64_t v[11] = {0};
        int r = fill_mapping(d, &f, &dict->mappings[dict->n_mappings], v);

        if (r == 0)
            r = pprof_ids_add(d, &d->mappings, v[1], dict->n_mappings, f.p);
        if (r < 0)
            return r;
        dict->n_mappings++;
    }
    return 0;
}

static int fill_functions(struct pprof_decoder *d)
{
    struct dict *dict = &d->b->dict;
    uint64_t n = pprof_file_strings(d);
    const uint8_t *pos = NULL;
    struct pb_field f = {0};

    while (pprof_next(d, 5, &pos, &f)) {
        uint64_t v[6] = {0};
        int r = pprof_scalars(d, &pprof_function, f.p, f.end, v);

        if (r < 0)
            return r;
        if (unlikely(v[2] >= n || v[3] >= n || v[4] >= n))
            return pprof_bad(d, f.p, "function",
                             v[2] >= n   ? "name"
                             : v[3] >= n ? "system_name"
                                         : "filename",
                             PPROF_NO_STRING);
        r = pprof_ids_add(d, &d->functions, v[1], dict->n_functions, f.p);
        if (r < 0)
            return r;
        dict->functions[dict->n_functions++] = (struct function){
            .name = (uint32_t) v[2],
            .system_name = (uint32_t) v[3],
            .filename = (uint32_t) v[4],
            .start_line = (int64_t) v[5],
        };
    }
    return 0;
}

static int fill_line(struct pprof_decoder *d, const uint8_t *at, const struct pb_field *f)
{
    struct dict *dict = &d->b->dict;
    uint64_t v[4] = {0};
    uint32_t function;
    int r;

    if (unlikely(f->type != PB_LEN))
        return pprof_bad(d, at, "location", "line", PPROF_WRONG_TYPE);
    r = pprof_scalars(d, &pprof_line, f->p, f->end, v);
    if (r < 0)
        return r;
    function = pprof_ids_find(&d->functions, v[1]);
    if (unlikely(!function))
        return err_set(d->e, -EINVAL, "pprof: line.function_id at byte %zu: there is no function %" PRIu64,
                       pprof_offset(d, at), v[1]);
    dict->lines[dict->n_lines++] = (struct line){function, (int64_t) v[2], (int64_t) v[3]};
    return 0;
}

static int fold_location(struct pprof_decoder *d, struct location *l)
{
    if (!d->folded.n) {
        int r = pprof_put_index(d, &d->folded, intern_true(d, STR(SEMCONV_PPROF_IS_FOLDED)));

        if (r < 0)
            return r;
    }
    l->attrs = d->folded;
    return 0;
}

static int fill_location(struct pprof_decoder *d, const uint8_t *p, const uint8_t *end, struct location *l,
                         uint64_t *ret_id)
{
    uint64_t v[6] = {0};
    struct pb_field f = {0};
    int r = 0;

    *l = (struct location){.lines.off = d->b->dict.n_lines};
    while (p < end && r == 0) {
        const uint8_t *at = p;

        p = pb_field(p, end, &f);
        if (f.num == 4) {
            r = fill_line(d, at, &f);
            l->lines.n++;
        } else if (f.num && f.num <= 5) {
            if (unlikely(f.type != PB_VARINT))
                return pprof_bad(d, at, "location", "", PPROF_WRONG_TYPE);
            v[f.num] = f.u;
        }
    }
    if (r == 0 && unlikely(v[5]))
        r = fold_location(d, l);
    *ret_id = v[1];
    l->mapping = pprof_ids_find(&d->mappings, v[2]);
    l->address = v[3];
    return r;
}

static int fill_locations(struct pprof_decoder *d)
{
    struct dict *dict = &d->b->dict;
    const uint8_t *pos = NULL;
    struct pb_field f = {0};

    while (pprof_next(d, 4, &pos, &f)) {
        uint64_t id = 0;
        int r = fill_location(d, f.p, f.end, &dict->locations[dict->n_locations], &id);

        if (r == 0)
            r = pprof_ids_add(d, &d->locations, id, dict->n_locations, f.p);
        if (unlikely(r < 0))
            return r;
        dict->n_locations++;
    }
    return 0;
}

/* --- pass 2: samples --- */

static int no_location(const struct pprof_decoder *d, const uint8_t *at, uint64_t id)
{
    return err_set(d->e, -EINVAL, "pprof: sample.location_id at byte %zu: there is no location %" PRIu64,
                   pprof_offset(d, at), id);
}

static int fill_refs(struct pprof_decoder *d, const uint8_t *p, const uint8_t *end)
{
    uint32_t *out = d->stack_pos;
    uint64_t id;

    while (p < end) {
        const uint8_t *at = p;

        p = varint_read(p, end, &id);
        if (unlikely(!p))
            return pprof_bad(d, at, "sample", "location_id", PPROF_BAD_VARINT);
        *out = pprof_ids_find(&d->locations, id);
        if (unlikely(!*out++))
            return no_location(d, at, id);
    }
    d->stack_pos = out;
    return 0;
}

/* The values of one sample; in total never more than the scan counted. */
static int fill_values(struct pprof_decoder *d, const uint8_t *p, const uint8_t *end)
{
    struct batch *b = d->b;

    while (p < end) {
        const uint8_t *at = p;
        uint64_t v;

        p = varint_read(p, end, &v);
        if (unlikely(!p))
            return pprof_bad(d, at, "sample", "value", PPROF_BAD_VARINT);
        b->values[b->n_values++] = (int64_t) v;
    }
    return 0;
}

static int fill_label(struct pprof_decoder *d, const uint8_t *at, const struct pb_field *f)
{
    uint64_t v[5] = {0}, n = pprof_file_strings(d);
    struct attr a = {0};
    uint32_t index;
    int r;

    if (unlikely(f->type != PB_LEN))
        return pprof_bad(d, at, "sample", "label", PPROF_WRONG_TYPE);
    r = pprof_scalars(d, &pprof_label, f->p, f->end, v);
    if (unlikely(r < 0))
        return r;
    if (unlikely(v[1] >= n || v[2] >= n || (!v[2] && v[4] >= n)))
        return pprof_bad(d, at, "label", v[1] >= n ? "key" : v[2] >= n ? "str" : "num_unit", PPROF_NO_STRING);
    a.key = (uint32_t) v[1];
    if (v[2]) {
        a.value = pprof_string_value(d, (uint32_t) v[2]);
    } else if (v[3] || v[4]) {
        a.unit = (uint32_t) v[4];
        a.value = (struct value){.kind = VALUE_INT, .integer = (int64_t) v[3]};
    } else {
        return 0;
    }
    index = pprof_intern_attr(d, &a);
    if (unlikely(!index))
        return -ENOMEM;
    *d->attr_pos++ = index;
    return 0;
}

static int fill_sample_field(struct pprof_decoder *d, const uint8_t *at, const uint8_t *next, const struct pb_field *f)
{
    if (f->num == 3)
        return fill_label(d, at, f);
    if (f->num != 1 && f->num != 2)
        return 0;
    if (f->type == PB_LEN)
        return f->num == 1 ? fill_refs(d, f->p, f->end) : fill_values(d, f->p, f->end);
    if (f->type != PB_VARINT)
        return pprof_bad(d, at, "sample", f->num == 1 ? "location_id" : "value", PPROF_WRONG_TYPE);
    if (f->num == 2) {
        d->b->values[d->b->n_values++] = (int64_t) f->u;
        return 0;
    }
    *d->stack_pos = pprof_ids_find(&d->locations, f->u);
    return *d->stack_pos++ ? 0 : no_location(d, at, f->u);
}

static int fill_sample(struct pprof_decoder *d, const uint8_t *p, const uint8_t *end, uint32_t n_types)
{
    struct batch *b = d->b;
    struct dict *dict = &b->dict;
    const uint8_t *start = p;
    uint32_t stack = (uint32_t) (d->stack_pos - dict->indices), attrs = (uint32_t) (d->attr_pos - dict->indices);
    uint32_t values = b->n_values;
    struct pb_field f = {0};

    while (p < end) {
        const uint8_t *at = p;
        int r;

        p = pb_field(p, end, &f);
        r = fill_sample_field(d, at, p, &f);
        if (unlikely(r < 0))
            return r;
    }
    if (unlikely(b->n_values - values != n_types))
        return err_set(d->e, -EINVAL, "pprof: sample at byte %zu: mismatch: sample has %u values vs. %u types",
                       pprof_offset(d, start), b->n_values - values, n_types);
    dict->stacks[dict->n_stacks] = (struct run){stack, (uint32_t) (d->stack_pos - dict->indices) - stack};
    b->samples[b->n_samples++] = (struct sample){
        .stack = dict->n_stacks++,
        .attrs = {attrs, (uint32_t) (d->attr_pos - dict->indices) - attrs},
        .values = {values, n_types},
    };
    return 0;
}

static int fill_samples(struct pprof_decoder *d)
{
    const uint8_t *pos = NULL;
    uint32_t n_types = d->spans[1].n;
    struct pb_field f = {0};

    d->stack_pos = d->b->dict.indices;
    d->attr_pos = d->stack_pos + d->n_refs;
    while (pprof_next(d, 2, &pos, &f)) {
        int r = fill_sample(d, f.p, f.end, n_types);

        if (unlikely(r < 0))
            return r;
    }
    return 0;
}

/* --- both passes --- */

/* Finds the sample whose number of values is wrong. */
static int wrong_values(const struct pprof_decoder *d)
{
    const uint8_t *pos = NULL;
    struct pb_field m = {0}, f = {0};

    while (pprof_next(d, 2, &pos, &m)) {
        const uint8_t *p = m.p;
        uint32_t n = 0;

        while (p < m.end) {
            p = pb_field(p, m.end, &f);
            if (f.num == 2)
                n += f.type == PB_LEN ? varint_count(f.p, (size_t) (f.end - f.p)) : 1;
        }
        if (n != d->spans[1].n)
            return err_set(d->e, -EINVAL, "pprof: sample at byte %zu: mismatch: sample has %u values vs. %u types",
                           pprof_offset(d, m.p), n, d->spans[1].n);
    }
    return 0;
}

static int check_counts(const struct pprof_decoder *d)
{
    uint64_t types = d->spans[1].n, samples = d->spans[2].n;

    if (types > PROFILE_TYPES_MAX)
        return err_set(d->e, -E2BIG, "pprof: %" PRIu64 " sample types, more than %d", types, PROFILE_TYPES_MAX);
    if (!types && samples)
        return err_set(d->e, -EINVAL, "pprof: missing sample type information");
    /* Many samples without values would make large tables from little input; other cases are found when the values are
     * filled in. */
    if (samples > MANY_SAMPLES && d->n_values != samples * types)
        return wrong_values(d);
    if (d->n_empty > WIRE_EMPTY_MAX)
        return err_set(d->e, -EFBIG, "pprof: more than %d of its messages are empty", WIRE_EMPTY_MAX);
    return 0;
}

/* One block holds all tables except the attributes; its size follows from the counts of the scan. */
static int allocate(struct pprof_decoder *d, size_t limit)
{
    struct batch *b = d->b;
    struct dict *dict = &b->dict;
    const struct {
        void *table; /* address of the pointer */
        uint64_t n, size;
    } tables[] = {
        {&dict->strings, pprof_file_strings(d) + (uint64_t) EXTRA_STRINGS, sizeof *dict->strings},
        {&dict->mappings, d->spans[3].n + 1ull, sizeof *dict->mappings},
        {&dict->locations, d->spans[4].n + 1ull, sizeof *dict->locations},
        {&dict->functions, d->spans[5].n + 1ull, sizeof *dict->functions},
        {&dict->stacks, d->spans[2].n + 1ull, sizeof *dict->stacks},
        {&dict->lines, d->n_lines, sizeof *dict->lines},
        {&b->samples, d->spans[2].n, sizeof *b->samples},
        {&b->values, d->n_values, sizeof *b->values},
        {&b->resources, 1, sizeof *b->resources},
        {&b->scopes, 1, sizeof *b->scopes},
        {&b->profiles, 1, sizeof *b->profiles},
        /* Attribute lists of mappings, of folded locations (all share one) and of the profile come last. */
        {&dict->indices, d->n_refs + d->n_labels + d->n_mapping_attrs + OWN_INDICES, sizeof *dict->indices},
    };
    uint64_t total = 0, comments = d->n_comments * sizeof(struct value);
    char *block;

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
        total += ALIGN_UP(tables[i].n * tables[i].size, 8);
    if (total + comments > limit)
        return err_set(d->e, -EFBIG, "pprof: its tables would need %" PRIu64 " bytes, more than the limit of %zu",
                       total + comments, limit);
    b->owned[1] = block = mem_alloc_block(total);
    if (!block)
        return -ENOMEM;
    b->owned_size = total;
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        *(void **) tables[i].table = block;
        memset(block, 0, MIN(tables[i].n, 1u) * tables[i].size); /* the zero value */
        block += ALIGN_UP(tables[i].n * tables[i].size, 8);
    }
    dict->n_indices = (uint32_t) (d->n_refs + d->n_labels);
    b->n_resources = b->n_scopes = b->n_profiles = 1;
    b->resources->scopes = b->scopes->profiles = (struct run){0, 1};
    d->mappings = (struct pprof_ids){.name = "mapping", .n = d->spans[3].n};
    d->locations = (struct pprof_ids){.name = "location", .n = d->spans[4].n};
    d->functions = (struct pprof_ids){.name = "function", .n = d->spans[5].n};
    return 0;
}

/* Labels without a value leave a gap between the samples' lists and the lists that follow: it is zeroed, so that every
 * index is valid. */
static void close_gap(struct pprof_decoder *d)
{
    uint32_t *end = d->b->dict.indices + d->n_refs + d->n_labels;

    while (d->attr_pos < end)
        *d->attr_pos++ = 0;
}

static int decode(struct pprof_decoder *d, size_t limit)
{
    static int (*const fill[])(struct pprof_decoder *) = {fill_strings,      pprof_fill_types, fill_mappings,
                                                          fill_functions,    fill_locations,   fill_samples,
                                                          pprof_fill_profile};
    int r = pprof_scan(d);

    if (r == 0)
        r = check_counts(d);
    if (r == 0)
        r = allocate(d, limit);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fill); i++)
        r = fill[i](d);
    if (r == 0)
        close_gap(d);
    return r;
}

int pprof_decode(struct buf *in, const struct pprof_limits *limits, struct batch **ret, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    size_t inflated = limits && limits->inflated ? limits->inflated : (size_t) PPROF_INFLATED_MAX;
    size_t memory;
    struct pprof_decoder d = {.e = e, .attrs = MAP_INIT};
    int r = compress_inflate_detect(in, MIN(inflated, (size_t) UINT32_MAX - 1), e);

    if (r < 0)
        return r;
    if (!in->n)
        return err_set(e, -ENODATA, "pprof: empty input file");
    if (in->n > inflated)
        return err_set(e, -EFBIG, "pprof: %zu bytes, more than the limit of %zu", in->n, inflated);
    memory = limits && limits->memory ? limits->memory : ((size_t) 1 << 20) + PPROF_MEMORY_TIMES * in->n;
    r = batch_new(0, &b);
    if (r < 0)
        return r;
    d.b = b;
    d.start = (const uint8_t *) in->p;
    d.end = d.start + in->n;
    d.cap_attrs = 1;
    arena_init(&d.scratch, 0);
    r = decode(&d, memory);
    map_done(&d.attrs);
    map_done(&d.mappings.map);
    map_done(&d.functions.map);
    map_done(&d.locations.map);
    arena_done(&d.scratch);
    if (r < 0)
        return r;
    b->mapping_ids = d.mappings.all;
    b->location_ids = d.locations.all;
    b->function_ids = d.functions.all;
    b->input = buf_take(in, &b->input_size);
    *ret = TAKE(b);
    return 0;
}
