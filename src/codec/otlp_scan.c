/* SPDX-License-Identifier: Apache-2.0 */
/* See otlp_scan.h. Walks all messages but those whose inside needs no counting (functions, links, attributes). */
#include "codec/otlp_scan.h"

#include <errno.h>

enum { SAMPLE_LIST_LOOK = 16, LOCATION_SAMPLE = 8 };

/* Counts the elements of a repeated number field in either form. */
static uint32_t count_list(const struct wire_field *f)
{
    return (f->tag & 7) == WIRE_LEN ? wire_count_varints(f->data, f->v) : 1;
}

enum entry_kind { ENTRY_TEXT, ENTRY_IDS, ENTRY_MESSAGE };

/* True for a message whose fields are all zero: numbers 0, others absent or empty; trace ids may be all zeros. */
static bool is_zero_message(const uint8_t *p, const uint8_t *end, enum entry_kind kind)
{
    while (p < end) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        if (!p)
            return true; /* the second pass says what is wrong */
        if ((f.tag & 7) != WIRE_LEN ? f.v != 0 : kind == ENTRY_MESSAGE && f.v)
            return false;
        for (uint64_t i = 0; (f.tag & 7) == WIRE_LEN && i < f.v; i++)
            if (f.data[i])
                return false;
    }
    return true;
}

static void count_entry(struct otlp_counts *c, struct otlp_table_count *t, const struct wire_field *f,
                        enum entry_kind kind)
{
    c->empty += f->v == 0;
    if (t->n++ == 0 && f->v)
        t->shifted = kind == ENTRY_TEXT || !is_zero_message(f->data, f->data + f->v, kind);
}

/* Looks into a location, if it is among those that stand for all. What is wrong with it is said by the second pass. */
static void sample_location(const struct wire_field *l, struct otlp_counts *c)
{
    const uint8_t *p = l->data, *end = p + l->v;
    struct wire_field f;

    if (c->locations.n % LOCATION_SAMPLE != 2) /* the first ones are the zero value and often the kernel's */
        return;
    c->looked++;
    while (p && p < end) {
        p = wire_next_scan(p, end, &f);
        if (p && f.tag == WIRE_TAG(3, WIRE_LEN)) {
            c->lines++;
            c->empty += f.v == 0;
        } else if (p && f.tag == WIRE_TAG(4, WIRE_LEN)) {
            c->attr_indices += wire_count_varints(f.data, f.v);
        }
    }
}

static int scan_dictionary(const uint8_t *p, const uint8_t *end, struct otlp_counts *c, struct wire_err *w)
{
    struct wire_field f;
    int r = 0;

    while (wire_each_scan(w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            count_entry(c, &c->mappings, &f, ENTRY_MESSAGE);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            count_entry(c, &c->locations, &f, ENTRY_MESSAGE);
            sample_location(&f, c);
            break;
        case WIRE_TAG(3, WIRE_LEN):
            count_entry(c, &c->functions, &f, ENTRY_MESSAGE);
            break;
        case WIRE_TAG(4, WIRE_LEN):
            count_entry(c, &c->links, &f, ENTRY_IDS);
            break;
        case WIRE_TAG(5, WIRE_LEN):
            count_entry(c, &c->strings, &f, ENTRY_TEXT);
            break;
        case WIRE_TAG(6, WIRE_LEN):
            count_entry(c, &c->attrs, &f, ENTRY_MESSAGE);
            break;
        case WIRE_TAG(7, WIRE_LEN):
            count_entry(c, &c->stacks, &f, ENTRY_MESSAGE);
            c->stack_indices += f.v > 2 ? wire_count_varints(f.data + 2, f.v - 2) : f.v; /* behind tag and length */
            break;
        }
    }
    return r;
}

/* Whether a stack has its locations unpacked, which says how the sender writes lists. */
static bool is_unpacked(const uint8_t *p, const uint8_t *end)
{
    bool yes = false;

    while (p && p < end && !yes) {
        struct wire_field f, g = {0};

        p = wire_next(p, end, &f);
        if (p && f.tag == WIRE_TAG(7, WIRE_LEN) && f.v && wire_next(f.data, p, &g))
            yes = g.tag == WIRE_TAG(1, WIRE_VARINT);
    }
    return yes;
}

static bool has_repeat(const uint8_t *p, const uint8_t *end)
{
    uint64_t seen[SAMPLE_LIST_LOOK];
    unsigned n = 0;

    while (p && p < end && n < SAMPLE_LIST_LOOK) {
        p = wire_varint(p, end, &seen[n]);
        for (unsigned i = 0; p && i < n; i++)
            if (seen[i] == seen[n])
                return true;
        n++;
    }
    return false;
}

/* A sample with field 2 and no values: attributes with times (G5), or values with or without times (G3, G4)? */
static void weigh_sample(struct otlp_evidence *ev, const uint8_t *list, size_t list_size, uint64_t n_list,
                         uint64_t n_times)
{
    if (!n_times)
        ev->sample_2_alone = true;
    else if (n_list != n_times)
        ev->sample_2_set = true;
    else if (list && has_repeat(list, list + list_size))
        ev->sample_2_repeats = true;
}

static int scan_sample(const uint8_t *p, const uint8_t *end, struct otlp_counts *c, struct wire_err *w)
{
    struct wire_field f;
    const uint8_t *list = NULL;
    size_t list_size = 0;
    uint64_t n_attrs = 0, n_values = 0, n_times = 0;
    int r = 0;

    while (wire_each_scan(w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(2, WIRE_LEN):
            n_attrs += wire_count_varints(f.data, f.v);
            list = f.data;
            list_size = f.v;
            break;
        case WIRE_TAG(2, WIRE_VARINT):
            n_attrs++;
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            c->ev.sample_g5 = true;
            break;
        case WIRE_TAG(3, WIRE_LEN):
            c->ev.sample_g4 = true;
            break;
        case WIRE_TAG(4, WIRE_LEN):
            n_values += wire_count_varints(f.data, f.v);
            c->ev.sample_g5 = true;
            break;
        case WIRE_TAG(4, WIRE_VARINT):
            n_values++;
            c->ev.sample_4_varint = true;
            break;
        case WIRE_TAG(5, WIRE_LEN):
            n_times += f.v / 8;
            break;
        case WIRE_TAG(5, WIRE_I64):
            n_times++;
            break;
        }
    }
    if (r < 0)
        return r;
    if (n_attrs && !n_values && !c->ev.sample_2_set)
        weigh_sample(&c->ev, list, list_size, n_attrs, n_times);
    c->indices += n_attrs;
    c->values += n_values;
    c->timestamps += n_times;
    return 0;
}

/* What of a Profile's field does not fit G5, or is new in G4. */
static void weigh_profile_field(struct otlp_evidence *ev, const struct wire_field *f)
{
    switch (f->tag) {
    case WIRE_TAG(2, WIRE_I64):
        ev->profile_2_i64 = true;
        break;
    case WIRE_TAG(3, WIRE_LEN):
        ev->profile_3_len = true;
        break;
    case WIRE_TAG(6, WIRE_LEN):
        ev->profile_6_len = true;
        break;
    case WIRE_TAG(7, WIRE_VARINT):
        ev->profile_7_varint = true;
        break;
    case WIRE_TAG(7, WIRE_LEN):
        ev->profile_7_id |= f->v == 16;
        break;
    case WIRE_TAG(8, WIRE_LEN):
        ev->profile_8_len = true;
        break;
    case WIRE_TAG(12, WIRE_LEN):
    case WIRE_TAG(12, WIRE_VARINT):
        ev->profile_12 = true;
        break;
    }
}

static int scan_profile(const uint8_t *p, const uint8_t *end, struct otlp_counts *c, struct wire_err *w)
{
    struct wire_field f;
    uint32_t sample = 0;
    int r = 0;

    c->profiles++;
    c->empty += p == end;
    while (wire_each_scan(w, &p, end, &f, &r)) {
        if (f.tag == WIRE_TAG(2, WIRE_LEN)) {
            c->samples++;
            c->empty += f.v == 0;
            r = wire_path(w, scan_sample(f.data, p, c, w), "samples", sample++);
        } else if (f.tag >> 3 == 11) {
            c->indices += count_list(&f);
        } else {
            weigh_profile_field(&c->ev, &f);
        }
    }
    return r;
}

/* Counts the attributes in field `field` of a Resource or InstrumentationScope. */
static int scan_attributes(const uint8_t *p, const uint8_t *end, uint32_t field, struct otlp_counts *c,
                           struct wire_err *w)
{
    struct wire_field f;
    int r = 0;

    while (wire_each_scan(w, &p, end, &f, &r)) {
        c->kvs += f.tag == WIRE_TAG(field, WIRE_LEN);
        c->empty += f.tag == WIRE_TAG(field, WIRE_LEN) && f.v == 0;
    }
    return r;
}

static int scan_scope(const uint8_t *p, const uint8_t *end, struct otlp_counts *c, struct wire_err *w)
{
    struct wire_field f;
    uint32_t profile = 0;
    int r = 0;

    c->scopes++;
    c->empty += p == end;
    while (wire_each_scan(w, &p, end, &f, &r)) {
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = wire_path(w, scan_attributes(f.data, p, 3, c, w), "scope", WIRE_NO_INDEX);
        else if (f.tag == WIRE_TAG(2, WIRE_LEN))
            r = wire_path(w, scan_profile(f.data, p, c, w), "profiles", profile++);
    }
    return r;
}

static int scan_resource(const uint8_t *p, const uint8_t *end, struct otlp_counts *c, struct wire_err *w)
{
    struct wire_field f;
    uint32_t scope = 0;
    int r = 0;

    c->resources++;
    c->empty += p == end;
    while (wire_each_scan(w, &p, end, &f, &r)) {
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = wire_path(w, scan_attributes(f.data, p, 1, c, w), "resource", WIRE_NO_INDEX);
        else if (f.tag == WIRE_TAG(2, WIRE_LEN))
            r = wire_path(w, scan_scope(f.data, p, c, w), "scope_profiles", scope++);
    }
    return r;
}

int otlp_scan(const uint8_t *p, const uint8_t *end, struct otlp_counts *c, struct wire_err *w)
{
    struct wire_field f;
    const uint8_t *start = p;
    int r = 0;

    *c = (struct otlp_counts){0};
    while (wire_each_scan(w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            r = wire_path(w, scan_resource(f.data, p, c, w), "resource_profiles", (uint32_t) c->resources - 1);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            c->ev.dictionary = true;
            r = wire_path(w, scan_dictionary(f.data, p, c, w), "dictionary", WIRE_NO_INDEX);
            break;
        case WIRE_TAG(6, WIRE_LEN):
            c->ev.top_strings = true;
            break;
        }
    }
    for (p = start; r == 0 && p < end && c->ev.sample_4_varint && !c->ev.unpacked;) {
        p = wire_next(p, end, &f);
        if (f.tag == WIRE_TAG(2, WIRE_LEN))
            c->ev.unpacked = is_unpacked(f.data, p);
    }
    return r;
}
