/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the JSON of an answer as text (query_text.h): what all answers have in common, and which printer each has. */
#include "client/query_text.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "client/query_page.h"

static const char *kept(struct page *p, const struct buf *b)
{
    const char *text = arena_cstr(&p->arena, buf_str(b));

    return text ? text : "?";
}

static const char *amount(struct page *p, const struct type *t, double v)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (v < 0)
        buf_putc(&b, '-');
    type_format(&b, t, fabs(v), false);
    return kept(p, &b);
}

const char *page_value(struct page *p, double v)
{
    return amount(p, &p->type, v);
}

const char *page_duration(struct page *p, int64_t ns)
{
    return amount(p, &(struct type){.unit = STR("nanoseconds")}, (double) ns);
}

const char *page_share(struct page *p, double v, double whole)
{
    const char *text = arena_printf(&p->arena, "%.2f%%", whole != 0 ? 100 * v / whole : 0.0);

    return text ? text : "?";
}

const char *page_time(struct page *p, int64_t ns, int64_t unit_ns)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    clock_format(&b, ns / unit_ns * unit_ns);
    return kept(p, &b);
}

int page_table(struct page *p, struct text_table *t)
{
    size_t rows = text_table_rows(t);
    int r = rows || t->err ? text_table_print(t, p->width, p->out) : 0;

    p->rows += rows;
    text_table_done(t);
    return r;
}

int page_records(struct page *p, const struct record_field *list, const struct record_list *records)
{
    static const struct record_field names[] = {{"name", RECORD_STR, 0, .column = 1}, {0}};
    bool strings = list->kind == RECORD_STRS;

    p->rows += records->n;
    return record_text(p->out, p->width, strings ? names : list->fields, strings ? sizeof(struct str) : list->size,
                       records, &p->type);
}

/* --- notes --- */

/* "Perl; Lua" */
static void put_hidden(struct page *p, struct str names)
{
    const char *before = "";

    buf_puts(p->notes, "note: part of this is in ");
    for (; names.n; before = names.n && str_find(names, STR("; ")) >= 0 ? ", " : " and ") {
        struct str name = str_trim(str_cut(&names, ';'));

        buf_printf(p->notes, "%s%.*s", before, STR_FMT(name));
    }
    buf_puts(p->notes, ", whose functions are not shown\n");
}

static void put_notes(struct page *p)
{
    const struct store_notes *n = &p->tail.notes;
    unsigned long long spooled = (n->spool.bytes + 1023) / 1024;

    if (p->tail.has_spool)
        buf_printf(
            p->notes,
            "note: profiles of the last %lld s (%llu KiB) are still in the server's spool and missing from this answer\n",
            (long long) p->tail.spool_s, spooled);
    if (n->damaged)
        buf_printf(p->notes, "warning: %u damaged pieces are missing from this answer (%s); run 'wick store check'\n",
                   n->damaged, n->damage);
    if (n->coarse)
        buf_puts(p->notes, "note: detail of part of the range has expired; its edges are rounded to five minutes\n");
    if (n->also)
        buf_puts(
            p->notes,
            "note: two sources sent this of the same processes; it is counted once (the other: the type with _also)\n");
    if (n->naming)
        buf_puts(p->notes, "note: names of some functions are still being looked up; ask again\n");
    if (n->hidden[0])
        put_hidden(p, str_from(n->hidden));
}

static void put_rate(struct page *p)
{
    const struct answer_tail *t = &p->tail;

    if (p->rows && t->rate[1] > 0)
        buf_printf(p->out, "sampled at %lld to %lld Hz, on average %.0f\n", (long long) t->rate[0],
                   (long long) t->rate[1], t->mean_rate);
    else if (p->rows && t->rate[0] > 0)
        buf_printf(p->out, "sampled at %lld Hz\n", (long long) t->rate[0]);
}

/* --- all answers --- */

/* The list in the answer that has columns. */
static int print_list(struct page *p, const struct record_field *what, const void *answer)
{
    if (what->kind != RECORD_ONE)
        return page_records(p, what, answer);
    for (const struct record_field *f = what->fields; f->kind; f++) {
        struct record_list l;

        if (f->kind != RECORD_LIST)
            continue;
        l = record_list_at((const char *) answer + f->offset);
        return page_records(p, f, &l);
    }
    return 0;
}

static int print_answer(struct page *p, const struct question *q, const void *answer)
{
    static const struct {
        const char *name;
        int (*print)(struct page *p, const void *answer);
    } printers[] = {
        {"flame", page_tree},        {"callers", page_callers},   {"top", page_top},
        {"lines", page_top},         {"types", page_types},       {"spans", page_spans},
        {"series", page_series},     {"leaks", page_leaks},       {"symbols", page_symbols},
        {"coverage", page_coverage}, {"drift", page_drift},       {"verdict", page_verdict},
        {"verdicts", page_verdicts}, {"span", page_span},         {"trace", page_trace},
        {"heatmap", page_heatmap},   {"chart", page_chart},       {"span_heatmap", page_span_heatmap},
        {"explain", page_explain},   {"findings", page_findings}, {"trends", page_trends},
    };

    for (size_t i = 0; i < ARRAY_SIZE(printers); i++)
        if (strcmp(q->name, printers[i].name) == 0)
            return printers[i].print(p, answer);
    return print_list(p, q->answer, answer);
}

/* What is common to all answers; lists have neither. */
static int read_ends(struct page *p, const struct question *q, struct str json, struct err *e)
{
    int r = 0;

    p->head.n_columns = 1;
    if (q->answer->kind != RECORD_ONE)
        return 0;
    if (answer_has_selected(q->answer))
        r = record_read(json, answer_selected_fields, RECORD_ANSWER, &p->arena, &p->tail, e);
    if (r == 0)
        r = record_read(json, answer_tail_fields, RECORD_ANSWER, &p->arena, &p->tail, e);
    if (r == 0)
        r = record_read(json, answer_head_fields, RECORD_ANSWER, &p->arena, &p->head, e);
    type_by_name(p->head.type, &p->type);
    if (p->head.unit.n)
        p->type.unit = p->head.unit;
    return r;
}

static int print_page(struct page *p, const struct question *q, struct str json, struct err *e)
{
    void *answer = arena_zalloc_array(&p->arena, 1, MAX(q->answer->size, sizeof(struct record_list)));
    int r = answer ? read_ends(p, q, json, e) : -ENOMEM;

    if (r == 0)
        r = record_read_value(json, q->answer, RECORD_ANSWER, &p->arena, answer, e);
    if (r == 0)
        r = print_answer(p, q, answer);
    put_rate(p);
    put_notes(p);
    return r == -ENOMEM ? err_set(e, r, "out of memory") : r;
}

int query_text(const struct question *q, struct str json, int width, struct query_text *ret, struct err *e)
{
    struct page p = {.out = &ret->text, .notes = &ret->notes, .width = width};
    int r;

    arena_init(&p.arena, 0);
    r = print_page(&p, q, json, e);
    ret->rows = p.rows;
    arena_done(&p.arena);
    return r;
}

void query_text_done(struct query_text *t)
{
    buf_done(&t->text);
    buf_done(&t->notes);
}
