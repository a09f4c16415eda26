/* SPDX-License-Identifier: Apache-2.0 */
/* query_delete() of query_delete.h: hands a deletion to the store, to the span index, or to both. */
#include "query/query_delete.h"

#include "model/labels.h"
#include "model/semconv.h"
#include "span/span_index.h"
#include "store/store.h"

static bool is_selected(void *ctx, const struct span_row *s)
{
    struct label v[] = {{STR(SEMCONV_SERVICE_INSTANCE_ID), s->instance},
                        {STR(SEMCONV_SERVICE_NAME), s->service},
                        {STR(SEMCONV_SERVICE_VERSION), s->version}};

    return selector_matches(ctx, &(struct labels){v, ARRAY_SIZE(v)});
}

int query_delete(struct store *s, struct span_index *x, const char *tenant, const struct store_column *what,
                 struct err *e)
{
    const struct selector *sel = what->selector;
    bool only_spans = str_is(sel->type, "spans");
    int r = only_spans ? 0 : s->ops->delete (s, tenant, what, e);

    if (r < 0 || !(only_spans || !sel->type.n))
        return r;
    return span_index_delete(
        x, tenant,
        &(struct span_delete){
            .from = what->from, .to = what->to, .matches = is_selected, .ctx = (void *) (uintptr_t) sel},
        NULL, e);
}
