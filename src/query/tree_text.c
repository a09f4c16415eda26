/* SPDX-License-Identifier: Apache-2.0 */
/* A tree as text that a person or an agent reads, see tree_form.h: one node per line, indented by depth, with the share of
 * the total that it has with and without its callees, the heaviest child first. */
#include <errno.h>
#include <stdlib.h>

#include "base/unnamed.h"
#include "base/wrap.h"
#include "model/types.h"
#include "query/tree_form.h"

enum { DEPTH_SHOWN_MAX = 64, NAME_MAX_BYTES = 160 };

struct tree_text_node {
    uint32_t node;
    int64_t total;
};

struct tree_text {
    const struct tree *t;
    struct buf *out;
    struct arena arena;
    uint32_t *first, *next; /* children of each node */
    size_t limit, left_out;
    uint32_t column;
};

static int heaviest_first(const void *a, const void *b)
{
    const struct tree_text_node *x = a, *y = b;

    if (x->total != y->total)
        return x->total < y->total ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

static double share(const struct tree_text *x, const int64_t *v, uint32_t node)
{
    int64_t all = x->t->total[x->column][0];

    return all ? 100.0 * (double) v[node] / (double) all : 0;
}

static void put_node(struct tree_text *x, uint32_t node, uint32_t depth)
{
    const struct tree *t = x->t;
    const struct frame *f = &t->frames[t->frame[node]];
    _cleanup_(buf_done) struct buf unnamed = BUF_INIT;
    struct str name = t->frame[node] == TREE_FOLDED ? STR("(other)") : f->function;

    if (!name.n) {
        unnamed_put(&unnamed, f->mapping, f->address);
        name = buf_str(&unnamed);
    }

    buf_printf(x->out, "%6.2f%% %6.2f%%  ", share(x, t->total[x->column], node), share(x, t->self[x->column], node));
    if (t->n_columns > 1)
        buf_printf(x->out, "%+7.2f  ",
                   share(x, t->total[1], node) -
                       (t->total[0][0] ? 100.0 * (double) t->total[0][node] / (double) t->total[0][0] : 0));
    buf_pad(x->out, ' ', MIN(depth, (uint32_t) DEPTH_SHOWN_MAX));
    buf_printf(x->out, "%.*s", (int) MIN(name.n, (uint32_t) NAME_MAX_BYTES), name.p ? name.p : "");
    if (f->file.n && f->line > 0)
        buf_printf(x->out, " %.*s:%lld", (int) MIN(f->file.n, (uint32_t) NAME_MAX_BYTES), f->file.p,
                   (long long) f->line);
    buf_putc(x->out, '\n');
}

static int put_children(struct tree_text *x, uint32_t node, uint32_t depth)
{
    uint32_t n = 0;
    struct tree_text_node *v;
    int r = 0;

    for (uint32_t c = x->first[node]; c; c = x->next[c])
        n++;
    v = arena_zalloc_array(&x->arena, n + 1u, sizeof *v);
    if (!v)
        return -ENOMEM;
    n = 0;
    for (uint32_t c = x->first[node]; c; c = x->next[c])
        v[n++] = (struct tree_text_node){c, x->t->total[x->column][c]};
    if (n)
        qsort(v, n, sizeof *v, heaviest_first);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        if (x->out->n >= x->limit || depth > 1000) {
            x->left_out++;
            continue;
        }
        put_node(x, v[i].node, depth);
        r = put_children(x, v[i].node, depth + 1);
    }
    return r;
}

int tree_to_text(struct buf *out, const struct tree *t, size_t max)
{
    struct tree_text x = {.t = t, .out = out, .limit = out->n + max, .column = t->n_columns - 1};
    struct type type = {.name = t->type, .unit = t->unit};
    int r = -ENOMEM;

    arena_init(&x.arena, 0);
    x.first = arena_zalloc_array(&x.arena, (size_t) t->n_nodes + 1, sizeof *x.first);
    x.next = arena_zalloc_array(&x.arena, (size_t) t->n_nodes + 1, sizeof *x.next);
    if (x.first && x.next) {
        for (uint32_t i = t->n_nodes; i-- > 1;) {
            x.next[i] = x.first[t->parent[i]];
            x.first[t->parent[i]] = i;
        }
        buf_printf(out, "%.*s, total ", STR_FMT(t->type));
        type_format(out, &type, (double) t->total[x.column][0], false);
        buf_puts(out, t->n_columns > 1 ? "; columns: share with callees, own share, change in points\n"
                                       : "; columns: share with callees, own share\n");
        r = put_children(&x, 0, 0);
    }
    if (r == 0 && x.left_out)
        buf_printf(out, "… %zu branches are left out: use focus, zoom or a smaller max_nodes\n", x.left_out);
    arena_done(&x.arena);
    return r < 0 ? r : buf_error(out);
}
