/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Profiles Drilldown and profilecli ask besides the querier, see pyroscope.h: feature flags, of which there are none,
 * and what a query would read. Settings, recording rules and uploaded profiles have files of their own.
 */
#include <errno.h>

#include "server/pyroscope.h"

int py_no_flags(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    (void) c;
    (void) r;
    (void) e;
    pbjson_list(w, "featureFlags");
    pbjson_list_end(w);
    return 0;
}

struct impact {
    const struct selector *selector;
    uint64_t series;
};

static int count_series(void *ctx, const struct type *t, const struct labels *l)
{
    struct impact *x = ctx;

    x->series +=
        (str_is(x->selector->type, "*") || str_eq(x->selector->type, t->name)) && selector_matches(x->selector, l);
    return 0;
}

int py_analyze_query(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct store *s = front_options(c->front)->store;
    struct store_stats stats = {0};
    struct impact x = {0};
    ptrdiff_t brace = str_find_char(r->query, '{');
    const struct store_column *k;
    int result;

    r->left.type_id = str_trim(brace < 0 ? r->query : str_slice(r->query, 0, (size_t) brace));
    if (brace >= 0)
        r->left.selector = str_slice(r->query, (size_t) brace, r->query.n);
    result = py_compile(c, r, false, NULL, &q, e);
    if (result == 0)
        result = s->ops->stats(s, &stats);
    if (result < 0)
        return result;
    k = &q->q.columns[0];
    x.selector = k->selector;
    result = s->ops->each_series(s, &(struct store_range){c->who.tenant, k->from, k->to, &c->notes}, count_series, &x);
    if (result < 0)
        return err_set(e, result, "cannot list series: %m");
    pbjson_list(w, "queryScopes");
    pbjson_begin(w, 1, NULL);
    pbjson_str(w, 1, "componentType", STR("store"));
    pbjson_i64(w, 2, "componentCount", 1);
    pbjson_i64(w, 3, "blockCount", (int64_t) stats.segments);
    pbjson_i64(w, 4, "seriesCount", (int64_t) x.series);
    pbjson_i64(w, 8, "profileBytes", (int64_t) stats.segment_bytes);
    pbjson_i64(w, 9, "symbolBytes", (int64_t) stats.symbol_bytes);
    pbjson_end(w);
    pbjson_list_end(w);
    pbjson_begin(w, 2, "queryImpact");
    pbjson_i64(w, 2, "totalBytesInTimeRange", (int64_t) stats.segment_bytes);
    pbjson_i64(w, 3, "totalQueriedSeries", (int64_t) x.series);
    pbjson_bool(w, 4, "deduplicationNeeded", false);
    pbjson_end(w);
    return 0;
}
