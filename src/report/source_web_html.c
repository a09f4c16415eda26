/* SPDX-License-Identifier: Apache-2.0 */
/* Writes weblist's page: structure and texts are pprof's, style and script are our own. */
#include <inttypes.h>

#include "base/mem.h"
#include "report/gopath.h"
#include "report/html_escape.h"
#include "report/source_web.h"

enum { MERGE = 20, AROUND = 5, COLUMNS = 80 };

static const char page_style[] = "<style type=\"text/css\">\n"
                                 "body { font-family: sans-serif; margin: 1em 2em; }\n"
                                 "h2 { font-size: 1.3em; margin-bottom: 0; }\n"
                                 ".legend { font-size: 1.1em; line-height: 1.4; }\n"
                                 ".line, .nop, .unimportant { color: #999; }\n"
                                 ".inlinesrc { color: #005; }\n"
                                 ".livesrc { cursor: pointer; }\n"
                                 ".livesrc:hover { background: #eee; }\n"
                                 ".asm { display: none; color: #070; }\n"
                                 ".asm.open { display: block; }\n"
                                 "</style>";

static const char page_script[] = "<script type=\"text/javascript\">\n"
                                  "function pprof_toggle_asm(event) {\n"
                                  "  var next = event.target.nextSibling;\n"
                                  "  if (next && next.classList && next.classList.contains('asm')) {\n"
                                  "    next.classList.toggle('open');\n"
                                  "    event.preventDefault();\n"
                                  "  }\n"
                                  "}\n"
                                  "</script>";

/* The length of the UTF-8 character at s, 0 when it is invalid. */
static uint32_t character_size(struct str s)
{
    for (uint32_t n = 1; n <= 4 && n <= s.n; n++)
        if (str_is_utf8(str_slice(s, 0, n)))
            return n;
    return 0;
}

/* The number of columns that a character takes at this column. */
static size_t columns_of(char c, size_t column)
{
    return c == '\t' ? 8 - column % 8 : 1;
}

/* Replaces tabs by spaces, and pads with spaces up to COLUMNS. */
static void put_padded(struct buf *out, struct str s)
{
    size_t column = 0;

    while (s.n) {
        uint32_t n = character_size(s);

        if (s.p[0] == '\t')
            buf_pad(out, ' ', columns_of('\t', column));
        else if (n)
            buf_put(out, s.p, n);
        else
            buf_puts(out, "\xef\xbf\xbd");
        column += columns_of(s.p[0], column);
        s = str_slice(s, n ? n : 1, s.n);
    }
    if (column < COLUMNS)
        buf_pad(out, ' ', COLUMNS - column);
}

static size_t indentation(struct str line)
{
    size_t column = 0;

    for (uint32_t i = 0; i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'); i++)
        column += columns_of(line.p[i], column);
    return column;
}

static void put_value(const struct web *w, struct buf *out, int64_t v)
{
    if (v)
        report_column(w->r, out, v, 10);
    else
        report_pad(out, STR("."), 10);
}

/* A function's run of lines in a file. */
struct section {
    struct str name;
    int64_t begin, end, flat, cum;
};

static void sum_uses(const struct web *w, const struct web_file *f, int64_t line, int64_t *flat, int64_t *cum)
{
    size_t low = 0, high = f->n;

    *flat = *cum = 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (f->uses[mid].line < line)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < f->n && f->uses[low].line == line; low++) {
        *flat += w->insts[f->uses[low].inst].flat;
        *cum += w->insts[f->uses[low].inst].cum;
    }
}

static struct str pretty_name(const struct web *w, struct str name)
{
    uint32_t at = web_names_find(&w->pretty, name);

    return at == MAP_NONE ? name : w->pretty.other[at];
}

/* Shows some lines around each section; two that are near share what is between them. */
static void widen(struct section *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i == 0) {
            if (v[0].begin > AROUND)
                v[0].begin -= AROUND;
            else if (v[0].begin > 1)
                v[0].begin = 1;
        } else {
            int64_t half = MIN((v[i].begin - v[i - 1].end) / 2, AROUND);

            v[i - 1].end += half;
            v[i].begin -= half;
        }
    }
    if (n)
        v[n - 1].end += AROUND;
}

static int find_sections(const struct web *w, const struct web_file *f, struct section **ret, size_t *ret_n)
{
    struct section *v = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < f->n; i++) {
        struct section s = {.begin = f->uses[i].line, .end = f->uses[i].line + 1};
        int r;

        if (i && f->uses[i - 1].line == f->uses[i].line)
            continue;
        s.name = pretty_name(w, f->uses[i].function);
        sum_uses(w, f, s.begin, &s.flat, &s.cum);
        if (n && s.begin - v[n - 1].end < MERGE && str_eq(v[n - 1].name, s.name)) {
            v[n - 1].end = s.end;
            v[n - 1].flat += s.flat;
            v[n - 1].cum += s.cum;
            continue;
        }
        r = array_reserve(v, cap, n + 1, UINT32_MAX);
        if (r < 0) {
            mem_free(v);
            return r;
        }
        v[n++] = s;
    }
    widen(v, n);
    *ret = v;
    *ret_n = n;
    return 0;
}

/* Calls inlined around the instruction, except for those that the one before had too. */
static int put_calls(struct web *w, struct buf *out, const struct web_use *u, const struct web_use *before,
                     size_t indent)
{
    const struct web_call *calls = w->calls + u->first_call, *last = before ? w->calls + before->first_call : NULL;
    uint32_t n_last = before ? before->n_calls : 0;

    for (uint32_t i = 0; i < u->n_calls; i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT, padded = BUF_INIT;
        struct str line = STR("");
        int r;

        if (i < n_last && str_eq(last[i].file, calls[i].file) && last[i].line == calls[i].line)
            continue;
        n_last = 0;
        r = source_reader_line(&w->reader, calls[i].file, calls[i].line, &line);
        if (r < 0)
            return r;
        buf_pad(&text, ' ', indent + 4 + 4 * i);
        buf_put_str(&text, r ? str_trim(line) : STR(""));
        put_padded(&padded, buf_str(&text));
        buf_pad(out, ' ', 42);
        buf_puts(out, "<span class=inlinesrc>");
        html_put(out, buf_str(&padded));
        buf_puts(out, "</span> <span class=unimportant>");
        html_put(out, gopath_base(calls[i].file));
        buf_printf(out, ":%" PRId64 "</span>\n", calls[i].line);
    }
    return 0;
}

static void put_instruction(struct web *w, struct buf *out, const struct web_use *u, size_t indent)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, padded = BUF_INIT, once = BUF_INIT;
    const struct web_inst *x = &w->insts[u->inst];

    buf_pad(&text, ' ', indent + 4 + 4 * u->n_calls);
    buf_put_str(&text, x->text);
    put_padded(&padded, buf_str(&text));
    buf_pad(out, ' ', 10);
    put_value(w, out, x->flat);
    buf_putc(out, ' ');
    put_value(w, out, x->cum);
    buf_printf(out, " %8" PRIx64 ": ", x->object_address);
    html_put(out, buf_str(&padded));
    buf_puts(out, " <span class=unimportant>");
    if (x->file.n) { /* pprof escapes the name twice */
        struct str base = gopath_base(x->file);

        for (uint32_t i = 0; i < base.n; i++)
            if (base.p[i] == '+')
                buf_putc(&once, '+');
            else
                html_put(&once, str_slice(base, i, i + 1));
        html_put(out, buf_str(&once));
        buf_printf(out, ":%" PRId64, x->line);
    }
    buf_puts(out, "</span>\n");
}

static int put_instructions(struct web *w, struct buf *out, const struct web_use *uses, size_t n, struct str source)
{
    const struct web_use *before = NULL;
    uint64_t next = 0;
    size_t indent = indentation(source);

    buf_puts(out, "<span class=asm>");
    for (size_t i = 0; i < n; i++) {
        const struct web_inst *x = &w->insts[uses[i].inst];
        int r;

        if (i && x->address != next) {
            buf_pad(out, ' ', 37);
            buf_puts(out, "\xe2\x8b\xae\n");
        }
        next = x->address + x->length;
        r = put_calls(w, out, &uses[i], before, indent);
        if (r < 0)
            return r;
        before = &uses[i];
        if (x->text.n)
            put_instruction(w, out, &uses[i], indent);
    }
    buf_puts(out, "</span>");
    return 0;
}

static bool has_details(const struct web *w, const struct web_use *uses, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (uses[i].n_calls || w->insts[uses[i].inst].text.n)
            return true;
    return false;
}

static int put_line(struct web *w, struct buf *out, int64_t line, const struct web_use *uses, size_t n, struct str text)
{
    bool details = has_details(w, uses, n);
    int64_t flat = 0, cum = 0;

    for (size_t i = 0; i < n; i++) {
        flat += w->insts[uses[i].inst].flat;
        cum += w->insts[uses[i].inst].cum;
    }
    buf_printf(out, "\n<span class=line> %6" PRId64 "</span> <span class=%s>  ", line,
               n == 0    ? "nop"
               : details ? "livesrc"
                         : "deadsrc");
    put_value(w, out, flat);
    buf_putc(out, ' ');
    put_value(w, out, cum);
    buf_pad(out, ' ', 11);
    html_put(out, text);
    buf_puts(out, " </span>");
    return details ? put_instructions(w, out, uses, n, text) : 0;
}

static int put_section(struct web *w, struct buf *out, const struct web_file *f, const struct section *s)
{
    size_t at = 0;

    buf_puts(out, "<h2>");
    html_put(out, s->name);
    buf_puts(out, "</h2><p class=\"filename\">");
    html_put(out, f->name);
    buf_printf(out, "</p>\n<pre%s>\n  Total:  ", w->r->o.part_of_page ? "" : " onClick=\"pprof_toggle_asm(event)\"");
    report_column(w->r, out, s->flat, 10);
    buf_putc(out, ' ');
    report_column(w->r, out, s->cum, 10);
    buf_puts(out, " (flat, cum) ");
    units_percentage(out, s->cum, w->r->total);
    while (at < f->n && f->uses[at].line < s->begin)
        at++;
    for (int64_t line = s->begin; line < s->end; line++) {
        struct str text = STR("");
        size_t n = 0;
        int r = source_reader_line(&w->reader, f->name, line, &text);

        while (at + n < f->n && f->uses[at + n].line == line)
            n++;
        if (r < 0)
            return r;
        if (r == 0 && n == 0)
            continue;
        if (r == 0)
            text = line == 0 ? STR("<instructions with unknown line numbers>") : STR("???");
        r = put_line(w, out, line, f->uses + at, n, text);
        if (r < 0)
            return r;
        at += n;
    }
    buf_puts(out, "\n</pre>\n");
    return 0;
}

static int put_file(struct web *w, struct buf *out, const struct web_file *f)
{
    _cleanup_(mem_freep) struct section *v = NULL;
    size_t n;
    int r = find_sections(w, f, &v, &n);

    for (size_t i = 0; r >= 0 && i < n; i++)
        if (v[i].cum)
            r = put_section(w, out, f, &v[i]);
    return r;
}

static struct str legend_value(struct str legend, struct str key)
{
    while (legend.n) {
        struct str line = str_cut(&legend, '\n');

        if (str_starts(line, key))
            return str_slice(line, key.n, line.n);
    }
    return STR("unknown");
}

static void put_head(struct web *w, struct buf *out)
{
    _cleanup_(buf_done) struct buf legend = BUF_INIT, total = BUF_INIT;
    struct str rest;

    report_profile_labels(w->r, &legend);
    report_value(w->r, &total, w->r->total);
    rest = buf_str(&legend);
    buf_puts(out, "<!DOCTYPE html>\n<html>\n<head>\n  <meta charset=\"utf-8\">\n  <title>");
    html_put(out, legend_value(rest, STR("File: ")));
    buf_putc(out, ' ');
    html_put(out, legend_value(rest, STR("Type: ")));
    buf_printf(out, "</title>\n  \n  %s\n  %s\n</head>\n<body>\n\n<div class=\"legend\">", page_style, page_script);
    for (bool first = true; rest.n; first = false) {
        if (!first)
            buf_puts(out, "<br>\n");
        html_put(out, str_cut(&rest, '\n'));
    }
    buf_puts(out, "<br>Total: ");
    html_put(out, buf_str(&total));
    buf_puts(out, "</div>");
}

int web_print(struct web *w, struct buf *out)
{
    size_t part = w->r->o.part_of_page;
    int r = 0;

    if (!part)
        put_head(w, out);
    for (size_t i = 0; r >= 0 && i < w->n_files && (!part || i < part); i++)
        r = put_file(w, out, &w->files[i]);
    if (!part)
        buf_puts(out, "\n</body>\n</html>\n");
    return r < 0 ? r : buf_error(out);
}
