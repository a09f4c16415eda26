/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ types: builtin letters, qualifiers, pointers, functions, arrays.
 *
 * Most types become substitution candidates as they are completed, in an order that the ABI defines: the position of
 * each dm_add_sub() call matters.
 */
#include <stdio.h>

#include "demangle/demangle_cxx.h"

static const char *const builtin_types[26] = {
    "signed char",
    "bool",
    "char",
    "double",
    "long double",
    "float",
    "__float128",
    "unsigned char",
    "int",
    "unsigned int",
    NULL,
    "long",
    "unsigned long",
    "__int128",
    "unsigned __int128",
    NULL,
    NULL,
    NULL,
    "short",
    "unsigned short",
    NULL,
    "void",
    "wchar_t",
    "long long",
    "unsigned long long",
    "...",
};

static struct dm_node *builtin(struct dm *d, const char *name)
{
    return dm_leaf(d, DM_BUILTIN, str_from(name), 0);
}

static struct dm_node *number_name(struct dm *d, int v)
{
    char *text = arena_printf(&d->arena, "%d", v);

    return text ? dm_leaf(d, DM_NAME, str_from(text), 0) : dm_fail(d);
}

/* D x, D o, D O expr E, D w types E; NULL when the D begins a type. */
static struct dm_node *d_qualifier(struct dm *d)
{
    struct dm_node *q;
    struct dm_list types;

    switch (dm_peek2(d)) {
    case 'x':
        d->p += 2;
        return dm_leaf(d, DM_QUALIFIER, STR("transaction_safe"), 0);
    case 'o':
        d->p += 2;
        return dm_leaf(d, DM_QUALIFIER, STR("noexcept"), 0);
    case 'O':
        d->p += 2;
        q = DM(d, DM_QUALIFIER, dm_expression(d));
        q->text = STR("noexcept");
        dm_expect(d, 'E');
        return q;
    case 'w':
        d->p += 2;
        types = dm_parameters(d, false);
        q = dm_make_list(d, DM_QUALIFIER, NULL, &types);
        q->text = STR("throw");
        dm_expect(d, 'E');
        return q;
    default:
        return NULL;
    }
}

struct dm_node *dm_cv_qualifiers(struct dm *d)
{
    struct dm_list l = {0};

    while (!d->failed) {
        char c = dm_peek(d);
        struct dm_node *q = NULL;

        if (c == 'r' || c == 'V' || c == 'K') {
            d->p++;
            q = dm_leaf(d, DM_QUALIFIER, c == 'r' ? STR("restrict") : c == 'V' ? STR("volatile") : STR("const"), 0);
        } else if (c == 'D') {
            q = d_qualifier(d);
        }
        if (!q)
            break;
        dm_push(d, &l, q);
    }
    if (l.n == 0)
        return NULL;
    for (uint32_t i = 0; i < l.n / 2; i++) { /* written in the reverse of the mangled order */
        struct dm_node *t = l.v[i];

        l.v[i] = l.v[l.n - 1 - i];
        l.v[l.n - 1 - i] = t;
    }
    return dm_make_list(d, DM_QUALIFIERS, NULL, &l);
}

struct str dm_ref_qualifier(struct dm *d)
{
    if (dm_eat(d, 'R'))
        return STR("&");
    if (dm_eat(d, 'O'))
        return STR("&&");
    return STR("");
}

struct dm_list dm_parameters(struct dm *d, bool explicit_object)
{
    struct dm_list l = {0};

    while (d->p < d->end && !strchr("E.Q", *d->p) && !((*d->p == 'R' || *d->p == 'O') && dm_peek2(d) == 'E')) {
        struct dm_node *a = dm_type(d, false);

        if (l.n == 0 && explicit_object)
            a = DM(d, DM_EXPLICIT_OBJ, a);
        dm_push(d, &l, a);
    }
    if (l.n == 0)
        dm_fail(d);
    if (l.n == 1 && l.v[0]->kind == DM_BUILTIN && str_is(l.v[0]->text, "void"))
        l.n = 0;
    return l;
}

struct dm_node *dm_bare_function(struct dm *d, bool has_return, bool explicit_object)
{
    struct dm_node *returns = NULL;
    struct dm_list args, all = {0};

    if (dm_eat(d, 'J'))
        has_return = true;
    if (has_return)
        returns = dm_type(d, false);
    args = dm_parameters(d, explicit_object);
    dm_push(d, &all, returns);
    for (uint32_t i = 0; i < args.n; i++)
        dm_push(d, &all, args.v[i]);
    return d->failed ? &d->bad : dm_make_list(d, DM_FUNCTION, NULL, &all);
}

static struct dm_node *function_type(struct dm *d)
{
    struct dm_node *a;
    struct str ref;

    d->p++;
    dm_eat(d, 'Y'); /* extern "C" is not shown */
    a = dm_bare_function(d, true, false);
    ref = dm_ref_qualifier(d);
    if (ref.n) {
        a = DM(d, DM_METHOD_QUAL, a, NULL);
        a->text = ref;
    }
    dm_expect(d, 'E');
    return a;
}

static struct dm_node *array_type(struct dm *d, bool is_cast)
{
    struct dm_node *dim, *element;

    d->p++;
    if (dm_peek(d) == '_') {
        dim = dm_leaf(d, DM_NAME, STR(""), 0);
    } else if (dm_is_digit(dm_peek(d))) {
        const char *start = d->p;

        while (dm_is_digit(dm_peek(d)))
            d->p++;
        dim = dm_leaf(d, DM_NAME, (struct str){start, (uint32_t) (d->p - start)}, 0);
    } else {
        dim = dm_expression(d);
    }
    dm_expect(d, '_');
    element = dm_type(d, is_cast);
    if (element->kind == DM_TYPE_QUAL) /* an element's qualifiers are the array's */
        return DM(d, DM_TYPE_QUAL, DM(d, DM_ARRAY, dim, element->kids[0]), element->kids[1]);
    return DM(d, DM_ARRAY, dim, element);
}

static struct dm_node *vector_type(struct dm *d, bool is_cast)
{
    struct dm_node *dim = dm_eat(d, '_') ? dm_expression(d) : number_name(d, dm_number(d));

    dm_expect(d, '_');
    return DM(d, DM_VECTOR, dim, dm_type(d, is_cast));
}

/* DF: _FloatN, or fixed point. */
static struct dm_node *float_type(struct dm *d, bool is_cast)
{
    struct dm_node *a;
    bool accum = dm_is_digit(dm_peek(d));
    int bits = accum ? dm_number(d) : 0;

    if (dm_eat(d, '_'))
        return bits ? dm_leaf(d, DM_BINARY_FP, STR(""), bits) : dm_fail(d);
    a = DM(d, DM_FIXED, dm_type(d, is_cast));
    a->flag = accum;
    if (dm_is_digit(dm_peek(d)))
        dm_number(d);
    if (d->p < d->end)
        a->flag2 = *d->p++ == 's';
    return a;
}

static struct dm_node *bit_int(struct dm *d, bool is_signed)
{
    struct dm_node *a = DM(d, DM_BITINT, dm_is_digit(dm_peek(d)) ? number_name(d, dm_number(d)) : dm_expression(d));

    a->flag = is_signed;
    dm_expect(d, '_');
    return a;
}

static struct dm_node *constrained_auto(struct dm *d, const char *suffix)
{
    struct dm_node *a = DM(d, DM_SUFFIXED, dm_name(d, NULL));

    a->text = str_from(suffix);
    return a;
}

/* D…: *ret_candidate says whether it is a substitution candidate. */
static struct dm_node *d_type(struct dm *d, bool is_cast, bool *ret_candidate)
{
    static const struct {
        char c;
        const char *name;
    } builtins[] = {
        {'f', "decimal32"}, {'d', "decimal64"}, {'e', "decimal128"}, {'h', "half"},
        {'u', "char8_t"},   {'s', "char16_t"},  {'i', "char32_t"},   {'n', "decltype(nullptr)"},
    };
    struct dm_node *a;
    char c;

    d->p++;
    c = dm_peek(d);
    if (c)
        d->p++;
    *ret_candidate = c == 'T' || c == 't' || c == 'p' || c == 'v';
    for (size_t i = 0; i < ARRAY_SIZE(builtins); i++)
        if (builtins[i].c == c)
            return builtin(d, builtins[i].name);
    switch (c) {
    case 'T':
    case 't':
        a = DM(d, DM_DECLTYPE, dm_expression(d));
        dm_expect(d, 'E');
        return a;
    case 'p':
        a = DM(d, DM_EXPANSION, dm_type(d, is_cast));
        a->ref = d->failed ? NULL : dm_find_pack(d, a->kids[0]);
        return a;
    case 'a':
        return dm_leaf(d, DM_NAME, STR("auto"), 0);
    case 'c':
        return dm_leaf(d, DM_NAME, STR("decltype(auto)"), 0);
    case 'F':
        return float_type(d, is_cast);
    case 'v':
        return vector_type(d, is_cast);
    case 'B':
    case 'U':
        return bit_int(d, c == 'B');
    case 'k':
        return constrained_auto(d, "auto");
    case 'K':
        return constrained_auto(d, "decltype(auto)");
    default:
        return dm_fail(d);
    }
}

struct dm_node *dm_with_args(struct dm *d, struct dm_node *name)
{
    struct dm_list args = dm_template_args(d);

    return dm_make_list(d, DM_TEMPLATE, name, &args);
}

/*
 * A template parameter before I…E in the type of a conversion operator: the arguments are the type's only when another
 * I…E follows, else they are the operator's own and stay unread.
 */
static struct dm_node *cast_args(struct dm *d, struct dm_node *param, bool candidate)
{
    struct dm save = *d;
    struct dm_list args = dm_template_args(d);

    if (!d->failed && dm_peek(d) == 'I') {
        if (candidate)
            dm_add_sub(d, param);
        return dm_make_list(d, DM_TEMPLATE, param, &args);
    }
    d->p = save.p;
    d->end = save.end;
    d->subs = save.subs;
    d->templates = save.templates;
    d->lambda_level = save.lambda_level;
    d->n_type_params = save.n_type_params;
    d->n_value_params = save.n_value_params;
    d->n_template_params = save.n_template_params;
    d->in_constraint = save.in_constraint;
    d->depth = save.depth;
    d->failed = d->steps > DM_STEPS_MAX;
    return d->failed ? dm_fail(d) : param;
}

static struct dm_node *param_type(struct dm *d, bool is_cast)
{
    char c = dm_peek2(d);
    struct dm_node *a;

    if (c == 's' || c == 'u' || c == 'e') {
        d->p += 2;
        a = DM(d, DM_ELABORATED, dm_name(d, NULL));
        a->text = c == 's' ? STR("struct") : c == 'u' ? STR("union") : STR("enum");
        return a;
    }
    a = dm_template_param(d);
    if (dm_peek(d) != 'I')
        return a;
    if (is_cast)
        return cast_args(d, a, true);
    dm_add_sub(d, a);
    return dm_with_args(d, a);
}

static struct dm_node *substituted_type(struct dm *d, bool is_cast, bool *ret_candidate)
{
    char c = dm_peek2(d);
    struct dm_node *a, *b;

    if (!dm_is_digit(c) && c != '_' && !dm_is_upper(c)) {
        a = dm_name(d, NULL);
        *ret_candidate = !dm_is_standard_sub(a);
        return a;
    }
    a = dm_substitution(d, false);
    if (a->kind == DM_MODULE_NAME) {
        a = dm_unqualified_name(d, a, NULL);
        dm_add_sub(d, a);
    }
    if (dm_peek(d) != 'I') {
        *ret_candidate = false;
        return a;
    }
    if (a->kind != DM_TPARAM || !is_cast)
        return dm_with_args(d, a);
    b = cast_args(d, a, false);
    *ret_candidate = b != a;
    return b;
}

static struct dm_node *vendor_type(struct dm *d)
{
    struct dm_node *a, *base;

    d->p++;
    a = dm_source_name(d);
    if (!dm_eat(d, 'I'))
        return a;
    base = dm_type(d, false);
    dm_expect(d, 'E');
    base = DM(d, DM_TRANSFORMED, base);
    base->text = a->text;
    return base;
}

static struct dm_node *u_type(struct dm *d, bool is_cast, bool *ret_candidate)
{
    struct dm_node *a;

    if (dm_peek2(d) == 'l' || dm_peek2(d) == 't') {
        *ret_candidate = false;
        return dm_peek2(d) == 'l' ? dm_closure(d) : dm_unnamed(d);
    }
    d->p++;
    a = dm_source_name(d);
    if (dm_peek(d) == 'I')
        a = dm_with_args(d, a);
    return DM(d, DM_VENDOR, a, dm_type(d, is_cast));
}

static struct dm_node *modified_type(struct dm *d, enum dm_kind kind, bool is_cast)
{
    d->p++;
    return DM(d, kind, dm_type(d, is_cast));
}

static struct dm_node *unqualified_type(struct dm *d, bool is_cast, bool *ret_candidate)
{
    struct dm_node *a;
    char c = dm_peek(d);

    if (dm_is_digit(c))
        return dm_name(d, NULL);
    switch (c) {
    case 'u':
        return vendor_type(d);
    case 'F':
        return function_type(d);
    case 'N':
    case 'W':
    case 'Z':
        return dm_name(d, NULL);
    case 'A':
        return array_type(d, is_cast);
    case 'M':
        d->p++;
        a = dm_type(d, false);
        return DM(d, DM_PTRMEM, a, dm_type(d, is_cast));
    case 'T':
        return param_type(d, is_cast);
    case 'S':
        return substituted_type(d, is_cast, ret_candidate);
    case 'O':
        return modified_type(d, DM_RVALUE_REF, is_cast);
    case 'P':
        return modified_type(d, DM_POINTER, is_cast);
    case 'R':
        return modified_type(d, DM_REFERENCE, is_cast);
    case 'C':
        return modified_type(d, DM_COMPLEX, is_cast);
    case 'G':
        return modified_type(d, DM_IMAGINARY, is_cast);
    case 'U':
        return u_type(d, is_cast, ret_candidate);
    case 'D':
        return d_type(d, is_cast, ret_candidate);
    default:
        return dm_fail(d);
    }
}

static struct dm_node *qualify_type(struct dm *d, struct dm_node *a, struct dm_node *quals)
{
    if (a->kind == DM_FUNCTION)
        return DM(d, DM_METHOD_QUAL, a, quals);
    if (a->kind == DM_METHOD_QUAL) {
        a->kids[1] = dm_merge_qualifiers(d, quals, a->kids[1]);
        return a;
    }
    if (a->kind == DM_TYPE_QUAL) {
        quals = dm_merge_qualifiers(d, quals, a->kids[1]);
        a = a->kids[0];
    }
    return DM(d, DM_TYPE_QUAL, a, quals);
}

static struct dm_node *type_inside(struct dm *d, bool is_cast)
{
    struct dm_node *quals = dm_cv_qualifiers(d), *a;
    char c = dm_peek(d);
    bool candidate = !(quals && c == 'F'); /* a function type's qualifiers are those of `this`: only the whole is one */

    if (d->failed)
        return &d->bad;
    if (dm_is_lower(c) && builtin_types[c - 'a']) {
        d->p++;
        a = builtin(d, builtin_types[c - 'a']);
        if (quals) {
            a = DM(d, DM_TYPE_QUAL, a, quals);
            dm_add_sub(d, a);
        }
        return a;
    }
    a = unqualified_type(d, is_cast, &candidate);
    if (d->failed)
        return &d->bad;
    if (candidate)
        dm_add_sub(d, a);
    if (quals) {
        a = qualify_type(d, a, quals);
        dm_add_sub(d, a);
    }
    return a;
}

struct dm_node *dm_type(struct dm *d, bool is_cast)
{
    struct dm_node *a = dm_enter(d) ? type_inside(d, is_cast) : &d->bad;

    dm_leave(d);
    return a;
}
