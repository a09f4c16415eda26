/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the HTML file of a verdict (verdict_html.h). */
#include "client/verdict_html.h"

#include <errno.h>

#include "base/fd.h"
#include "codec/input.h"
#include "model/convert.h"
#include "net/http.h"
#include "query/answer_fields.h"
#include "report/html.h"

struct verdict_page {
    struct verdict_answer verdict;
    struct tree *tree; /* a column for each side */
    uint32_t rates[2];
    struct arena arena;
};

/* Adds the profiles of one side to a column of the tree. */
static int add_side(const struct ask_target *target, struct verdict_page *p, int side, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, bytes = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL, *single = NULL;
    const struct verdict_answer *v = &p->verdict;
    struct str version = side ? v->version : v->previous;
    char *selector = verdict_selector(&p->arena, v->drift.type, v->service, version);
    const struct profile *of;
    int r;

    if (!selector)
        return -ENOMEM;
    buf_puts(&path, "/api/v1/profile?query=");
    http_percent_encode(&path, str_from(selector));
    buf_printf(&path, "&from=%lld&to=%lld", (long long) (side ? v->from : v->base_from),
               (long long) (side ? v->to : v->base_to));
    r = buf_cstr(&path) ? ask_server(target, buf_cstr(&path), &bytes, e) : -ENOMEM;
    if (r == 0)
        r = input_decode(&bytes, INPUT_AUTO, &input_local, &b, NULL, e);
    if (r == 0)
        r = convert_to_single(b, &single, e);
    if (r < 0)
        return r;
    if (!single->n_profiles)
        return err_set(e, -ENODATA, "the server no longer has profiles of version '%.*s'", STR_FMT(version));
    of = &single->profiles[0];
    p->tree->type = arena_str(&p->tree->arena, batch_string(single, of->types[of->n_types - 1].type));
    p->tree->unit = arena_str(&p->tree->arena, batch_string(single, of->types[of->n_types - 1].unit));
    p->rates[side] = convert_rate(single, of, of->n_types - 1);
    return convert_to_tree(single, of, of->n_types - 1, p->tree, (uint32_t) side);
}

static int write_page(const struct ask_target *t, struct verdict_page *p, const char *path, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct html_page page;
    int r;

    if (!p->verdict.is_compared)
        return err_set(e, -ENODATA, "--html: there is nothing to compare yet: %s", p->verdict.sentence);
    r = tree_new(2, 0, &p->tree);
    for (int i = 0; r == 0 && i < 2; i++)
        r = add_side(t, p, i, e);
    if (r < 0)
        return r;
    tree_sum_up(p->tree);
    page = html_page_of(str_from(p->verdict.sentence), p->rates);
    r = html_flame(p->tree, &page, &out, e);
    return r < 0 ? r : fd_write_file(path, out.p, out.n, e);
}

int verdict_html(const struct ask_target *t, struct str json, const char *path, struct err *e)
{
    struct verdict_page p = {.tree = NULL};
    int r;

    if (t->store)
        return err_set(e, -ENOTSUP, "--html requires a server: use --server URL instead of --store");
    arena_init(&p.arena, 0);
    r = record_read_value(json, &answer_of_verdict, RECORD_ANSWER, &p.arena, &p.verdict, e);
    if (r == 0)
        r = write_page(t, &p, path, e);
    tree_free(p.tree);
    arena_done(&p.arena);
    return r;
}
