/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers about when samples were taken, heatmap and chart, as tables with a line of characters over time. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "client/query_page.h"

enum { LINE = 50 }; /* characters of a line over time */

/* A member of an answer's object that is a number, and where it goes. */
struct number_member {
    const char *key;
    int64_t *v;
};

static bool read_number(struct page *p, struct str key, const struct number_member *members, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(key, members[i].key)) {
            *members[i].v = json_i64(&p->json);
            return true;
        }
    return false;
}

/* --- heat map --- */

struct heat_page {
    int64_t from, step, columns, rows, max, scale;
    int64_t timed;
};

/* From blank to dense; a value above 0 is never blank. */
static char shade(int64_t v, int64_t max)
{
    static const char shades[] = ".:-=+*#%@";
    int64_t n = sizeof shades - 1;

    return v <= 0 ? ' ' : shades[max > 0 ? MIN(v * n / max, n - 1) : 0];
}

static void put_column(struct page *p, struct text_table *t, const struct heat_page *h, int64_t column)
{
    int64_t sums[LINE] = {0}, sum = 0, per_cell = (h->rows + LINE - 1) / LINE;
    char line[LINE + 1] = "";
    size_t n = 0;

    for (int64_t i = 0; i < h->rows && json_next_item(&p->json); i++) {
        int64_t v = json_i64(&p->json);

        sums[MIN(i / per_cell, LINE - 1)] += v;
        sum += v;
    }
    if (!sum)
        return;
    for (size_t i = 0; i < LINE; i++) {
        line[i] = shade(sums[i], h->max / MAX(h->scale, 1) * per_cell);
        n = line[i] == ' ' ? n : i + 1;
    }
    line[n] = 0;
    text_table_put(t, "%s", page_time(p, h->from + column * h->step, NS_PER_MS));
    text_table_put(t, "%s", page_share(p, (double) sum * (double) h->scale, (double) h->timed));
    text_table_put(t, "%s", line);
}

void page_heatmap(struct page *p)
{
    struct heat_page h = {.rows = 1, .scale = 1};
    const struct number_member numbers[] = {{"from", &h.from},  {"step", &h.step}, {"columns", &h.columns},
                                            {"rows", &h.rows},  {"max", &h.max},   {"scale", &h.scale},
                                            {"timed", &h.timed}};
    struct text_table t;
    struct str key;

    TABLE(&t, {"TIME", false}, {"SHARE", true}, {"WITHIN THE STEP", false});
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (read_number(p, key, numbers, ARRAY_SIZE(numbers)))
            continue;
        if (str_is(key, "values")) {
            json_begin_array(&p->json);
            for (int64_t i = 0; i < h.columns && h.rows > 0; i++)
                put_column(p, &t, &h, i);
            while (json_next_item(&p->json))
                json_skip(&p->json);
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    page_table(p, &t);
}

/* --- chart --- */

struct chart_page {
    struct str name, service;
    int64_t id, pid, running, waiting, samples;
    char line[LINE + 1];
};

/* Cells: column, number of columns, node, kind (0: running, 1: waiting), and so on. */
static void read_cells(struct page *p, int64_t columns, char line[LINE + 1])
{
    int64_t v[4] = {0};
    size_t n = 0, last = 0;

    memset(line, ' ', LINE);
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        v[n++ % 4] = json_i64(&p->json);
        if (n % 4 || columns <= 0 || v[0] < 0 || v[0] >= columns || v[1] <= 0)
            continue;
        for (int64_t at = v[0] * LINE / columns; at <= MIN(v[0] + MIN(v[1], columns) - 1, columns - 1) * LINE / columns;
             at++) {
            if (line[at] != '#')
                line[at] = v[3] ? '.' : '#';
            last = MAX(last, (size_t) at + 1);
        }
    }
    line[last] = 0;
}

static void put_chart_thread(struct page *p, struct text_table *t, int64_t columns)
{
    struct chart_page x = {0};
    const struct number_member numbers[] = {
        {"id", &x.id}, {"pid", &x.pid}, {"running", &x.running}, {"waiting", &x.waiting}, {"samples", &x.samples}};
    struct str key;

    type_by_name(STR("cpu"), &p->type); /* of the values: both are times */
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (read_number(p, key, numbers, ARRAY_SIZE(numbers)))
            continue;
        if (str_is(key, "name"))
            x.name = json_str(&p->json);
        else if (str_is(key, "service"))
            x.service = json_str(&p->json);
        else if (str_is(key, "cells"))
            read_cells(p, columns, x.line);
        else
            json_skip(&p->json);
    }
    text_table_put(t, "%" PRId64, x.id);
    text_table_put(t, "%" PRId64, x.samples);
    text_table_put(t, "%s", page_value(p, (double) x.running));
    text_table_put(t, "%s", page_value(p, (double) x.waiting));
    text_table_put(t, "%.*s", STR_FMT(x.service));
    text_table_put(t, "%.*s", STR_FMT(x.name));
    text_table_put(t, "%s", x.line);
}

/* A row for each thread; its line over the range has # where it ran and . where it waited. */
void page_chart(struct page *p)
{
    struct text_table t;
    struct str key;
    int64_t columns = 0;

    TABLE(&t, {"THREAD", true}, {"SAMPLES", true}, {"RUNNING", true}, {"WAITING", true}, {"SERVICE", false},
          {"NAME", false}, {"OVER THE RANGE", false});
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "columns")) {
            columns = json_i64(&p->json);
        } else if (str_is(key, "threads")) {
            json_begin_array(&p->json);
            while (json_next_item(&p->json))
                put_chart_thread(p, &t, columns);
        } else if (!page_common(p, key)) {
            json_skip(&p->json);
        }
    }
    page_table(p, &t);
}
