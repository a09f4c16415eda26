/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels that Pyroscope's Java agent sends with a recording (jfr.h). Contexts and strings are noted by key; the bytes
 * of a context are read again when an event refers to it.
 */
#include <errno.h>
#include <stdio.h>

#include "base/compress.h"
#include "base/mem.h"
#include "base/wire.h"
#include "codec/jfr/jfr_reader.h"
#include "model/builder.h"

enum { LABELS_INFLATED_MAX = 16 << 20, ENTRIES_MAX = 1 << 20 };

struct jfr_label_entry {
    uint64_t key;
    struct str value; /* a string, or a Context */
};

struct jfr_label_table {
    struct jfr_label_entry *v;
    size_t n, cap;
    struct map map;
};

struct jfr_labels {
    struct buf bytes;
    struct jfr_label_table contexts, strings;
};

/* An entry of a map: {1 key, 2 value}. */
static bool read_entry(const uint8_t *p, const uint8_t *end, struct jfr_label_entry *ret, uint64_t *ret_number)
{
    struct wire_field f;

    *ret = (struct jfr_label_entry){0};
    *ret_number = 0;
    while (p < end) {
        p = wire_next(p, end, &f);
        if (!p)
            return false;
        if (f.tag == WIRE_TAG(1, WIRE_VARINT))
            ret->key = f.v;
        else if (f.tag == WIRE_TAG(2, WIRE_VARINT))
            *ret_number = f.v;
        else if (f.tag == WIRE_TAG(2, WIRE_LEN))
            ret->value = wire_str(&f);
    }
    return true;
}

static const struct jfr_label_entry *find_entry(const struct jfr_label_table *t, uint64_t key)
{
    for (struct map_pos p = map_find(&t->map, hash64_u64(key)); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (t->v[p.index].key == key)
            return &t->v[p.index];
    return NULL;
}

static int add_entry(struct jfr_label_table *t, const struct jfr_label_entry *entry)
{
    int r = array_reserve(t->v, t->cap, t->n + 1, ENTRIES_MAX);

    if (r == 0)
        r = map_insert(&t->map, hash64_u64(entry->key), (uint32_t) t->n);
    if (r == 0)
        t->v[t->n++] = *entry;
    return r;
}

static int read_snapshot(struct jfr_labels *l, struct err *e)
{
    const uint8_t *p = str_bytes(buf_str(&l->bytes)), *end = p + l->bytes.n;
    struct jfr_label_entry entry;
    struct wire_field f;
    uint64_t number;
    int r = 0;

    while (p < end && r == 0) {
        p = wire_next(p, end, &f);
        if (!p)
            return err_set(e, -EINVAL, "JFR labels: not a LabelsSnapshot message");
        if (f.tag != WIRE_TAG(1, WIRE_LEN) && f.tag != WIRE_TAG(2, WIRE_LEN))
            continue;
        if (!read_entry(f.data, f.data + f.v, &entry, &number))
            return err_set(e, -EINVAL, "JFR labels: not a LabelsSnapshot message");
        r = add_entry(f.tag >> 3 == 1 ? &l->contexts : &l->strings, &entry);
    }
    return r < 0 ? err_set(e, r, "JFR labels: %m") : 0;
}

struct jfr_labels *jfr_labels_new(struct str bytes, size_t memory, int *ret_error, struct err *e)
{
    struct jfr_labels *l = mem_zalloc(sizeof *l);
    size_t max = memory ? MIN(memory, (size_t) LABELS_INFLATED_MAX) : LABELS_INFLATED_MAX;

    *ret_error = -ENOMEM;
    if (!l)
        return NULL;
    buf_put_str(&l->bytes, bytes);
    *ret_error = buf_error(&l->bytes);
    if (*ret_error == 0)
        *ret_error = compress_inflate_detect(&l->bytes, max, e);
    if (*ret_error == 0)
        *ret_error = read_snapshot(l, e);
    if (*ret_error == 0)
        return l;
    jfr_labels_free(l);
    return NULL;
}

void jfr_labels_free(struct jfr_labels *l)
{
    if (!l)
        return;
    buf_done(&l->bytes);
    mem_free(l->contexts.v);
    mem_free(l->strings.v);
    map_done(&l->contexts.map);
    map_done(&l->strings.map);
    mem_free(l);
}

static struct str label_string(const struct jfr_labels *l, uint64_t key)
{
    const struct jfr_label_entry *entry = find_entry(&l->strings, key);

    return entry ? entry->value : (struct str){0};
}

uint32_t jfr_labels_of(const struct jfr_labels *l, const struct jfr_object *event, struct builder *b, uint32_t *attrs,
                       uint32_t max)
{
    const struct jfr_label_entry *context = find_entry(&l->contexts, (uint64_t) event->v[JFR_CONTEXT].n);
    struct str text = context ? context->value : (struct str){0}, span;
    const uint8_t *p = str_bytes(text), *end = p + text.n;
    struct jfr_label_entry pair;
    struct wire_field f;
    uint64_t value;
    uint32_t n = 0;

    while (p < end && n < max) {
        p = wire_next(p, end, &f);
        if (!p || f.tag != WIRE_TAG(1, WIRE_LEN) || !read_entry(f.data, f.data + f.v, &pair, &value))
            break;
        if (label_string(l, pair.key).n)
            attrs[n++] = builder_attr_str(b, label_string(l, pair.key), label_string(l, value));
    }
    if (event->v[JFR_SPAN_ID].n && n < max) {
        char hex[17];

        snprintf(hex, sizeof hex, "%016llx", (unsigned long long) event->v[JFR_SPAN_ID].n);
        attrs[n++] = builder_attr_str(b, STR("profile_id"), str_from(hex));
    }
    span = label_string(l, (uint64_t) event->v[JFR_SPAN_NAME].n);
    if (event->v[JFR_SPAN_NAME].n && span.n && n < max)
        attrs[n++] = builder_attr_str(b, STR("span_name"), span);
    return n;
}
