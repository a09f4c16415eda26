/* SPDX-License-Identifier: Apache-2.0 */
/* query_spans() of query.h: the store adds up samples by the span they are linked to; here they are put in order. */
#include <errno.h>
#include <stdlib.h>

#include "query/query.h"

static int heaviest_first(const void *a, const void *b)
{
    const struct store_span *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return memcmp(&x->link, &y->link, sizeof x->link);
}

int query_spans(struct store *s, struct query *q, uint32_t limit, struct query_spans *ret, struct err *e)
{
    struct store_spans *sums = &ret->sums;
    int r;

    *ret = (struct query_spans){.type = q->q.columns[0].selector->type};
    r = s->ops->spans(s, &q->q, sums, e);
    if (r == -E2BIG)
        return err_set(e, r, "more than %d spans: use a shorter time range or select one service", STORE_SPANS_MAX);
    if (r < 0)
        return r;
    if (sums->n)
        qsort(sums->v, sums->n, sizeof *sums->v, heaviest_first);
    ret->v = sums->v;
    ret->n_all = sums->n;
    ret->n = limit ? MIN(limit, sums->n) : sums->n;
    ret->total = sums->total;
    ret->linked = sums->linked;
    ret->unit = sums->unit;
    return 0;
}

void query_spans_done(struct query_spans *l)
{
    store_spans_done(&l->sums);
    *l = (struct query_spans){0};
}
