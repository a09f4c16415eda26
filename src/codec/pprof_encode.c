/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a profile of a batch as profile.proto (fields: pprof_decode.c). The output is byte for byte what google/pprof
 * writes for the same content: its order of fields, of labels (strings first, then numbers, each sorted by key) and of
 * the string table, and its rule that three or more numbers are packed.
 *
 * Ids are those of the pprof that the batch came from, else 1, 2, 3... in dictionary order. Entry 0 of a table, "none"
 * in a batch, gets an id of its own at the end if something still refers to it: pprof cannot express "none" there.
 */
#include <errno.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/wire.h"
#include "codec/pprof.h"
#include "codec/pprof_wire.h"
#include "model/identity.h"
#include "model/semconv.h"

enum { LABELS_MAX = 1 << 16 };

struct pprof_label {
    struct str key, text; /* text.n == 0: a number */
    uint32_t unit;        /* dictionary string */
    int64_t number;
    bool is_number;
};

enum known { HAS_FUNCTIONS = 1, HAS_FILENAMES = 2, HAS_LINES = 4, HAS_INLINES = 8 };

struct pprof_encoder {
    const struct batch *b;
    const struct profile *p;
    struct str comment; /* one more; empty: none */
    struct buf *out;
    struct buf msg, sub; /* scratch: the message being written, and one inside it */
    /* string table */
    struct str *strings;
    size_t n_strings, cap_strings;
    struct map string_map;
    uint32_t *by_index; /* dictionary string -> table, 0 = not added yet (or the empty one) */
    /* ids by dictionary index, 0 = not written */
    uint64_t *mappings, *functions, *locations;
    bool *scripted; /* functions of frames that are not native */
    uint8_t *known; /* by mapping: what its locations have, of enum known */
    bool typed;     /* a frame has a type: the profile was not read from a pprof */
    uint32_t first; /* the mapping to write first; 0 = in order */
    /* labels of one sample */
    struct pprof_label *labels;
    size_t n_labels, cap_labels;
    struct arena scratch; /* texts of values that are not strings */
    int err;
};

/* --- wire --- */

/* Writes the scratch message as a field of `to` and empties it. */
static void put_message(struct buf *to, unsigned field, struct buf *from)
{
    wire_put_bytes_always(to, field, from->p, from->n);
    if (from->err && !to->err)
        to->err = from->err;
    buf_reset(from);
}

/* --- strings --- */

static uint32_t add_string(struct pprof_encoder *c, struct str s)
{
    uint64_t h;

    if (!s.n)
        return 0;
    h = hash64_str(s);
    for (struct map_pos p = map_find(&c->string_map, h); p.index != MAP_NONE; p = map_next(&c->string_map, p))
        if (str_eq(c->strings[p.index], s))
            return p.index;
    if (!c->err)
        c->err = array_reserve(c->strings, c->cap_strings, c->n_strings + 1, UINT32_MAX);
    if (!c->err)
        c->err = map_insert(&c->string_map, h, (uint32_t) c->n_strings);
    if (c->err)
        return 0;
    c->strings[c->n_strings] = s;
    return (uint32_t) c->n_strings++;
}

static uint32_t add_index(struct pprof_encoder *c, uint32_t i)
{
    if (!c->by_index[i])
        c->by_index[i] = add_string(c, c->b->dict.strings[i]);
    return c->by_index[i];
}

/* --- ids --- */

/* True for a frame of an interpreter or a virtual machine. Its name is not that of a symbol: with a system name, pprof would
 * demangle it, and turn "<module>" into "<unknown>". */
static bool is_scripted(struct pprof_encoder *c, uint32_t location)
{
    const struct attr *a = batch_attr(c->b, c->b->dict.locations[location].attrs, STR(SEMCONV_FRAME_TYPE));
    struct str type = a ? value_str(&a->value) : (struct str){0};

    c->typed |= type.n > 0;
    return type.n && !str_is(type, "native") && !str_is(type, "kernel") && !str_is(type, "go") && !str_is(type, "rust");
}

/* Only what a location has tells what is known of its mapping when the profile comes from OTLP. Without these flags pprof reads
 * every binary again, and replaces the names by what it finds there. */
static uint8_t known_of(const struct dict *d, const struct location *l)
{
    uint8_t known = l->lines.n > 1 ? HAS_INLINES : 0;

    for (uint32_t k = 0; k < l->lines.n; k++) {
        const struct line *line = &d->lines[l->lines.off + k];
        const struct function *f = &d->functions[line->function];

        known |= (d->strings[f->name].n ? HAS_FUNCTIONS : 0) | (d->strings[f->filename].n ? HAS_FILENAMES : 0) |
                 (line->line > 0 ? HAS_LINES : 0);
    }
    return known;
}

static void mark_location(struct pprof_encoder *c, uint32_t i)
{
    const struct dict *d = &c->b->dict;
    const struct location *l = &d->locations[i];
    bool scripted;

    if (c->locations[i])
        return;
    c->locations[i] = 1;
    if (l->mapping)
        c->mappings[l->mapping] = 1;
    c->known[l->mapping] |= known_of(d, l);
    scripted = is_scripted(c, i);
    for (uint32_t k = 0; k < l->lines.n; k++) {
        c->functions[d->lines[l->lines.off + k].function] = 1;
        c->scripted[d->lines[l->lines.off + k].function] |= scripted;
    }
}

/* pprof calls the first mapping the program ("File:"). It is the first one that is neither a library nor one of the kernel's,
 * by the rule that pprof has for its old formats. */
static bool is_program(struct str file)
{
    ptrdiff_t so = str_find(file, STR(".so"));

    if (!file.n || file.p[0] == '[' || str_starts(file, STR("linux-vdso")) || str_starts(file, STR("//anon")))
        return false;
    return so < 0 || ((size_t) so + 3 < file.n && file.p[so + 3] != '.' && file.p[so + 3] != '_');
}

static uint32_t find_program(const struct pprof_encoder *c)
{
    const struct dict *d = &c->b->dict;

    for (uint32_t i = 1; i < d->n_mappings && c->typed && !c->b->mapping_ids; i++)
        if (c->mappings[i] && is_program(d->strings[d->mappings[i].filename]))
            return i;
    return 0;
}

/* Turns marks into ids: those of the file that b was decoded from, or consecutive numbers; entry 0 last. */
static void number(uint64_t *ids, uint32_t n, const uint64_t *from_file)
{
    uint64_t next = 1;

    for (uint32_t i = 1; i < n; i++)
        if (ids[i])
            ids[i] = from_file ? from_file[i] : next++;
    for (uint32_t i = 1; from_file && ids[0] && i < n; i++) /* any free id */
        next = MAX(next, from_file[i] + 1);
    if (ids[0])
        ids[0] = next;
}

static int assign_ids(struct pprof_encoder *c)
{
    const struct batch *b = c->b;
    const struct dict *d = &b->dict;

    c->mappings = mem_zalloc_array(d->n_mappings, sizeof(uint64_t));
    c->functions = mem_zalloc_array(d->n_functions, sizeof(uint64_t));
    c->locations = mem_zalloc_array(d->n_locations, sizeof(uint64_t));
    c->by_index = mem_zalloc_array(d->n_strings, sizeof(uint32_t));
    c->scripted = mem_zalloc_array(d->n_functions, sizeof(bool));
    c->known = mem_zalloc_array(d->n_mappings, sizeof *c->known);
    if (!c->scripted || !c->known || !c->mappings || !c->functions || !c->locations || !c->by_index)
        return -ENOMEM;
    if (b->n_profiles == 1) {
        for (uint32_t i = 1; i < d->n_mappings; i++)
            c->mappings[i] = 1;
        for (uint32_t i = 1; i < d->n_functions; i++)
            c->functions[i] = 1;
        for (uint32_t i = 1; i < d->n_locations; i++)
            mark_location(c, i);
    }
    for (uint32_t i = 0; i < c->p->samples.n; i++) {
        struct run s = d->stacks[b->samples[c->p->samples.off + i].stack];

        for (uint32_t k = 0; k < s.n; k++)
            mark_location(c, d->indices[s.off + k]);
    }
    number(c->mappings, d->n_mappings, b->mapping_ids);
    c->first = find_program(c);
    for (uint32_t i = 1; i < c->first; i++)
        c->mappings[i] += c->mappings[i] > 0;
    if (c->first)
        c->mappings[c->first] = 1;
    number(c->functions, d->n_functions, b->function_ids);
    number(c->locations, d->n_locations, b->location_ids);
    return 0;
}

/* --- labels --- */

static void add_label(struct pprof_encoder *c, const struct pprof_label *l)
{
    if (!c->err)
        c->err = array_push(c->labels, c->n_labels, c->cap_labels, LABELS_MAX, *l);
}

static struct str value_text(struct pprof_encoder *c, const struct value *v)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct str copy;

    if (v->kind == VALUE_STR)
        return value_str(v);
    value_print(&text, v);
    copy = arena_str(&c->scratch, buf_str(&text));
    if (!c->err && (buf_error(&text) || (text.n && !copy.p)))
        c->err = -ENOMEM;
    return copy;
}

static void add_value(struct pprof_encoder *c, struct str key, uint32_t unit, const struct value *v)
{
    if (v->kind == VALUE_INT)
        add_label(c, &(struct pprof_label){.key = key, .unit = unit, .number = v->integer, .is_number = true});
    else if (v->kind != VALUE_EMPTY)
        add_label(c, &(struct pprof_label){.key = key, .text = value_text(c, v)});
}

/* A list becomes several labels with one key. */
static void add_attr(struct pprof_encoder *c, const struct attr *a)
{
    struct str key = c->b->dict.strings[a->key];

    if (a->value.kind != VALUE_ARRAY) {
        add_value(c, key, a->unit, &a->value);
        return;
    }
    for (uint32_t i = 0; i < a->value.n; i++)
        add_value(c, key, a->unit, &a->value.array[i]);
}

static bool label_before(const struct pprof_label *a, const struct pprof_label *b)
{
    if (a->is_number != b->is_number)
        return b->is_number;
    return str_cmp(a->key, b->key) < 0;
}

/* Insertion sort: labels are few and mostly sorted, and equal keys keep their order. */
static void sort_labels(struct pprof_encoder *c)
{
    for (size_t i = 1; i < c->n_labels; i++) {
        struct pprof_label l = c->labels[i];
        size_t k = i;

        for (; k > 0 && label_before(&l, &c->labels[k - 1]); k--)
            c->labels[k] = c->labels[k - 1];
        c->labels[k] = l;
    }
}

/* In pprof a key has units starting from its first value with one; a number without a unit before that has none. */
static void put_labels(struct pprof_encoder *c, struct run attrs)
{
    const struct dict *d = &c->b->dict;

    c->n_labels = 0;
    for (uint32_t i = 0; i < attrs.n; i++)
        add_attr(c, &d->attrs[d->indices[attrs.off + i]]);
    sort_labels(c);
    for (size_t i = 0; i < c->n_labels; i++) {
        const struct pprof_label *l = &c->labels[i];

        wire_put_uint(&c->sub, 1, add_string(c, l->key));
        if (l->is_number) {
            wire_put_uint(&c->sub, 3, (uint64_t) l->number);
            wire_put_uint(&c->sub, 4, add_index(c, l->unit));
        } else {
            wire_put_uint(&c->sub, 2, add_string(c, l->text));
        }
        put_message(&c->msg, 3, &c->sub);
    }
}

/* --- messages --- */

static void put_types(struct pprof_encoder *c)
{
    const struct str *strings = c->b->dict.strings;
    const struct profile *p = c->p;

    if (p->n_types == 1 && !strings[p->types[0].type].n && !strings[p->types[0].unit].n && !p->samples.n)
        return;
    for (uint32_t i = 0; i < p->n_types; i++) {
        wire_put_uint(&c->msg, 1, add_index(c, p->types[i].type));
        wire_put_uint(&c->msg, 2, add_index(c, p->types[i].unit));
        put_message(c->out, 1, &c->msg);
    }
}

static void put_stack(struct pprof_encoder *c, struct run s)
{
    const uint32_t *v = s.n ? c->b->dict.indices + s.off : NULL; /* a batch of empty stacks has no pool */
    size_t size = 0;

    if (s.n <= 2) {
        for (uint32_t i = 0; i < s.n; i++)
            wire_put_uint_always(&c->msg, 1, c->locations[v[i]]);
        return;
    }
    for (uint32_t i = 0; i < s.n; i++)
        size += varint_size(c->locations[v[i]]);
    wire_put_varint(&c->msg, 1 << 3 | 2);
    wire_put_varint(&c->msg, size);
    for (uint32_t i = 0; i < s.n; i++)
        wire_put_varint(&c->msg, c->locations[v[i]]);
}

static void put_values(struct pprof_encoder *c, const struct sample *s)
{
    const struct profile *p = c->p;
    size_t size = 0;

    if (p->n_types <= 2) {
        for (uint32_t i = 0; i < p->n_types; i++)
            wire_put_uint_always(&c->msg, 2, (uint64_t) batch_sample_value(c->b, p, s, i));
        return;
    }
    for (uint32_t i = 0; i < p->n_types; i++)
        size += varint_size((uint64_t) batch_sample_value(c->b, p, s, i));
    wire_put_varint(&c->msg, 2 << 3 | 2);
    wire_put_varint(&c->msg, size);
    for (uint32_t i = 0; i < p->n_types; i++)
        wire_put_varint(&c->msg, (uint64_t) batch_sample_value(c->b, p, s, i));
}

static void put_samples(struct pprof_encoder *c)
{
    for (uint32_t i = 0; i < c->p->samples.n && !c->err; i++) {
        const struct sample *s = &c->b->samples[c->p->samples.off + i];

        put_stack(c, c->b->dict.stacks[s->stack]);
        put_values(c, s);
        if (s->attrs.n)
            put_labels(c, s->attrs);
        put_message(c->out, 2, &c->msg);
    }
}

static void put_known(struct pprof_encoder *c, uint32_t i)
{
    static const struct str keys[] = {STR(SEMCONV_PPROF_HAS_FUNCTIONS), STR(SEMCONV_PPROF_HAS_FILENAMES),
                                      STR(SEMCONV_PPROF_HAS_LINE_NUMBERS), STR(SEMCONV_PPROF_HAS_INLINE_FRAMES)};
    uint8_t known = c->typed ? c->known[i] : 0;

    for (unsigned k = 0; k < ARRAY_SIZE(keys); k++)
        wire_put_uint(&c->msg, 7 + k, known >> k & 1 || batch_attr_true(c->b, c->b->dict.mappings[i].attrs, keys[k]));
}

static void put_mapping(struct pprof_encoder *c, uint32_t i)
{
    const struct mapping *m = &c->b->dict.mappings[i];

    wire_put_uint(&c->msg, 1, c->mappings[i]);
    wire_put_uint(&c->msg, 2, m->start);
    wire_put_uint(&c->msg, 3, m->limit);
    wire_put_uint(&c->msg, 4, m->offset);
    wire_put_uint(&c->msg, 5, add_index(c, m->filename));
    wire_put_uint(&c->msg, 6, add_string(c, identity_build_id(c->b, i)));
    put_known(c, i);
    wire_put_uint(&c->msg, PPROF_MAPPING_SKEW, m->skew);
    put_message(c->out, 3, &c->msg);
}

static void put_location(struct pprof_encoder *c, uint32_t i)
{
    const struct dict *d = &c->b->dict;
    const struct location *l = &d->locations[i];

    wire_put_uint(&c->msg, 1, c->locations[i]);
    wire_put_uint(&c->msg, 2, c->mappings[l->mapping]);
    wire_put_uint(&c->msg, 3, l->address);
    for (uint32_t k = 0; k < l->lines.n; k++) {
        const struct line *line = &d->lines[l->lines.off + k];

        wire_put_uint(&c->sub, 1, c->functions[line->function]);
        wire_put_uint(&c->sub, 2, (uint64_t) line->line);
        wire_put_uint(&c->sub, 3, (uint64_t) line->column);
        put_message(&c->msg, 4, &c->sub);
    }
    if (l->attrs.n)
        wire_put_uint(&c->msg, 5, batch_attr_true(c->b, l->attrs, STR(SEMCONV_PPROF_IS_FOLDED)));
    put_message(c->out, 4, &c->msg);
}

static void put_function(struct pprof_encoder *c, uint32_t i)
{
    const struct function *f = &c->b->dict.functions[i];

    wire_put_uint(&c->msg, 1, c->functions[i]);
    wire_put_uint(&c->msg, 2, add_index(c, f->name));
    wire_put_uint(&c->msg, 3, c->scripted[i] && f->system_name == f->name ? 0 : add_index(c, f->system_name));
    wire_put_uint(&c->msg, 4, add_index(c, f->filename));
    wire_put_uint(&c->msg, 5, (uint64_t) f->start_line);
    put_message(c->out, 5, &c->msg);
}

/* Writes the entries that have an id, entry 0 last. */
static void put_table(struct pprof_encoder *c, const uint64_t *ids, uint32_t n,
                      void (*put)(struct pprof_encoder *, uint32_t))
{
    uint32_t first = ids == c->mappings ? c->first : 0;

    if (first)
        put(c, first);
    for (uint32_t i = 1; i < n && !c->err; i++)
        if (ids[i] && i != first)
            put(c, i);
    if (ids[0])
        put(c, 0);
}

/* --- the profile --- */

static uint32_t add_text(struct pprof_encoder *c, struct str key)
{
    const struct attr *a = batch_attr(c->b, c->p->attrs, key);

    return a ? add_string(c, value_str(&a->value)) : 0;
}

/* Writes them to msg, packed if there are three or more. Returns their number. */
static size_t add_comments(struct pprof_encoder *c, struct buf *unpacked)
{
    const struct dict *d = &c->b->dict;
    size_t n = 0;

    for (uint32_t i = 0; i < c->p->attrs.n; i++) {
        const struct attr *a = &d->attrs[d->indices[c->p->attrs.off + i]];
        const struct value *v = a->value.kind == VALUE_ARRAY ? a->value.array : &a->value;

        if (!str_eq(d->strings[a->key], STR(SEMCONV_PPROF_COMMENT)))
            continue;
        for (uint32_t k = 0; k < (a->value.kind == VALUE_ARRAY ? a->value.n : 1); k++, n++) {
            uint32_t s = add_string(c, value_str(&v[k]));

            wire_put_uint_always(unpacked, 13, s);
            wire_put_varint(&c->msg, s);
        }
    }
    if (c->comment.n) {
        uint32_t s = add_string(c, c->comment);

        wire_put_uint_always(unpacked, 13, s);
        wire_put_varint(&c->msg, s);
        n++;
    }
    return n;
}

static uint32_t add_default_type(struct pprof_encoder *c)
{
    const struct profile *p = c->p;

    if (p->default_type)
        return add_index(c, p->types[p->default_type - 1].type);
    return add_text(c, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE));
}

static void put_rest(struct pprof_encoder *c)
{
    _cleanup_(buf_done) struct buf comments = BUF_INIT;
    const struct profile *p = c->p;
    uint32_t drop = add_text(c, STR(SEMCONV_PPROF_DROP_FRAMES));
    uint32_t keep = add_text(c, STR(SEMCONV_PPROF_KEEP_FRAMES));
    uint32_t type = add_index(c, p->period_type.type), unit = add_index(c, p->period_type.unit);
    size_t n_comments = add_comments(c, &comments);
    uint32_t default_type = add_default_type(c), doc = add_text(c, STR(SEMCONV_PPROF_DOC_URL));

    for (size_t i = 0; i < c->n_strings; i++)
        wire_put_bytes_always(c->out, 6, c->strings[i].p, c->strings[i].n);
    wire_put_uint(c->out, 7, drop);
    wire_put_uint(c->out, 8, keep);
    wire_put_uint(c->out, 9, (uint64_t) p->time_ns);
    wire_put_uint(c->out, 10, (uint64_t) p->duration_ns);
    if (type || unit) {
        wire_put_uint(&c->sub, 1, type);
        wire_put_uint(&c->sub, 2, unit);
        put_message(c->out, 11, &c->sub);
    }
    wire_put_uint(c->out, 12, (uint64_t) p->period);
    if (n_comments > 2)
        put_message(c->out, 13, &c->msg);
    else
        buf_put(c->out, comments.p, comments.n);
    if (buf_error(&comments) && !c->err)
        c->err = buf_error(&comments);
    wire_put_uint_always(c->out, 14, default_type);
    wire_put_uint(c->out, 15, doc);
}

static int encode(struct pprof_encoder *c)
{
    int r = assign_ids(c);

    if (r == 0)
        r = array_reserve(c->strings, c->cap_strings, 1, UINT32_MAX);
    if (r < 0)
        return r;
    c->strings[c->n_strings++] = (struct str){0};
    put_types(c);
    put_samples(c);
    put_table(c, c->mappings, c->b->dict.n_mappings, put_mapping);
    put_table(c, c->locations, c->b->dict.n_locations, put_location);
    put_table(c, c->functions, c->b->dict.n_functions, put_function);
    put_rest(c);
    return c->err ? c->err : buf_error(c->out);
}

int pprof_encode(const struct batch *b, const struct profile *p, struct buf *out, struct err *e)
{
    return pprof_encode_with(b, p, (struct str){0}, out, e);
}

int pprof_encode_with(const struct batch *b, const struct profile *p, struct str comment, struct buf *out,
                      struct err *e)
{
    struct pprof_encoder c = {.b = b, .p = p, .comment = comment, .out = out, .string_map = MAP_INIT};
    int r;

    arena_init(&c.scratch, 0);
    r = encode(&c);
    buf_done(&c.msg);
    buf_done(&c.sub);
    mem_free(c.strings);
    mem_free(c.by_index);
    mem_free(c.mappings);
    mem_free(c.functions);
    mem_free(c.locations);
    mem_free(c.scripted);
    mem_free(c.known);
    mem_free(c.labels);
    map_done(&c.string_map);
    arena_done(&c.scratch);
    return r < 0 ? err_set(e, r, "cannot write the profile as pprof: %m") : 0;
}
