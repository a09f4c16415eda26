/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the flame graphs (HTML, SVG) and callgrind files of `wick convert` (convert_report.h). */
#include "convert/convert_report.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "local/local_input.h"
#include "model/convert.h"
#include "report/flame_svg.h"
#include "report/gopath.h"
#include "report/html.h"
#include "report/report_driver.h"

enum { SVG_NODES_MAX = 50000 };

/* Adds the same sample type of another file, as column 0, and sets its rate. */
static int add_base(struct tree *t, const char *path, struct str type, uint32_t *rate, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(batch_unrefp) struct batch *single = NULL;
    int r = local_input_open(path, INPUT_AUTO, &b, e);

    if (r >= 0)
        r = convert_to_single(b, &single, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < single->n_profiles; i++)
        for (uint32_t k = 0; k < single->profiles[i].n_types; k++)
            if (str_eq(batch_string(single, single->profiles[i].types[k].type), type)) {
                *rate = convert_rate(single, &single->profiles[i], k);
                return convert_to_tree(single, &single->profiles[i], k, t, 0);
            }
    return err_set(e, -EINVAL, "'%s' has no sample type '%.*s'", path, STR_FMT(type));
}

static void name_tree(struct tree *t, const struct convert_view *v)
{
    t->type = batch_string(v->batch, v->profile->types[v->type].type);
    t->unit = batch_string(v->batch, v->profile->types[v->type].unit);
}

int convert_html(const struct convert_view *v, const char *base_path, struct buf *out, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    _cleanup_(tree_freep) struct tree *small = NULL;
    _cleanup_(buf_done) struct buf title = BUF_INIT;
    uint32_t rate = convert_rate(v->batch, v->profile, v->type), rates[2] = {rate, rate};
    struct html_page page;
    int r = tree_new(base_path ? 2 : 1, 0, &t);

    if (r >= 0)
        r = convert_to_tree(v->batch, v->profile, v->type, t, base_path ? 1 : 0);
    if (r >= 0)
        name_tree(t, v);
    if (r >= 0 && base_path)
        r = add_base(t, base_path, t->type, &rates[0], e);
    if (r < 0)
        return r;
    tree_sum_up(t);
    if (t->n_nodes > HTML_NODES_MAX) {
        r = tree_prune(t, &(struct tree_prune){.max_nodes = HTML_NODES_MAX}, &small);
        if (r < 0)
            return r;
    }
    if (small)
        name_tree(small, v);
    buf_put_str(&title, gopath_base(str_from(v->title)));
    if (base_path)
        buf_printf(&title, " against %.*s", STR_FMT(gopath_base(str_from(base_path))));
    if (buf_error(&title))
        return buf_error(&title);
    page = html_page_of(buf_str(&title), rates);
    return html_flame(small ? small : t, &page, out, e);
}

int convert_svg(const struct convert_view *v, struct buf *out, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL, *small = NULL;
    int r = tree_new(1, 0, &t);

    if (r >= 0)
        r = convert_to_tree(v->batch, v->profile, v->type, t, 0);
    if (r < 0)
        return r;
    tree_sum_up(t);
    r = tree_prune(t, &(struct tree_prune){.max_nodes = SVG_NODES_MAX}, &small); /* also orders siblings by name */
    if (r < 0)
        return r;
    name_tree(small, v);
    return svg_flame(small, gopath_base(str_from(v->title)), out, e);
}

static struct str type_of(const struct batch *b, const struct profile *p)
{
    return batch_string(b, p->types[p->n_types - 1].type);
}

bool convert_shows_together(const struct batch *b)
{
    for (uint32_t i = 0; i < b->n_profiles; i++)
        if (!str_is(type_of(b, &b->profiles[i]), "cpu") && !str_is(type_of(b, &b->profiles[i]), "off_cpu"))
            return false;
    return b->n_profiles == 2;
}

/* Adds the tree as a child of t's root. */
static int graft(struct tree *t, const struct tree *from, struct str name)
{
    struct frame top = {.function = name};
    uint32_t *nodes = mem_zalloc_array(from->n_nodes, sizeof *nodes), frame = tree_frame(t, &top);
    int r = 0;

    if (!nodes || frame == TREE_NONE) {
        mem_free(nodes);
        return -ENOMEM;
    }
    nodes[0] = tree_child(t, 0, frame);
    for (uint32_t i = 0; i < from->n_nodes && r == 0; i++) {
        if (i)
            frame = tree_frame(t, &from->frames[from->frame[i]]);
        if (i && frame != TREE_NONE)
            nodes[i] = tree_child(t, nodes[from->parent[i]], frame);
        if (frame == TREE_NONE || nodes[i] == TREE_NONE)
            r = -ENOMEM;
        else
            tree_add(t, nodes[i], 0, from->self[0][i]);
    }
    mem_free(nodes);
    return r;
}

int convert_together(const struct batch *b, const char *title, bool svg, struct buf *out, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL, *small = NULL;
    int r = tree_new(1, 0, &t);

    for (uint32_t i = 0; i < b->n_profiles && r >= 0; i++) {
        const struct profile *p = &b->profiles[i];
        _cleanup_(tree_freep) struct tree *one = NULL;

        r = tree_new(1, 0, &one);
        if (r >= 0)
            r = convert_to_tree(b, p, p->n_types - 1, one, 0);
        if (r >= 0)
            r = graft(t, one, str_is(type_of(b, p), "cpu") ? STR("on CPU") : STR("off CPU"));
    }
    if (r < 0)
        return r;
    tree_sum_up(t);
    r = tree_prune(t, &(struct tree_prune){.max_nodes = svg ? SVG_NODES_MAX : HTML_NODES_MAX}, &small);
    if (r < 0)
        return r;
    small->type = STR("time");
    small->unit = STR("nanoseconds");
    return svg ? svg_flame(small, gopath_base(str_from(title)), out, e)
               : html_flame(small, &(struct html_page){.title = gopath_base(str_from(title))}, out, e);
}

int convert_callgrind(struct batch *b, const struct profile *p, uint32_t type, struct buf *out, struct err *e)
{
    struct report_command cmd = {"callgrind", REPORT_CALLGRIND, {0}};
    struct prof_pool pool;
    struct prof *prof = NULL;
    struct pprof_config c;
    struct report_run run;
    char index[16];
    int r = prof_pool_init(&pool);

    if (r < 0)
        return r;
    config_defaults(&c);
    snprintf(index, sizeof(index), "%u", type);
    c.sample_index = str_from(index);
    r = prof_from_batch(&pool, b, p, &prof, e);
    if (r >= 0) {
        r = report_run_prepare(&run, prof, &cmd, &c, NULL, e);
        if (r >= 0)
            r = report_print(&run.report, out, e);
        report_run_done(&run);
    }
    prof_free(prof);
    prof_pool_done(&pool);
    return r;
}
