/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the self-contained flame graph page (html.h). The data is one JSON object:
 *   {"type":"cpu","unit":"nanoseconds",
 *    "frames":[["function","file",line,"binary",kind,"package"],...],     kind as enum frame_kind
 *    "parent":[-1,0,...],"frame":[0,1,...],"self":[[...],[...]],  per node; one list of selfs per column
 *    "folded":[[node,count],...],                                what was cut off there
 *    "cover":[ns,ns,Hz,Hz,Hz]}      covered time per column; sampling rates: lowest, highest, mean; as the API's binary tree
 */
#include "report/html.h"

#include <errno.h>

#include "base/unnamed.h"
#include "model/tree.h"
#include "report/html_escape.h"

extern const char flame_html[];
extern const size_t flame_html_size;

/* A JSON string inside a script element: '<' must not begin a tag there, nor may U+2028 end a line. Bytes that are not
 * UTF-8 become U+FFFD. */
static void put_json(struct buf *out, struct str s)
{
    bool valid = str_is_utf8(s);

    buf_putc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char) s.p[i];

        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else if (c >= 0x80 && !valid)
            buf_puts(out, "\\ufffd");
        else if (c == 0xe2 && i + 2 < s.n && (unsigned char) s.p[i + 1] == 0x80 &&
                 ((unsigned char) s.p[i + 2] & 0xfe) == 0xa8) {
            buf_puts(out, (unsigned char) s.p[i + 2] == 0xa8 ? "\\u2028" : "\\u2029");
            i += 2;
        } else {
            buf_putc(out, (char) c);
        }
    }
    buf_putc(out, '"');
}

static void put_frames(struct buf *out, const struct tree *t)
{
    buf_puts(out, "\"frames\":[");
    for (uint32_t i = 0; i < t->n_frames; i++) {
        const struct frame *f = &t->frames[i];

        buf_puts(out, i ? ",[" : "[");
        if (f->function.n || (!f->address && !f->mapping.n)) {
            put_json(out, f->function);
        } else {
            _cleanup_(buf_done) struct buf name = BUF_INIT;

            unnamed_put(&name, f->mapping, f->address);
            put_json(out, buf_str(&name));
        }
        buf_putc(out, ',');
        put_json(out, frame_file(f));
        buf_printf(out, ",%lld,", (long long) f->line);
        put_json(out, f->mapping);
        buf_printf(out, ",%u,", f->kind);
        put_json(out, frame_package(f));
        buf_putc(out, ']');
    }
    buf_puts(out, "],");
}

static void put_nodes(struct buf *out, const struct tree *t)
{
    buf_puts(out, "\"parent\":[-1");
    for (uint32_t i = 1; i < t->n_nodes; i++)
        buf_printf(out, ",%u", t->parent[i]);
    buf_puts(out, "],\"frame\":[0");
    for (uint32_t i = 1; i < t->n_nodes; i++)
        buf_printf(out, ",%u", t->frame[i]);
    buf_puts(out, "],\"self\":[");
    for (uint32_t c = 0; c < t->n_columns; c++) {
        buf_puts(out, c ? ",[" : "[");
        for (uint32_t i = 0; i < t->n_nodes; i++)
            buf_printf(out, "%s%lld", i ? "," : "", (long long) t->self[c][i]);
        buf_putc(out, ']');
    }
    buf_puts(out, "],\"folded\":[");
    for (uint32_t i = 0, n = 0; t->folded && i < t->n_nodes; i++)
        if (t->folded[i])
            buf_printf(out, "%s[%u,%u]", n++ ? "," : "", i, t->folded[i]);
    buf_puts(out, "]");
}

static void put_data(struct buf *out, const struct tree *t, const struct html_page *about)
{
    buf_puts(out, "{\"link\":");
    put_json(out, about->link);
    buf_puts(out, ",\"type\":");
    put_json(out, t->type);
    buf_puts(out, ",\"unit\":");
    put_json(out, t->unit);
    buf_putc(out, ',');
    put_frames(out, t);
    put_nodes(out, t);
    buf_printf(out, ",\"cover\":[%lld,%lld,%u,%u,%.9g]}", (long long) t->covered_ns[0], (long long) t->covered_ns[1],
               about->rate_min, about->rate_max, about->rate_mean);
}

int html_flame(const struct tree *t, const struct html_page *about, struct buf *out, struct err *e)
{
    struct str page = {flame_html, (uint32_t) flame_html_size};

    if (!page.n)
        return err_set(e, -ENOTSUP,
                       "HTML flame graphs need the web UI, which this build was made without (-Dui=false); "
                       "write speedscope (.speedscope.json) instead");
    for (;;) {
        ptrdiff_t at = str_find(page, STR("{{"));

        if (at < 0)
            break;
        buf_put_str(out, str_slice(page, 0, (size_t) at));
        page = str_slice(page, (size_t) at, page.n);
        if (str_starts(page, STR("{{TITLE}}"))) {
            html_put(out, about->title);
            page = str_slice(page, 9, page.n);
        } else if (str_starts(page, STR("{{DATA}}"))) {
            put_data(out, t, about);
            page = str_slice(page, 8, page.n);
        } else {
            buf_puts(out, "{{");
            page = str_slice(page, 2, page.n);
        }
    }
    buf_put_str(out, page);
    return buf_error(out) ? err_set(e, buf_error(out), "not enough memory for the page") : 0;
}
