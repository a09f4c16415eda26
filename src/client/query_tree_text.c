/* SPDX-License-Identifier: Apache-2.0 */
/* Prints call trees as indented text: the answers of flame and callers (query_page.h). */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"
#include "client/query_page.h"

enum { TREE_LINES_MAX = 200 };

struct text_node {
    int64_t parent, frame;
    double self[2], total[2], folded;
    uint32_t depth, first_child, next;
};

struct forest {
    struct str *names;
    struct text_node *nodes;
    size_t n_names, n_nodes, cap_names, cap_nodes;
};

static void read_frames(struct page *p, struct forest *f)
{
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        struct str key, name = {0}, mapping = {0}, address = {0};

        json_begin_object(&p->json);
        while (json_next_key(&p->json, &key)) {
            if (str_is(key, "function"))
                name = json_str(&p->json);
            else if (str_is(key, "mapping"))
                mapping = json_str(&p->json);
            else if (str_is(key, "address"))
                address = json_str(&p->json);
            else
                json_skip(&p->json);
        }
        if (!name.n && (mapping.n || address.n))
            name = str_from(arena_printf(&p->arena, "%.*s+%.*s", STR_FMT(mapping), STR_FMT(address)));
        if (array_push(f->names, f->n_names, f->cap_names, UINT32_MAX, name) < 0) {
            p->json.err = -ENOMEM;
            return;
        }
    }
}

static struct text_node read_node(struct page *p)
{
    struct text_node n = {0};
    double v[8] = {0};
    int i = 0, values = 2 * MAX(p->n_columns, 1);

    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        double d = json_double(&p->json);

        if (i < 8)
            v[i++] = d;
    }
    n.parent = (int64_t) v[0];
    n.frame = (int64_t) v[1];
    for (int c = 0; c < values / 2; c++) {
        n.self[c] = v[2 + 2 * c];
        n.total[c] = v[3 + 2 * c];
    }
    n.folded = i > 2 + values ? v[2 + values] : 0;
    return n;
}

static void read_nodes(struct page *p, struct forest *f)
{
    json_begin_array(&p->json);
    while (json_next_item(&p->json)) {
        if (array_push(f->nodes, f->n_nodes, f->cap_nodes, UINT32_MAX, read_node(p)) < 0) {
            p->json.err = -ENOMEM;
            return;
        }
    }
}

/* Orders children by their number; answers with nodes that point out of range are refused. */
static int link_nodes(struct forest *f)
{
    for (size_t i = f->n_nodes; i-- > 1;) {
        struct text_node *n = &f->nodes[i];

        if (n->parent < 0 || (size_t) n->parent >= i || n->frame < 0 || (size_t) n->frame >= f->n_names)
            return -EINVAL;
        n->next = f->nodes[n->parent].first_child;
        f->nodes[n->parent].first_child = (uint32_t) i;
    }
    for (size_t i = 1; i < f->n_nodes; i++)
        f->nodes[i].depth = f->nodes[f->nodes[i].parent].depth + 1;
    return 0;
}

static void put_node(struct page *p, const struct forest *f, const struct text_node *n)
{
    const struct text_node *root = &f->nodes[0];
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    int last = p->n_columns == 2;

    if (last)
        buf_printf(&line, "%10s", page_value(p, n->total[0]));
    buf_printf(&line, "%10s %7s  %*s", page_value(p, n->total[last]), page_share(p, n->total[last], root->total[last]),
               (int) MIN(n->depth - 1, 60u) * 2, "");
    if (n->folded > 0)
        buf_printf(&line, "(%.0f smaller)", n->folded);
    else
        buf_put_str(&line, f->names[n->frame]);
    text_put_cut(p->out, buf_str(&line), p->width ? p->width : INT_MAX);
    buf_putc(p->out, '\n');
    p->rows++;
}

/* Depth first, each level's children by weight, until the page is full. */
static int by_weight(const void *a, const void *b, void *arg)
{
    const struct forest *f = arg;
    const struct text_node *x = &f->nodes[*(const uint32_t *) a], *y = &f->nodes[*(const uint32_t *) b];
    double wx = MAX(x->total[0], x->total[1]), wy = MAX(y->total[0], y->total[1]);

    return wx != wy ? (wx < wy ? 1 : -1) : (x > y) - (x < y);
}

static int print_tree(struct page *p, struct forest *f)
{
    _cleanup_(mem_freep) uint32_t *stack = mem_zalloc_array(f->n_nodes + 1, sizeof *stack);
    size_t n = 0, lines = 0;

    if (!stack)
        return -ENOMEM;
    if (f->n_nodes > 1)
        buf_printf(p->out, "%s%10s %7s  %s\n", p->n_columns == 2 ? "      BASE" : "",
                   p->n_columns == 2 ? "NEW" : "TOTAL", "TOTAL%", "FUNCTION");
    stack[n++] = 0;
    while (n && lines < TREE_LINES_MAX) {
        uint32_t i = stack[--n], k = 0;

        if (i) {
            put_node(p, f, &f->nodes[i]);
            lines++;
        }
        for (uint32_t c = f->nodes[i].first_child; c; c = f->nodes[c].next)
            stack[n + k++] = c;
        qsort_r(stack + n, k, sizeof *stack, by_weight, f);
        for (uint32_t a = 0; a < k / 2; a++) { /* the heaviest is popped first */
            uint32_t t = stack[n + a];

            stack[n + a] = stack[n + k - 1 - a];
            stack[n + k - 1 - a] = t;
        }
        n += k;
    }
    if (n)
        buf_printf(p->out, "… %zu more nodes; narrow with --focus or --zoom, or write -o FILE.html\n",
                   f->n_nodes - 1 - lines);
    return 0;
}

void page_tree(struct page *p)
{
    struct forest f = {0};
    struct str key;
    int r = 0;

    p->n_columns = 1;
    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (str_is(key, "columns"))
            p->n_columns = (int) json_i64(&p->json);
        else if (str_is(key, "frames"))
            read_frames(p, &f);
        else if (str_is(key, "nodes"))
            read_nodes(p, &f);
        else if (!page_common(p, key))
            json_skip(&p->json);
    }
    if (!p->json.err && f.n_nodes)
        r = link_nodes(&f);
    if (r == 0 && !p->json.err && f.n_nodes)
        r = print_tree(p, &f);
    mem_free(f.names);
    mem_free(f.nodes);
    if (r < 0)
        p->json.err = r;
}

void page_callers(struct page *p)
{
    struct str key;
    size_t start, rows;

    json_begin_object(&p->json);
    while (json_next_key(&p->json, &key)) {
        if (page_common(p, key))
            continue;
        start = p->out->n;
        rows = p->rows;
        buf_printf(p->out, "%s\n",
                   str_is(key, "callers") ? "CALLERS of the function in the first line" : "CALLEES of it");
        page_tree(p);
        if (p->rows == rows && !buf_error(p->out))
            p->out->n = start;
    }
}
