/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers of drift, verdict, verdicts, explain, findings and trends as text (query_page.h). */
#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "client/query_page.h"

/* The rows, and what the drift says besides them. */
static int put_drift(struct page *p, const struct drift_answer *d)
{
    struct record_list rows = {d->rows, d->n};
    uint32_t significant = 0;
    int r = page_records(p, &answer_drift_rows, &rows);

    for (uint32_t i = 0; i < d->n; i++)
        significant += d->rows[i].significant;
    if (d->n)
        buf_printf(p->out,
                   "%u of %u functions changed significantly; drifts of %.2f points and more are found (%u instances, "
                   "%u windows)\n",
                   significant, d->n, d->minimum_detectable_points, d->instances, d->windows);
    return r;
}

int page_drift(struct page *p, const void *answer)
{
    return put_drift(p, answer);
}

int page_verdict(struct page *p, const void *answer)
{
    const struct verdict_answer *v = answer;

    p->rows += v->version.n != 0;
    buf_printf(p->out, "%s\n", v->sentence);
    if (v->is_compared)
        buf_printf(p->out, "compared with the previous version %s\n\n",
                   v->overlap ? "at the same time" : "before the deploy");
    return put_drift(p, &v->drift);
}

int page_verdicts(struct page *p, const void *answer)
{
    const struct answer_verdicts *x = answer;

    for (uint32_t i = 0; i < x->n; i++)
        buf_printf(p->out, "%s\n", x->verdicts[i].sentence);
    p->rows += x->n + 1; /* that there are none is an answer */
    buf_printf(p->out, "other deploys: %u the same, %u with not enough data\n", x->same, x->undecided);
    return 0;
}

int page_explain(struct page *p, const void *answer)
{
    const struct explain *x = answer;

    for (uint32_t i = 0; i < x->n; i++)
        buf_printf(p->out, "%s\n", x->v[i].sentence);
    p->rows += x->n;
    return 0;
}

int page_findings(struct page *p, const void *answer)
{
    const struct findings *x = answer;

    for (uint32_t i = 0; i < x->n; i++) {
        const struct finding *f = &x->v[i];

        buf_printf(p->out, "%s: %s\n    ", f->warning ? "warning" : "info", f->sentence);
        for (uint32_t k = 0; k < f->n_frames; k++)
            buf_printf(p->out, "%s%.*s (%.1f%%)", k ? ", " : "", STR_FMT(f->frames[k].function),
                       100 * f->frames[k].share);
        buf_putc(p->out, '\n');
    }
    p->rows += x->total != 0;
    if (p->rows && !x->n)
        buf_puts(p->out, "nothing found\n");
    return 0;
}

/* The change is that over the time with data: extrapolated to an hour, the noise of a few minutes would be a change of
 * thousands of percent. */
static void put_trend(struct text_table *t, const struct answer_trend *v, int64_t step)
{
    _cleanup_(buf_done) struct buf labels = BUF_INIT;

    text_table_put(t, "%.4g", v->rate);
    if (v->points > 2) {
        text_table_put(t, "%+.1f%%",
                       100 * v->per_hour * (double) step * (double) (v->points - 1) / (3600.0 * NS_PER_S));
        text_table_put(t, "%.2f", v->fit);
    } else {
        text_table_put(t, "-");
        text_table_put(t, "-");
    }
    text_table_put(t, "%u", v->n_spikes);
    text_table_put(t, "%u", v->points);
    for (uint32_t i = 0; i < v->labels.n; i++)
        buf_printf(&labels, "%s%.*s", i ? "," : "", STR_FMT(v->labels.v[i].value));
    text_table_put(t, "%.*s", STR_FMT(labels.n ? buf_str(&labels) : STR("(all)")));
}

int page_trends(struct page *p, const void *answer)
{
    const struct answer_trends *x = answer;
    struct text_table t;

    TABLE(&t, {"RATE/S", true}, {"CHANGE", true}, {"FIT", true}, {"SPIKES", true}, {"POINTS", true}, {"LABELS", false});
    for (uint32_t i = 0; i < x->n; i++)
        put_trend(&t, &x->trends[i], x->step);
    return page_table(p, &t);
}
