/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ names and types as text. A declarator is written inside out: while a type is printed, what goes around it (a
 * pointer's '*', the function's name, an array's dimension) waits on the list `inner`; the function that prints the
 * right place empties the list, and a type whose entry is still on the list afterwards prints it after itself.
 */
#include <stdarg.h>
#include <stdio.h>

#include "demangle/demangle.h"
#include "demangle/demangle_cxx.h"

void dm_put_str(struct dm_printer *p, struct str s)
{
    if (s.n == 0)
        return;
    p->last = s.p[s.n - 1];
    buf_put_str(p->out, s);
}

void dm_put(struct dm_printer *p, const char *s)
{
    dm_put_str(p, str_from(s));
}

void dm_put_char(struct dm_printer *p, char c)
{
    dm_put_str(p, (struct str){&c, 1});
}

void dm_put_quiet(struct dm_printer *p, const char *fmt, ...)
{
    char text[64];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_puts(p->out, text);
}

_printf_(2, 3) static void put_number(struct dm_printer *p, const char *fmt, ...)
{
    char text[64];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dm_put(p, text);
}

void dm_open(struct dm_printer *p, char c)
{
    p->scopes++;
    dm_put_char(p, c);
}

void dm_close(struct dm_printer *p, char c)
{
    p->scopes--;
    dm_put_char(p, c);
}

static void push_inner(struct dm_printer *p, struct dm_node *a)
{
    struct dm_inner *in = arena_alloc(&p->d->arena, sizeof(*in));

    if (!in) {
        dm_fail(p->d);
        return;
    }
    *in = (struct dm_inner){a, p->inner};
    p->inner = in;
}

static void pop_inner(struct dm_printer *p)
{
    if (p->inner)
        p->inner = p->inner->next;
}

/* Whether nothing is shown of a node: a list without expressions, or a pack of nothing, expanded or not. */
static bool is_empty(const struct dm_node *a)
{
    uint32_t shown = 0;

    if (a->kind == DM_EXPANSION && a->ref)
        return is_empty(a->kids[0]);
    if (a->kind != DM_PACK)
        return a->kind == DM_LIST && !a->n_kids;
    while (shown < a->n_kids && is_empty(a->kids[shown]))
        shown++;
    return shown == a->n_kids;
}

void dm_print_list(struct dm_printer *p, struct dm_node **v, uint32_t n, bool skip_empty)
{
    bool first = true;

    for (uint32_t i = 0; i < n; i++) {
        if (skip_empty && is_empty(v[i]))
            continue;
        if (!first)
            dm_put(p, ", ");
        dm_print(p, v[i]);
        first = false;
    }
}

static void put_qualifiers(struct dm_printer *p, struct dm_node *a)
{
    if (a->kids[1]) {
        dm_put_char(p, ' ');
        dm_print(p, a->kids[1]);
    }
    if (a->kind == DM_METHOD_QUAL && a->text.n) {
        dm_put_char(p, ' ');
        dm_put_str(p, a->text);
    }
}

static void print_dimension(struct dm_printer *p, struct dm_node *a);
static void print_arguments(struct dm_printer *p, struct dm_node *a);

/* Prints a, which waited on the list, in its place. */
static void print_as_inner(struct dm_printer *p, struct dm_node *a)
{
    switch (a->kind) {
    case DM_TYPED:
    case DM_VALUE_PARAM:
    case DM_CONSTR_PARAM:
        dm_print(p, a->kids[0]);
        break;
    case DM_TYPE_QUAL:
    case DM_METHOD_QUAL:
        put_qualifiers(p, a);
        break;
    case DM_POINTER:
        dm_put(p, "*");
        break;
    case DM_REFERENCE:
        dm_put(p, "&");
        break;
    case DM_RVALUE_REF:
        dm_put(p, "&&");
        break;
    case DM_COMPLEX:
        dm_put(p, " _Complex");
        break;
    case DM_IMAGINARY:
        dm_put(p, " _Imaginary");
        break;
    case DM_SUFFIXED:
        dm_put_char(p, ' ');
        dm_put_str(p, a->text);
        break;
    case DM_VENDOR:
        dm_put_char(p, ' ');
        dm_print(p, a->kids[0]);
        break;
    case DM_ARRAY:
        print_dimension(p, a);
        break;
    case DM_FUNCTION:
        print_arguments(p, a);
        break;
    case DM_PTRMEM:
        if (p->last != '(')
            dm_put_char(p, ' ');
        dm_print(p, a->kids[0]);
        dm_put(p, "::*");
        break;
    case DM_VECTOR:
        dm_put(p, " __vector(");
        dm_print(p, a->kids[0]);
        dm_put_char(p, ')');
        break;
    case DM_PARAM_PACK:
        dm_put(p, "...");
        if (a->kids[0]->kind == DM_VALUE_PARAM)
            dm_print(p, a->kids[0]->kids[0]);
        break;
    default:
        dm_print(p, a);
    }
}

static void print_one_inner(struct dm_printer *p)
{
    struct dm_node *a = p->inner->node;

    pop_inner(p);
    print_as_inner(p, a);
}

static void print_all_inner(struct dm_printer *p)
{
    while (p->inner && !p->d->failed)
        print_one_inner(p);
}

/* Prints all except method qualifiers, which come after the arguments and are returned. */
static struct dm_inner *print_inner_prefix(struct dm_printer *p)
{
    struct dm_inner *kept = NULL;

    while (p->inner && !p->d->failed) {
        if (p->inner->node->kind == DM_METHOD_QUAL) {
            struct dm_inner *in = arena_alloc(&p->d->arena, sizeof(*in));

            if (!in) {
                dm_fail(p->d);
                break;
            }
            *in = (struct dm_inner){p->inner->node, kept};
            kept = in;
            pop_inner(p);
        } else {
            print_one_inner(p);
        }
    }
    return kept;
}

/* Everything on the list, in parentheses. */
static void print_inner_apart(struct dm_printer *p)
{
    dm_put_char(p, ' ');
    dm_open(p, '(');
    print_all_inner(p);
    dm_close(p, ')');
}

/* Dimensions that wait on the list come first, int [2][3]; what else waits is the declarator, int (*) [3]. */
static void print_dimension(struct dm_printer *p, struct dm_node *a)
{
    bool apart = true;

    while (p->inner && !p->d->failed) {
        struct dm_node *in = p->inner->node;
        bool qualified = in->kind == DM_TYPE_QUAL;

        if ((qualified ? in->kids[0] : in)->kind != DM_ARRAY) {
            print_inner_apart(p);
            continue;
        }
        apart &= qualified;
        print_one_inner(p);
    }
    dm_put(p, apart ? " [" : "[");
    dm_print(p, a->kids[0]);
    dm_put_char(p, ']');
}

static void open_declarator(struct dm_printer *p, bool *ret_paren)
{
    bool paren = false, space = false;

    for (struct dm_inner *in = p->inner; in && !paren; in = in->next)
        switch (in->node->kind) {
        case DM_POINTER:
        case DM_REFERENCE:
        case DM_RVALUE_REF:
            paren = true;
            break;
        case DM_TYPE_QUAL:
        case DM_COMPLEX:
        case DM_IMAGINARY:
        case DM_PTRMEM:
            paren = space = true;
            break;
        default:
            break;
        }
    *ret_paren = paren;
    if (!paren)
        return;
    if (p->last != '(' && p->last != '*')
        space = true;
    if (space && p->last != ' ')
        dm_put_char(p, ' ');
    dm_open(p, '(');
}

static void print_arguments(struct dm_printer *p, struct dm_node *a)
{
    struct dm_inner *kept;
    bool paren;

    open_declarator(p, &paren);
    kept = print_inner_prefix(p);
    if (paren)
        dm_close(p, ')');
    dm_open(p, '(');
    if (!a->flag || p->enclosing_params)
        dm_print_list(p, a->kids + 1, a->n_kids - 1, true);
    dm_close(p, ')');
    p->inner = kept;
    print_all_inner(p);
}

static void print_function(struct dm_printer *p, struct dm_node *a)
{
    if (a->kids[0] && !a->flag) { /* the function of a local name has no return type */
        push_inner(p, a);
        dm_print(p, a->kids[0]);
        if (!p->inner)
            return;
        pop_inner(p);
        dm_put_char(p, ' ');
    }
    print_arguments(p, a);
}

/* Prints a type around base: it waits on the list, and is printed after base if it was not printed there. */
static void print_around(struct dm_printer *p, struct dm_node *a, struct dm_node *base)
{
    push_inner(p, a);
    dm_print(p, base);
    if (!p->inner)
        return;
    switch (a->kind) {
    case DM_VENDOR:
    case DM_PTRMEM:
    case DM_VECTOR:
        print_one_inner(p);
        break;
    case DM_ARRAY:
        pop_inner(p);
        print_dimension(p, a);
        break;
    case DM_VALUE_PARAM:
    case DM_CONSTR_PARAM:
        dm_put_char(p, ' ');
        print_as_inner(p, a);
        pop_inner(p);
        break;
    default:
        print_as_inner(p, a);
        pop_inner(p);
    }
}

static void print_typed(struct dm_printer *p, struct dm_node *a)
{
    struct dm_inner *hold = p->inner;

    p->inner = NULL;
    push_inner(p, a);
    dm_print(p, a->kids[1]);
    if (p->inner) { /* the type did not print the name */
        dm_put_char(p, ' ');
        dm_print(p, a->kids[0]);
    }
    p->inner = hold;
}

/* A bracket of template arguments, apart from an equal character before it: operator< <int>, a<b<int> >. */
static void put_bracket(struct dm_printer *p, char c)
{
    if (p->last == c)
        dm_put_char(p, ' ');
    dm_put_char(p, c);
}

static void print_template_args(struct dm_printer *p, struct dm_node *a)
{
    int scopes = p->scopes;

    put_bracket(p, '<');
    p->scopes = 0;
    dm_print_list(p, a->kids + 1, a->n_kids - 1, true);
    p->scopes = scopes;
    put_bracket(p, '>');
}

static void print_template(struct dm_printer *p, struct dm_node *a)
{
    struct dm_inner *around = p->inner; /* belongs to the whole, not to its parts */

    p->inner = NULL;
    dm_print(p, a->kids[0]);
    if (p->template_params)
        print_template_args(p, a);
    p->inner = around;
}

static void print_qualifier(struct dm_printer *p, struct dm_node *a)
{
    bool first = true;

    dm_put_str(p, a->text);
    if (a->n_kids == 0)
        return;
    dm_open(p, '(');
    for (uint32_t i = 0; i < a->n_kids; i++) {
        if (a->kids[i]->kind == DM_LIST && a->kids[i]->n_kids == 0)
            continue;
        if (!first)
            dm_put(p, ", ");
        dm_print(p, a->kids[i]);
        first = false;
    }
    dm_close(p, ')');
}

static void print_fixed(struct dm_printer *p, struct dm_node *a)
{
    if (a->flag2)
        dm_put(p, "_Sat ");
    if (a->kids[0]->kind != DM_BUILTIN || !str_is(a->kids[0]->text, "int")) {
        dm_print(p, a->kids[0]);
        dm_put_char(p, ' ');
    }
    dm_put(p, a->flag ? "_Accum" : "_Fract");
}

static void print_operator_name(struct dm_printer *p, struct dm_node *a)
{
    struct str text = a->text;

    dm_put(p, "operator");
    if (text.n && dm_is_lower(text.p[0]))
        dm_put_char(p, ' ');
    if (text.n && text.p[text.n - 1] == ' ')
        text.n--;
    dm_put_str(p, text);
}

static void print_constraint(struct dm_printer *p, struct dm_node *constraint, const char *after)
{
    if (!constraint)
        return;
    dm_put(p, " requires ");
    dm_print(p, constraint);
    dm_put(p, after);
}

/* The kids of a closure: template parameters, their constraint, types, the constraint of the call. */
void dm_print_closure_types(struct dm_printer *p, struct dm_node *a)
{
    struct dm_node **constraint = a->kids + a->split, **last = a->kids + a->n_kids - 1;
    int scopes = p->scopes;

    if (constraint > a->kids) {
        p->scopes = 0;
        dm_put_char(p, '<');
        dm_print_list(p, a->kids, a->split, false);
        dm_put_char(p, '>');
        p->scopes = scopes;
    }
    print_constraint(p, *constraint, " ");
    dm_open(p, '(');
    dm_print_list(p, constraint + 1, (uint32_t) (last - constraint - 1), false);
    dm_close(p, ')');
    print_constraint(p, *last, "");
}

static void print_tt_param(struct dm_printer *p, struct dm_node *a)
{
    int scopes = p->scopes;

    p->scopes = 0;
    dm_put(p, "template<");
    dm_print_list(p, a->kids + 1, a->n_kids - 2, false);
    dm_put(p, "> typename ");
    p->scopes = scopes;
    dm_print(p, a->kids[0]);
    if (a->kids[a->n_kids - 1]) {
        dm_put(p, " requires ");
        dm_print(p, a->kids[a->n_kids - 1]);
    }
}

static void print_param_pack(struct dm_printer *p, struct dm_node *a)
{
    struct dm_inner *hold = p->inner;

    p->inner = NULL;
    push_inner(p, a);
    dm_print(p, a->kids[0]->kind == DM_VALUE_PARAM ? a->kids[0]->kids[1] : a->kids[0]);
    if (p->inner)
        dm_put(p, "...");
    p->inner = hold;
}

static bool print_parameter(struct dm_printer *p, struct dm_node *a)
{
    switch (a->kind) {
    case DM_TYPE_PARAM:
        dm_put(p, "typename ");
        print_all_inner(p);
        dm_print(p, a->kids[0]);
        return true;
    case DM_TT_PARAM:
        print_tt_param(p, a);
        return true;
    case DM_PARAM_PACK:
        print_param_pack(p, a);
        return true;
    case DM_EXPLICIT_OBJ:
        dm_put(p, "this ");
        dm_print(p, a->kids[0]);
        return true;
    default:
        return false;
    }
}

static bool print_type(struct dm_printer *p, struct dm_node *a)
{
    switch (a->kind) {
    case DM_QUALIFIERS:
        for (uint32_t i = 0; i < a->n_kids; i++) {
            if (i)
                dm_put_char(p, ' ');
            print_qualifier(p, a->kids[i]);
        }
        return true;
    case DM_QUALIFIER:
        print_qualifier(p, a);
        return true;
    case DM_TYPE_QUAL:
    case DM_METHOD_QUAL:
    case DM_POINTER:
    case DM_REFERENCE:
    case DM_RVALUE_REF:
    case DM_COMPLEX:
    case DM_IMAGINARY:
    case DM_SUFFIXED:
        print_around(p, a, a->kids[0]);
        return true;
    case DM_VENDOR:
    case DM_ARRAY:
    case DM_VECTOR:
    case DM_PTRMEM:
    case DM_VALUE_PARAM:
    case DM_CONSTR_PARAM:
        print_around(p, a, a->kids[1]);
        return true;
    case DM_TRANSFORMED:
    case DM_BITINT:
        if (a->kind == DM_BITINT)
            dm_put(p, a->flag ? "_BitInt" : "unsigned _BitInt");
        else
            dm_put_str(p, a->text);
        dm_open(p, '(');
        dm_print(p, a->kids[0]);
        dm_close(p, ')');
        return true;
    case DM_FUNCTION:
        print_function(p, a);
        return true;
    case DM_FIXED:
        print_fixed(p, a);
        return true;
    case DM_BINARY_FP:
        dm_put_quiet(p, "_Float%d", a->num);
        return true;
    case DM_ELABORATED:
        dm_put_str(p, a->text);
        dm_put_char(p, ' ');
        dm_print_kind(p, a->kids[0]);
        return true;
    case DM_DECLTYPE:
        dm_put(p, "decltype ");
        dm_open(p, '(');
        dm_print(p, a->kids[0]);
        dm_close(p, ')');
        return true;
    default:
        return print_parameter(p, a);
    }
}

static bool print_leaf(struct dm_printer *p, struct dm_node *a)
{
    switch (a->kind) {
    case DM_NAME:
    case DM_BUILTIN:
        dm_put_str(p, a->text);
        return true;
    case DM_OPERATOR:
        print_operator_name(p, a);
        return true;
    case DM_TPARAM:
        if (a->ref && (uint32_t) a->num + 1 < a->ref->n_kids)
            dm_print(p, a->ref->kids[a->num + 1]);
        else
            dm_fail(p->d);
        return true;
    case DM_LAMBDA_AUTO:
        dm_put_quiet(p, "auto:%d", a->num + 1);
        return true;
    case DM_FPARAM:
        if (a->num)
            dm_put_quiet(p, "{parm#%d}", a->num);
        else
            dm_put(p, "this");
        return true;
    case DM_UNNAMED:
        put_number(p, "{unnamed type#%d}", a->num + 1);
        return true;
    case DM_TPARAM_NAME:
        dm_put_str(p, a->text);
        if (a->num)
            put_number(p, "%d", a->num - 1);
        return true;
    case DM_SIZEOF_PACK:
        put_number(p, "%d", (int) a->ref->n_kids);
        return true;
    default:
        return false;
    }
}

static bool print_name(struct dm_printer *p, struct dm_node *a)
{
    switch (a->kind) {
    case DM_TYPED:
        print_typed(p, a);
        return true;
    case DM_QUALIFIED:
        dm_print_two(p, a, "", "::", "");
        return true;
    case DM_TEMPLATE:
        print_template(p, a);
        return true;
    case DM_TPARAM_ARG:
        dm_print(p, a->kids[1]);
        return true;
    case DM_TAGGED:
        dm_print_two(p, a, "", "[abi:", "]");
        return true;
    case DM_DTOR:
        dm_put_char(p, '~');
        dm_print(p, a->kids[0]);
        return true;
    case DM_CTOR:
        dm_print(p, a->kids[0]);
        return true;
    case DM_CAST:
        dm_put(p, "operator ");
        dm_print(p, a->kids[0]);
        return true;
    case DM_FRIEND:
        dm_put(p, "friend ");
        dm_print(p, a->kids[0]);
        return true;
    case DM_DEFAULT_ARG:
        dm_put_quiet(p, "{default arg#%d}::", a->num + 1);
        dm_print(p, a->kids[0]);
        return true;
    case DM_CLOSURE:
        dm_put(p, "{lambda");
        dm_print_closure_types(p, a);
        put_number(p, "#%d}", a->num + 1);
        return true;
    case DM_BINDINGS:
        dm_put(p, "[");
        dm_print_list(p, a->kids, a->n_kids, false);
        dm_put(p, "]");
        return true;
    default:
        return dm_print_special(p, a);
    }
}

void dm_print_kind(struct dm_printer *p, struct dm_node *a)
{
    if (!print_leaf(p, a) && !print_name(p, a) && !print_type(p, a) && !dm_print_expression(p, a))
        dm_fail(p->d);
}

/* A node may appear once inside itself (a substitution printed in another place), not twice: that is a cycle. */
void dm_print(struct dm_printer *p, struct dm_node *a)
{
    struct dm *d = p->d;

    if (dm_enter(d)) {
        unsigned same = 0;

        if (p->out->n - p->start > DEMANGLE_OUTPUT_MAX)
            dm_fail(d);
        for (unsigned i = 0; i + 1 < d->depth; i++)
            same += p->printing[i] == a;
        p->printing[d->depth - 1] = a;
        if (same <= 1 && !d->failed)
            dm_print_kind(p, a);
    }
    dm_leave(d);
}
