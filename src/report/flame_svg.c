/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a static flame graph as SVG (flame_svg.h): the root is at the bottom, children lie on their parents. */
#include "report/flame_svg.h"

#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "model/tree.h"
#include "report/html_escape.h"
#include "report/units.h"

enum { WIDTH = 1200, MARGIN = 10, ROW = 17, HEAD = 40, LETTER_TENTHS = 66, LETTERS_MIN = 3, DEPTH_MAX = 4096 };
static const double WIDTH_MIN = 0.25;

struct svg {
    const struct tree *t;
    struct buf *out;
    double *x, *next; /* per node: its left edge, and where its next child starts */
    uint32_t *depth;
    uint32_t deepest;
};

/* XML allows no control characters and no malformed UTF-8. */
static void put_text(struct buf *out, struct str s)
{
    bool utf8 = str_is_utf8(s);

    for (uint32_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char) s.p[i];

        if (c < 0x20 || c == 0x7f || (!utf8 && c >= 0x80))
            buf_putc(out, '?');
        else
            html_put(out, (struct str){s.p + i, 1});
    }
}

/* As many bytes as there are in n characters. */
static uint32_t bytes_of(struct str s, uint32_t n)
{
    uint32_t i = 0;

    for (; i < s.n && n; n--)
        for (i++; i < s.n && ((unsigned char) s.p[i] & 0xc0) == 0x80;)
            i++;
    return i;
}

static struct str name_of(const struct tree *t, uint32_t node)
{
    const struct frame *f = &t->frames[t->frame[node]];

    if (!node)
        return STR("all");
    return f->function.n ? f->function : f->mapping.n ? f->mapping : STR("[unknown]");
}

static void put_color(struct svg *g, uint32_t node)
{
    const struct frame *f = &g->t->frames[g->t->frame[node]];
    struct str name = name_of(g->t, node);
    uint64_t h = hash128(name.p, name.n).lo; /* the same colour in every file */
    unsigned a = (unsigned) (h & 0xff), b = (unsigned) (h >> 8 & 0xff);

    if (node && f->kind == FRAME_KERNEL)
        buf_printf(g->out, "rgb(%u,%u,%u)", 90 + a * 40 / 255, 140 + b * 60 / 255, 210);
    else
        buf_printf(g->out, "rgb(%u,%u,%u)", 205 + a * 50 / 255, 80 + b * 140 / 255, 50);
}

static void put_frame(struct svg *g, uint32_t node)
{
    const struct tree *t = g->t;
    double w = (double) t->total[0][node] / (double) t->total[0][0] * (WIDTH - 2 * MARGIN);
    unsigned y = HEAD + (g->deepest - g->depth[node]) * ROW, letters = (unsigned) (w * 10 / LETTER_TENTHS);
    struct str name = name_of(t, node);

    buf_puts(g->out, "<g><title>");
    put_text(g->out, name);
    buf_puts(g->out, " (");
    units_label(g->out, t->total[0][node], t->unit, STR("auto"));
    buf_printf(g->out, ", %.2f %%)</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" fill=\"",
               100.0 * (double) t->total[0][node] / (double) t->total[0][0], g->x[node], y, w, ROW - 1);
    put_color(g, node);
    buf_puts(g->out, "\"/>");
    if (letters >= LETTERS_MIN) {
        uint32_t n = bytes_of(name, letters);

        buf_printf(g->out, "<text x=\"%.2f\" y=\"%u\">", g->x[node] + 3, y + 12);
        put_text(g->out, n < name.n ? (struct str){name.p, bytes_of(name, letters - 2)} : name);
        buf_puts(g->out, n < name.n ? "..</text>" : "</text>");
    }
    buf_puts(g->out, "</g>\n");
}

/* Nodes come after their parents, so that one pass places them. */
static void place(struct svg *g)
{
    const struct tree *t = g->t;

    g->x[0] = g->next[0] = MARGIN;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        uint32_t up = t->parent[i];

        g->x[i] = g->next[i] = g->next[up];
        g->next[up] += (double) MAX(t->total[0][i], 0) / (double) t->total[0][0] * (WIDTH - 2 * MARGIN);
        g->depth[i] = MIN(g->depth[up] + 1, (uint32_t) DEPTH_MAX);
        if (t->total[0][i] > 0 && g->next[up] - g->x[i] >= WIDTH_MIN)
            g->deepest = MAX(g->deepest, g->depth[i]);
    }
}

static void draw(struct svg *g, struct str title)
{
    const struct tree *t = g->t;
    unsigned height = HEAD + (g->deepest + 1) * ROW + MARGIN;

    buf_printf(g->out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" "
               "font-family=\"monospace\" font-size=\"11\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"%u\" y=\"24\" font-size=\"16\">",
               WIDTH, height, WIDTH, height, MARGIN);
    put_text(g->out, title);
    buf_puts(g->out, ": ");
    put_text(g->out, t->type);
    buf_putc(g->out, ' ');
    units_label(g->out, t->total[0][0], t->unit, STR("auto"));
    buf_puts(g->out, "</text>\n");
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        double w = (double) t->total[0][i] / (double) t->total[0][0] * (WIDTH - 2 * MARGIN);

        if (w >= WIDTH_MIN && g->depth[i] < DEPTH_MAX)
            put_frame(g, i);
    }
    buf_puts(g->out, "</svg>\n");
}

int svg_flame(const struct tree *t, struct str title, struct buf *out, struct err *e)
{
    struct svg g = {.t = t, .out = out};
    int r = 0;

    if (t->total[0][0] <= 0)
        return err_set(e, -ENODATA, "there is nothing to draw: the sum of the samples is not positive");
    g.x = mem_zalloc_array(t->n_nodes, sizeof *g.x);
    g.next = mem_zalloc_array(t->n_nodes, sizeof *g.next);
    g.depth = mem_zalloc_array(t->n_nodes, sizeof *g.depth);
    if (!g.x || !g.next || !g.depth) {
        r = -ENOMEM;
    } else {
        place(&g);
        draw(&g, title);
        r = buf_error(out);
    }
    mem_free(g.x);
    mem_free(g.next);
    mem_free(g.depth);
    return r;
}
