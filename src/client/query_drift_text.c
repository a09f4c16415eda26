/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers of drift, verdict, findings and trends as text (query_page.h). */
#include <errno.h>
#include <math.h>

#include "client/query_page.h"

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

/* --- findings --- */

static const char *read_frames(struct page *p)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const char *text;
    struct str key;

    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        struct str function = {0};
        double share = 0;

        json_begin_object(&p->json);
        while (json_next_key(&p->json, &key)) {
            if (str_is(key, "function"))
                function = json_str(&p->json);
            else
                share = json_double(&p->json);
        }
        buf_printf(&b, "%s%.*s (%.1f%%)", b.n ? ", " : "", STR_FMT(function), 100 * share);
    }
    text = arena_printf(&p->arena, "%.*s", STR_FMT(buf_str(&b)));
    return text ? text : "?";
}

static void put_finding(struct page *p)
{
    struct str key, severity = {0}, sentence = {0};
    const char *frames = "";

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "severity"))
            severity = json_str(&p->json);
        else if (str_is(key, "sentence"))
            sentence = json_str(&p->json);
        else if (str_is(key, "frames"))
            frames = read_frames(p);
        else
            json_skip(&p->json);
    }
    buf_printf(p->out, "%.*s: %.*s\n    %s\n", STR_FMT(severity), STR_FMT(sentence), frames);
}

void page_findings(struct page *p)
{
    struct str key;
    size_t n = 0;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "findings")) {
            json_begin_array(&p->json);
            for (; json_next_item(&p->json); n++)
                put_finding(p);
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    p->rows += p->total[0] != 0;
    if (p->rows && !n)
        buf_puts(p->out, "nothing found\n");
}

/* --- trends --- */

static void put_trend(struct page *p, struct text_table *t)
{
    struct str key, name;
    _cleanup_(buf_done) struct buf labels = BUF_INIT;
    double rate = 0, change = 0, fit = 0;
    int64_t points = 0;
    size_t spikes = 0;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "labels")) {
            json_begin_object(&p->json);
            while (json_next_key(&p->json, &name)) {
                name = json_str(&p->json);
                buf_printf(&labels, "%s%.*s", labels.n ? "," : "", STR_FMT(name));
            }
        } else if (str_is(key, "points")) {
            points = json_i64(&p->json);
        } else if (str_is(key, "rate")) {
            rate = json_double(&p->json);
        } else if (str_is(key, "change_per_hour")) {
            change = json_double(&p->json);
        } else if (str_is(key, "fit")) {
            fit = json_double(&p->json);
        } else if (str_is(key, "spikes")) {
            json_begin_array(&p->json);
            for (; json_next_item(&p->json); spikes++)
                json_skip(&p->json);
        } else {
            json_skip(&p->json);
        }
    }
    text_table_put(t, "%.4g", rate);
    text_table_put(t, "%+.1f%%", 100 * change);
    text_table_put(t, "%.2f", fit);
    text_table_put(t, "%zu", spikes);
    text_table_put(t, "%lld", (long long) points);
    text_table_put(t, "%s", labels.n ? buf_cstr(&labels) : "(all)");
}

void page_trends(struct page *p)
{
    static const struct text_column columns[] = {{"RATE/S", true}, {"CHANGE/H", true}, {"FIT", true},
                                                 {"SPIKES", true}, {"POINTS", true},   {"LABELS", false}};
    struct text_table t;
    struct str key;

    text_table_init(&t, ARRAY_SIZE(columns), columns);
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "trends")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                put_trend(p, &t);
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    page_table(p, &t);
}
