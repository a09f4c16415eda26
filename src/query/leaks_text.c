/* SPDX-License-Identifier: Apache-2.0 */
/* Growing stacks as text that a person or an agent reads, see tree_form.h: for each one its growth, then its functions from
 * the root down, one per line. */
#include <errno.h>

#include "model/types.h"
#include "query/query.h"
#include "query/tree_form.h"

enum { FRAMES_SHOWN = 40, NAME_SHOWN = 160 };

static void put_stack(struct buf *out, const struct tree *t, uint32_t node)
{
    uint32_t path[FRAMES_SHOWN], n = 0, left_out = 0;

    for (; node && node != TREE_NONE; node = t->parent[node]) {
        if (n < FRAMES_SHOWN)
            path[n++] = node;
        else
            left_out++;
    }
    if (left_out)
        buf_printf(out, "    (%u callers are left out)\n", left_out);
    for (uint32_t i = n; i-- > 0;) {
        const struct frame *f = &t->frames[t->frame[path[i]]];
        struct str name = f->function.n ? f->function : f->mapping;

        buf_pad(out, ' ', 4 + n - 1 - i);
        buf_printf(out, "%.*s", (int) MIN(name.n, (uint32_t) NAME_SHOWN), name.n ? name.p : "");
        if (f->file.n && f->line > 0)
            buf_printf(out, " %.*s:%lld", (int) MIN(f->file.n, (uint32_t) NAME_SHOWN), f->file.p, (long long) f->line);
        buf_putc(out, '\n');
    }
}

int leaks_to_text(struct buf *out, const struct query_leaks *l, size_t max)
{
    struct type type = {.name = l->tree->type, .unit = l->tree->unit};
    size_t limit = out->n + max;

    if (!l->n) {
        buf_puts(out, "no stack grows in this range\n");
        return buf_error(out);
    }
    buf_printf(
        out,
        "%.*s that grows, the fastest first: growth per hour, how straight the line is (fit, 0 to 1), and the value "
        "in the first and in the last eighth of the range; then the stack, callers first\n",
        STR_FMT(l->tree->type));
    for (uint32_t i = 0; i < l->n; i++) {
        const struct query_leak *x = &l->rows[i];

        if (out->n >= limit) {
            buf_printf(out, "… %u more stacks are left out: use a smaller limit or a narrower query\n", l->n - i);
            break;
        }
        buf_puts(out, "+");
        type_format(out, &type, x->slope, false);
        buf_printf(out, "/h  fit %.2f  ", x->fit);
        type_format(out, &type, x->values[0], false);
        buf_puts(out, " -> ");
        type_format(out, &type, x->values[QUERY_LEAK_WINDOWS - 1], false);
        buf_putc(out, '\n');
        put_stack(out, l->tree, x->node);
    }
    return buf_error(out);
}
