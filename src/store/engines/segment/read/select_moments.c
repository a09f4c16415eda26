/* SPDX-License-Identifier: Apache-2.0 */
/* Times and values of samples (store_ops.moments) of the engine `segment`: reads rows that have a time, without rebuilding
 * stacks. What the rest of a profile adds up to follows from its sum. */
#include "base/wrap.h"
#include "store/engines/segment/read/scan.h"

struct timing {
    struct scan scan;
    store_moment_fn fn;
    void *ctx;
};

static int add_profile(void *ctx, const struct scan_prof *p)
{
    struct timing *x = ctx;
    bool look = x->scan.needs_detail[0];
    int64_t rest = look ? 0 : p->p->value;
    int r = 0;

    x->scan.notes->profiles++;
    for (uint32_t i = 0; r == 0 && i < p->p->n_rows; i++) {
        const struct row *row = &p->p->rows[i];
        const struct extra *e = row->extra ? &p->p->extras[row->extra - 1] : NULL;

        if (look && !scan_row(&x->scan, p, row))
            continue;
        if (e && e->timestamp) {
            rest = wrap_sub(rest, look ? 0 : row->value);
            r = x->fn(x->ctx, &(struct store_moment){(int64_t) e->timestamp, row->value, true});
        } else if (look) {
            rest = wrap_add(rest, row->value);
        }
    }
    return r == 0 && rest ? x->fn(x->ctx, &(struct store_moment){p->p->time_ns, rest, false}) : r;
}

int engine_moments(struct store *s, const struct store_query *q, store_moment_fn fn, void *ctx, struct err *e)
{
    struct timing x = {.fn = fn, .ctx = ctx};
    int r = scan_init(&x.scan, to_engine(s), q, true, e);

    x.scan.rich_only = !x.scan.needs_detail[0];
    if (r == 0 && x.scan.tenant)
        r = scan_profs(&x.scan, true, add_profile, &x);
    scan_done(&x.scan);
    return r;
}
