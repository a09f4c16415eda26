/* SPDX-License-Identifier: Apache-2.0 */
/* -list: the source of functions that match, with the values of their lines. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/source.h"
#include "report/source_reader.h"

enum { MARGIN = 5 }; /* lines shown around the ones with samples */

/* One matching node, with the keys that nodes are grouped by. */
struct source_entry {
    struct str name, file;
    uint32_t node, order;
};

struct lister {
    struct report *r;
    struct graph *g;
    struct source_reader reader;
    struct source_entry *entries;
    size_t n, cap;
    struct buf *out;
};

static int by_name_and_file(const void *a, const void *b)
{
    const struct source_entry *x = a, *y = b;
    int c = str_cmp(x->name, y->name);

    if (!c)
        c = str_cmp(x->file, y->file);
    return c ? c : x->order < y->order ? -1 : 1;
}

static int collect(struct lister *l)
{
    for (size_t i = 0; i < l->g->n_order; i++) {
        const struct graph_info *info = graph_node_info(l->g, l->g->order[i]);
        struct str name = prof_str(l->r->prof, info->name);
        int r;

        if (!regex_search(l->r->o.symbol, name))
            continue;
        r = array_push(l->entries, l->n, l->cap, UINT32_MAX,
                       (struct source_entry){name, prof_str(l->r->prof, info->file), l->g->order[i], (uint32_t) i});
        if (r < 0)
            return r;
    }
    if (l->n)
        qsort(l->entries, l->n, sizeof(*l->entries), by_name_and_file);
    return 0;
}

/* The lines to show: from the functions' start, or a few lines before the first sample, to a few lines after the
 * last. */
static void line_range(const struct lister *l, const struct source_entry *v, size_t n, int64_t *ret_start,
                       int64_t *ret_end)
{
    const struct graph_info *first = graph_node_info(l->g, v[0].node);
    int64_t start = first->start_line ? first->start_line : first->line - MARGIN, end = first->line + MARGIN;

    for (size_t i = 0; i < n; i++) {
        const struct graph_info *info = graph_node_info(l->g, v[i].node);
        int64_t from = info->start_line ? info->start_line : info->line - MARGIN;

        if (from < start)
            start = from;
        else if (info->line + MARGIN > end)
            end = info->line + MARGIN;
    }
    *ret_start = start < 1 ? 1 : start;
    *ret_end = end;
}

static void put_value_or_dot(struct lister *l, struct buf *out, int64_t v)
{
    if (v)
        report_column(l->r, out, v, 10);
    else
        report_pad(out, STR("."), 10);
    buf_putc(out, ' ');
}

static void sum_line(const struct lister *l, const struct source_entry *v, size_t n, int64_t line, int64_t *flat,
                     int64_t *cum)
{
    *flat = *cum = 0;
    for (size_t i = 0; i < n; i++)
        if (line < 0 || graph_node_info(l->g, v[i].node)->line == line) {
            *flat += l->g->nodes[v[i].node].flat;
            *cum += l->g->nodes[v[i].node].cum;
        }
}

static int put_lines(struct lister *l, const struct source_entry *v, size_t n, struct buf *out)
{
    int64_t start, end, flat, cum;
    struct str text;
    int r = 0;

    line_range(l, v, n, &start, &end);
    for (int64_t line = start; line <= end; line++) {
        r = source_reader_line(&l->reader, v->file, line, &text);
        if (r <= 0)
            break;
        sum_line(l, v, n, line, &flat, &cum);
        put_value_or_dot(l, out, flat);
        put_value_or_dot(l, out, cum);
        buf_printf(out, "%6" PRId64 ":", line);
        buf_put_str(out, text);
        buf_putc(out, '\n');
    }
    return r < 0 ? r : 0;
}

static int put_file(struct lister *l, const struct source_entry *v, size_t n)
{
    _cleanup_(buf_done) struct buf lines = BUF_INIT;
    int64_t flat, cum;
    const char *error;
    int r = put_lines(l, v, n, &lines);

    if (r < 0)
        return r;
    sum_line(l, v, n, -1, &flat, &cum);
    buf_printf(l->out, "ROUTINE ======================== %.*s in %.*s\n", STR_FMT(v->name), STR_FMT(v->file));
    report_column(l->r, l->out, flat, 10);
    buf_putc(l->out, ' ');
    report_column(l->r, l->out, cum, 10);
    buf_puts(l->out, " (flat, cum) ");
    units_percentage(l->out, cum, l->r->total);
    buf_puts(l->out, " of Total\n");
    error = source_reader_error(&l->reader, v->file);
    if (error)
        buf_printf(l->out, " Error: %s\n", error);
    else
        buf_put_str(l->out, buf_str(&lines));
    return buf_error(&lines);
}

/* All files of one function. Nodes without a file count only when there is nothing else. */
static int put_function(struct lister *l, const struct source_entry *v, size_t n)
{
    if (!v[n - 1].file.n) {
        buf_printf(l->out, "No source information for %.*s\n", STR_FMT(v->name));
        return 0;
    }
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && str_eq(v[k].file, v[i].file); k++)
            ;
        if (v[i].file.n) {
            int r = put_file(l, v + i, k - i);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int list(struct lister *l, struct err *e)
{
    int r = report_full_graph(l->r, &l->g);

    if (r >= 0)
        r = collect(l);
    if (r >= 0 && l->n == 0)
        return err_set(e, -ENOENT, "no matches found for regexp: %.*s", STR_FMT(l->r->o.symbol_text));
    if (r >= 0)
        r = source_reader_init(&l->reader, l->r->o.source_path, l->r->o.trim_path, e);
    if (r < 0)
        return r;
    buf_puts(l->out, "Total: ");
    report_value(l->r, l->out, l->r->total);
    buf_putc(l->out, '\n');
    for (size_t i = 0, k; i < l->n && r >= 0; i = k) {
        for (k = i + 1; k < l->n && str_eq(l->entries[k].name, l->entries[i].name); k++)
            ;
        r = put_function(l, l->entries + i, k - i);
    }
    return r;
}

int report_list(struct report *r, struct buf *out, struct err *e)
{
    struct lister l = {.r = r, .out = out};
    int n = list(&l, e);

    source_reader_done(&l.reader);
    graph_free(l.g);
    mem_free(l.entries);
    return n < 0 ? n : buf_error(out);
}
