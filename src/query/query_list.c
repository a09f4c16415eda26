/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of query.h: label names and values, services, and single profiles. */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/semconv.h"
#include "query/query.h"
#include "store/match.h"

/* --- a set of strings --- */

struct string_set {
    bool names; /* of labels: spellings of one name are equal, and the first one is kept */
    struct arena *arena;
    struct str *v;
    uint32_t n, cap;
    struct map map;
};

static uint64_t set_hash(const struct string_set *x, struct str s)
{
    return x->names ? label_name_hash(s) : hash64_str(s);
}

static uint32_t set_index(const struct string_set *x, struct str s)
{
    for (struct map_pos p = map_find(&x->map, set_hash(x, s)); p.index != MAP_NONE; p = map_next(&x->map, p))
        if (x->names ? label_name_eq(x->v[p.index], s) : str_eq(x->v[p.index], s))
            return p.index;
    return MAP_NONE;
}

static int set_add(struct string_set *x, struct str s)
{
    uint64_t h = set_hash(x, s);

    if (set_index(x, s) != MAP_NONE)
        return 0;
    if (x->n == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 16;
        struct str *more = arena_alloc(x->arena, cap * sizeof *more);

        if (!more)
            return -ENOMEM;
        if (x->n)
            memcpy(more, x->v, x->n * sizeof *more);
        x->v = more;
        x->cap = cap;
    }
    x->v[x->n] = arena_str(x->arena, s);
    if (s.n && !x->v[x->n].p)
        return -ENOMEM;
    return map_insert(&x->map, h, x->n++);
}

static int compare_str(const void *a, const void *b)
{
    return str_cmp(*(const struct str *) a, *(const struct str *) b);
}

static void set_sort(struct string_set *x)
{
    if (x->n)
        qsort(x->v, x->n, sizeof *x->v, compare_str);
}

/* --- labels --- */

struct label_walk {
    const struct selector *selector;
    struct str label; /* empty: names */
    bool any_type;
    struct string_set set;
};

static int add_labels(void *ctx, const struct type *t, const struct labels *l)
{
    struct label_walk *w = ctx;
    int r = 0;

    if (!w->any_type && !str_eq(t->name, w->selector->type))
        return 0;
    if (!selector_matches(w->selector, l))
        return 0;
    if (w->label.n) {
        struct str value = labels_get(l, w->label);

        return value.n ? set_add(&w->set, value) : 0;
    }
    for (uint32_t i = 0; r == 0 && i < l->n; i++)
        r = set_add(&w->set, l->v[i].name);
    return r;
}

static int add_attribute(void *ctx, struct str name, struct str value)
{
    struct label_walk *w = ctx;
    struct str text = w->label.n ? value : label_canonical_name(name);

    if (!text.n)
        return 0;
    if (w->set.n >= QUERY_NAMES_MAX)
        return -E2BIG;
    return set_add(&w->set, text);
}

struct label_check {
    struct selector selector; /* with an empty type for any */
    struct match match;
    struct str name;
    bool lacks;
    struct string_set set;
};

static int check_init(struct label_check *x, const struct store *s, const struct selector *selector)
{
    x->selector = *selector;
    if (str_is(selector->type, "*"))
        x->selector.type = (struct str){0};
    return match_init(&x->match, &x->selector, s->labels, false, NULL);
}

static int check_series(void *ctx, const struct type *t, const struct labels *l)
{
    struct label_check *x = ctx;

    if (match_series(&x->match, t->name, l))
        x->lacks |= !match_decides(&x->match, l) || (x->name.n && !labels_get(l, x->name).n);
    return 0;
}

bool query_is_label(struct store *s, const struct query *q, struct str name)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    struct label_check x = {.name = match_is_label(s->labels, name) ? (struct str){0} : name};

    if (check_init(&x, s, c->selector) < 0)
        return false;
    if (!x.name.n && !x.match.n_detail)
        return true;
    return s->ops->each_series(s, &(struct store_range){q->q.tenant, c->from, c->to, NULL}, check_series, &x) == 0 &&
           !x.lacks;
}

static int add_label_names(void *ctx, const struct type *t, const struct labels *l)
{
    struct label_check *x = ctx;
    int r = 0;

    for (uint32_t i = 0; match_series(&x->match, t->name, l) && r == 0 && i < l->n; i++)
        r = set_add(&x->set, l->v[i].name);
    return r;
}

/* Marks the names that are not labels of any series of the selection, nor of the allow-list. */
static int mark_slow(struct store *s, const struct query *q, struct query_names *ret)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    struct label_check x = {.set = {.names = true, .arena = &ret->arena}};
    int r = check_init(&x, s, c->selector);

    ret->slow = arena_zalloc_array(&ret->arena, ret->n + 1, sizeof *ret->slow);
    if (!ret->slow)
        return -ENOMEM;
    if (r == 0)
        r = s->ops->each_series(s, &(struct store_range){q->q.tenant, c->from, c->to, NULL}, add_label_names, &x);
    for (uint32_t i = 0; r == 0 && i < ret->n; i++)
        ret->slow[i] = set_index(&x.set, ret->v[i]) == MAP_NONE && !match_is_label(s->labels, ret->v[i]);
    map_done(&x.set.map);
    return r;
}

/* Lists from detail. A type of "*" is any. */
static int walk_detail(struct store *s, const struct query *q, struct label_walk *w, struct err *e)
{
    struct store_query sq = q->q;
    struct selector any = *w->selector;

    if (w->any_type)
        any.type = (struct str){"", 0};
    sq.columns[0] = (struct store_column){&any, q->q.columns[q->is_diff].from, q->q.columns[q->is_diff].to};
    if (!w->label.n) /* all names of a month are not worth reading a month of detail */
        sq.columns[0].from = MAX(sq.columns[0].from, sq.columns[0].to - QUERY_NAMES_RANGE);
    sq.n_columns = 1;
    return s->ops->attributes(s, &sq, w->label, add_attribute, w, e);
}

int query_labels(struct store *s, struct query *q, struct str label, enum query_label_source from,
                 struct query_names *ret, struct err *e)
{
    const struct store_column *c = &q->q.columns[q->is_diff];
    struct label_walk w = {.selector = c->selector, .label = label_canonical_name(label)};
    bool cheap = query_is_label(s, q, w.label);
    int r = 0;

    w.any_type = str_is(c->selector->type, "*");
    *ret = (struct query_names){0};
    arena_init(&ret->arena, q->q.memory_limit);
    w.set.arena = &ret->arena;
    w.set.names = !w.label.n;
    if (cheap)
        r = s->ops->each_series(s, &(struct store_range){q->q.tenant, c->from, c->to, q->q.notes}, add_labels, &w);
    if (r == 0 && (!cheap || (!w.label.n && from == QUERY_LABELS_ALL)))
        r = walk_detail(s, q, &w, e);
    set_sort(&w.set);
    ret->v = w.set.v;
    ret->n = w.set.n;
    if (r == 0 && !w.label.n)
        r = mark_slow(s, q, ret);
    map_done(&w.set.map);
    if (r < 0) {
        query_names_done(ret);
        if (r == -E2BIG)
            return err_set(e, r, "more than %d values: choose a shorter time range or a narrower query",
                           QUERY_NAMES_MAX);
        return e && e->message[0] ? r : err_set(e, r, "cannot list labels: %m");
    }
    return 0;
}

void query_names_done(struct query_names *n)
{
    arena_done(&n->arena);
    *n = (struct query_names){0};
}

/* --- services --- */

struct service_walk {
    struct arena *arena;
    struct match match;
    struct string_set names;
    struct string_set *types, *versions; /* per name */
    size_t cap_types, cap_versions;
};

static int room(struct string_set **sets, size_t *cap, uint32_t n)
{
    size_t old = *cap;
    int r = array_reserve(*sets, *cap, n, UINT32_MAX);

    if (r == 0 && *cap > old)
        memset(*sets + old, 0, (*cap - old) * sizeof **sets);
    return r;
}

static int add_service(void *ctx, const struct type *t, const struct labels *l)
{
    struct service_walk *w = ctx;
    struct str name = labels_get(l, STR(SEMCONV_SERVICE_NAME)), version = labels_get(l, STR(SEMCONV_SERVICE_VERSION));
    uint32_t i;
    int r;

    if (!match_series(&w->match, t->name, l))
        return 0;
    r = set_add(&w->names, name);
    if (r == 0)
        r = room(&w->types, &w->cap_types, w->names.n);
    if (r == 0)
        r = room(&w->versions, &w->cap_versions, w->names.n);
    if (r < 0)
        return r;
    i = set_index(&w->names, name);
    w->types[i].arena = w->versions[i].arena = w->arena;
    r = set_add(&w->types[i], t->name);
    if (r == 0 && version.n)
        r = set_add(&w->versions[i], version);
    return r;
}

static int compare_service(const void *a, const void *b)
{
    return str_cmp(((const struct query_service *) a)->name, ((const struct query_service *) b)->name);
}

static int take_services(struct service_walk *w, struct query_services *ret)
{
    ret->v = arena_zalloc_array(&ret->arena, w->names.n, sizeof *ret->v);
    if (!ret->v)
        return -ENOMEM;
    for (uint32_t i = 0; i < w->names.n; i++) {
        set_sort(&w->types[i]);
        set_sort(&w->versions[i]);
        ret->v[i] =
            (struct query_service){w->names.v[i], w->types[i].v, w->types[i].n, w->versions[i].v, w->versions[i].n};
    }
    ret->n = w->names.n;
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, compare_service);
    return 0;
}

int query_services(struct store *s, const struct query *q, struct query_services *ret, struct err *e)
{
    const struct store_column *c = &q->q.columns[0];
    struct selector of_any_type = {.v = c->selector->v, .n = c->selector->n};
    struct service_walk w = {.arena = &ret->arena, .names.arena = &ret->arena};
    int r;

    *ret = (struct query_services){0};
    arena_init(&ret->arena, 0);
    r = match_init(&w.match, &of_any_type, s->labels, false, e);
    if (r == 0)
        r = s->ops->each_series(s, &(struct store_range){q->q.tenant, c->from, c->to, q->q.notes}, add_service, &w);
    if (r == 0)
        r = take_services(&w, ret);
    for (uint32_t i = 0; i < w.names.n && i < w.cap_types && i < w.cap_versions; i++) {
        map_done(&w.types[i].map);
        map_done(&w.versions[i].map);
    }
    map_done(&w.names.map);
    mem_free(w.types);
    mem_free(w.versions);
    if (r < 0) {
        query_services_done(ret);
        return err_set(e, r, "cannot list services: %m");
    }
    return 0;
}

void query_services_done(struct query_services *l)
{
    arena_done(&l->arena);
    *l = (struct query_services){0};
}

/* --- single profiles --- */

struct profile_walk {
    struct query_profiles *out;
    struct query_profile *v;
    size_t cap;
};

static int copy_labels(struct arena *a, const struct labels *l, struct labels *ret)
{
    ret->v = arena_zalloc_array(a, l->n, sizeof *ret->v);
    if (!ret->v)
        return -ENOMEM;
    ret->n = l->n;
    for (uint32_t i = 0; i < l->n; i++)
        ret->v[i] = (struct label){arena_str(a, l->v[i].name), arena_str(a, l->v[i].value)};
    return 0;
}

static int add_profile(void *ctx, const struct store_profile *p)
{
    struct profile_walk *w = ctx;
    int r = array_push(w->v, w->out->n_all, w->cap, 10000000,
                       (struct query_profile){p->handle, p->time_ns, p->duration_ns, p->value, p->n_samples});

    if (r < 0)
        return r;
    w->out->type = *p->type;
    return copy_labels(&w->out->arena, p->labels, &w->v[w->out->n_all - 1].labels);
}

static int largest_first(const void *a, const void *b)
{
    const struct query_profile *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static int oldest_first(const void *a, const void *b)
{
    const struct query_profile *x = a, *y = b;

    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(&x->handle, &y->handle, sizeof x->handle);
}

int query_profiles(struct store *s, struct query *q, bool by_value, uint32_t limit, struct query_profiles *ret,
                   struct err *e)
{
    struct profile_walk w = {.out = ret};
    int r;

    *ret = (struct query_profiles){0};
    arena_init(&ret->arena, 0);
    r = s->ops->profiles(s, &q->q, add_profile, &w, e);
    if (r == 0 && ret->n_all) {
        qsort(w.v, ret->n_all, sizeof *ret->v, by_value ? largest_first : oldest_first);
        ret->n = limit ? MIN(limit, ret->n_all) : ret->n_all;
        ret->v = arena_alloc(&ret->arena, ret->n * sizeof *ret->v);
        if (ret->v)
            memcpy(ret->v, w.v, ret->n * sizeof *ret->v);
        else
            r = -ENOMEM;
    }
    mem_free(w.v);
    if (r < 0)
        query_profiles_done(ret);
    return r;
}

void query_profiles_done(struct query_profiles *l)
{
    arena_done(&l->arena);
    *l = (struct query_profiles){0};
}

/* --- types --- */

static int add_type(void *ctx, const struct type *t, const struct labels *l)
{
    struct query_types *x = ctx;
    struct type own = *t;

    (void) l;
    for (uint32_t i = 0; i < x->n; i++)
        if (str_eq(x->v[i].name, t->name))
            return 0;
    own.name = arena_str(&x->arena, t->name);
    own.unit = arena_str(&x->arena, t->unit);
    own.title = arena_str(&x->arena, t->title);
    return array_push(x->v, x->n, x->cap, QUERY_NAMES_MAX, own);
}

static int compare_type(const void *a, const void *b)
{
    return str_cmp(((const struct type *) a)->name, ((const struct type *) b)->name);
}

int query_types(struct store *s, const char *tenant, struct query_types *ret, struct err *e)
{
    struct store_range all = {tenant, 0, INT64_MAX, NULL};
    int r;

    *ret = (struct query_types){0};
    arena_init(&ret->arena, 0);
    r = s->ops->each_series(s, &all, add_type, ret);
    if (r < 0) {
        query_types_done(ret);
        return err_set(e, r, "cannot list types: %m");
    }
    if (ret->n)
        qsort(ret->v, ret->n, sizeof *ret->v, compare_type);
    return 0;
}

void query_types_done(struct query_types *l)
{
    mem_free(l->v);
    arena_done(&l->arena);
    *l = (struct query_types){0};
}
