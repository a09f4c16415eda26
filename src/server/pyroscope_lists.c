/* SPDX-License-Identifier: Apache-2.0 */
/* Pyroscope's queries that list what exists: types, labels, series, and whether any data was received. See
 * pyroscope.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "server/pyroscope.h"

static struct store *store_of(struct call *c)
{
    return front_options(c->front)->store;
}

/* The i-th selector of a list; the answer is the union over all of them. */
static int compile_list(struct call *c, struct py_request *r, uint32_t i, struct query **ret, struct err *e)
{
    struct str brace = r->matchers.n ? str_trim(r->matchers.v[i]) : (struct str){0};

    r->left.type_id = (struct str){0};
    if (brace.n && brace.p[0] != '{') { /* TYPE{…}, as the older API has it */
        ptrdiff_t at = str_find_char(brace, '{');

        r->left.type_id = str_trim(at < 0 ? brace : str_slice(brace, 0, (size_t) at));
        brace = at < 0 ? (struct str){0} : str_slice(brace, (size_t) at, brace.n);
    }
    r->left.selector = brace.p ? brace : (struct str){"", 0};
    return py_compile(c, r, false, NULL, ret, e);
}

static uint32_t n_lists(const struct py_request *r)
{
    return MAX(r->matchers.n, 1u);
}

/* Names in the request's arena, to be sorted and made unique. */
struct py_names {
    struct arena *arena;
    struct str *v;
    uint32_t n, cap;
};

static int names_add(struct py_names *x, struct str s)
{
    if (x->n == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 64;
        struct str *more = arena_alloc(x->arena, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        if (x->n)
            memcpy(more, x->v, x->n * sizeof *more);
        x->v = more;
        x->cap = cap;
    }
    x->v[x->n++] = arena_str(x->arena, s);
    return s.n && !x->v[x->n - 1].p ? -ENOMEM : 0;
}

static int compare_names(const void *a, const void *b)
{
    return str_cmp(*(const struct str *) a, *(const struct str *) b);
}

static void put_names(struct pbjson *w, struct py_names *x)
{
    if (x->n)
        qsort(x->v, x->n, sizeof *x->v, compare_names);
    pbjson_list(w, "names");
    for (uint32_t i = 0; i < x->n; i++)
        if (!i || !str_eq(x->v[i], x->v[i - 1]))
            pbjson_str(w, 1, NULL, x->v[i]);
    pbjson_list_end(w);
}

/* --- types --- */

struct type_walk {
    struct arena *arena;
    struct type types[256];
    uint32_t n;
};

static int add_type(void *ctx, const struct type *t, const struct labels *l)
{
    struct type_walk *w = ctx;

    (void) l;
    for (uint32_t i = 0; i < w->n; i++)
        if (str_eq(w->types[i].name, t->name))
            return 0;
    if (w->n == ARRAY_SIZE(w->types))
        return 0;
    w->types[w->n] = *t;
    w->types[w->n].name = arena_str(w->arena, t->name);
    w->types[w->n].unit = arena_str(w->arena, t->unit);
    w->n++;
    return 0;
}

static int list_types(struct call *c, struct py_request *r, struct type_walk **ret, struct err *e)
{
    int64_t to = r->left.end ? py_time(r->left.end) : clock_wall();
    int64_t from = r->left.start ? py_time(r->left.start) : to - 3600 * NS_PER_S;
    struct store *s = store_of(c);
    int result;

    *ret = arena_zalloc(&c->q->arena, sizeof **ret);
    if (!*ret)
        return -ENOMEM;
    (*ret)->arena = &c->q->arena;
    result = s->ops->each_series(s, &(struct store_range){c->who.tenant, from, to, &c->notes}, add_type, *ret);
    for (uint32_t i = 0; result == 0 && i < (*ret)->n; i++)
        if (str_is((*ret)->types[i].name, "cpu")) {
            result = add_type(*ret, &(struct type){.name = PY_COUNTS_ID, .unit = STR("count")}, NULL);
            break;
        }
    return result < 0 ? err_set(e, result, "cannot list types: %m") : 0;
}

int py_profile_types(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct type_walk *types;
    int result = list_types(c, r, &types, e);

    if (result < 0)
        return result;
    pbjson_list(w, "profileTypes");
    for (uint32_t i = 0; i < types->n; i++) {
        struct str id = py_type_id(&c->q->arena, &types->types[i]), rest = id;

        pbjson_begin(w, 1, NULL);
        pbjson_str(w, 1, "ID", id);
        pbjson_str(w, 2, "name", str_cut(&rest, ':'));
        pbjson_str(w, 4, "sampleType", str_cut(&rest, ':'));
        pbjson_str(w, 5, "sampleUnit", str_cut(&rest, ':'));
        pbjson_str(w, 6, "periodType", str_cut(&rest, ':'));
        pbjson_str(w, 7, "periodUnit", rest);
        pbjson_end(w);
    }
    pbjson_list_end(w);
    return 0;
}

/* --- labels --- */

/* Pyroscope's own labels, which every series has. */
static const char *const own_labels[] = {"__name__",         "__period_type__", "__period_unit__", "__profile_type__",
                                         "__service_name__", "__type__",        "__unit__"};

/* Adds names, or the values of a label, of one selector of the request. */
static int add_listed(struct call *c, struct py_request *r, uint32_t i, struct str label, struct py_names *x,
                      struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_names names;
    int result = compile_list(c, r, i, &q, e);

    if (result == 0)
        result = query_labels(store_of(c), q, label, QUERY_LABELS_ALL, &names, e);
    if (result < 0)
        return result;
    for (uint32_t k = 0; result == 0 && k < names.n; k++)
        result = names_add(x, label.n ? names.v[k] : py_label_name(x->arena, names.v[k]));
    query_names_done(&names);
    return result;
}

int py_label_names(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct py_names x = {.arena = &c->q->arena};
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < n_lists(r); i++)
        result = add_listed(c, r, i, (struct str){0}, &x, e);
    for (size_t i = 0; result == 0 && x.n && i < ARRAY_SIZE(own_labels); i++)
        result = names_add(&x, str_from(own_labels[i]));
    if (result == 0)
        put_names(w, &x);
    return result;
}

/* Values of Pyroscope's own labels: the ID of each type, or one of its five parts. */
static int type_values(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    static const char *const parts[] = {"__name__", "__type__", "__unit__", "__period_type__", "__period_unit__"};
    struct py_names x = {.arena = &c->q->arena};
    struct type_walk *types;
    int result = list_types(c, r, &types, e);

    for (uint32_t i = 0; result == 0 && i < types->n; i++) {
        struct str id = py_type_id(&c->q->arena, &types->types[i]), rest = id, part = id;

        for (size_t k = 0; k < ARRAY_SIZE(parts) && !str_is(r->name, "__profile_type__"); k++) {
            part = str_cut(&rest, ':');
            if (str_is(r->name, parts[k]))
                break;
        }
        result = names_add(&x, part);
    }
    if (result == 0)
        put_names(w, &x);
    return result;
}

int py_label_values(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct py_names x = {.arena = &c->q->arena};
    int result = 0;

    if (!r->name.n)
        return err_set(e, -EINVAL, "name is required");
    if (str_is(r->name, "__service_name__"))
        r->name = STR("service.name");
    if (str_starts(r->name, STR("__")))
        return type_values(c, r, w, e);
    for (uint32_t i = 0; result == 0 && i < n_lists(r); i++)
        result = add_listed(c, r, i, r->name, &x, e);
    if (result == 0)
        put_names(w, &x);
    return result;
}

/* --- series --- */

struct series_walk {
    struct call *call;
    const struct py_request *request;
    const struct selector *selector;
    struct pbjson *w;
    struct map seen; /* label sets by identity */
    struct id128 *ids;
    uint32_t n, cap;
    struct pbjson_strs by; /* names to group by, where detail is read */
};

static bool wanted(const struct py_request *r, struct str name)
{
    for (uint32_t i = 0; i < r->label_names.n; i++)
        if (str_eq(r->label_names.v[i], name))
            return true;
    return r->label_names.n == 0;
}

static int compare_labels(const void *a, const void *b)
{
    return str_cmp(((const struct label *) a)->name, ((const struct label *) b)->name);
}

/* The requested labels, with Pyroscope's own: the type and its parts, and the service. In the order of their names. */
static int chosen_labels(struct series_walk *x, const struct type *t, const struct labels *l, struct labels *ret)
{
    static const char *const parts[] = {"__name__", "__type__", "__unit__", "__period_type__", "__period_unit__"};
    struct arena *a = &x->call->q->arena;
    struct str id = py_type_id(a, t), rest = id;

    *ret = (struct labels){.v = arena_zalloc_array(a, (size_t) l->n + ARRAY_SIZE(parts) + 2, sizeof *ret->v)};
    if (!ret->v)
        return -ENOMEM;
    if (wanted(x->request, STR("__profile_type__")))
        ret->v[ret->n++] = (struct label){STR("__profile_type__"), id};
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        struct str part = i + 1 < ARRAY_SIZE(parts) ? str_cut(&rest, ':') : rest;

        if (wanted(x->request, str_from(parts[i])))
            ret->v[ret->n++] = (struct label){str_from(parts[i]), part};
    }
    for (uint32_t i = 0; i < l->n; i++) {
        struct str name = py_label_name(a, l->v[i].name);

        if (!l->v[i].value.n)
            continue;
        if (wanted(x->request, name))
            ret->v[ret->n++] = (struct label){name, arena_str(a, l->v[i].value)};
        if (str_is(name, "service_name") && wanted(x->request, STR("__service_name__")))
            ret->v[ret->n++] = (struct label){STR("__service_name__"), arena_str(a, l->v[i].value)};
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, compare_labels);
    return 0;
}

/* *ret is true for a set that was not seen before. */
static int first_time(struct series_walk *x, struct id128 id, bool *ret)
{
    for (struct map_pos p = map_find(&x->seen, hash64_id(id)); p.index != MAP_NONE; p = map_next(&x->seen, p))
        if (id128_eq(x->ids[p.index], id)) {
            *ret = false;
            return 0;
        }
    if (x->n == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 64;
        struct id128 *more = arena_alloc(&x->call->q->arena, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        if (x->n)
            memcpy(more, x->ids, x->n * sizeof *more);
        x->ids = more;
        x->cap = cap;
    }
    x->ids[x->n] = id;
    *ret = true;
    return map_insert(&x->seen, hash64_id(id), x->n++);
}

static int put_set(struct series_walk *x, const struct type *t, const struct labels *l)
{
    struct labels chosen;
    bool is_new = false;
    int r;

    r = chosen_labels(x, t, l, &chosen);
    if (r == 0 && !chosen.n)
        return 0;
    if (r == 0)
        r = first_time(x, labels_id(&chosen), &is_new);
    if (r < 0 || !is_new)
        return r;
    pbjson_begin(x->w, 2, NULL);
    pbjson_list(x->w, "labels");
    for (uint32_t i = 0; i < chosen.n; i++)
        py_put_label(x->w, 1, chosen.v[i].name, chosen.v[i].value);
    pbjson_list_end(x->w);
    pbjson_end(x->w);
    return 0;
}

/* any: all types are listed, so that the count of samples of CPU time is one. */
static int put_sets(struct series_walk *x, const struct type *t, const struct labels *l, bool any)
{
    int r = put_set(x, t, l);

    if (r == 0 && any && str_is(t->name, "cpu"))
        r = put_set(x, &(struct type){.name = PY_COUNTS_ID, .unit = STR("count")}, l);
    return r;
}

static int add_series(void *ctx, const struct type *t, const struct labels *l)
{
    struct series_walk *x = ctx;
    bool any = str_is(x->selector->type, "*");

    if ((!any && !str_eq(x->selector->type, t->name)) || !selector_matches(x->selector, l))
        return 0;
    return put_sets(x, t, l, any);
}

/* Whether the request names an attribute that is not a label of every series: it has to be read from detail. */
static bool needs_detail(struct store *s, const struct query *q, const struct py_request *r)
{
    for (uint32_t i = 0; i < r->label_names.n; i++)
        if (!str_starts(r->label_names.v[i], STR("__")) && !query_is_label(s, q, r->label_names.v[i]))
            return true;
    return !query_is_label(s, q, (struct str){0});
}

/* The sets of one type, as the groups of its values. */
static int add_groups(struct series_walk *x, struct query *q, const struct type *t, struct err *e)
{
    struct query_series_params p = {.step = q->q.columns[0].to - q->q.columns[0].from,
                                    .by = py_joined(&x->call->q->arena, &x->by)};
    struct selector one = *x->selector;
    struct store_points points;
    int r;

    one.type = t->name;
    q->q.columns[0].selector = &one;
    r = query_series(store_of(x->call), q, &p, &points, e);
    q->q.columns[0].selector = x->selector;
    if (r == -EINVAL) { /* no profile of this type has such an attribute: the sets are those of the series */
        struct store_range range = {x->call->who.tenant, q->q.columns[0].from, q->q.columns[0].to, &x->call->notes};
        const struct selector *all = x->selector;

        x->selector = &one;
        r = store_of(x->call)->ops->each_series(store_of(x->call), &range, add_series, x);
        x->selector = all;
        return r < 0 ? err_set(e, r, "cannot list series: %m") : 0;
    }
    if (r < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < points.n_series; i++)
        r = put_sets(x, t, &points.labels[i], str_is(x->selector->type, "*"));
    store_points_done(&points);
    return r;
}

/* Lists by attributes of resources, profiles and samples, type by type. */
static int list_from_detail(struct series_walk *x, struct query *q, struct py_request *r, struct err *e)
{
    struct type_walk *types;
    int result;

    r->left.start = q->q.columns[0].from / NS_PER_MS;
    r->left.end = q->q.columns[0].to / NS_PER_MS;
    result = list_types(x->call, r, &types, e);
    x->by.n = 0;
    for (uint32_t i = 0; i < r->label_names.n; i++)
        if (!str_starts(r->label_names.v[i], STR("__")))
            x->by.v[x->by.n++] = r->label_names.v[i];
    for (uint32_t i = 0; result == 0 && i < types->n; i++) {
        const struct type *t = &types->types[i];

        if (!str_eq(t->name, PY_COUNTS_ID) && (str_is(x->selector->type, "*") || str_eq(x->selector->type, t->name)))
            result = add_groups(x, q, t, e);
    }
    return result;
}

int py_series(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct store *s = store_of(c);
    struct series_walk x = {.call = c, .request = r, .w = w};
    int result = 0;

    pbjson_list(w, "labelsSet");
    for (uint32_t i = 0; result == 0 && i < n_lists(r); i++) {
        _cleanup_(query_freep) struct query *q = NULL;

        result = compile_list(c, r, i, &q, e);
        if (result < 0)
            break;
        x.selector = q->q.columns[0].selector;
        if (r->label_names.n && needs_detail(s, q, r)) {
            result = list_from_detail(&x, q, r, e);
            continue;
        }
        result = s->ops->each_series(
            s, &(struct store_range){c->who.tenant, q->q.columns[0].from, q->q.columns[0].to, &c->notes}, add_series,
            &x);
        if (result < 0)
            err_set(e, result, "cannot list series: %m");
    }
    pbjson_list_end(w);
    map_done(&x.seen);
    return result;
}

int py_profile_stats(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct store *s = store_of(c);
    struct store_stats stats = {0};
    int result = s->ops->stats(s, &stats);

    (void) r;
    if (result < 0)
        return err_set(e, result, "the store does not respond: %m");
    pbjson_bool(w, 1, "dataIngested", stats.newest_ns > 0 || stats.profiles + stats.stored_profiles > 0);
    pbjson_i64(w, 2, "oldestProfileTime", stats.oldest_ns / NS_PER_MS);
    pbjson_i64(w, 3, "newestProfileTime", stats.newest_ns / NS_PER_MS);
    return 0;
}
