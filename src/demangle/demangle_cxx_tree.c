/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of a C++ name and the walks over them.
 *
 * dm_copy() is the only transformation: it calls `replace` for each node, depth first, and makes new nodes only above
 * replaced ones. A walk visits a shared node once (the set `seen`); later occurrences are left unchanged.
 */
#include <errno.h>

#include "base/hash.h"
#include "demangle/demangle_cxx.h"

struct dm_node *dm_fail(struct dm *d)
{
    d->failed = true;
    d->p = d->end;
    return &d->bad;
}

bool dm_enter(struct dm *d)
{
    if (++d->depth > DM_DEPTH_MAX || ++d->steps > DM_STEPS_MAX)
        dm_fail(d);
    return !d->failed;
}

void dm_leave(struct dm *d)
{
    d->depth--;
}

void dm_expect(struct dm *d, char c)
{
    if (!dm_eat(d, c))
        dm_fail(d);
}

struct dm_node *dm_make(struct dm *d, enum dm_kind kind, struct dm_node *const *kids, uint32_t n)
{
    struct dm_node *a = arena_zalloc(&d->arena, sizeof(*a) + n * sizeof(*kids));

    if (!a || ++d->steps > DM_STEPS_MAX)
        return dm_fail(d);
    a->kind = kind;
    a->n_kids = n;
    a->kids = (struct dm_node **) (a + 1);
    if (n)
        memcpy(a->kids, kids, n * sizeof(*kids));
    return a;
}

struct dm_node *dm_leaf(struct dm *d, enum dm_kind kind, struct str text, int num)
{
    struct dm_node *a = dm_make(d, kind, NULL, 0);

    a->text = text;
    a->num = num;
    return a;
}

void dm_push(struct dm *d, struct dm_list *l, struct dm_node *a)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        struct dm_node **v = arena_alloc(&d->arena, cap * sizeof(*v));

        if (!v) {
            dm_fail(d);
            return;
        }
        if (l->n)
            memcpy(v, l->v, l->n * sizeof(*v));
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = a;
}

void dm_add_kid(struct dm *d, struct dm_node *a, struct dm_node *kid)
{
    struct dm_node **v = arena_alloc(&d->arena, (a->n_kids + 1) * sizeof(*v));

    if (!v || a == &d->bad) {
        dm_fail(d);
        return;
    }
    if (a->n_kids)
        memcpy(v, a->kids, a->n_kids * sizeof(*v));
    v[a->n_kids++] = kid;
    a->kids = v;
}

struct dm_node *dm_make_list(struct dm *d, enum dm_kind kind, struct dm_node *first, const struct dm_list *l)
{
    struct dm_list all = {0};

    if (!first)
        return dm_make(d, kind, l->v, l->n);
    dm_push(d, &all, first);
    for (uint32_t i = 0; i < l->n && !d->failed; i++)
        dm_push(d, &all, l->v[i]);
    return d->failed ? &d->bad : dm_make(d, kind, all.v, all.n);
}

void dm_add_sub(struct dm *d, struct dm_node *a)
{
    dm_push(d, &d->subs, a);
}

/* A set of nodes, by address. */
struct dm_set {
    const struct dm_node **slots;
    uint32_t cap, n;
};

static void set_put(struct dm_set *s, const struct dm_node *a)
{
    uint32_t i = (uint32_t) (hash64_u64((uintptr_t) a) >> 32) & (s->cap - 1);

    while (s->slots[i])
        i = (i + 1) & (s->cap - 1);
    s->slots[i] = a;
    s->n++;
}

static bool set_has(const struct dm_set *s, const struct dm_node *a)
{
    if (s->cap == 0)
        return false;
    for (uint32_t i = (uint32_t) (hash64_u64((uintptr_t) a) >> 32) & (s->cap - 1); s->slots[i];
         i = (i + 1) & (s->cap - 1))
        if (s->slots[i] == a)
            return true;
    return false;
}

/* True when it was there already. */
static bool set_add(struct dm *d, struct dm_set *s, const struct dm_node *a)
{
    if (set_has(s, a))
        return true;
    if (s->n * 2 >= s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 32;
        struct dm_set bigger = {arena_zalloc_array(&d->arena, cap, sizeof(*bigger.slots)), cap, 0};

        if (!bigger.slots) {
            dm_fail(d);
            return true;
        }
        for (uint32_t i = 0; i < s->cap; i++)
            if (s->slots[i])
                set_put(&bigger, s->slots[i]);
        *s = bigger;
    }
    set_put(s, a);
    return false;
}

struct dm_copier {
    struct dm *d;
    /* Returns the replacement of a, or NULL to keep it. Called after a's kids were copied. */
    struct dm_node *(*replace)(struct dm_copier *c, struct dm_node *a);
    bool (*skip)(struct dm_copier *c, struct dm_node *a); /* true: leave a and everything below it unchanged */
    struct dm_set seen;
    struct dm_node *pack, *pack_item; /* expanding a pack */
    struct dm_node *root;             /* substituting */
    struct dm_list templates;         /* substituting: those in scope */
    struct dm_list levels;            /* substituting: saved lambda_level, as DM_FPARAM nodes' num */
};

/* The copy, or NULL when nothing changed. */
static struct dm_node *dm_copy(struct dm_copier *c, struct dm_node *a)
{
    struct dm *d = c->d;
    struct dm_node *copy = NULL, *r = NULL;

    if (dm_enter(d) && !c->skip(c, a)) {
        for (uint32_t i = 0; i < a->n_kids && !d->failed; i++) {
            struct dm_node *kid = a->kids[i] ? dm_copy(c, a->kids[i]) : NULL;

            if (!kid)
                continue;
            if (!copy) {
                copy = dm_make(d, a->kind, a->kids, a->n_kids);
                if (d->failed)
                    break;
                copy->flag = a->flag;
                copy->flag2 = a->flag2;
                copy->num = a->num;
                copy->split = a->split;
                copy->text = a->text;
                copy->ref = a->ref;
            }
            copy->kids[i] = kid;
        }
        if (!d->failed)
            r = c->replace(c, copy ? copy : a);
        if (!r)
            r = copy;
    }
    dm_leave(d);
    return d->failed ? NULL : r;
}

static bool skip_seen(struct dm_copier *c, struct dm_node *a)
{
    return set_add(c->d, &c->seen, a);
}

static struct dm_node *replace_pack(struct dm_copier *c, struct dm_node *a)
{
    return a == c->pack ? c->pack_item : NULL;
}

static bool skip_expansion(struct dm_copier *c, struct dm_node *a)
{
    return a->kind == DM_EXPANSION || set_add(c->d, &c->seen, a);
}

/* base... with each member of the pack in turn. */
static struct dm_node *expand(struct dm *d, struct dm_node *a)
{
    struct dm_list items = {0};

    for (uint32_t i = 0; i < a->ref->n_kids && !d->failed; i++) {
        struct dm_copier c = {d, replace_pack, skip_expansion, .pack = a->ref, .pack_item = a->ref->kids[i]};
        struct dm_node *one = dm_copy(&c, a->kids[0]);

        dm_push(d, &items, dm_simplify(d, one ? one : a->kids[0]));
    }
    return dm_make_list(d, DM_LIST, NULL, &items);
}

struct dm_node *dm_merge_qualifiers(struct dm *d, struct dm_node *a, struct dm_node *b)
{
    uint32_t n = b ? b->n_kids : 0; /* a and b may be the same, growing */

    if (!a || !b)
        return a ? a : b;
    for (uint32_t i = 0; i < n; i++) {
        struct dm_node *q = b->kids[i];
        bool have = false;

        for (uint32_t k = 0; q->n_kids == 0 && k < a->n_kids; k++)
            have = have || (a->kids[k]->n_kids == 0 && str_eq(a->kids[k]->text, q->text));
        if (!have)
            dm_add_kid(d, a, q);
    }
    return a;
}

static struct dm_node *make_method(struct dm *d, struct dm_node *method, struct dm_node *quals, struct str ref)
{
    struct dm_node *a = DM(d, DM_METHOD_QUAL, method, quals);

    a->text = ref;
    return a;
}

static struct dm_node *simplify_method(struct dm *d, struct dm_node *a)
{
    struct dm_node *m = a->kids[0];
    struct str ref = a->text;

    if (m->kind == DM_METHOD_QUAL) {
        if (ref.n == 0)
            ref = m->text;
        else if (m->text.n == 1)
            ref = m->text;
        return make_method(d, m->kids[0], dm_merge_qualifiers(d, a->kids[1], m->kids[1]), ref);
    }
    if (m->kind == DM_TYPE_QUAL)
        return make_method(d, m->kids[0], dm_merge_qualifiers(d, a->kids[1], m->kids[1]), ref);
    return NULL;
}

static struct dm_node *simplify_qualified_type(struct dm *d, struct dm_node *a)
{
    struct dm_node *b = a->kids[0];

    if (b->kind == DM_FUNCTION)
        return make_method(d, b, a->kids[1], STR(""));
    if (b->kind == DM_TYPE_QUAL)
        return DM(d, DM_TYPE_QUAL, b->kids[0], dm_merge_qualifiers(d, a->kids[1], b->kids[1]));
    if (b->kind == DM_METHOD_QUAL)
        return make_method(d, b->kids[0], dm_merge_qualifiers(d, a->kids[1], b->kids[1]), b->text);
    return NULL;
}

static struct dm_node *simplify_one(struct dm_copier *c, struct dm_node *a)
{
    struct dm *d = c->d;
    struct dm_node *b = a->n_kids ? a->kids[0] : NULL;

    switch (a->kind) {
    case DM_TPARAM:
        return a->ref && (uint32_t) a->num + 1 < a->ref->n_kids ? a->ref->kids[a->num + 1] : NULL;
    case DM_METHOD_QUAL:
        return simplify_method(d, a);
    case DM_TYPE_QUAL:
        return simplify_qualified_type(d, a);
    case DM_REFERENCE: /* references collapse */
        return b->kind == DM_REFERENCE ? b : b->kind == DM_RVALUE_REF ? DM(d, DM_REFERENCE, b->kids[0]) : NULL;
    case DM_RVALUE_REF:
        return b->kind == DM_REFERENCE || b->kind == DM_RVALUE_REF ? b : NULL;
    case DM_ARRAY: /* an element's qualifiers are the array's */
        b = a->kids[1];
        if (b->kind == DM_TYPE_QUAL)
            return DM(d, DM_TYPE_QUAL, DM(d, DM_ARRAY, a->kids[0], b->kids[0]), b->kids[1]);
        return NULL;
    case DM_EXPANSION:
        return a->ref ? expand(d, a) : NULL;
    default:
        return NULL;
    }
}

struct dm_node *dm_simplify(struct dm *d, struct dm_node *a)
{
    struct dm_copier c = {d, simplify_one, skip_seen};
    struct dm_node *r = d->failed ? NULL : dm_copy(&c, a);

    return d->failed ? &d->bad : r ? r : a;
}

/* Depth first; visit returns false to skip the kids. Qualifiers are not walked into. */
struct dm_walker {
    struct dm *d;
    bool (*visit)(struct dm_walker *w, struct dm_node *a);
    struct dm_set seen;
    struct dm_node *found, *tmpl;
};

static void dm_walk(struct dm_walker *w, struct dm_node *a)
{
    if (dm_enter(w->d) && w->visit(w, a)) {
        uint32_t n = a->kind == DM_TYPE_QUAL || a->kind == DM_METHOD_QUAL ? 1 : a->n_kids;

        for (uint32_t i = 0; i < n && !w->d->failed; i++)
            if (a->kids[i])
                dm_walk(w, a->kids[i]);
    }
    dm_leave(w->d);
}

static bool visit_for_pack(struct dm_walker *w, struct dm_node *a)
{
    if (w->found)
        return false;
    switch (a->kind) {
    case DM_TPARAM:
        if (a->ref && (uint32_t) a->num + 1 < a->ref->n_kids && a->ref->kids[a->num + 1]->kind == DM_PACK)
            w->found = a->ref->kids[a->num + 1];
        return false;
    case DM_EXPANSION:
    case DM_CLOSURE:
    case DM_NAME:
    case DM_TAGGED:
    case DM_OPERATOR:
    case DM_BUILTIN:
    case DM_FPARAM:
    case DM_UNNAMED:
    case DM_FIXED:
    case DM_DEFAULT_ARG:
        return false;
    default:
        return !set_add(w->d, &w->seen, a);
    }
}

/* The argument pack that an expansion of a goes over, found by a template parameter in it. */
struct dm_node *dm_find_pack(struct dm *d, struct dm_node *a)
{
    struct dm_walker w = {d, visit_for_pack};

    dm_walk(&w, a);
    return w.found;
}

static bool visit_to_set(struct dm_walker *w, struct dm_node *a)
{
    if (a->kind == DM_CLOSURE)
        return false;
    if (a->kind != DM_TPARAM)
        return !set_add(w->d, &w->seen, a);
    if (a->ref) {
        if (w->tmpl)
            dm_fail(w->d);
    } else if (!w->tmpl || (uint32_t) a->num + 1 >= w->tmpl->n_kids) {
        dm_fail(w->d);
    } else {
        a->ref = w->tmpl;
    }
    return false;
}

/* Fills in the template of parameters that were read before it (conversion operators); NULL: there must be none. */
void dm_set_template(struct dm *d, struct dm_node *a, struct dm_node *tmpl)
{
    struct dm_walker w = {d, visit_to_set, .tmpl = tmpl};

    if (!d->failed)
        dm_walk(&w, a);
}

/* S_ and S<seq>_: what was read before, with template parameters meaning those of the template in scope now. */

static void push_level(struct dm_copier *c)
{
    dm_push(c->d, &c->levels, dm_leaf(c->d, DM_FPARAM, STR(""), (int) c->d->lambda_level));
}

static void pop_level(struct dm_copier *c)
{
    if (c->levels.n == 0) {
        dm_fail(c->d);
        return;
    }
    c->d->lambda_level = (uint32_t) c->levels.v[--c->levels.n]->num;
}

static bool skip_substituted(struct dm_copier *c, struct dm_node *a)
{
    switch (a->kind) {
    case DM_TYPED:
        if (a->kids[0]->kind == DM_TEMPLATE) {
            dm_push(c->d, &c->templates, a->kids[0]);
            push_level(c);
            c->d->lambda_level = 0;
        }
        return false;
    case DM_CLOSURE:
        push_level(c);
        c->d->lambda_level = c->templates.n + 1;
        return false;
    case DM_TPARAM:
    case DM_LAMBDA_AUTO:
        return false;
    default:
        return set_add(c->d, &c->seen, a);
    }
}

static struct dm_node *substitute_param(struct dm_copier *c, struct dm_node *a)
{
    struct dm *d = c->d;
    struct dm_node *tmpl, *r;

    if (d->in_constraint) {
        char *text = arena_printf(&d->arena, "T%d", a->num);

        return text ? dm_leaf(d, DM_NAME, str_from(text), 0) : dm_fail(d);
    }
    if (d->lambda_level > 0)
        return a->kind == DM_LAMBDA_AUTO ? NULL : dm_leaf(d, DM_LAMBDA_AUTO, STR(""), a->num);
    if (c->templates.n > 0)
        tmpl = c->templates.v[c->templates.n - 1];
    else if (c->root->kind == DM_TEMPLATE)
        tmpl = c->root;
    else
        return dm_fail(d);
    if (tmpl && (uint32_t) a->num + 1 >= tmpl->n_kids)
        return dm_fail(d);
    r = dm_leaf(d, DM_TPARAM, STR(""), a->num);
    r->ref = tmpl;
    return r;
}

static struct dm_node *replace_substituted(struct dm_copier *c, struct dm_node *a)
{
    switch (a->kind) {
    case DM_TYPED:
        if (a->kids[0]->kind == DM_TEMPLATE) {
            if (c->templates.n > 0)
                c->templates.n--;
            pop_level(c);
        }
        return NULL;
    case DM_CLOSURE:
        pop_level(c);
        return NULL;
    case DM_TPARAM:
    case DM_LAMBDA_AUTO:
        return substitute_param(c, a);
    default:
        return NULL;
    }
}

static struct dm_node *back_reference(struct dm *d)
{
    int id = dm_seq_id(d, false);
    struct dm_copier c = {d, replace_substituted, skip_substituted};
    struct dm_node *r;

    if (d->failed || (uint32_t) id >= d->subs.n)
        return dm_fail(d);
    c.root = d->subs.v[id];
    for (uint32_t i = 0; i < d->templates.n; i++)
        dm_push(d, &c.templates, d->templates.v[i]);
    r = dm_copy(&c, c.root);
    return d->failed ? &d->bad : r ? r : c.root;
}

/* The standard abbreviations, shared by all parses and never changed. */
#define CONST_NAME(id, s) static struct dm_node id = {.kind = DM_NAME, .text = {s, sizeof(s) - 1}}
#define CONST_NODE(id, k, ...)                          \
    static struct dm_node *id##_kids[] = {__VA_ARGS__}, \
                          id = {.kind = k, .n_kids = ARRAY_SIZE(id##_kids), .kids = id##_kids}
#define CONST_STD(id, s)      \
    CONST_NAME(id##_name, s); \
    CONST_NODE(id, DM_QUALIFIED, &std_name, &id##_name)

CONST_NAME(std_name, "std");
CONST_STD(std_allocator, "allocator");
CONST_STD(std_basic_string, "basic_string");
CONST_STD(std_string, "string");
CONST_STD(std_istream, "istream");
CONST_STD(std_ostream, "ostream");
CONST_STD(std_iostream, "iostream");
CONST_STD(std_char_traits, "char_traits");
CONST_STD(std_basic_istream, "basic_istream");
CONST_STD(std_basic_ostream, "basic_ostream");
CONST_STD(std_basic_iostream, "basic_iostream");
static struct dm_node char_type = {.kind = DM_BUILTIN, .text = {"char", 4}};
CONST_NODE(char_traits_char, DM_TEMPLATE, &std_char_traits, &char_type);
CONST_NODE(allocator_char, DM_TEMPLATE, &std_allocator, &char_type);
CONST_NODE(long_string, DM_TEMPLATE, &std_basic_string, &char_type, &char_traits_char, &allocator_char);
CONST_NODE(long_istream, DM_TEMPLATE, &std_basic_istream, &char_type, &char_traits_char);
CONST_NODE(long_ostream, DM_TEMPLATE, &std_basic_ostream, &char_type, &char_traits_char);
CONST_NODE(long_iostream, DM_TEMPLATE, &std_basic_iostream, &char_type, &char_traits_char);

static const struct {
    char letter;
    struct dm_node *usual, *before_cdtor; /* the class of a constructor is written in full */
} standard_subs[] = {
    {'t', &std_name, &std_name},
    {'a', &std_allocator, &std_allocator},
    {'b', &std_basic_string, &std_basic_string},
    {'s', &std_string, &long_string},
    {'i', &std_istream, &long_istream},
    {'o', &std_ostream, &long_ostream},
    {'d', &std_iostream, &long_iostream},
};

bool dm_is_standard_sub(const struct dm_node *a)
{
    for (size_t i = 0; i < ARRAY_SIZE(standard_subs); i++)
        if (a == standard_subs[i].usual || a == standard_subs[i].before_cdtor)
            return true;
    return false;
}

struct dm_node *dm_substitution(struct dm *d, bool for_prefix)
{
    struct dm_node *a = NULL;
    char c;

    dm_expect(d, 'S');
    c = dm_peek(d);
    if (c == '_' || dm_is_digit(c) || dm_is_upper(c))
        return back_reference(d);
    if (c)
        d->p++;
    for (size_t i = 0; i < ARRAY_SIZE(standard_subs); i++)
        if (standard_subs[i].letter == c)
            a = for_prefix && (dm_peek(d) == 'C' || dm_peek(d) == 'D') ? standard_subs[i].before_cdtor
                                                                       : standard_subs[i].usual;
    if (!a)
        return dm_fail(d);
    if (dm_peek(d) == 'B') {
        a = dm_tagged_name(d, a);
        dm_add_sub(d, a);
    }
    return a;
}
