/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers about when samples were taken, heatmap and chart, as tables with a line of characters over time. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "client/query_page.h"

enum { LINE = 50 }; /* characters of a line over time */

/* --- heat map --- */

/* From blank to dense; a value above 0 is never blank. */
static char shade(int64_t v, int64_t max)
{
    static const char shades[] = ".:-=+*#%@";
    int64_t n = sizeof shades - 1;

    return v <= 0 ? ' ' : shades[max > 0 ? MIN(v * n / max, n - 1) : 0];
}

static void put_column(struct page *p, struct text_table *t, const struct answer_heatmap *h, uint32_t column)
{
    const int64_t *v = h->values + (size_t) column * h->rows;
    uint32_t per_cell = (h->rows + LINE - 1) / LINE;
    int64_t sum = 0, cells[LINE] = {0};
    char line[LINE + 1] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < h->rows; i++) {
        sum += v[i];
        cells[i / per_cell] += v[i];
    }
    if (!sum)
        return;
    for (size_t i = 0; i < LINE; i++) {
        line[i] = shade(cells[i], h->max / MAX(h->scale, 1) * per_cell);
        n = line[i] == ' ' ? n : i + 1;
    }
    line[n] = 0;
    text_table_put(t, "%s", page_time(p, h->from + column * h->step, NS_PER_MS));
    text_table_put(t, "%s", page_share(p, (double) sum * (double) h->scale, (double) h->timed));
    text_table_put(t, "%s", line);
}

/* The values are one array, column after column. */
int page_heatmap(struct page *p, const void *answer)
{
    const struct answer_heatmap *h = answer;
    struct text_table t;

    TABLE(&t, {"TIME", false}, {"SHARE", true}, {"WITHIN THE STEP", false});
    for (uint32_t i = 0; h->rows && i < h->n / h->rows; i++)
        put_column(p, &t, h, i);
    return page_table(p, &t);
}

/* --- chart --- */

/* Cells: column, number of columns, node, kind (0: running, 1: waiting), and so on. */
static void draw_cells(const struct answer_thread *thread, int64_t columns, char line[LINE + 1])
{
    size_t last = 0;

    memset(line, ' ', LINE);
    for (uint32_t i = 0; i + 4 <= thread->n; i += 4) {
        const int64_t *v = thread->cells + i;
        int64_t end;

        if (columns <= 0 || v[0] < 0 || v[0] >= columns || v[1] <= 0)
            continue;
        end = MIN(v[0] + MIN(v[1], columns) - 1, columns - 1) * LINE / columns;
        for (int64_t at = v[0] * LINE / columns; at <= end; at++) {
            if (line[at] != '#')
                line[at] = v[3] ? '.' : '#';
            last = MAX(last, (size_t) at + 1);
        }
    }
    line[last] = 0;
}

/* A row for each thread; its line over the range has # where it ran and . where it waited. */
int page_chart(struct page *p, const void *answer)
{
    const struct answer_chart *x = answer;
    struct text_table t;

    TABLE(&t, {"THREAD", true}, {"SAMPLES", true}, {"RUNNING", true}, {"WAITING", true}, {"SERVICE", false},
          {"NAME", false}, {"OVER THE RANGE", false});
    for (uint32_t i = 0; i < x->n_threads; i++) {
        const struct answer_thread *v = &x->threads[i];
        char line[LINE + 1];

        draw_cells(v, x->columns, line);
        text_table_put(&t, "%" PRId64, v->id);
        text_table_put(&t, "%" PRIu64, v->samples);
        text_table_put(&t, "%s", page_duration(p, v->running));
        text_table_put(&t, "%s", page_duration(p, v->waiting));
        text_table_put(&t, "%.*s", STR_FMT(v->service));
        text_table_put(&t, "%.*s", STR_FMT(v->name));
        text_table_put(&t, "%s", line);
    }
    return page_table(p, &t);
}
