/* SPDX-License-Identifier: Apache-2.0 */
/* query_heat() of query_heat.h: the store lists when samples were taken; here they are counted into cells. */
#include "query/query_heat.h"

#include <errno.h>

#include "base/clock.h"
#include "base/wrap.h"
#include "model/batch.h"
#include "query/query_names.h"

static const int64_t steps_ms[] = {10,      100,     1000,     2000,     5000,    10000,  15000,
                                   30000,   60000,   120000,   300000,   600000,  900000, 1800000,
                                   3600000, 7200000, 10800000, 21600000, 86400000};

struct heat_filling {
    struct query_heat *h;
    int64_t from, to; /* as asked */
};

static int add(void *ctx, const struct store_moment *m)
{
    struct heat_filling *x = ctx;
    struct query_heat *h = x->h;
    int64_t at = wrap_sub(m->time_ns, h->from);

    if (m->time_ns < x->from || m->time_ns >= x->to)
        return 0;
    if (!m->exact) {
        h->untimed = wrap_add(h->untimed, m->value);
        return 0;
    }
    h->timed = wrap_add(h->timed, m->value);
    h->samples++;
    at = at / h->step * h->n_rows + at % h->step * h->n_rows / h->step;
    h->values[at] = wrap_add(h->values[at], m->value);
    h->max = MAX(h->max, h->values[at]);
    return 0;
}

/* For engines without moments: from whole profiles. */
static int add_batch(void *ctx, struct batch *b)
{
    for (uint32_t p = 0; p < b->n_profiles; p++) {
        const struct profile *prof = &b->profiles[p];

        for (uint32_t i = 0; i < prof->samples.n; i++) {
            const struct sample *s = &b->samples[prof->samples.off + i];

            for (uint32_t k = 0; k < s->timestamps.n; k++)
                add(ctx, &(struct store_moment){(int64_t) b->timestamps[s->timestamps.off + k],
                                                query_value_at(b, prof, s, k), true});
            if (!s->timestamps.n)
                add(ctx,
                    &(struct store_moment){prof->time_ns, batch_sample_value(b, prof, s, prof->n_types - 1), false});
        }
    }
    return 0;
}

static int64_t usual_step(int64_t range)
{
    for (size_t i = 0; i < ARRAY_SIZE(steps_ms); i++)
        if (range / (steps_ms[i] * NS_PER_MS) <= HEAT_COLUMNS)
            return steps_ms[i] * NS_PER_MS;
    return range / HEAT_COLUMNS + 1;
}

int query_heat(struct store *s, const struct query *q, struct query_heat *h, struct err *e)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    struct heat_filling x = {h, c->taken_to ? c->taken_from : c->from, c->taken_to ? c->taken_to : c->to};
    struct store_query sq = q->q;
    uint64_t columns;

    if (h->step <= 0)
        h->step = usual_step(x.to - x.from);
    if (h->step > HEAT_STEP_MAX)
        return err_set(e, -EINVAL, "step: a column of the heat map is a year at most");
    if (!h->n_rows)
        h->n_rows = HEAT_ROWS;
    h->from = x.from - ((x.from % h->step) + h->step) % h->step;
    columns = ((uint64_t) x.to - (uint64_t) h->from - 1) / (uint64_t) h->step + 1;
    if (columns > HEAT_COLUMNS_MAX)
        return err_set(e, -EINVAL, "step: too many columns (%llu); the maximum is %d", (unsigned long long) columns,
                       HEAT_COLUMNS_MAX);
    if (h->n_rows > HEAT_ROWS_MAX)
        return err_set(e, -EINVAL, "rows: %u is not between 1 and %d", h->n_rows, HEAT_ROWS_MAX);
    h->n_columns = (uint32_t) columns;
    h->values = arena_zalloc_array(h->arena, columns * h->n_rows + 1, sizeof *h->values);
    if (!h->values)
        return -ENOMEM;
    sq.columns[0] = *c;
    sq.columns[0].from = wrap_sub(x.from, QUERY_TAKEN_BEFORE);
    sq.columns[0].to = x.to;
    sq.columns[0].taken_to = 0; /* selected here */
    sq.n_columns = 1;
    if (s->ops->moments)
        return s->ops->moments(s, &sq, add, &x, e);
    return s->ops->export(s, &sq, add_batch, &x, e);
}
