/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers of drift and verdict as text (query_page.h): a line of summary and a table of functions. */
#include <errno.h>
#include <math.h>

#include "cli/query_page.h"

/* What a drift says besides its rows. */
struct drift_page {
    struct text_table table;
    double detectable;
    int64_t instances, windows;
    size_t significant, rows;
    struct str version, sentence, compared;
};

static void read_label(struct page *p, struct buf *out)
{
    struct str key, name = {0}, value = {0};
    double explains = 0;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "name"))
            name = json_str(&p->json);
        else if (str_is(key, "value"))
            value = json_str(&p->json);
        else if (str_is(key, "explains"))
            explains = json_double(&p->json);
        else
            json_skip(&p->json);
    }
    buf_printf(out, "%.*s=%.*s (%.0f %%)", STR_FMT(name), STR_FMT(value), 100 * explains);
}

static void put_row(struct page *p, struct drift_page *d)
{
    _cleanup_(buf_done) struct buf label = BUF_INIT;
    struct str key, function = {0};
    double before = 0, now = 0, points = 0, cores = 0, prob = 1;
    bool significant = false;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "function"))
            function = json_str(&p->json);
        else if (str_is(key, "before"))
            before = json_double(&p->json);
        else if (str_is(key, "now"))
            now = json_double(&p->json);
        else if (str_is(key, "points"))
            points = json_double(&p->json);
        else if (str_is(key, "cores"))
            cores = json_double(&p->json);
        else if (str_is(key, "p"))
            prob = json_double(&p->json);
        else if (str_is(key, "significant"))
            significant = json_bool(&p->json);
        else if (str_is(key, "label"))
            read_label(p, &label);
        else
            json_skip(&p->json);
    }
    d->rows++;
    d->significant += significant;
    text_table_put(&d->table, "%.2f%%", 100 * before);
    text_table_put(&d->table, "%.2f%%", 100 * now);
    text_table_put(&d->table, "%+.2f", points);
    text_table_put(&d->table, "%+.3f", cores);
    if (prob < 0.0001)
        text_table_put(&d->table, "< 0.0001");
    else
        text_table_put(&d->table, "%.4f", prob);
    text_table_put(&d->table, "%s", significant ? "yes" : "no");
    text_table_put(&d->table, "%.*s", STR_FMT(buf_str(&label)));
    text_table_put(&d->table, "%.*s", STR_FMT(function));
}

/* Keys of both answers; false for others. */
static bool read_drift(struct page *p, struct drift_page *d, struct str key)
{
    if (str_is(key, "drift")) {
        json_begin_array(&p->json);
        while (json_next_item(&p->json))
            put_row(p, d);
    } else if (str_is(key, "minimum_detectable_points")) {
        d->detectable = json_double(&p->json);
    } else if (str_is(key, "instances")) {
        d->instances = json_i64(&p->json);
    } else if (str_is(key, "windows")) {
        d->windows = json_i64(&p->json);
    } else if (str_is(key, "version")) {
        d->version = json_str(&p->json);
    } else if (str_is(key, "sentence")) {
        d->sentence = json_str(&p->json);
    } else if (str_is(key, "compared")) {
        d->compared = json_str(&p->json);
    } else {
        return page_common(p, key);
    }
    return true;
}

static void read_page(struct page *p, struct drift_page *d)
{
    static const struct text_column columns[] = {{"BEFORE", true},  {"NOW", true},      {"POINTS", true},
                                                 {"CORES", true},   {"P", true},        {"SIGNIFICANT", false},
                                                 {"MOSTLY", false}, {"FUNCTION", false}};
    struct str key;

    text_table_init(&d->table, ARRAY_SIZE(columns), columns);
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key))
        if (!read_drift(p, d, key))
            json_skip(&p->json);
}

static void put_summary(struct page *p, const struct drift_page *d)
{
    if (d->rows)
        buf_printf(
            p->out,
            "%zu of %zu functions changed significantly; drifts of %.2f points and more are found (%lld instances, "
            "%lld windows)\n",
            d->significant, d->rows, d->detectable, (long long) d->instances, (long long) d->windows);
}

void page_drift(struct page *p)
{
    struct drift_page d = {0};

    read_page(p, &d);
    page_table(p, &d.table);
    put_summary(p, &d);
}

void page_verdict(struct page *p)
{
    struct drift_page d = {0};

    read_page(p, &d);
    p->rows += d.version.n != 0;
    buf_printf(p->out, "%.*s\n", STR_FMT(d.sentence));
    if (d.compared.n)
        buf_printf(p->out, "compared with the previous version %s\n\n",
                   str_is(d.compared, "overlap") ? "at the same time" : "before the deploy");
    page_table(p, &d.table);
    put_summary(p, &d);
}
