/* SPDX-License-Identifier: Apache-2.0 */
/* Prints tables of records (record_text.h). */
#include "client/record_text.h"

#include <ctype.h>
#include <math.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"

static bool is_number(const struct record_field *f)
{
    return f->kind == RECORD_INT || f->kind == RECORD_COUNT || f->kind == RECORD_U32 || f->kind == RECORD_NUMBER ||
           (f->kind == RECORD_NS && f->unit);
}

static double number_of(const struct record_field *f, const void *at)
{
    switch (f->kind) {
    case RECORD_NUMBER:
        return *(const double *) at;
    case RECORD_U32:
        return *(const uint32_t *) at;
    case RECORD_COUNT:
        return (double) *(const uint64_t *) at;
    default:
        return (double) *(const int64_t *) at;
    }
}

static void put_amount(struct buf *out, const struct type *t, double v)
{
    if (v < 0)
        buf_putc(out, '-');
    type_format(out, t, fabs(v), false);
}

static void put_number(struct buf *out, const struct record_field *f, const void *at, const struct type *of)
{
    static const struct type time = {.unit = STR("nanoseconds")};
    double v = number_of(f, at);

    switch (f->unit) {
    case UNIT_VALUE:
        put_amount(out, of, v);
        break;
    case UNIT_NS:
        put_amount(out, &time, v);
        break;
    case UNIT_SHARE:
        buf_printf(out, "%.2f%%", 100 * v);
        break;
    case UNIT_POINTS:
        buf_printf(out, "%+.2f", v);
        break;
    case UNIT_CORES:
        buf_printf(out, "%+.3f", v);
        break;
    case UNIT_P:
        buf_printf(out, v < 0.0001 ? "< 0.0001" : "%.4f", v);
        break;
    case UNIT_FIT:
        buf_printf(out, "%.2f", v);
        break;
    case UNIT_NONE:
        if (f->kind == RECORD_NUMBER)
            buf_printf(out, "%.4g", v);
        else
            record_put_value(out, f, at);
        break;
    }
}

static void put_time(struct buf *out, const struct record_field *f, int64_t ns)
{
    int64_t unit = f->kind == RECORD_NS && f->limit ? NS_PER_MS : NS_PER_S;

    if (ns)
        clock_format(out, ns / unit * unit);
}

static void put_items(struct buf *out, const struct record_field *f, const void *at)
{
    struct record_list l = record_list_at(at);
    const struct record_entry *entries = l.v;
    const struct str *names = l.v;

    for (uint32_t i = 0; i < l.n; i++) {
        if (f->kind == RECORD_MAP) {
            buf_puts(out, i ? " " : "");
            printable_put(out, entries[i].name, false);
            buf_putc(out, '=');
            printable_put(out, entries[i].value, false);
        } else {
            buf_puts(out, i ? "," : "");
            printable_put(out, names[i], false);
        }
    }
}

/* The fields of a struct, with blanks between them. */
static void put_struct(struct buf *out, const struct record_field *fields, const void *record, const struct type *of)
{
    for (const struct record_field *f = fields; f->kind; f++) {
        buf_puts(out, f == fields ? "" : " ");
        record_text_value(out, f, (const char *) record + f->offset, of);
    }
}

static struct str text_of(const struct record_field *f, const void *at)
{
    if (f->kind == RECORD_STR)
        return *(const struct str *) at;
    return str_from(f->kind == RECORD_TEXT ? *(const char *const *) at : at);
}

void record_text_value(struct buf *out, const struct record_field *f, const void *at, const struct type *of)
{
    if (is_number(f)) {
        put_number(out, f, at, of);
        return;
    }
    switch (f->kind) {
    case RECORD_STR:
    case RECORD_TEXT:
    case RECORD_CHARS:
        printable_put(out, text_of(f, at), false);
        break;
    case RECORD_BOOL:
        buf_puts(out, *(const bool *) at ? "yes" : "no");
        break;
    case RECORD_NS:
    case RECORD_TIME:
        put_time(out, f, *(const int64_t *) at);
        break;
    case RECORD_STRS:
    case RECORD_MAP:
        put_items(out, f, at);
        break;
    case RECORD_ONE:
        put_struct(out, f->fields, at, of);
        break;
    default: { /* words, IDs: as in JSON, without the quotes */
        size_t start = out->n;

        record_put_value(out, f, at);
        if (!buf_error(out) && out->n > start + 1 && out->p[start] == '"') {
            memmove(out->p + start, out->p + start + 1, out->n - start - 1);
            out->n -= 2;
        }
    }
    }
}

/* The field of a column, or NULL after the last one. */
static const struct record_field *column_of(const struct record_field *fields, unsigned column)
{
    while (fields->kind && fields->column != column)
        fields++;
    return fields->kind ? fields : NULL;
}

static void put_row(struct text_table *t, const struct record_field *fields, const void *record, const struct type *of)
{
    _cleanup_(buf_done) struct buf cell = BUF_INIT;
    const struct record_field *f;

    for (unsigned c = 1; (f = column_of(fields, c)); c++) {
        buf_reset(&cell);
        if (!f->when || *((const bool *) record + f->when))
            record_text_value(&cell, f, (const char *) record + f->offset, of);
        text_table_put(t, "%.*s", STR_FMT(cell.n ? buf_str(&cell) : STR("-")));
    }
}

int record_text(struct buf *out, int width, const struct record_field *fields, size_t size,
                const struct record_list *records, const struct type *of)
{
    struct text_column columns[TEXT_COLUMNS_MAX];
    char headings[TEXT_COLUMNS_MAX][32];
    const struct record_field *f;
    struct text_table t;
    size_t n = 0;
    int r = 0;

    for (; n < TEXT_COLUMNS_MAX && (f = column_of(fields, (unsigned) n + 1)); n++) {
        const char *name = f->heading ? f->heading : f->name;
        size_t k = 0;

        for (; name[k] && k + 1 < sizeof headings[n]; k++)
            headings[n][k] = (char) toupper((unsigned char) name[k]);
        headings[n][k] = 0;
        columns[n] = (struct text_column){headings[n], is_number(f)};
    }
    text_table_init(&t, n, columns);
    for (uint32_t i = 0; i < records->n; i++)
        put_row(&t, fields, (const char *) records->v + i * size, of);
    if (records->n)
        r = text_table_print(&t, width, out);
    text_table_done(&t);
    return r;
}
