/* SPDX-License-Identifier: Apache-2.0 */
/* Restores the order that the types of a joined profile had in the original pprof (see convert_joiner.h). */
#include "model/convert_joiner.h"

enum { KNOWN_TYPES = 4 };

/* Finds the position of each type of `names` among q's types; false unless they are the same set. */
static bool find_order(const struct batch *x, const struct profile *q, const char *const *names, uint32_t *from)
{
    uint32_t n = 0;

    for (; n < KNOWN_TYPES && names[n]; n++) {
        uint32_t k = 0;

        while (k < q->n_types && !str_is(x->dict.strings[q->types[k].type], names[n]))
            k++;
        if (k == q->n_types)
            return false;
        from[n] = k;
    }
    return n == q->n_types;
}

/* Type i becomes what type from[i] was. */
static void reorder(struct batch *x, struct profile *q, const uint32_t *from)
{
    struct value_type types[PROFILE_TYPES_MAX];
    int64_t was[PROFILE_TYPES_MAX];
    uint32_t default_type = q->default_type;

    for (uint32_t k = 0; k < q->n_types; k++)
        types[k] = q->types[from[k]];
    memcpy(q->types, types, q->n_types * sizeof *types);
    for (uint32_t i = 0; i < q->samples.n; i++) {
        int64_t *v = x->values + x->samples[q->samples.off + i].values.off;

        memcpy(was, v, q->n_types * sizeof *v);
        for (uint32_t k = 0; k < q->n_types; k++)
            v[k] = was[from[k]];
    }
    for (uint32_t k = 0; k < q->n_types; k++)
        if (from[k] + 1 == default_type)
            q->default_type = k + 1;
}

/* The Collector's pprof receiver (0.159) writes the types of a pprof in random order; pprof's default type is the last
 * one. */
static void restore_known_order(struct batch *x, struct profile *q)
{
    static const char *const known[][KNOWN_TYPES] = {
        {"samples", "cpu"},
        {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"},
        {"contentions", "delay"},
        {"objects", "space"},
        {"inuse_objects", "inuse_space"},
    };
    uint32_t from[KNOWN_TYPES];

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (find_order(x, q, known[i], from)) {
            reorder(x, q, from);
            return;
        }
}

/* Reads pprof.scope.sample_type_order: the position of each profile's type in the original. False unless it is a
 * permutation. */
static bool said_order(const struct scope *s, const struct profile *q, uint32_t *from)
{
    const struct value *v = kvs_get(&s->attrs, STR("pprof.scope.sample_type_order"));
    uint64_t seen = 0;

    if (!v || v->kind != VALUE_ARRAY || v->n != q->n_types || s->profiles.n != q->n_types)
        return false;
    for (uint32_t i = 0; i < v->n; i++) {
        int64_t to = v->array[i].integer;

        if (v->array[i].kind != VALUE_INT || to < 0 || to >= v->n || seen >> to & 1)
            return false;
        seen |= 1ull << to;
        from[to] = i;
    }
    return true;
}

void joiner_restore_order(struct batch *x, const struct scope *s, struct profile *q)
{
    uint32_t from[PROFILE_TYPES_MAX];

    if (said_order(s, q, from))
        reorder(x, q, from);
    else if (str_find(s->name, STR("receiver/pprofreceiver")) >= 0)
        restore_known_order(x, q);
}
