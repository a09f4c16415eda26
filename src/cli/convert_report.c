/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the flame graphs (HTML, SVG) and callgrind files of `wick convert` (convert_report.h). */
#include "cli/convert_report.h"

#include <errno.h>
#include <stdio.h>

#include "codec/input.h"
#include "model/convert.h"
#include "report/flame_svg.h"
#include "report/gopath.h"
#include "report/html.h"
#include "report/report_driver.h"

enum { SVG_NODES_MAX = 50000 };

/* Adds the same sample type of another file, as column 0. */
static int add_base(struct tree *t, const char *path, struct str type, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(batch_unrefp) struct batch *single = NULL;
    int r = input_open(path, INPUT_AUTO, &input_local, &b, NULL, e);

    if (r >= 0)
        r = convert_to_single(b, &single, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < single->n_profiles; i++)
        for (uint32_t k = 0; k < single->profiles[i].n_types; k++)
            if (str_eq(batch_string(single, single->profiles[i].types[k].type), type))
                return convert_to_tree(single, &single->profiles[i], k, BY_FUNCTION, false, t, 0);
    return err_set(e, -EINVAL, "'%s' has no sample type '%.*s'", path, STR_FMT(type));
}

int convert_html(const struct batch *b, const struct profile *p, uint32_t type, const char *title,
                 const char *base_path, struct buf *out, struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    _cleanup_(tree_freep) struct tree *small = NULL;
    struct str name = batch_string(b, p->types[type].type);
    int r = tree_new(base_path ? 2 : 1, 0, &t);

    if (r >= 0)
        r = convert_to_tree(b, p, type, BY_FUNCTION, false, t, base_path ? 1 : 0);
    if (r >= 0 && base_path)
        r = add_base(t, base_path, name, e);
    if (r < 0)
        return r;
    tree_sum_up(t);
    if (t->n_nodes > HTML_NODES_MAX) {
        r = tree_prune(t, &(struct tree_prune){.max_nodes = HTML_NODES_MAX}, &small);
        if (r < 0)
            return r;
    }
    if (small) {
        small->type = name;
        small->unit = batch_string(b, p->types[type].unit);
    }
    t->type = name;
    t->unit = batch_string(b, p->types[type].unit);
    return html_flame(small ? small : t, gopath_base(str_from(title)), out, e);
}

int convert_svg(const struct batch *b, const struct profile *p, uint32_t type, const char *title, struct buf *out,
                struct err *e)
{
    _cleanup_(tree_freep) struct tree *t = NULL, *small = NULL;
    int r = tree_new(1, 0, &t);

    if (r >= 0)
        r = convert_to_tree(b, p, type, BY_FUNCTION, false, t, 0);
    if (r < 0)
        return r;
    tree_sum_up(t);
    r = tree_prune(t, &(struct tree_prune){.max_nodes = SVG_NODES_MAX}, &small); /* also orders siblings by name */
    if (r < 0)
        return r;
    small->type = batch_string(b, p->types[type].type);
    small->unit = batch_string(b, p->types[type].unit);
    return svg_flame(small, gopath_base(str_from(title)), out, e);
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
        r = report_run_prepare(&run, prof, &cmd, &c, NULL, NULL, e);
        if (r >= 0)
            r = report_print(&run.report, out, e);
        report_run_done(&run);
    }
    prof_free(prof);
    prof_pool_done(&pool);
    return r;
}
