/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the Firefox Profiler's processed format (json_write.h), version 55: one thread with its own tables. The stack table
 * has a row for each node of the tree of calls; frames, functions and strings have one for each as well, so that the number
 * of a row is the same in all of them.
 */
#include <errno.h>

#include "base/json.h"
#include "codec/frame_name.h"
#include "codec/jsonfile/call_tree.h"
#include "codec/jsonfile/json_write.h"

struct fox_writer {
    const struct batch *b;
    struct call_tree tree;
    struct buf scratch;
    struct buf *out;
};

/* What a column has in row i; rows are nodes 1... of the tree. */
typedef void fox_cell(struct fox_writer *w, size_t i);

static void put_column(struct fox_writer *w, const char *name, fox_cell *cell)
{
    bool first = true;

    buf_printf(w->out, "\"%s\":[", name);
    for (size_t i = 1; i < w->tree.n; i++) {
        json_sep(w->out, &first);
        cell(w, i);
    }
    buf_puts(w->out, "],");
}

static const struct line *line_of(const struct fox_writer *w, size_t i)
{
    const struct call_tree_node *n = &w->tree.nodes[i];
    const struct location *l = &w->b->dict.locations[n->location];

    return n->line < l->lines.n ? &w->b->dict.lines[l->lines.off + n->line] : NULL;
}

static void cell_row(struct fox_writer *w, size_t i)
{
    json_put_u64(w->out, i - 1);
}

static void cell_prefix(struct fox_writer *w, size_t i)
{
    if (w->tree.nodes[i].parent)
        json_put_u64(w->out, w->tree.nodes[i].parent - 1u);
    else
        buf_puts(w->out, "null");
}

static void cell_null(struct fox_writer *w, size_t i)
{
    (void) i;
    buf_puts(w->out, "null");
}

static void cell_zero(struct fox_writer *w, size_t i)
{
    (void) i;
    buf_putc(w->out, '0');
}

static void cell_none(struct fox_writer *w, size_t i)
{
    (void) i;
    buf_puts(w->out, "-1");
}

static void cell_false(struct fox_writer *w, size_t i)
{
    (void) i;
    buf_puts(w->out, "false");
}

static void cell_line(struct fox_writer *w, size_t i)
{
    const struct line *l = line_of(w, i);

    if (l && l->line > 0)
        json_put_i64(w->out, l->line);
    else
        buf_puts(w->out, "null");
}

static void cell_column(struct fox_writer *w, size_t i)
{
    const struct line *l = line_of(w, i);

    if (l && l->column > 0)
        json_put_i64(w->out, l->column);
    else
        buf_puts(w->out, "null");
}

static struct str file_of(const struct fox_writer *w, size_t i)
{
    const struct line *l = line_of(w, i);

    return l ? w->b->dict.strings[w->b->dict.functions[l->function].filename] : (struct str){0};
}

/* Files follow the names in the table of strings. */
static void cell_file(struct fox_writer *w, size_t i)
{
    if (file_of(w, i).n)
        json_put_u64(w->out, w->tree.n - 1 + i - 1);
    else
        buf_puts(w->out, "null");
}

static void cell_name_text(struct fox_writer *w, size_t i)
{
    buf_reset(&w->scratch);
    frame_name(w->b, w->tree.nodes[i].location, w->tree.nodes[i].line, &w->scratch);
    json_put_str(w->out, buf_str(&w->scratch));
}

static void cell_file_text(struct fox_writer *w, size_t i)
{
    json_put_str(w->out, file_of(w, i));
}

static void put_tables(struct fox_writer *w)
{
    struct buf *out = w->out;
    size_t n = w->tree.n - 1;

    buf_puts(out, "\"stackTable\":{");
    put_column(w, "prefix", cell_prefix);
    put_column(w, "frame", cell_row);
    buf_printf(out, "\"length\":%zu},\"frameTable\":{", n);
    put_column(w, "address", cell_none);
    put_column(w, "inlineDepth", cell_zero);
    put_column(w, "category", cell_zero);
    put_column(w, "subcategory", cell_zero);
    put_column(w, "func", cell_row);
    put_column(w, "nativeSymbol", cell_null);
    put_column(w, "innerWindowID", cell_null);
    put_column(w, "line", cell_line);
    put_column(w, "column", cell_column);
    buf_printf(out, "\"length\":%zu},\"funcTable\":{", n);
    put_column(w, "isJS", cell_false);
    put_column(w, "relevantForJS", cell_false);
    put_column(w, "name", cell_row);
    put_column(w, "resource", cell_none);
    put_column(w, "fileName", cell_file);
    put_column(w, "lineNumber", cell_null);
    put_column(w, "columnNumber", cell_null);
    buf_printf(out, "\"length\":%zu},", n);
    buf_puts(out, "\"resourceTable\":{\"lib\":[],\"name\":[],\"host\":[],\"type\":[],\"length\":0},"
                  "\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],\"length\":0},"
                  "\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],\"category\":[],"
                  "\"length\":0},\"stringArray\":[");
    for (size_t i = 1; i < w->tree.n; i++) {
        buf_puts(out, i > 1 ? "," : "");
        cell_name_text(w, i);
    }
    for (size_t i = 1; i < w->tree.n; i++) {
        buf_putc(out, ',');
        cell_file_text(w, i);
    }
    buf_puts(out, "]");
}

static void put_samples(struct fox_writer *w, const struct profile *p, uint32_t type)
{
    struct str unit = w->b->dict.strings[p->types[type].unit];
    bool ns = str_is(unit, "nanoseconds"), first = true;
    struct buf *out = w->out;
    uint32_t n = 0;

    buf_printf(out, "\"samples\":{\"weightType\":\"%s\",\"weight\":[",
               ns                      ? "tracing-ms"
               : str_is(unit, "bytes") ? "bytes"
                                       : "samples");
    for (uint32_t i = 0; i < p->samples.n; i++) {
        int64_t v = batch_sample_value(w->b, p, &w->b->samples[p->samples.off + i], type);

        json_sep(out, &first);
        if (ns)
            json_put_double(out, (double) v / 1e6);
        else
            json_put_i64(out, v);
    }
    buf_puts(out, "],\"stack\":[");
    for (uint32_t i = 0; i < p->samples.n; i++) {
        buf_puts(out, i ? "," : "");
        if (w->tree.leaves[i])
            json_put_u64(out, w->tree.leaves[i] - 1u);
        else
            buf_puts(out, "null");
    }
    buf_puts(out, "],\"time\":[");
    for (; n < p->samples.n; n++)
        buf_printf(out, "%s%u", n ? "," : "", n);
    buf_printf(out, "],\"length\":%u},", n);
}

static void put_meta(struct fox_writer *w, const struct profile *p, struct str name)
{
    struct buf *out = w->out;

    buf_printf(
        out,
        "{\"meta\":{\"interval\":1,\"startTime\":%lld,\"abi\":\"\",\"misc\":\"\",\"oscpu\":\"\",\"platform\":\"\",",
        (long long) (p->time_ns / 1000000));
    buf_puts(out,
             "\"processType\":0,\"extensions\":{\"id\":[],\"name\":[],\"baseURL\":[],\"length\":0},"
             "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}],\"product\":");
    json_put_str(out, name);
    buf_puts(out,
             ",\"stackwalk\":1,\"toolkit\":\"\",\"version\":30,\"preprocessedProfileVersion\":55,\"symbolicated\":true,"
             "\"markerSchema\":[],\"importedFrom\":\"wick " WICK_VERSION "\"},\"libs\":[],\"pages\":[],\"threads\":[{"
             "\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
             "\"unregisterTime\":null,\"pausedRanges\":[],\"isMainThread\":true,\"pid\":\"0\",\"tid\":0,\"name\":");
    json_put_str(out, w->b->dict.strings[p->types[0].type]);
    buf_putc(out, ',');
}

int firefox_encode(const struct batch *b, const struct profile *p, uint32_t type, struct str name, struct buf *out,
                   struct err *e)
{
    struct fox_writer w = {.b = b, .out = out};
    int r = call_tree_build(b, p, &w.tree);

    if (r == 0) {
        put_meta(&w, p, name);
        put_samples(&w, p, type);
        put_tables(&w);
        buf_puts(out, "}]}\n");
        r = buf_error(&w.scratch) ? buf_error(&w.scratch) : buf_error(out);
    }
    call_tree_done(&w.tree);
    buf_done(&w.scratch);
    return r < 0 ? err_set(e, r, "cannot write Firefox Profiler's JSON: %m") : 0;
}
