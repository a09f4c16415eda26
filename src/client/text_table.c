/* SPDX-License-Identifier: Apache-2.0 */
/* Aligns the cells of a table for a terminal (text_table.h). */
#include "client/text_table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

enum { CELLS_MAX = 1 << 24, GAP = 2 };

void text_table_init(struct text_table *t, size_t n, const struct text_column *columns)
{
    *t = (struct text_table){.n_columns = MIN(n, (size_t) TEXT_COLUMNS_MAX)};
    arena_init(&t->arena, 0);
    for (size_t i = 0; i < t->n_columns; i++)
        t->columns[i] = columns[i];
}

void text_table_put(struct text_table *t, const char *fmt, ...)
{
    va_list ap, again;
    char *text;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    text = n < 0 ? NULL : arena_alloc(&t->arena, (size_t) n + 1);
    if (text)
        vsnprintf(text, (size_t) n + 1, fmt, again);
    else if (t->err == 0)
        t->err = -ENOMEM;
    if (t->err == 0)
        t->err = array_push(t->cells, t->n, t->cap, CELLS_MAX, ((struct str){text, (uint32_t) n}));
    va_end(again);
    va_end(ap);
}

size_t text_table_rows(const struct text_table *t)
{
    return t->n_columns ? t->n / t->n_columns : 0;
}

int text_width(struct str s)
{
    int n = 0;

    for (uint32_t i = 0; i < s.n; i++)
        n += ((unsigned char) s.p[i] & 0xc0) != 0x80;
    return n;
}

void text_put_cut(struct buf *out, struct str s, int width)
{
    int n = 0;
    uint32_t i = 0;

    if (text_width(s) <= width) {
        buf_put_str(out, s);
        return;
    }
    for (; i < s.n; i++)
        if (((unsigned char) s.p[i] & 0xc0) != 0x80 && n++ == width - 1)
            break;
    buf_put(out, s.p, i);
    buf_puts(out, "…");
}

static void put_line(const struct text_table *t, const struct str *cells, const int *widths, int width, struct buf *out)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;

    for (size_t c = 0; c < t->n_columns; c++) {
        int fill = widths[c] - text_width(cells[c]);

        buf_printf(&line, "%*s", t->columns[c].right ? fill : 0, "");
        buf_put_str(&line, cells[c]);
        if (c + 1 < t->n_columns)
            buf_printf(&line, "%*s", (t->columns[c].right ? 0 : fill) + GAP, "");
    }
    while (line.n && line.p[line.n - 1] == ' ')
        line.n--;
    if (width > 0)
        text_put_cut(out, buf_str(&line), width);
    else
        buf_put_str(out, buf_str(&line));
    buf_putc(out, '\n');
}

int text_table_print(const struct text_table *t, int width, struct buf *out)
{
    struct str headings[TEXT_COLUMNS_MAX] = {{0}};
    int widths[TEXT_COLUMNS_MAX] = {0};
    size_t rows = text_table_rows(t);

    for (size_t c = 0; c < t->n_columns; c++) {
        headings[c] = str_from(t->columns[c].heading);
        widths[c] = text_width(headings[c]);
        for (size_t r = 0; r < rows; r++)
            widths[c] = MAX(widths[c], text_width(t->cells[r * t->n_columns + c]));
    }
    put_line(t, headings, widths, width, out);
    for (size_t r = 0; r < rows; r++)
        put_line(t, t->cells + r * t->n_columns, widths, width, out);
    return t->err ? t->err : buf_error(out);
}

void text_table_done(struct text_table *t)
{
    arena_done(&t->arena);
    mem_free(t->cells);
    t->cells = NULL;
}
