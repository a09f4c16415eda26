/* SPDX-License-Identifier: Apache-2.0 */
/* The questions that list what there is (answer_run.h): labels, services, types, profiles, deploys, binaries. */
#include <errno.h>

#include "model/types.h"
#include "query/answer_fields.h"
#include "query/answer_run.h"

enum { LIMIT_DEFAULT = 100, PROFILES_MAX = 100000 };

/* Lists cover every type unless one is named. */
static int compile_list(struct answer_request *c, struct query **ret, struct err *e)
{
    struct query_params p;
    int r = answer_params_of(c, &p, e);

    if (r < 0)
        return r;
    if (!p.query.n || p.query.p[0] == '{') {
        char *any = arena_printf(c->arena, "*%.*s", STR_FMT(p.query));

        if (!any)
            return -ENOMEM;
        p.query = str_from(any);
    }
    return answer_compile_params(c, &p, ret, e);
}

static int put_label_details(struct buf *out, struct query_names *n)
{
    struct answer_label *v = arena_zalloc_array(&n->arena, n->n + 1u, sizeof *v);

    if (!v)
        return -ENOMEM;
    for (uint32_t i = 0; i < n->n; i++)
        v[i] = (struct answer_label){n->v[i], n->slow[i]};
    record_put_value(out, &answer_of_label_details, &(struct record_list){v, n->n});
    return 0;
}

int answer_run_labels(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_names names;
    struct str which = answer_param(c, "attributes");
    bool detailed = str_is(which, "marked");
    enum query_label_source source = str_is(which, "false") ? QUERY_LABELS_SERIES : QUERY_LABELS_ALL;
    int r = compile_list(c, &q, e);

    if (r == 0 && which.n && !detailed && !str_is(which, "true") && !str_is(which, "false"))
        r = err_set(e, -EINVAL, "attributes: '%.*s' is not true, false or marked", STR_FMT(which));

    if (r == 0)
        r = query_labels(c->store, q, answer_param(c, "label"), source, &names, e);
    if (r < 0)
        return r;
    if (detailed && names.slow)
        r = put_label_details(out, &names);
    else
        answer_put(c, out, &(struct record_list){names.v, names.n});
    query_names_done(&names);
    return r;
}

int answer_run_services(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_services list;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_services(c->store, q, &list, e);
    if (r < 0)
        return r;
    answer_put(c, out, &(struct record_list){list.v, list.n});
    query_services_done(&list);
    return 0;
}

int answer_run_profiles(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_profiles list;
    uint32_t limit;
    int r = answer_param_limit(c, LIMIT_DEFAULT, PROFILES_MAX, &limit, e);

    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0)
        r = query_profiles(c->store, q, str_is(answer_param(c, "sort"), "value"), limit, &list, e);
    if (r < 0)
        return r;
    answer_put(c, out, &list);
    query_profiles_done(&list);
    return 0;
}

static struct answer_type type_row(const struct type *t, bool stored)
{
    return (struct answer_type){t->name, t->unit, t->title.n ? t->title : t->name, t->rule, stored};
}

/* Every type that wick knows, with whether there are profiles of it, and then the others that there are. */
static int put_types(struct answer_request *c, struct buf *out, struct query_types *there)
{
    const struct type *known;
    size_t n_known = type_all(&known);
    struct answer_type *v = arena_zalloc_array(&there->arena, n_known + there->n + 1, sizeof *v);
    uint32_t n = 0;

    if (!v)
        return -ENOMEM;
    for (size_t i = 0; i < n_known; i++) {
        bool stored = false;

        for (uint32_t k = 0; k < there->n && !stored; k++)
            stored = str_eq(there->v[k].name, known[i].name);
        v[n++] = type_row(&known[i], stored);
    }
    for (uint32_t k = 0; k < there->n; k++)
        if (!type_is_known(&there->v[k]))
            v[n++] = type_row(&there->v[k], true);
    answer_put(c, out, &(struct record_list){v, n});
    return 0;
}

int answer_run_types(struct answer_request *c, struct buf *out, struct err *e)
{
    struct query_types there;
    int r = query_types(c->store, c->tenant, &there, e);

    if (r < 0)
        return r;
    r = put_types(c, out, &there);
    query_types_done(&there);
    return r;
}

int answer_run_deploys(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_params like = answer_params_none(c);
    struct query_deploys d;
    int r = answer_compile(c, &q, e);

    if (r == 0)
        r = query_deploys(c->store, q, &like, &d, e);
    if (r < 0)
        return r;
    answer_put(c, out, &d);
    query_deploys_done(&d);
    return 0;
}

int answer_run_symbols(struct answer_request *c, struct buf *out, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_binaries b;
    uint32_t limit;
    int r = answer_param_limit(c, LIMIT_DEFAULT, UINT32_MAX, &limit, e);

    if (r == 0)
        r = answer_compile(c, &q, e);
    if (r == 0)
        r = query_binaries(c->store, q, limit, &b, e);
    if (r < 0)
        return r;
    answer_put(c, out, &b);
    query_binaries_done(&b);
    return 0;
}
