/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers about spans as tables (query_page.h): spans, one span or a comparison of them, traces, latency. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/wrap.h"
#include "client/query_page.h"

enum { INDENT_MAX = 20, STATUS_ERROR = 2 };

/* --- spans and traces --- */

static void put_id(struct text_table *t, const uint8_t *id, size_t n)
{
    char text[33] = "";

    *hex_write(text, id, n) = 0;
    text_table_put(t, "%s", text);
}

static const char *start_of(struct page *p, const struct answer_span *s)
{
    return page_time(p, s->row.start ? s->row.start : s->from, NS_PER_MS);
}

int page_spans(struct page *p, const void *answer)
{
    const struct answer_spans *x = answer;
    struct text_table t;

    TABLE(&t, {"TIME", false}, {"VALUE", true}, {"SAMPLES", true}, {"TRACE", false}, {"SPAN", false},
          {"SERVICE", false}, {"DURATION", true}, {"NAME", false});
    for (uint32_t i = 0; i < x->n; i++) {
        const struct answer_span *s = &x->spans[i];

        text_table_put(&t, "%s", start_of(p, s));
        text_table_put(&t, "%s", page_value(p, (double) s->value));
        text_table_put(&t, "%" PRIu64, s->samples);
        put_id(&t, s->row.link.trace_id, sizeof s->row.link.trace_id);
        put_id(&t, s->row.link.span_id, sizeof s->row.link.span_id);
        text_table_put(&t, "%.*s", STR_FMT(s->row.service));
        text_table_put(&t, "%s", s->known ? page_duration(p, s->row.duration) : "-");
        text_table_put(&t, "%.*s", STR_FMT(s->row.name));
    }
    return page_table(p, &t);
}

int page_trace(struct page *p, const void *answer)
{
    const struct answer_spans *x = answer;
    struct text_table t;

    TABLE(&t, {"START", false}, {"DURATION", true}, {"VALUE", true}, {"SPAN", false}, {"SERVICE", false},
          {"NAME", false});
    for (uint32_t i = 0; i < x->n; i++) {
        const struct answer_span *s = &x->spans[i];
        struct str name = s->row.name.n ? s->row.name : STR("?");

        text_table_put(&t, "%s", start_of(p, s));
        text_table_put(&t, "%s", s->known ? page_duration(p, s->row.duration) : "-");
        text_table_put(&t, "%s", page_value(p, (double) s->value));
        put_id(&t, s->row.link.span_id, sizeof s->row.link.span_id);
        text_table_put(&t, "%.*s", STR_FMT(s->row.service));
        text_table_put(&t, "%*s%.*s%s", (int) MIN(2 * s->depth, (uint32_t) INDENT_MAX), "", STR_FMT(name),
                       s->row.status == STATUS_ERROR ? " (error)" : "");
    }
    return page_table(p, &t);
}

/* --- what spans did --- */

static void put_counts(struct page *p)
{
    const struct answer_picked *n = &p->tail.picked;

    if (n->selected && n->threshold)
        buf_printf(p->out, "%u spans that took at least %s, compared with %u others; %.*s per span\n", n->selected,
                   page_duration(p, n->threshold), n->rest, STR_FMT(p->type.name));
    else if (n->selected && n->rest)
        buf_printf(p->out, "%u spans, compared with %u others; %.*s per span\n", n->selected, n->rest,
                   STR_FMT(p->type.name));
    else if (n->selected)
        buf_printf(p->out, "%u spans, %s in total; %.*s\n", n->selected, page_duration(p, n->duration),
                   STR_FMT(p->type.name));
    if (n->one_in > 1)
        buf_printf(p->notes, "note: there are so many spans that only one in %u traces was looked at\n", n->one_in);
}

static void put_compared(struct page *p, struct text_table *t, const struct query_row *row)
{
    const struct answer_picked *n = &p->tail.picked;
    double share[2],
        per[2] = {n->rest ? (double) row->self[0] / n->rest : 0, n->selected ? (double) row->self[1] / n->selected : 0};

    for (int i = 0; i < 2; i++)
        share[i] = p->head.total[i] != 0 ? (double) row->self[i] / (double) p->head.total[i] : 0;
    text_table_put(t, "%s", page_value(p, per[0]));
    text_table_put(t, "%s", page_value(p, per[1]));
    text_table_put(t, "%s", page_value(p, per[1] - per[0]));
    text_table_put(t, "%+.2f", 100 * (share[1] - share[0]));
    text_table_put(t, "%.*s", STR_FMT(row->name));
}

int page_span(struct page *p, const void *answer)
{
    const struct query_table *x = answer;
    struct text_table t;
    int r;

    if (!p->tail.picked.rest) {
        r = page_top(p, answer);
        put_counts(p);
        return r;
    }
    put_counts(p);
    TABLE(&t, {"OTHERS", true}, {"THESE", true}, {"CHANGE", true}, {"POINTS", true}, {"SELF OF", false});
    for (uint32_t i = 0; i < x->n; i++)
        put_compared(p, &t, &x->rows[i]);
    return page_table(p, &t);
}

/* --- latency --- */

/* How many spans took how long, over the whole range: times are for the page and for --json. */
int page_span_heatmap(struct page *p, const void *answer)
{
    const struct answer_span_heatmap *x = answer;
    struct text_table t;

    TABLE(&t, {"FROM", true}, {"TO", true}, {"SPANS", true});
    for (uint32_t i = 0; i + 1 < x->n_bounds; i++) {
        int64_t sum = 0;

        for (uint32_t k = 0; k < x->n_counts; k++)
            sum = wrap_add(sum, i < x->counts[k].n ? ((const int64_t *) x->counts[k].v)[i] : 0);
        if (!sum)
            continue;
        text_table_put(&t, "%s", page_duration(p, x->bounds[i]));
        text_table_put(&t, "%s", page_duration(p, x->bounds[i + 1]));
        text_table_put(&t, "%" PRId64, sum);
    }
    return page_table(p, &t);
}
