/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tables of the dictionary for the JSON decoder (otlp_json.h). */
#include "codec/otlp_json.h"

static int read_string(struct otlp_json *d, void *entry)
{
    *(struct str *) entry = json_str(&d->r);
    return otlp_json_check(d);
}

static bool string_is_zero(const struct otlp_json *d, const void *entry)
{
    return !((const struct str *) entry)->n;
}

static int read_attr(struct otlp_json *d, void *entry)
{
    struct attr a = {.key = d->strings.shift};
    struct str key;
    int r = 0;

    if (otlp_json_object(d))
        while (r == 0 && json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "keyStrindex"))
                a.key = otlp_json_ref(d, &d->strings, "keyStrindex", false);
            else if (KEY_IS(key, "value"))
                r = wire_path(&d->w, otlp_json_value(d, 0, &a.value), "value", WIRE_NO_INDEX);
            else if (KEY_IS(key, "unitStrindex"))
                a.unit = otlp_json_ref(d, &d->strings, "unitStrindex", true);
            else
                json_skip(&d->r);
        }
    *(struct attr *) entry = a;
    return otlp_json_check(d);
}

static bool attr_is_zero(const struct otlp_json *d, const void *entry)
{
    const struct attr *a = entry;

    return a->key == d->strings.shift && !a->unit && a->value.kind == VALUE_EMPTY;
}

static int read_mapping(struct otlp_json *d, void *entry)
{
    struct mapping m = {0};
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "memoryStart"))
                m.start = json_u64(&d->r);
            else if (KEY_IS(key, "memoryLimit"))
                m.limit = json_u64(&d->r);
            else if (KEY_IS(key, "fileOffset"))
                m.offset = json_u64(&d->r);
            else if (KEY_IS(key, "filenameStrindex"))
                m.filename = otlp_json_ref(d, &d->strings, "filenameStrindex", true);
            else if (KEY_IS(key, "attributeIndices"))
                m.attrs = otlp_json_refs(d, &d->attrs, "attributeIndices");
            else
                json_skip(&d->r);
        }
    *(struct mapping *) entry = m;
    return otlp_json_check(d);
}

static bool mapping_is_zero(const struct otlp_json *d, const void *entry)
{
    const struct mapping *m = entry;

    return !m->start && !m->limit && !m->offset && !m->filename && !m->attrs.n;
}

static int read_function(struct otlp_json *d, void *entry)
{
    struct function f = {.name = d->strings.shift};
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "nameStrindex"))
                f.name = otlp_json_ref(d, &d->strings, "nameStrindex", false);
            else if (KEY_IS(key, "systemNameStrindex"))
                f.system_name = otlp_json_ref(d, &d->strings, "systemNameStrindex", true);
            else if (KEY_IS(key, "filenameStrindex"))
                f.filename = otlp_json_ref(d, &d->strings, "filenameStrindex", true);
            else if (KEY_IS(key, "startLine"))
                f.start_line = json_i64(&d->r);
            else
                json_skip(&d->r);
        }
    *(struct function *) entry = f;
    return otlp_json_check(d);
}

static bool function_is_zero(const struct otlp_json *d, const void *entry)
{
    const struct function *f = entry;

    return f->name == d->strings.shift && !f->system_name && !f->filename && !f->start_line;
}

static int read_line(struct otlp_json *d, struct line *ret)
{
    struct str key;

    *ret = (struct line){.function = d->functions.shift};
    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "functionIndex"))
                ret->function = otlp_json_ref(d, &d->functions, "functionIndex", false);
            else if (KEY_IS(key, "line"))
                ret->line = json_i64(&d->r);
            else if (KEY_IS(key, "column"))
                ret->column = json_i64(&d->r);
            else
                json_skip(&d->r);
        }
    return otlp_json_check(d);
}

static struct run read_lines(struct otlp_json *d)
{
    struct dict *dict = &d->b->dict;
    struct run run = {dict->n_lines, 0};

    if (!otlp_json_array(d))
        return (struct run){0};
    while (json_next_item(&d->r)) {
        struct line l, *slot;

        if (wire_path(&d->w, read_line(d, &l), "lines", run.n) < 0)
            break;
        slot = otlp_json_add(d, ARRAY_LINES, &dict->lines, &dict->n_lines, sizeof *slot);
        if (slot)
            *slot = l;
        run.n++;
    }
    return run.n ? run : (struct run){0};
}

static int read_location(struct otlp_json *d, void *entry)
{
    struct location l = {.mapping = d->mappings.shift};
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "mappingIndex"))
                l.mapping = otlp_json_ref(d, &d->mappings, "mappingIndex", false);
            else if (KEY_IS(key, "address"))
                l.address = json_u64(&d->r);
            else if (KEY_IS(key, "lines"))
                l.lines = read_lines(d);
            else if (KEY_IS(key, "attributeIndices"))
                l.attrs = otlp_json_refs(d, &d->attrs, "attributeIndices");
            else
                json_skip(&d->r);
        }
    *(struct location *) entry = l;
    return otlp_json_check(d);
}

static bool location_is_zero(const struct otlp_json *d, const void *entry)
{
    const struct location *l = entry;

    return l->mapping == d->mappings.shift && !l->address && !l->lines.n && !l->attrs.n;
}

static int read_stack(struct otlp_json *d, void *entry)
{
    struct run run = {0};
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "locationIndices"))
                run = otlp_json_refs(d, &d->locations, "locationIndices");
            else
                json_skip(&d->r);
        }
    *(struct run *) entry = run;
    return otlp_json_check(d);
}

static bool stack_is_zero(const struct otlp_json *d, const void *entry)
{
    return !((const struct run *) entry)->n;
}

static int read_link(struct otlp_json *d, void *entry)
{
    struct link l = {0};
    struct str key;

    if (otlp_json_object(d))
        while (json_next_key(&d->r, &key)) {
            if (KEY_IS(key, "traceId"))
                otlp_json_id(d, "traceId", l.trace_id, sizeof l.trace_id);
            else if (KEY_IS(key, "spanId"))
                otlp_json_id(d, "spanId", l.span_id, sizeof l.span_id);
            else
                json_skip(&d->r);
        }
    *(struct link *) entry = l;
    return otlp_json_check(d);
}

static bool link_is_zero(const struct otlp_json *d, const void *entry)
{
    static const struct link none;

    return memcmp(entry, &none, sizeof none) == 0;
}

/* The tables in the order in which they are read: none refers to a later one. */
static const struct entry_table {
    const char *key;
    enum otlp_array which;
    size_t table, n; /* offsets of the pointer and the count in struct dict */
    size_t refs;     /* offset of the struct otlp_table in struct otlp_json */
    size_t size;
    int (*read)(struct otlp_json *d, void *entry);
    bool (*is_zero)(const struct otlp_json *d, const void *entry);
} tables[] = {
#define TABLE(k, w, f, one)                                                                          \
    {                                                                                                \
        k, w, offsetof(struct dict, f), offsetof(struct dict, n_##f), offsetof(struct otlp_json, f), \
            sizeof(*((struct dict *) 0)->f), read_##one, one##_is_zero                               \
    }
    TABLE("stringTable", ARRAY_STRINGS, strings, string),
    TABLE("attributeTable", ARRAY_ATTRS, attrs, attr),
    TABLE("mappingTable", ARRAY_MAPPINGS, mappings, mapping),
    TABLE("functionTable", ARRAY_FUNCTIONS, functions, function),
    TABLE("locationTable", ARRAY_LOCATIONS, locations, location),
    TABLE("stackTable", ARRAY_STACKS, stacks, stack),
    TABLE("linkTable", ARRAY_LINKS, links, link),
#undef TABLE
};

enum { ENTRY_MAX = 64 };

/* Reads one entry. The first one decides whether the table has its zero value; if not, one is inserted at the front. */
static int read_entry(struct otlp_json *d, const struct entry_table *t, struct otlp_table *refs, uint32_t i)
{
    struct dict *dict = &d->b->dict;
    void *table = (char *) dict + t->table, *slot;
    uint32_t *n = (uint32_t *) (void *) ((char *) dict + t->n);
    char entry[ENTRY_MAX] __attribute__((aligned(16))) = {0};
    int r = t->read(d, entry);

    if (r < 0)
        return wire_path(&d->w, r, t->key, i);
    if (i == 0) {
        *n = 0; /* the previous table is shared by all batches */
        refs->shift = !t->is_zero(d, entry);
        slot = otlp_json_add(d, t->which, table, n, t->size);
        if (slot)
            memset(slot, 0, t->size);
        if (!refs->shift)
            return d->r.err;
    }
    slot = otlp_json_add(d, t->which, table, n, t->size);
    if (slot)
        memcpy(slot, entry, t->size);
    return d->r.err;
}

static int read_table(struct otlp_json *d, const struct entry_table *t)
{
    struct otlp_table *refs = (struct otlp_table *) (void *) ((char *) d + t->refs);
    uint32_t i = 0;

    if (otlp_json_array(d))
        while (json_next_item(&d->r) && read_entry(d, t, refs, i) == 0)
            i++;
    refs->n = MAX(i, 1u);
    return otlp_json_check(d);
}

int otlp_json_dictionary(struct otlp_json *d)
{
    struct json at[ARRAY_SIZE(tables)] = {0}, end;
    struct str key;

    if (!otlp_json_object(d))
        return otlp_json_check(d);
    while (json_next_key(&d->r, &key)) {
        size_t i = 0;

        while (i < ARRAY_SIZE(tables) && !str_is(key, tables[i].key))
            i++;
        if (i < ARRAY_SIZE(tables)) {
            at[i] = d->r;
            json_skip_unchecked(&d->r); /* it will be read below */
        } else {
            json_skip(&d->r);
        }
    }
    end = d->r;
    for (size_t i = 0; i < ARRAY_SIZE(tables) && !d->r.err; i++)
        if (at[i].p) {
            d->r = at[i];
            read_table(d, &tables[i]);
        }
    if (otlp_json_check(d) < 0)
        return wire_path(&d->w, d->r.err, "dictionary", WIRE_NO_INDEX);
    d->r = end;
    return 0;
}
