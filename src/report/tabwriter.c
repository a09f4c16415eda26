/* SPDX-License-Identifier: Apache-2.0 */
/* Aligns the columns of text with tabs, like Go's text/tabwriter. */
#include "report/tabwriter.h"

#include <errno.h>

#include "base/mem.h"

enum { COLUMNS_MAX = 64 };

struct tab_row {
    struct str text;
    size_t n_cells; /* tabs + 1 */
};

struct tab_layout {
    struct tab_row *rows;
    size_t n_rows, cap_rows;
    size_t widths[COLUMNS_MAX];
    struct buf *out;
};

static struct str cell(struct str s, size_t i)
{
    struct str c = {0};

    for (size_t k = 0; k <= i; k++)
        c = str_cut(&s, '\t');
    return c;
}

static size_t runes(struct str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char) s.p[i] & 0xc0) != 0x80;
    return n;
}

static void put_row(struct tab_layout *l, const struct tab_row *r, size_t n_widths)
{
    for (size_t i = 0; i < r->n_cells; i++) {
        struct str c = cell(r->text, i);

        if (i < n_widths && l->widths[i] > runes(c))
            buf_pad(l->out, ' ', l->widths[i] - runes(c));
        buf_put_str(l->out, c);
    }
    buf_putc(l->out, '\n');
}

/* Rows [from, to) with the columns below `column` known: runs of rows that have this column are laid out by themselves. */
static void put_block(struct tab_layout *l, size_t from, size_t to, size_t column)
{
    for (size_t i = from; i < to;) {
        size_t end = i, width = 0;

        if (column + 1 >= l->rows[i].n_cells || column >= COLUMNS_MAX) {
            put_row(l, &l->rows[i++], column);
            continue;
        }
        for (; end < to && column + 1 < l->rows[end].n_cells; end++)
            width = MAX(width, runes(cell(l->rows[end].text, column)) + 1);
        l->widths[column] = width;
        put_block(l, i, end, column + 1);
        i = end;
    }
}

int tabwriter_format(struct str text, struct buf *out)
{
    struct tab_layout l = {.out = out};

    while (text.n) {
        struct str line = str_cut(&text, '\n');
        size_t tabs = 0;

        for (size_t i = 0; i < line.n; i++)
            tabs += line.p[i] == '\t';
        if (array_reserve(l.rows, l.cap_rows, l.n_rows + 1, 1u << 28) < 0) {
            mem_free(l.rows);
            return -ENOMEM;
        }
        l.rows[l.n_rows++] = (struct tab_row){line, tabs + 1};
    }
    put_block(&l, 0, l.n_rows, 0);
    mem_free(l.rows);
    return buf_error(out);
}
