/* SPDX-License-Identifier: Apache-2.0 */
/* Prints call trees as indented text: the answers of flame and callers (query_page.h). */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/unnamed.h"
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
    size_t n_names, n_nodes;
};

static struct str name_of(struct page *p, const struct answer_frame *f)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    uint64_t at = 0;

    if (f->function.n || (!f->mapping.n && !f->address.n))
        return f->function;
    str_to_u64(str_slice(f->address, MIN(2u, f->address.n), f->address.n), 16, &at);
    unnamed_put_at(&b, f->mapping, at);
    return buf_error(&b) ? (struct str){0} : arena_str(&p->arena, buf_str(&b));
}

static struct text_node node_of(const struct record_list *l, uint32_t columns)
{
    const int64_t *v = l->v;
    struct text_node n = {.parent = -1, .frame = -1};

    if (l->n < 2 + 2 * columns)
        return n;
    n.parent = v[0];
    n.frame = v[1];
    for (uint32_t c = 0; c < columns; c++) {
        n.self[c] = (double) v[2 + 2 * c];
        n.total[c] = (double) v[3 + 2 * c];
    }
    n.folded = l->n > 2 + 2 * columns ? (double) v[2 + 2 * columns] : 0;
    return n;
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
    int last = p->head.n_columns == 2;

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
        buf_printf(p->out, "%s%10s %7s  %s\n", p->head.n_columns == 2 ? "      BASE" : "",
                   p->head.n_columns == 2 ? "NEW" : "TOTAL", "TOTAL%", "FUNCTION");
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

int page_tree(struct page *p, const void *answer)
{
    const struct answer_tree *x = answer;
    struct forest f = {.n_names = x->n_frames, .n_nodes = x->n_nodes};
    int r;

    p->head.n_columns = MIN(MAX(x->n_columns, 1u), 2u);
    f.names = arena_zalloc_array(&p->arena, f.n_names + 1, sizeof *f.names);
    f.nodes = arena_zalloc_array(&p->arena, f.n_nodes + 1, sizeof *f.nodes);
    if (!f.names || !f.nodes)
        return -ENOMEM;
    for (size_t i = 0; i < f.n_names; i++)
        f.names[i] = name_of(p, &x->frames[i]);
    for (size_t i = 0; i < f.n_nodes; i++)
        f.nodes[i] = node_of(&x->nodes[i], p->head.n_columns);
    r = link_nodes(&f);
    return r < 0 || !f.n_nodes ? r : print_tree(p, &f);
}

static int put_side(struct page *p, const char *title, const struct answer_tree *t)
{
    size_t start = p->out->n, rows = p->rows;
    int r;

    type_by_name(t->type, &p->type);
    p->type.unit = t->unit;
    buf_printf(p->out, "%s\n", title);
    r = page_tree(p, t);
    if (p->rows == rows && !buf_error(p->out))
        p->out->n = start;
    return r;
}

int page_callers(struct page *p, const void *answer)
{
    const struct answer_callers *x = answer;
    int r = put_side(p, "CALLERS of the function in the first line", &x->callers);

    return r < 0 ? r : put_side(p, "CALLEES of it", &x->callees);
}
