/* SPDX-License-Identifier: Apache-2.0 */
/* Sums samples by profile, stack and attributes (sample_sum.h). */
#include "codec/sample_sum.h"

#include "base/mem.h"
#include "base/wrap.h"
#include "model/builder.h"

size_t sample_sum_limit(size_t memory)
{
    return memory ? memory / (sizeof(struct sum_row) + 2 * sizeof(struct map_slot)) + 1 : 0;
}

static bool same_row(const struct sum_row *a, const struct sum_row *b)
{
    return a->profile == b->profile && a->stack == b->stack && a->attrs.off == b->attrs.off && a->attrs.n == b->attrs.n;
}

int sample_sum_add(struct sample_sum *s, const struct sum_row *row)
{
    uint64_t h = hash64_u64((uint64_t) row->stack << 32 | row->attrs.off) ^ hash64_u64(row->profile);
    int r;

    for (struct map_pos p = map_find(&s->map, h); p.index != MAP_NONE; p = map_next(&s->map, p)) {
        struct sum_row *old = &s->rows[p.index];

        if (!same_row(old, row))
            continue;
        for (int i = 0; i < SAMPLE_SUM_VALUES; i++)
            old->values[i] = wrap_add(old->values[i], row->values[i]);
        return 0;
    }
    r = array_reserve(s->rows, s->cap, s->n + 1, s->limit ? s->limit : UINT32_MAX);
    if (r == 0)
        r = map_insert(&s->map, h, (uint32_t) s->n);
    if (r == 0)
        s->rows[s->n++] = *row;
    return r;
}

void sample_sum_write(const struct sample_sum *s, uint32_t profile, uint32_t n_values, int64_t scale, struct builder *b)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct sum_row *row = &s->rows[i];
        int64_t values[SAMPLE_SUM_VALUES];

        if (row->profile != profile)
            continue;
        for (int k = 0; k < SAMPLE_SUM_VALUES; k++)
            values[k] = wrap_mul(row->values[k], scale);
        builder_sample(b, &(struct builder_sample){
                              .stack = row->stack, .attrs = row->attrs, .values = values, .n_values = n_values});
    }
}

bool sample_sum_has(const struct sample_sum *s, uint32_t profile)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].profile == profile)
            return true;
    return false;
}

void sample_sum_done(struct sample_sum *s)
{
    mem_free(s->rows);
    map_done(&s->map);
    *s = (struct sample_sum){0};
}
