/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers that are lists and whose columns are computed (query_page.h). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "client/query_page.h"

enum { SERIES_SHOWN = 6, STACK_SHOWN = 3 };

/* --- top and lines --- */

/* Two selections are compared per covered second, so that a difference in profiled time does not count as a change. */
static bool is_rate(const struct page *p)
{
    return p->head.n_columns == 2 && p->type.rule == TYPE_DELTA && p->head.covered[0] > 0 && p->head.covered[1] > 0;
}

static double per_second(const struct page *p, int column)
{
    return is_rate(p) ? (double) NS_PER_S / (double) p->head.covered[column] : 1;
}

static void put_covered(struct page *p)
{
    double seconds = (double) p->head.covered[0] / NS_PER_S, total = (double) p->head.total[0];

    if (is_rate(p))
        buf_printf(p->out, "Values are per covered second: %.1f s in the base, %.1f s in the new range.\n", seconds,
                   (double) p->head.covered[1] / NS_PER_S);
    else if (p->head.n_columns < 2 && seconds > 0 && p->type.rule == TYPE_DELTA && str_is(p->type.name, "cpu"))
        buf_printf(p->out, "%.3g CPU-seconds in %.1f covered seconds: %.3g cores\n", total / NS_PER_S, seconds,
                   total / (double) p->head.covered[0]);
}

static double share_of(const int64_t *v, const int64_t *total, int column)
{
    return total[column] != 0 ? (double) v[column] / (double) total[column] : 0;
}

static void put_row(struct page *p, struct text_table *t, const struct query_row *r)
{
    const int64_t *total = p->head.total;

    if (p->head.n_columns == 2) {
        double base = (double) r->self[0] * per_second(p, 0), new = (double) r->self[1] * per_second(p, 1);

        text_table_put(t, "%s", page_value(p, base));
        text_table_put(t, "%s", page_value(p, new));
        text_table_put(t, "%s", page_value(p, new - base));
        text_table_put(t, "%s", page_share(p, share_of(r->self, total, 1) - share_of(r->self, total, 0), 1));
    } else {
        text_table_put(t, "%s", page_value(p, (double) r->self[0]));
        text_table_put(t, "%s", page_share(p, share_of(r->self, total, 0), 1));
        text_table_put(t, "%s", page_value(p, (double) r->total[0]));
        text_table_put(t, "%s", page_share(p, share_of(r->total, total, 0), 1));
    }
    if (r->file.n && r->line)
        text_table_put(t, "%.*s  %.*s:%" PRId64, STR_FMT(r->name), STR_FMT(r->file), r->line);
    else
        text_table_put(t, "%.*s", STR_FMT(r->name));
}

int page_top(struct page *p, const void *answer)
{
    const struct query_table *x = answer;
    struct text_table t;
    int r;

    if (p->head.n_columns == 2)
        TABLE(&t, {"BASE", true}, {"NEW", true}, {"CHANGE", true}, {"POINTS", true}, {"SELF OF", false});
    else
        TABLE(&t, {"SELF", true}, {"SELF%", true}, {"TOTAL", true}, {"TOTAL%", true}, {"NAME", false});
    for (uint32_t i = 0; i < x->n; i++)
        put_row(p, &t, &x->rows[i]);
    r = page_table(p, &t);
    if (p->rows)
        put_covered(p);
    return r;
}

/* Only those that there are profiles of. */
int page_types(struct page *p, const void *answer)
{
    const struct record_list *l = answer;
    struct answer_type *v = l->v;
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->n; i++)
        if (v[i].stored)
            v[n++] = v[i];
    return page_records(p, &answer_of_types, &(struct record_list){v, n});
}

/* --- series --- */

static const char *joined_labels(struct page *p, const struct labels *l)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *text;

    for (uint32_t i = 0; i < l->n; i++)
        buf_printf(&b, "%s%.*s=%.*s", i ? " " : "", STR_FMT(l->v[i].name), STR_FMT(l->v[i].value));
    text = arena_cstr(&p->arena, buf_str(&b));
    return text ? text : "?";
}

/* A row a point, a column a series. A point that no profile covers has no value. */
int page_series(struct page *p, const void *answer)
{
    const struct answer_series *x = answer;
    struct text_column columns[SERIES_SHOWN + 1] = {{"TIME", false}};
    uint32_t shown = MIN(x->n_series, (uint32_t) SERIES_SHOWN), points = 0;
    struct text_table t;
    int r;

    for (uint32_t i = 0; i < shown; i++) {
        const struct answer_one_series *s = &x->series[i];

        columns[i + 1] = (struct text_column){s->labels.n ? joined_labels(p, &s->labels) : "VALUE", true};
        points = MAX(points, s->n_values);
    }
    text_table_init(&t, shown + 1, columns);
    for (uint32_t k = 0; k < points; k++) {
        if (k < x->n_covered && x->covered[k] <= 0)
            continue;
        text_table_put(&t, "%s", page_time(p, x->from + (int64_t) k * x->step, NS_PER_S));
        for (uint32_t i = 0; i < shown; i++)
            text_table_put(&t, "%s", k < x->series[i].n_values ? page_value(p, x->series[i].values[k]) : "-");
    }
    r = page_table(p, &t);
    if (x->n_series > shown)
        buf_printf(p->out, "%u more series; --json has all of them\n", x->n_series - shown);
    return r;
}

int page_coverage(struct page *p, const void *answer)
{
    const struct answer_head *x = answer;
    struct text_table t;

    TABLE(&t, {"SELECTION", false}, {"COVERED SECONDS", true});
    for (uint32_t i = 0; i < x->n_covered; i++) {
        if (x->covered[i] <= 0)
            continue;
        text_table_put(&t, "%s", x->n_covered < 2 ? "query" : i ? "query (new)" : "base");
        text_table_put(&t, "%.3f", (double) x->covered[i] / NS_PER_S);
    }
    return page_table(p, &t);
}

/* --- leaks --- */

/* The innermost functions of a stack, outermost last: main < run < malloc would be "malloc < run < main". */
static void put_stack(struct text_table *t, const struct answer_leak *l)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    for (uint32_t i = 0; i < MIN(l->depth, (uint32_t) STACK_SHOWN); i++) {
        struct str name = l->stack[l->depth - 1 - i];

        buf_printf(&b, "%s%.*s", i ? " < " : "", STR_FMT(name.n ? name : STR("[no name]")));
    }
    if (l->depth > STACK_SHOWN)
        buf_printf(&b, " < … (%u more)", l->depth - STACK_SHOWN);
    text_table_put(t, "%.*s", STR_FMT(buf_str(&b)));
}

int page_leaks(struct page *p, const void *answer)
{
    const struct answer_leaks *x = answer;
    struct text_table t;

    TABLE(&t, {"GROWTH/H", true}, {"NOW", true}, {"FIT", true}, {"ALLOCATED BY", false});
    for (uint32_t i = 0; i < x->n; i++) {
        const struct answer_leak *l = &x->leaks[i];

        text_table_put(&t, "%s", page_value(p, l->slope));
        text_table_put(&t, "%s", page_value(p, l->n_values ? l->values[l->n_values - 1] : 0));
        text_table_put(&t, "%.2f", l->fit);
        put_stack(&t, l);
    }
    return page_table(p, &t);
}

/* --- symbols --- */

static void put_binary(struct page *p, struct text_table *t, const struct query_binary *b, int64_t whole)
{
    text_table_put(t, "%s", page_share(p, (double) b->self, (double) whole));
    text_table_put(t, "%s", b->self ? page_share(p, (double) b->self_named, (double) b->self) : "-");
    text_table_put(t, "%u/%u", b->named, b->frames);
    text_table_put(t, "%s", b->status);
    text_table_put(t, "%.*s", STR_FMT(str_slice(b->build_id, 0, 16)));
    text_table_put(t, "%.*s", STR_FMT(b->mapping));
}

static bool is_first_fix(const struct query_binaries *x, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (strcmp(x->v[i].fix, x->v[at].fix) == 0)
            return false;
    return x->v[at].fix[0];
}

int page_symbols(struct page *p, const void *answer)
{
    const struct query_binaries *x = answer;
    struct text_table t;
    size_t fixes = 0;
    int r;

    TABLE(&t, {"SELF%", true}, {"NAMED%", true}, {"FRAMES NAMED", true}, {"STATUS", false}, {"BUILD ID", false},
          {"BINARY", false});
    for (uint32_t i = 0; i < x->n; i++)
        put_binary(p, &t, &x->v[i], x->self);
    r = page_table(p, &t);
    for (uint32_t i = 0; i < x->n; i++)
        if (is_first_fix(x, i))
            buf_printf(p->out, "%s%s\n", fixes++ ? "or: " : "To name the rest: ", x->v[i].fix);
    return r;
}
