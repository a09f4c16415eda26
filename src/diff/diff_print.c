/* SPDX-License-Identifier: Apache-2.0 */
/* The three forms of the result of `wick diff` (diff_print.h). */
#include "diff/diff_print.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "client/text_table.h"

/* --- shared --- */

static uint32_t shown(const struct diff_result *d)
{
    uint32_t n = 0;

    while (n < d->rows->n && n < d->limit && fabs(d->rows->v[n].total.points) >= 0.01)
        n++;
    return n;
}

/* "+3.1 points (10.2 % -> 13.3 %), p 0.003" */
static void put_outcome(struct buf *out, const struct diff_gate *g)
{
    bool share = g->measure == DIFF_POINTS || (g->measure == DIFF_PERCENT && !g->change);
    const char *unit = share ? " %" : g->measure == DIFF_CORES ? " cores" : "";

    if (g->measure == DIFF_PERCENT && g->change)
        buf_printf(out, "%+.2f %%", g->value);
    else if (g->change)
        buf_printf(out, "%+.4g%s%s", g->value, g->measure == DIFF_POINTS ? " " : "",
                   g->measure == DIFF_POINTS ? "points" : g->unit);
    else
        buf_printf(out, "%.4g%s", g->value, share ? " %" : g->unit);
    if (g->change && (g->measure != DIFF_PERCENT || g->before != 0))
        buf_printf(out, " (%.4g%s → %.4g%s)", g->before, unit, g->now, unit);
    if (!isnan(g->reach) && g->outcome == DIFF_INCONCLUSIVE)
        buf_printf(out, ", ± %.3g", g->reach);
    if (!isnan(g->p))
        buf_printf(out, g->p < 0.0001 ? ", p < 0.0001" : ", p = %.4f", g->p);
}

/* A result in the form that stands out. */
static const char *state(enum diff_outcome o)
{
    return o == DIFF_FAILED ? "FAILED" : o == DIFF_INCONCLUSIVE ? "INCONCLUSIVE" : "passed";
}

static const char *mark(enum diff_outcome o)
{
    return o == DIFF_FAILED ? "❌" : o == DIFF_INCONCLUSIVE ? "❔" : "✅";
}

/* --- text --- */

int diff_print_text(const struct diff_result *d, struct buf *out)
{
    static const struct text_column columns[] = {{"OLD", true},      {"NEW", true},      {"POINTS", true},
                                                 {"SELF OLD", true}, {"SELF NEW", true}, {"P", true},
                                                 {"FUNCTION", false}};
    struct text_table t;
    uint32_t n = shown(d);
    int r;

    text_table_init(&t, ARRAY_SIZE(columns), columns);
    for (uint32_t i = 0; i < n; i++) {
        const struct diff_row *v = &d->rows->v[i];

        text_table_put(&t, "%.2f%%", 100 * v->total.before);
        text_table_put(&t, "%.2f%%", 100 * v->total.now);
        text_table_put(&t, "%+.2f", v->total.points);
        text_table_put(&t, "%.2f%%", 100 * v->self[0]);
        text_table_put(&t, "%.2f%%", 100 * v->self[1]);
        if (d->rows->tested)
            text_table_put(&t, "%.4f%s", v->total.p, v->total.significant ? " *" : "");
        else
            text_table_put(&t, "-");
        text_table_put(&t, "%.*s", STR_FMT(v->function));
    }
    r = text_table_print(&t, 0, out);
    text_table_done(&t);
    if (!n)
        buf_puts(out, "no function's share changed\n");
    if (n && d->rows->tested)
        buf_puts(out, "*: significant, corrected for the number of functions\n");
    for (uint32_t i = 0; i < d->n_gates; i++) {
        buf_printf(out, "%s%s: %s: ", i ? "" : "\n", state(d->gates[i].outcome), d->gates[i].text);
        put_outcome(out, &d->gates[i]);
        buf_putc(out, '\n');
    }
    return r;
}

/* --- Markdown --- */

/* Text as code: without characters that would end the code or the cell. */
static void put_code(struct buf *out, struct str s)
{
    buf_putc(out, '`');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '|')
            buf_puts(out, "\\|");
        else
            buf_putc(out, s.p[i] == '`' ? '\'' : (unsigned char) s.p[i] < ' ' ? ' ' : s.p[i]);
    }
    buf_putc(out, '`');
}

void diff_print_markdown(const struct diff_result *d, struct buf *out)
{
    uint32_t n = shown(d);

    if (d->n_gates)
        buf_printf(out, "### wick diff: %s %s\n\n", diff_outcome_name(d->outcome), mark(d->outcome));
    else
        buf_puts(out, "### wick diff: comparison\n\n");
    put_code(out, str_from(d->old));
    buf_puts(out, " → ");
    put_code(out, str_from(d->new));
    buf_printf(out, ", %.*s, %u and %u profiles\n\n", STR_FMT(d->in->type), d->in->sides[0].n, d->in->sides[1].n);
    if (d->n_gates)
        buf_puts(out, "| condition | result | |\n|---|---|---|\n");
    for (uint32_t i = 0; i < d->n_gates; i++) {
        buf_puts(out, "| ");
        put_code(out, str_from(d->gates[i].text));
        buf_puts(out, " | ");
        put_outcome(out, &d->gates[i]);
        buf_printf(out, " | %s %s |\n", mark(d->gates[i].outcome), diff_outcome_name(d->gates[i].outcome));
    }
    if (n)
        buf_printf(out, "%s| function | old | new | points |%s\n|---|---:|---:|---:|%s\n", d->n_gates ? "\n" : "",
                   d->rows->tested ? " p |" : "", d->rows->tested ? "---:|" : "");
    for (uint32_t i = 0; i < n; i++) {
        const struct diff_row *v = &d->rows->v[i];

        buf_puts(out, "| ");
        put_code(out, v->function);
        buf_printf(out, " | %.2f %% | %.2f %% | %+.2f |", 100 * v->total.before, 100 * v->total.now, v->total.points);
        if (d->rows->tested)
            buf_printf(out, " %.4f%s |", v->total.p, v->total.significant ? " **significant**" : "");
        buf_putc(out, '\n');
    }
    if (!n)
        buf_puts(out, "\nNo function's share changed.\n");
}

/* --- JSON --- */

static void put_row(struct buf *out, const struct diff_row *v, bool tested)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "function", v->function);
    json_put_key_double(out, &first, "before", v->total.before);
    json_put_key_double(out, &first, "now", v->total.now);
    json_put_key_double(out, &first, "points", v->total.points);
    json_put_key_double(out, &first, "self_before", v->self[0]);
    json_put_key_double(out, &first, "self_now", v->self[1]);
    if (tested) {
        json_put_key_double(out, &first, "p", v->total.p);
        json_put_key_bool(out, &first, "significant", v->total.significant);
    }
    buf_putc(out, '}');
}

static void put_gate(struct buf *out, const struct diff_gate *g)
{
    bool first = true;

    buf_putc(out, '{');
    json_put_key_text(out, &first, "condition", g->text);
    json_put_key_double(out, &first, "value", g->value);
    json_put_key_double(out, &first, "limit", g->limit);
    json_put_key_text(out, &first, "unit", g->unit);
    json_put_key_double(out, &first, "before", g->before);
    json_put_key_double(out, &first, "now", g->now);
    json_put_key_double(out, &first, "p", g->p); /* null: not tested */
    json_put_key_double(out, &first, "reach", g->reach); /* null: not tested */
    json_put_key_text(out, &first, "outcome", diff_outcome_name(g->outcome));
    json_put_key_bool(out, &first, "failed", g->outcome == DIFF_FAILED);
    buf_putc(out, '}');
}

void diff_print_json(const struct diff_result *d, struct buf *out)
{
    uint32_t n = shown(d);
    bool first = true;

    buf_putc(out, '{');
    json_put_key_str(out, &first, "type", d->in->type);
    json_put_key_str(out, &first, "unit", d->in->unit);
    json_put_key(out, &first, "profiles");
    buf_printf(out, "[%u,%u]", d->in->sides[0].n, d->in->sides[1].n);
    json_put_key(out, &first, "functions");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            buf_putc(out, ',');
        put_row(out, &d->rows->v[i], d->rows->tested);
    }
    buf_putc(out, ']');
    json_put_key(out, &first, "conditions");
    buf_putc(out, '[');
    for (uint32_t i = 0; i < d->n_gates; i++) {
        if (i)
            buf_putc(out, ',');
        put_gate(out, &d->gates[i]);
    }
    buf_putc(out, ']');
    json_put_key_text(out, &first, "outcome", diff_outcome_name(d->outcome));
    json_put_key_bool(out, &first, "failed", d->outcome == DIFF_FAILED);
    buf_puts(out, "}\n");
}
