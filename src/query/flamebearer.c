/* SPDX-License-Identifier: Apache-2.0 */
/* Lays a tree out as the levels of bars that flamebearer.h describes, and prints them as JSON. */
#include "query/flamebearer.h"

#include <errno.h>

#include "base/json.h"
#include "base/wrap.h"

/* The tree laid out. Parents come before children, so the order of one level follows from the level above. */
struct layout {
    uint32_t *first_child, *next; /* per node, children in index order */
    int64_t *x[2];                /* per node and column: left edge */
    uint32_t *order;              /* nodes by level, left to right */
};

static int layout_alloc(struct layout *l, struct arena *a, uint32_t n)
{
    l->first_child = arena_zalloc_array(a, n, sizeof *l->first_child);
    l->next = arena_zalloc_array(a, n, sizeof *l->next);
    l->order = arena_zalloc_array(a, n, sizeof *l->order);
    l->x[0] = arena_zalloc_array(a, n, sizeof *l->x[0]);
    l->x[1] = arena_zalloc_array(a, n, sizeof *l->x[1]);
    return l->first_child && l->next && l->order && l->x[0] && l->x[1] ? 0 : -ENOMEM;
}

static void link_children(struct layout *l, const struct tree *t)
{
    for (uint32_t i = t->n_nodes; i-- > 1;) {
        l->next[i] = l->first_child[t->parent[i]];
        l->first_child[t->parent[i]] = i;
    }
}

static uint32_t place_children(struct layout *l, const struct tree *t, uint32_t parent, uint32_t n)
{
    int64_t x[2] = {l->x[0][parent], l->x[1][parent]};

    for (uint32_t c = l->first_child[parent]; c; c = l->next[c]) {
        for (uint32_t col = 0; col < t->n_columns; col++) {
            l->x[col][c] = x[col];
            x[col] = wrap_add(x[col], t->total[col][c]);
        }
        l->order[n++] = c;
    }
    return n;
}

/* The name of a frame: those that occur are numbered as they do. */
static int64_t name_of(struct flamebearer *f, uint32_t frame)
{
    if (!f->numbers[frame]) {
        f->frames[f->n_names] = frame;
        f->numbers[frame] = f->n_names++;
    }
    return f->numbers[frame];
}

static void put_level(struct flamebearer *f, const struct layout *l, const struct tree *t, uint32_t from, uint32_t to)
{
    int64_t *v = f->values + f->level_at[f->n_levels], end[2] = {0, 0};

    for (uint32_t k = from; k < to; k++) {
        uint32_t i = l->order[k];

        for (uint32_t col = 0; col < t->n_columns; col++) {
            *v++ = wrap_sub(l->x[col][i], end[col]);
            *v++ = t->total[col][i];
            *v++ = t->self[col][i];
            end[col] = wrap_add(l->x[col][i], t->total[col][i]);
        }
        *v++ = i ? name_of(f, t->frame[i]) : 0;
    }
    f->level_at[++f->n_levels] = (size_t) (v - f->values);
}

static void fill(struct flamebearer *f, struct layout *l, const struct tree *t)
{
    uint32_t n = 1, from = 0, to = 1;

    link_children(l, t);
    for (; from < to; from = to, to = n) {
        put_level(f, l, t, from, to);
        for (uint32_t k = from; k < to; k++)
            n = place_children(l, t, l->order[k], n);
    }
    for (uint32_t c = 0; c < t->n_columns; c++) {
        f->ticks[c] = t->total[c][0];
        for (uint32_t i = 0; i < t->n_nodes; i++)
            f->max_self = MAX(f->max_self, t->self[c][i]);
    }
}

int flamebearer_make(const struct tree *t, struct flamebearer *ret)
{
    struct arena scratch;
    struct layout l;
    int r;

    *ret = (struct flamebearer){.n_names = 1};
    arena_init(&ret->arena, 0);
    arena_init(&scratch, 0);
    ret->values = arena_zalloc_array(&ret->arena, t->n_nodes, (3 * t->n_columns + 1) * sizeof *ret->values);
    ret->level_at = arena_zalloc_array(&ret->arena, (size_t) t->n_nodes + 2, sizeof *ret->level_at);
    ret->numbers = arena_zalloc_array(&ret->arena, (size_t) t->n_frames + 1, sizeof *ret->numbers);
    ret->frames = arena_zalloc_array(&ret->arena, (size_t) t->n_frames + 2, sizeof *ret->frames);
    r = ret->values && ret->level_at && ret->numbers && ret->frames ? layout_alloc(&l, &scratch, t->n_nodes) : -ENOMEM;
    if (r == 0)
        fill(ret, &l, t);
    else
        flamebearer_done(ret);
    arena_done(&scratch);
    return r;
}

void flamebearer_done(struct flamebearer *f)
{
    arena_done(&f->arena);
    *f = (struct flamebearer){0};
}

struct str flamebearer_name(struct flamebearer *f, const struct tree *t, uint32_t i)
{
    const struct frame *frame;
    char *made;

    if (i == 0)
        return STR("total");
    if (f->frames[i] == TREE_FOLDED)
        return STR("other");
    frame = &t->frames[f->frames[i]];
    if (frame->function.n)
        return frame->function;
    made = arena_printf(&f->arena, "%.*s+0x%llx", STR_FMT(frame->mapping), (unsigned long long) frame->address);
    return made ? str_from(made) : STR("[unknown]");
}

int flamebearer_json(struct buf *out, const struct tree *t)
{
    struct flamebearer f;
    int r = flamebearer_make(t, &f);

    if (r < 0)
        return r;
    buf_puts(out, "{\"names\":[");
    for (uint32_t i = 0; i < f.n_names; i++) {
        if (i)
            buf_putc(out, ',');
        json_put_str(out, flamebearer_name(&f, t, i));
    }
    buf_puts(out, "],\"levels\":[");
    for (uint32_t l = 0; l < f.n_levels; l++) {
        buf_puts(out, l ? ",[" : "[");
        for (size_t k = f.level_at[l]; k < f.level_at[l + 1]; k++) {
            if (k > f.level_at[l])
                buf_putc(out, ',');
            json_put_i64(out, f.values[k]);
        }
        buf_putc(out, ']');
    }
    buf_puts(out, "],\"numTicks\":");
    json_put_i64(out, wrap_add(f.ticks[0], f.ticks[1]));
    buf_puts(out, ",\"maxSelf\":");
    json_put_i64(out, f.max_self);
    buf_putc(out, '}');
    flamebearer_done(&f);
    return buf_error(out);
}
