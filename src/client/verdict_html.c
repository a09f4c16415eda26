/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the HTML file of a verdict (verdict_html.h). */
#include "client/verdict_html.h"

#include <errno.h>

#include "base/fd.h"
#include "base/json.h"
#include "codec/input.h"
#include "model/convert.h"
#include "net/http.h"
#include "query/verdict.h"
#include "report/html.h"

struct verdict_page {
    struct str service, versions[2], type, sentence;
    struct str from[2], to[2]; /* of the previous version, of the new one */
    uint32_t rate[2];
};

static int read_verdict(struct str json, struct arena *a, struct verdict_page *ret)
{
    const struct {
        const char *key;
        struct str *to;
    } fields[] = {{"service", &ret->service},   {"previous", &ret->versions[0]}, {"version", &ret->versions[1]},
                  {"type", &ret->type},         {"sentence", &ret->sentence},    {"baseline_from", &ret->from[0]},
                  {"baseline_to", &ret->to[0]}, {"from", &ret->from[1]},         {"to", &ret->to[1]}};
    struct json j;
    struct str key;

    json_init(&j, json, a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        size_t i = 0;

        while (i < ARRAY_SIZE(fields) && !str_is(key, fields[i].key))
            i++;
        if (i < ARRAY_SIZE(fields))
            *fields[i].to = json_str(&j);
        else
            json_skip(&j);
    }
    return json_end(&j);
}

/* Adds the profiles of one side to a column of the tree. */
static int add_side(const struct ask_target *target, struct verdict_page *p, int side, struct arena *a, struct tree *t,
                    struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, bytes = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *b = NULL, *single = NULL;
    char *selector = verdict_selector(a, p->type, p->service, p->versions[side]);
    const struct profile *of;
    int r;

    if (!selector)
        return -ENOMEM;
    buf_puts(&path, "/api/v1/profile?query=");
    http_percent_encode(&path, str_from(selector));
    buf_printf(&path, "&from=%.*s&to=%.*s", STR_FMT(p->from[side]), STR_FMT(p->to[side]));
    r = buf_cstr(&path) ? ask_server(target, buf_cstr(&path), &bytes, e) : -ENOMEM;
    if (r == 0)
        r = input_decode(&bytes, INPUT_AUTO, &input_local, &b, NULL, e);
    if (r == 0)
        r = convert_to_single(b, &single, e);
    if (r < 0)
        return r;
    if (!single->n_profiles)
        return err_set(e, -ENODATA, "the server no longer has profiles of version '%.*s'", STR_FMT(p->versions[side]));
    of = &single->profiles[0];
    t->type = arena_str(&t->arena, batch_string(single, of->types[of->n_types - 1].type));
    t->unit = arena_str(&t->arena, batch_string(single, of->types[of->n_types - 1].unit));
    p->rate[side] = convert_rate(single, of, of->n_types - 1);
    return convert_to_tree(single, of, of->n_types - 1, t, (uint32_t) side);
}

static int write_page(const struct ask_target *t, struct str json, const char *path, struct arena *a, struct err *e)
{
    _cleanup_(tree_freep) struct tree *tree = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct verdict_page p = {0};
    struct html_page page;
    int r = read_verdict(json, a, &p);

    if (r == 0 && !p.from[1].n)
        return err_set(e, -ENODATA, "--html: there is nothing to compare yet: %.*s", STR_FMT(p.sentence));
    if (r == 0)
        r = tree_new(2, 0, &tree);
    for (int i = 0; r == 0 && i < 2; i++)
        r = add_side(t, &p, i, a, tree, e);
    if (r < 0)
        return r;
    tree_sum_up(tree);
    page = html_page_of(p.sentence, p.rate);
    r = html_flame(tree, &page, &out, e);
    return r < 0 ? r : fd_write_file(path, out.p, out.n, e);
}

int verdict_html(const struct ask_target *t, struct str json, const char *path, struct err *e)
{
    struct arena a;
    int r;

    if (t->store)
        return err_set(e, -ENOTSUP, "--html requires a server: use --server URL instead of --store");
    arena_init(&a, 0);
    r = write_page(t, json, path, &a, e);
    arena_done(&a);
    return r;
}
