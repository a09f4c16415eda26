/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by span (store_spans.h) of the engine `segment`: reads the rows of each profile of the selection, without
 * rebuilding its stacks. */
#include <errno.h>

#include "base/wrap.h"
#include "model/semconv.h"
#include "store/engines/segment/read/scan.h"
#include "store/store_spans.h"

struct summing {
    struct scan scan;
    struct store_spans *out;
};

static int add_profile(void *ctx, const struct scan_prof *p)
{
    struct summing *x = ctx;
    struct str service = labels_get(&p->series->labels, STR(SEMCONV_SERVICE_NAME));
    int r = 0;

    if (!x->out->unit.n)
        x->out->unit = arena_str(&x->out->arena, p->series->type.unit);
    for (uint32_t i = 0; r == 0 && i < p->p->n_rows; i++) {
        const struct row *row = &p->p->rows[i];
        const struct extra *e = row->extra ? &p->p->extras[row->extra - 1] : NULL;
        struct span_sample v = {.link = e && e->has_link ? &e->link : NULL,
                                .service = service,
                                .value = row->value,
                                .count = 1,
                                .from = p->p->time_ns,
                                .to = wrap_add(p->p->time_ns, p->p->duration_ns)};

        if (x->scan.needs_detail[0] && !scan_row(&x->scan, p, row))
            continue;
        if (e && e->timestamp)
            v.from = v.to = (int64_t) e->timestamp;
        r = store_spans_add(x->out, &v);
    }
    return r;
}

int engine_spans(struct store *s, const struct store_query *q, struct store_spans *ret, struct err *e)
{
    struct summing x = {.out = ret};
    int r = scan_init(&x.scan, to_engine(s), q, true, e);

    store_spans_init(ret);
    if (r == 0 && x.scan.tenant) {
        x.scan.with_traces = true;
        r = scan_profs(&x.scan, true, add_profile, &x);
    }
    scan_done(&x.scan);
    if (r < 0)
        store_spans_done(ret);
    return r;
}
