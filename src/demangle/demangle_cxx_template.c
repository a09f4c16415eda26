/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ template parameters and arguments, closures and unnamed types. As in demangle_cxx_type.c, the ABI determines the
 * position of each dm_add_sub() call.
 */
#include "demangle/demangle_cxx.h"

/* T_, T<n>_, TL<level>__, TL<level>_<n>_ */
struct dm_node *dm_template_param(struct dm *d)
{
    const char *start = d->p;
    uint32_t level = 0;
    struct dm_node *tmpl, *a;
    int n;

    d->p++;
    if (dm_eat(d, 'L'))
        level = (uint32_t) dm_compact_number(d);
    n = dm_compact_number(d);
    if (d->failed)
        return &d->bad;
    if (d->in_constraint)
        return dm_leaf(d, DM_NAME, (struct str){start, (uint32_t) (d->p - 1 - start)}, 0);
    tmpl = level < d->templates.n ? d->templates.v[level] : NULL;
    if (level >= d->templates.n || (tmpl && (uint32_t) n + 1 >= tmpl->n_kids)) {
        if (d->lambda_level > 0 && level == d->lambda_level - 1) /* an auto parameter of a lambda */
            return dm_leaf(d, DM_LAMBDA_AUTO, STR(""), n);
        return dm_fail(d);
    }
    a = dm_leaf(d, DM_TPARAM, STR(""), n);
    a->ref = tmpl;
    return a;
}

struct dm_list dm_template_args(struct dm *d)
{
    struct dm_list l = {0};

    if (!dm_eat(d, 'I') && !dm_eat(d, 'J'))
        dm_fail(d);
    while (!d->failed && dm_peek(d) != 'E') {
        dm_push(d, &l, dm_template_arg(d, &l));
        if (dm_peek(d) == 'Q') { /* a constraint, not shown, ends the list */
            dm_constraint(d);
            if (dm_peek(d) != 'E')
                dm_fail(d);
        }
    }
    dm_expect(d, 'E');
    return l;
}

static struct dm_node *template_param_decl(struct dm *d, struct dm_node **ret_name);

/* A parameter's declaration before its argument; parameters in it are the arguments before it. */
static struct dm_node *declared_arg(struct dm *d, const struct dm_list *previous)
{
    struct dm_list args = {0};
    struct dm_node *param, *name, *tmpl;

    dm_push(d, &args, NULL);
    for (uint32_t i = 0; previous && i < previous->n; i++)
        dm_push(d, &args, previous->v[i]);
    if (d->failed)
        return &d->bad;
    tmpl = dm_make_list(d, DM_TEMPLATE, NULL, &args);
    dm_push(d, &d->templates, tmpl);
    param = template_param_decl(d, &name);
    if (d->failed || !param)
        return dm_fail(d);
    d->templates.n--;
    return DM(d, DM_TPARAM_ARG, param, dm_template_arg(d, NULL));
}

static struct dm_node *template_arg_inside(struct dm *d, const struct dm_list *previous)
{
    struct dm_node *a;
    struct dm_list l;

    switch (dm_peek(d)) {
    case 'X':
        d->p++;
        a = dm_expression(d);
        dm_expect(d, 'E');
        return a;
    case 'L':
        return dm_primary(d);
    case 'I':
    case 'J':
        l = dm_template_args(d);
        return dm_make_list(d, DM_PACK, NULL, &l);
    case 'T':
        if (dm_peek2(d) && strchr("yntpk", dm_peek2(d)))
            return declared_arg(d, previous);
        return dm_type(d, false);
    default:
        return dm_type(d, false);
    }
}

struct dm_node *dm_template_arg(struct dm *d, const struct dm_list *previous)
{
    struct dm_node *a = dm_enter(d) ? template_arg_inside(d, previous) : &d->bad;

    dm_leave(d);
    return a;
}

static struct dm_node *param_name(struct dm *d, const char *prefix, int *count)
{
    return dm_leaf(d, DM_TPARAM_NAME, str_from(prefix), (*count)++);
}

/* Tt parameters E: a template template parameter; its parameters are in scope for each other. */
static struct dm_node *template_template_param(struct dm *d, struct dm_node **ret_name)
{
    struct dm_list kids = {0};
    struct dm_node *tmpl = NULL, *constraint = NULL;
    uint32_t level = d->templates.n;

    *ret_name = param_name(d, "$TT", &d->n_template_params);
    dm_push(d, &kids, *ret_name);
    while (!d->failed && !dm_eat(d, 'E')) {
        struct dm_node *name = NULL, *param = template_param_decl(d, &name);

        if (!param)
            return dm_fail(d);
        dm_push(d, &kids, param);
        if (!tmpl) {
            tmpl = DM(d, DM_TEMPLATE, dm_leaf(d, DM_NAME, STR("template_template"), 0));
            dm_push(d, &d->templates, tmpl);
        }
        dm_add_kid(d, tmpl, name);
        if (dm_peek(d) == 'Q') {
            constraint = dm_constraint(d);
            if (dm_peek(d) != 'E')
                dm_fail(d);
        }
    }
    if (d->failed)
        return &d->bad;
    d->templates.n = level;
    dm_push(d, &kids, constraint);
    return d->failed ? &d->bad : dm_make_list(d, DM_TT_PARAM, NULL, &kids);
}

/* Ty, Tk concept, Tn type, Tt … E, Tp decl; NULL when it is none of these. *ret_name is the name that represents the
 * parameter. */
static struct dm_node *param_decl_inside(struct dm *d, struct dm_node **ret_name)
{
    struct dm_node *a;
    bool hold = d->in_constraint;
    char c = dm_peek2(d);

    if (dm_peek(d) != 'T' || !c || !strchr("ykntp", c))
        return NULL;
    d->p += 2;
    switch (c) {
    case 'y':
        *ret_name = param_name(d, "$T", &d->n_type_params);
        return DM(d, DM_TYPE_PARAM, *ret_name);
    case 'k':
        d->in_constraint = true;
        a = dm_name(d, NULL);
        d->in_constraint = hold;
        *ret_name = param_name(d, "$T", &d->n_type_params);
        return DM(d, DM_CONSTR_PARAM, *ret_name, a);
    case 'n':
        *ret_name = param_name(d, "$N", &d->n_value_params);
        return DM(d, DM_VALUE_PARAM, *ret_name, dm_type(d, false));
    case 't':
        return template_template_param(d, ret_name);
    default:
        a = template_param_decl(d, ret_name);
        return a ? DM(d, DM_PARAM_PACK, a) : dm_fail(d);
    }
}

static struct dm_node *template_param_decl(struct dm *d, struct dm_node **ret_name)
{
    struct dm_node *a;

    *ret_name = &d->bad;
    a = dm_enter(d) ? param_decl_inside(d, ret_name) : &d->bad;
    dm_leave(d);
    return a;
}

/* Ul [template parameters] types E [number] _ */
struct dm_node *dm_closure(struct dm *d)
{
    struct dm_list kids = {0}, types;
    struct dm_node *tmpl = NULL, *constraint = NULL, *call_constraint = NULL, *a;
    uint32_t level = d->lambda_level, n_templates = d->templates.n;

    d->p += 2;
    d->lambda_level = d->templates.n + 1;
    while (!d->failed && dm_peek(d) == 'T') {
        struct dm_node *name, *param = template_param_decl(d, &name);

        if (!param)
            break;
        dm_push(d, &kids, param);
        if (!tmpl) {
            tmpl = DM(d, DM_TEMPLATE, dm_leaf(d, DM_NAME, STR("lambda"), 0));
            dm_push(d, &d->templates, tmpl);
        }
        dm_add_kid(d, tmpl, name);
    }
    if (dm_peek(d) == 'Q')
        constraint = dm_constraint(d);
    types = dm_parameters(d, false);
    if (d->failed)
        return &d->bad;
    d->lambda_level = level;
    d->templates.n = n_templates;
    if (dm_peek(d) == 'Q')
        call_constraint = dm_constraint(d);
    dm_expect(d, 'E');
    level = kids.n;
    dm_push(d, &kids, constraint);
    for (uint32_t i = 0; i < types.n; i++)
        dm_push(d, &kids, types.v[i]);
    dm_push(d, &kids, call_constraint);
    a = dm_make_list(d, DM_CLOSURE, NULL, &kids);
    a->split = level;
    a->num = dm_compact_number(d);
    return a;
}

/* Ut [number] _ */
struct dm_node *dm_unnamed(struct dm *d)
{
    struct dm_node *a;

    d->p += 2;
    a = dm_leaf(d, DM_UNNAMED, STR(""), dm_compact_number(d));
    dm_add_sub(d, a);
    return a;
}
