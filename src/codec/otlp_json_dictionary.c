/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tables of the dictionary for the JSON decoder (otlp_json.h). */
#include "codec/otlp_fields.h"
#include "codec/otlp_json.h"

static struct otlp_table *target_of(struct otlp_json *d, const struct otlp_field *m)
{
    static const uint16_t offsets[OTLP_TARGETS] = {
        [TO_STRINGS] = offsetof(struct otlp_json, strings),     [TO_MAPPINGS] = offsetof(struct otlp_json, mappings),
        [TO_FUNCTIONS] = offsetof(struct otlp_json, functions), [TO_LOCATIONS] = offsetof(struct otlp_json, locations),
        [TO_ATTRS] = offsetof(struct otlp_json, attrs),
    };

    return (void *) ((char *) d + offsets[m->to]);
}

static int read_message(struct otlp_json *d, const struct otlp_message *m, void *entry);

static struct run read_lines(struct otlp_json *d)
{
    struct dict *dict = &d->b->dict;
    struct run run = {dict->n_lines, 0};

    if (!otlp_json_array(d))
        return (struct run){0};
    while (json_next_item(&d->r)) {
        struct line l, *slot;

        if (wire_path(&d->w, read_message(d, &otlp_line, &l), "lines", run.n) < 0)
            break;
        slot = otlp_json_add(d, ARRAY_LINES, &dict->lines, &dict->n_lines, sizeof *slot);
        if (slot)
            *slot = l;
        run.n++;
    }
    return run.n ? run : (struct run){0};
}

static int read_field(struct otlp_json *d, const struct otlp_field *f, void *at)
{
    switch (f->kind) {
    case OTLP_U64:
        *(uint64_t *) at = json_u64(&d->r);
        break;
    case OTLP_I64:
        *(int64_t *) at = json_i64(&d->r);
        break;
    case OTLP_REF:
    case OTLP_REF_OPTIONAL:
        *(uint32_t *) at = otlp_json_ref(d, target_of(d, f), f->key.p, f->kind == OTLP_REF_OPTIONAL);
        break;
    case OTLP_REFS:
        *(struct run *) at = otlp_json_refs(d, target_of(d, f), f->key.p);
        break;
    case OTLP_ID:
        otlp_json_id(d, f->key.p, at, f->size);
        break;
    case OTLP_LINES:
        *(struct run *) at = read_lines(d);
        break;
    case OTLP_VALUE:
        return wire_path(&d->w, otlp_json_value(d, 0, at), f->key.p, WIRE_NO_INDEX);
    }
    return 0;
}

/* Reads an entry by its table of fields. Senders write them in order, so the search begins after the last one. */
static int read_message(struct otlp_json *d, const struct otlp_message *m, void *entry)
{
    const struct otlp_field *f = m->fields, *end = f + m->n;
    struct str key;
    int r = 0;

    memset(entry, 0, m->size);
    if (m->required)
        *(uint32_t *) (void *) ((char *) entry + m->required->offset) = target_of(d, m->required)->shift;
    if (otlp_json_object(d))
        while (r == 0 && json_next_key(&d->r, &key)) {
            uint32_t tries = 0;

            for (; tries < m->n; tries++, f++) {
                f = f < end ? f : m->fields;
                if (str_eq(key, f->key))
                    break;
            }
            if (tries < m->n) {
                r = read_field(d, f, (char *) entry + f->offset);
                f++;
            } else {
                json_skip(&d->r);
            }
        }
    return otlp_json_check(d);
}

static int read_entry_of(struct otlp_json *d, const struct otlp_message *m, void *entry)
{
    if (m)
        return read_message(d, m, entry);
    *(struct str *) entry = json_str(&d->r);
    return otlp_json_check(d);
}

static bool entry_is_zero(struct otlp_json *d, const struct otlp_message *m, const void *entry)
{
    return m ? otlp_is_zero(m, entry, m->required ? target_of(d, m->required)->shift : 0)
             : !((const struct str *) entry)->n;
}

/* The tables in the order in which they are read: none refers to a later one. */
static const struct entry_table {
    const char *key;
    enum otlp_array which;
    size_t table, n; /* offsets of the pointer and the count in struct dict */
    size_t refs;     /* offset of the struct otlp_table in struct otlp_json */
    size_t size;
    const struct otlp_message *message; /* NULL: a string */
} tables[] = {
#define TABLE(k, w, f, message)                                                                      \
    {                                                                                                \
        k, w, offsetof(struct dict, f), offsetof(struct dict, n_##f), offsetof(struct otlp_json, f), \
            sizeof(*((struct dict *) 0)->f), message                                                 \
    }
    TABLE("stringTable", ARRAY_STRINGS, strings, NULL),
    TABLE("attributeTable", ARRAY_ATTRS, attrs, &otlp_attr),
    TABLE("mappingTable", ARRAY_MAPPINGS, mappings, &otlp_mapping),
    TABLE("functionTable", ARRAY_FUNCTIONS, functions, &otlp_function),
    TABLE("locationTable", ARRAY_LOCATIONS, locations, &otlp_location),
    TABLE("stackTable", ARRAY_STACKS, stacks, &otlp_stack),
    TABLE("linkTable", ARRAY_LINKS, links, &otlp_link),
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
    int r = read_entry_of(d, t->message, entry);

    if (r < 0)
        return wire_path(&d->w, r, t->key, i);
    if (i == 0) {
        *n = 0; /* the previous table is shared by all batches */
        refs->shift = !entry_is_zero(d, t->message, entry);
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
