/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the JSON of an answer as text (query_text.h): what all answers have in common, and which printer each has. */
#include "client/query_text.h"

#include <errno.h>
#include <math.h>

#include "client/query_page.h"

const char *page_value(struct page *p, double v)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *text;

    if (v < 0)
        buf_putc(&b, '-');
    type_format(&b, &p->type, fabs(v), false);
    text = arena_printf(&p->arena, "%.*s", STR_FMT(buf_str(&b)));
    return text ? text : "?";
}

const char *page_share(struct page *p, double v, double whole)
{
    const char *text = arena_printf(&p->arena, "%.2f%%", whole != 0 ? 100 * v / whole : 0.0);

    return text ? text : "?";
}

void page_pair(struct page *p, double v[2])
{
    int i = 0;

    v[0] = v[1] = 0;
    if (json_peek(&p->json) != JSON_ARRAY) {
        v[0] = json_double(&p->json);
        return;
    }
    p->n_columns = 2;
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        double d = json_double(&p->json);

        if (i < 2)
            v[i++] = d;
    }
}

static void put_notes(struct page *p)
{
    struct str key, damage = {0}, hidden = {0};
    int64_t damaged = 0;
    bool coarse = false, also = false;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "damaged"))
            damaged = json_i64(&p->json);
        else if (str_is(key, "damage"))
            damage = json_str(&p->json);
        else if (str_is(key, "coarse"))
            coarse = json_bool(&p->json);
        else if (str_is(key, "also"))
            also = json_bool(&p->json);
        else if (str_is(key, "hidden"))
            hidden = json_str(&p->json);
        else
            json_skip(&p->json);
    }
    if (damaged)
        buf_printf(p->out, "warning: %lld damaged pieces are missing from this answer (%.*s); run 'wick store check'\n",
                   (long long) damaged, STR_FMT(damage));
    if (coarse)
        buf_puts(p->out, "note: detail of part of the range has expired; its edges are rounded to five minutes\n");
    if (also)
        buf_puts(p->out,
                 "note: two sources sent CPU time of the same processes; it is counted once (the other: cpu_also)\n");
    if (hidden.n)
        buf_printf(p->out, "note: part of this is in %.*s, whose functions are not shown\n", STR_FMT(hidden));
}

/* The sampling rate, or the lowest and the highest where it changed. */
static void read_rate(struct page *p)
{
    int columns = p->n_columns;

    page_pair(p, p->rate);
    p->n_columns = columns;
}

bool page_common(struct page *p, struct str key)
{
    if (str_is(key, "type"))
        type_by_name(json_str(&p->json), &p->type);
    else if (str_is(key, "unit"))
        p->type.unit = json_str(&p->json);
    else if (str_is(key, "total"))
        page_pair(p, p->total);
    else if (str_is(key, "coverage"))
        page_pair(p, p->covered);
    else if (str_is(key, "notes"))
        put_notes(p);
    else if (str_is(key, "rate"))
        read_rate(p);
    else if (str_is(key, "meanRate"))
        p->mean_rate = json_double(&p->json);
    else
        return false;
    return true;
}

void page_table(struct page *p, struct text_table *t)
{
    size_t rows = text_table_rows(t);
    int r = rows || t->err ? text_table_print(t, p->width, p->out) : 0;

    p->rows += rows;
    if (r < 0)
        p->json.err = r;
    text_table_done(t);
}

int query_text(struct str what, struct str json, int width, struct buf *out, size_t *ret_rows, struct err *e)
{
    static const struct {
        const char *name;
        void (*print)(struct page *p);
    } printers[] = {
        {"flame", page_tree},
        {"callers", page_callers},
        {"top", page_top},
        {"lines", page_top},
        {"labels", page_labels},
        {"services", page_services},
        {"types", page_types},
        {"profiles", page_profiles},
        {"spans", page_spans},
        {"series", page_series},
        {"leaks", page_leaks},
        {"symbols", page_symbols},
        {"coverage", page_coverage},
        {"deploys", page_deploys},
        {"drift", page_drift},
        {"verdict", page_verdict},
        {"span", page_span},
        {"trace", page_trace},
        {"span_names", page_span_names},
        {"span_heatmap", page_span_heatmap},
        {"heatmap", page_heatmap},
        {"chart", page_chart},
        {"findings", page_findings},
        {"trends", page_trends},
    };
    struct page p = {.out = out, .width = width};
    int r = 0;

    arena_init(&p.arena, 0);
    json_init(&p.json, json, &p.arena);
    for (size_t i = 0; i < ARRAY_SIZE(printers); i++)
        if (str_is(what, printers[i].name))
            printers[i].print(&p);
    if (p.rows && p.rate[1] > 0)
        buf_printf(out, "sampled at %.0f to %.0f Hz, on average %.0f\n", p.rate[0], p.rate[1], p.mean_rate);
    else if (p.rows && p.rate[0] > 0)
        buf_printf(out, "sampled at %.0f Hz\n", p.rate[0]);
    if (p.json.err == -ENOMEM)
        r = err_set(e, -ENOMEM, "out of memory");
    else if (p.json.err)
        r = json_error(&p.json, e);
    *ret_rows = p.rows;
    arena_done(&p.arena);
    return r;
}
