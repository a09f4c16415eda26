/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds profiles that belong together (otlp_group.h). Neighbours belong together if nothing but the type and the values
 * differs. That is cheap to check, and a mistake is harmless: two profiles with equal times and sample for sample equal
 * stacks mean the same as one profile of two types.
 */
#include "codec/otlp_group.h"

enum { SET_SEARCH_MAX = 32 };

/* Equal lists, in any order: the Collector writes labels in the random order of a Go map. */
static bool same_set(const struct batch *b, struct run x, struct run y)
{
    const uint32_t *p, *q;

    if (x.n != y.n || !x.n)
        return x.n == y.n;
    p = b->dict.indices + x.off;
    q = b->dict.indices + y.off;
    if (memcmp(p, q, x.n * sizeof *p) == 0)
        return true;
    if (x.n > SET_SEARCH_MAX)
        return false;
    for (uint32_t i = 0; i < x.n; i++) {
        uint32_t k = 0;

        while (k < x.n && q[k] != p[i])
            k++;
        if (k == x.n)
            return false;
    }
    return true;
}

static bool same_samples(const struct batch *b, const struct profile *x, const struct profile *y)
{
    for (uint32_t i = 0; i < x->samples.n; i++) {
        const struct sample *s = &b->samples[x->samples.off + i], *t = &b->samples[y->samples.off + i];

        if (s->stack != t->stack || s->link != t->link || s->values.n != 1 || t->values.n != 1 || s->timestamps.n ||
            t->timestamps.n || !same_set(b, s->attrs, t->attrs))
            return false;
    }
    return true;
}

static bool same_type(struct value_type x, struct value_type y)
{
    return x.type == y.type && x.unit == y.unit;
}

static bool belong_together(const struct batch *b, const struct profile *x, const struct profile *y)
{
    return x->n_types == 1 && y->n_types == 1 && x->time_ns == y->time_ns && x->duration_ns == y->duration_ns &&
           x->period == y->period && same_type(x->period_type, y->period_type) && x->samples.n == y->samples.n &&
           same_set(b, x->attrs, y->attrs) && !x->payload.n && !y->payload.n && same_samples(b, x, y);
}

/* The end of the group that begins at `from`: a repeated type begins the next group. */
static uint32_t group_end(const struct batch *b, uint32_t from, uint32_t end)
{
    uint32_t i = from + 1;

    for (; i < end && i - from < PROFILE_TYPES_MAX && belong_together(b, &b->profiles[from], &b->profiles[i]); i++)
        for (uint32_t k = from; k < i; k++)
            if (same_type(b->profiles[k].types[0], b->profiles[i].types[0]))
                return i;
    return i;
}

static void mark_default(struct batch *b, const struct scope *s)
{
    const struct value *v = kvs_get(&s->attrs, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE));

    if (!v || v->kind != VALUE_STR)
        return;
    for (uint32_t i = 0; i < s->profiles.n; i++) {
        struct profile *p = &b->profiles[s->profiles.off + i];

        if (p->n_types == 1 && str_eq(batch_string(b, p->types[0].type), value_str(v)))
            p->default_type = 1;
    }
}

struct str otlp_default_type(const struct batch *b, const struct scope *s)
{
    if (kvs_get(&s->attrs, STR(SEMCONV_PPROF_DEFAULT_SAMPLE_TYPE)))
        return (struct str){0};
    for (uint32_t i = 0; i < s->profiles.n; i++) {
        const struct profile *p = &b->profiles[s->profiles.off + i];

        if (p->default_type)
            return batch_string(b, p->types[p->default_type - 1].type);
    }
    return (struct str){0};
}

void otlp_profile_id(const struct profile *p, uint32_t t, uint8_t ret[16])
{
    static const uint8_t none[16];

    memcpy(ret, p->id, 16);
    if (memcmp(ret, none, 16) != 0)
        ret[15] ^= (uint8_t) t;
}

void otlp_group_profiles(struct batch *b)
{
    uint32_t group = 0;

    for (uint32_t i = 0; i < b->n_scopes; i++) {
        const struct scope *s = &b->scopes[i];
        uint32_t end = s->profiles.off + s->profiles.n, next;

        for (uint32_t k = s->profiles.off; k < end; k = next) {
            next = group_end(b, k, end);
            if (next - k > 1)
                group++;
            for (uint32_t j = k; next - k > 1 && j < next; j++)
                b->profiles[j].group = group;
        }
        mark_default(b, s);
    }
}
