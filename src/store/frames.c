/* SPDX-License-Identifier: Apache-2.0 */
/* Reduces frames to a granularity, and filters, zooms and prunes finished trees; see frames.h. */
#include "store/frames.h"

#include <errno.h>

#include "base/mem.h"
#include "base/regex.h"
#include "model/identity.h"
#include "model/moved.h"
#include "model/semconv.h"

void frame_reduce(struct frame *f, enum granularity by)
{
    struct frame g = {.kind = f->kind, .unlined = f->unlined};

    switch (by) {
    case BY_FUNCTION:
    case BY_FILEFUNCTION:
        g.function = f->function;
        if (by == BY_FILEFUNCTION && (frame_is_of_script(f) || !f->function.n)) {
            g.file = f->file;
            g.start_line = f->start_line;
        } else if (by == BY_FILEFUNCTION) {
            g.in_file = f->file;
            g.in_line = f->start_line;
        }
        break;
    case BY_FILE:
        g.file = f->file;
        break;
    case BY_LINE:
        g.function = f->function;
        g.file = f->file;
        g.line = f->line;
        break;
    case BY_ADDRESS:
        return;
    }
    if (!f->function.n && !f->file.n) {
        g.mapping = f->mapping;
        g.build_id = f->build_id;
    } else {
        g.home = f->mapping;
        if (!f->file.n && !f->line && f->build_id.n && f->kind != FRAME_KERNEL)
            g.unlined = f->build_id;
    }
    *f = g;
}

void frame_of_location(const struct batch *b, uint32_t location, uint32_t line, struct frame *ret)
{
    const struct location *l = &b->dict.locations[location];
    const struct mapping *m = &b->dict.mappings[l->mapping];
    const struct attr *kind = batch_attr(b, l->attrs, STR(SEMCONV_FRAME_TYPE));

    *ret = (struct frame){.mapping = batch_string(b, m->filename),
                          .build_id = identity_build_id(b, l->mapping),
                          .address = l->address ? identity_elf_address(m, l->address) : 0};
    if (kind)
        ret->kind = (uint8_t) frame_kind_parse(value_str(&kind->value));
    if (line < l->lines.n) {
        const struct line *n = &b->dict.lines[l->lines.off + line];
        const struct function *f = &b->dict.functions[n->function];

        ret->function = batch_string(b, f->name ? f->name : f->system_name);
        ret->system_name = batch_string(b, f->system_name);
        ret->file = batch_string(b, f->filename);
        ret->line = n->line;
        ret->start_line = f->start_line;
        ret->inlined = line + 1 < l->lines.n;
    }
}

bool frame_matches(const struct frame *f, const struct regex *re)
{
    return regex_search(re, f->function) || (frame_file(f).n && regex_search(re, frame_file(f))) ||
           (!f->function.n && f->mapping.n && regex_search(re, f->mapping));
}

int frame_filter_init(struct frame_filter *f, const struct store_query *q, struct err *e)
{
    int r = 0;

    *f = (struct frame_filter){0};
    if (q->focus.n)
        r = regex_new(q->focus, &f->focus, e);
    if (r == 0 && q->ignore.n)
        r = regex_new(q->ignore, &f->ignore, e);
    if (r == 0 && q->hide.n)
        r = regex_new(q->hide, &f->hide, e);
    return r;
}

void frame_filter_done(struct frame_filter *f)
{
    regex_free(f->focus);
    regex_free(f->ignore);
    regex_free(f->hide);
}

/* Returns bits per frame: 1 focus, 2 ignore, 4 hide. */
static uint8_t *match_frames(const struct tree *t, const struct frame_filter *q)
{
    uint8_t *bits = mem_zalloc_array(t->n_frames, 1);

    for (uint32_t i = 1; bits && i < t->n_frames; i++)
        bits[i] = (uint8_t) ((q->focus && frame_matches(&t->frames[i], q->focus) ? 1 : 0) |
                             (q->ignore && frame_matches(&t->frames[i], q->ignore) ? 2 : 0) |
                             (q->hide && frame_matches(&t->frames[i], q->hide) ? 4 : 0));
    return bits;
}

static int filter(const struct tree *t, const struct frame_filter *q, struct tree **ret)
{
    _cleanup_(tree_freep) struct tree *out = NULL;
    _cleanup_(mem_freep) uint8_t *bits = match_frames(t, q), *state = mem_zalloc_array(t->n_nodes, 1);
    _cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(t->n_nodes, sizeof *to);
    int r = bits && state && to ? tree_new(t->n_columns, t->arena.limit, &out) : -ENOMEM;

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        bool kept;

        if (i) {
            uint32_t up = t->parent[i], f;

            state[i] = state[up] | (bits[t->frame[i]] & 3);
            if (bits[t->frame[i]] & 4) {
                to[i] = to[up];
            } else {
                f = tree_frame(out, &t->frames[t->frame[i]]);
                to[i] = f == TREE_NONE ? TREE_NONE : tree_child(out, to[up], f);
                if (to[i] == TREE_NONE)
                    return -ENOMEM;
            }
        }
        kept = (!q->focus || state[i] & 1) && !(state[i] & 2);
        for (uint32_t c = 0; kept && c < t->n_columns; c++)
            out->self[c][to[i]] += t->self[c][i];
    }
    *ret = TAKE(out);
    return 0;
}

/* Filtering leaves branches without values; they are not part of the answer. */
static int drop_empty(struct tree *t, struct tree **ret)
{
    _cleanup_(tree_freep) struct tree *out = NULL;
    _cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(t->n_nodes, sizeof *to);
    _cleanup_(mem_freep) uint8_t *live = mem_zalloc_array(t->n_nodes, 1);
    int r = to && live ? tree_new(t->n_columns, t->arena.limit, &out) : -ENOMEM;

    if (r < 0)
        return r;
    for (uint32_t i = t->n_nodes; i-- > 0;) {
        for (uint32_t c = 0; c < t->n_columns; c++)
            live[i] |= t->self[c][i] != 0;
        if (i && live[i])
            live[t->parent[i]] = 1;
    }
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        if (i) {
            uint32_t f;

            if (!live[i])
                continue;
            f = tree_frame(out, &t->frames[t->frame[i]]);
            to[i] = f == TREE_NONE ? TREE_NONE : tree_child(out, to[t->parent[i]], f);
            if (to[i] == TREE_NONE)
                return -ENOMEM;
            if (t->folded && t->folded[i] && tree_set_folded(out, to[i], t->folded[i]) < 0)
                return -ENOMEM;
        }
        for (uint32_t c = 0; c < t->n_columns; c++)
            out->self[c][to[i]] = t->self[c][i];
    }
    tree_sum_up(out);
    *ret = TAKE(out);
    return 0;
}

/* A step of a zoom path is a function, the mapping of a frame without one, or "[unknown]". A tab and a file name follow
 * it where siblings have the same name. */
static bool is_step(const struct frame *f, struct str step)
{
    struct str name = str_cut(&step, '\t');
    struct str own = f->function.n ? f->function : f->mapping.n ? f->mapping : STR("[unknown]");

    return str_eq(own, name) && (!step.n || str_eq(frame_file(f), step));
}

uint32_t frames_find_zoom(const struct tree *t, const struct store_query *q)
{
    uint32_t at = 0;

    for (uint32_t k = 0; k < q->n_zoom; k++) {
        uint32_t i = at + 1;

        for (; i < t->n_nodes; i++) {
            if (t->parent[i] == at && is_step(&t->frames[t->frame[i]], q->zoom[k]))
                break;
        }
        if (i == t->n_nodes)
            return TREE_NONE;
        at = i;
    }
    return at;
}

int frames_finish_tree(struct tree *t, const struct store_query *q, struct tree **ret, struct err *e)
{
    _cleanup_(tree_freep) struct tree *own = t, *filtered = NULL, *live = NULL, *matched = NULL;
    struct tree_prune how = {.max_nodes = q->max_nodes, .min_share = q->min_share};
    const struct tree *shown;
    struct str type, unit;
    struct tree *out;
    _cleanup_(frame_filter_done) struct frame_filter f;
    uint32_t root;
    int r = frame_filter_init(&f, q, e);

    if (r == 0 && (f.focus || f.ignore || f.hide))
        r = filter(t, &f, &filtered);
    if (r == 0 && filtered)
        r = drop_empty(filtered, &live);
    if (r < 0)
        return r;
    if (!live)
        live = TAKE(own);
    type = live->type.n ? live->type : t->type;
    unit = live->type.n ? live->unit : t->unit;
    if (q->n_columns == 2 && q->by == BY_FILEFUNCTION) { /* after the filters: they are about what was sampled */
        r = tree_match_moved(live, q->memory_limit, &matched);
        if (r < 0)
            return r;
    }
    shown = matched ? matched : live;
    root = frames_find_zoom(shown, q);
    how.root = root;
    if (root == TREE_NONE) /* no such path: the answer is empty */
        r = tree_new(shown->n_columns, q->memory_limit, &out);
    else
        r = tree_prune(shown, &how, &out);
    if (r < 0)
        return r;
    out->type = arena_str(&out->arena, type);
    out->unit = arena_str(&out->arena, unit);
    *ret = out;
    return 0;
}
