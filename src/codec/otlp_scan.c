/* SPDX-License-Identifier: Apache-2.0 */
/* The first pass of the OTLP decoder (otlp_scan.h). It walks all messages except those whose content need not be
 * counted (functions, links, attributes). */
#include "codec/otlp_scan.h"

#include <errno.h>

enum { SAMPLE_LIST_LOOK = 16, LOCATION_SAMPLE = 8 };

enum entry_kind { ENTRY_TEXT, ENTRY_IDS, ENTRY_MESSAGE };

/* True for a message whose fields are all zero: numbers 0, others absent or empty; trace ids may be all zeros. */
static bool is_zero_message(const uint8_t *p, const uint8_t *end, enum entry_kind kind)
{
    while (p < end) {
        struct wire_field f;

        p = wire_next(p, end, &f);
        if (!p)
            return true; /* the second pass reports the error */
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

/* Examines a location if it is one of those from which the rest is estimated. The second pass reports its errors. */
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
        } else if (p && (f.tag == WIRE_TAG(4, WIRE_LEN) || f.tag == WIRE_TAG(4, WIRE_VARINT))) {
            c->attr_indices += wire_list_count(&f, p);
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
            c->stack_indices += f.v > 2 ? varint_count(f.data + 2, f.v - 2) : f.v; /* after tag and length */
            break;
        }
    }
    return r;
}

static bool has_repeat(const uint8_t *p, const uint8_t *end)
{
    uint64_t seen[SAMPLE_LIST_LOOK];
    unsigned n = 0;

    while (p && p < end && n < SAMPLE_LIST_LOOK) {
        p = varint_read(p, end, &seen[n]);
        for (unsigned i = 0; p && i < n; i++)
            if (seen[i] == seen[n])
                return true;
        n++;
    }
    return false;
}

/* The fields of one sample that determine its generation. */
struct sample_look {
    const uint8_t *list; /* the last packed field 2 */
    size_t list_size;
    uint64_t n_attrs, n_values, n_times;
    uint32_t n_field_4; /* VARINT */
};

/* A sample with field 2 and no values: attributes with times (G5), or values with or without times (G3, G4)? */
static void weigh_attributes(struct otlp_evidence *ev, const struct sample_look *l)
{
    if (!l->n_times)
        ev->sample_2_alone = true;
    else if (l->n_attrs != l->n_times)
        ev->sample_2_set = true;
    else if (l->list && has_repeat(l->list, l->list + l->list_size))
        ev->sample_2_repeats = true;
}

/* A sample with field 4 VARINT: unpacked values (G5), or a link (G3, G4)? */
static void weigh_field_4(struct otlp_evidence *ev, const struct sample_look *l)
{
    ev->sample_4_varint = true;
    if (l->n_field_4 > 1 || (!l->n_attrs && !l->n_times))
        ev->sample_4_values = true;
    else if (l->n_values == 1 && l->n_times > 1 && l->n_times == l->n_attrs)
        ev->possible &= (uint8_t) ~OTLP_BIT(OTLP_G5); /* one value for several times: it is a link */
}

static void look_at_field_4(struct otlp_evidence *ev, const uint8_t *p, const uint8_t *end, struct sample_look *l)
{
    uint64_t v = 0;

    varint_read(p, end, &v);
    ev->sample_4_max = MAX(ev->sample_4_max, v);
    l->n_field_4++;
}

#define TABLES_IN_PROFILE (OTLP_BIT(OTLP_G1) | OTLP_BIT(OTLP_G1_6) | OTLP_BIT(OTLP_G2))
#define STACKS_IN_TABLE (OTLP_BIT(OTLP_G3) | OTLP_BIT(OTLP_G4))

static int scan_sample(const uint8_t *p, const uint8_t *end, struct otlp_counts *c, struct wire_err *w)
{
    struct sample_look l = {0};
    struct wire_field f;
    uint8_t not = 0; /* generations that this sample rules out */
    int r = 0;

    while (wire_each_scan(w, &p, end, &f, &r)) {
        switch (f.tag) {
        case WIRE_TAG(2, WIRE_LEN):
            l.list = f.data;
            l.list_size = f.v;
            not |= TABLES_IN_PROFILE;
            /* fall through */
        case WIRE_TAG(2, WIRE_VARINT):
            l.n_attrs += wire_list_count(&f, p);
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            c->ev.sample_g5 = true;
            break;
        case WIRE_TAG(3, WIRE_LEN):
            not |= OTLP_BIT(OTLP_G5);
            break;
        case WIRE_TAG(4, WIRE_VARINT):
            look_at_field_4(&c->ev, f.data, p, &l);
            l.n_values++;
            break;
        case WIRE_TAG(4, WIRE_LEN):
            l.n_values += wire_list_count(&f, p);
            c->ev.sample_g5 = true;
            not |= STACKS_IN_TABLE;
            break;
        case WIRE_LIST_OF(5, WIRE_I64):
            l.n_times += (size_t) (p - f.data) / 8;
            not |= TABLES_IN_PROFILE;
            break;
        case WIRE_TAG(5, WIRE_VARINT):
            not |= STACKS_IN_TABLE | OTLP_BIT(OTLP_G5);
            break;
        }
    }
    if (r < 0)
        return r;
    c->ev.possible &= (uint8_t) ~not ;
    if (l.n_field_4)
        weigh_field_4(&c->ev, &l);
    if (l.n_attrs && !l.n_values && !c->ev.sample_2_set)
        weigh_attributes(&c->ev, &l);
    c->indices += l.n_attrs;
    c->values += l.n_values;
    c->timestamps += l.n_times;
    return 0;
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
        } else {
            if (f.tag == WIRE_TAG(11, WIRE_LEN) || f.tag == WIRE_TAG(11, WIRE_VARINT))
                c->indices += wire_list_count(&f, p);
            c->ev.possible &= otlp_generation_of_field(&f);
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
    int r = 0;

    *c = (struct otlp_counts){.ev.possible = UINT8_MAX};
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
    return r;
}
