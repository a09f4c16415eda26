/* SPDX-License-Identifier: Apache-2.0 */
/* C++ operators and expressions, which appear in template arguments, decltype and constraints. */
#include <errno.h>

#include "demangle/demangle_cxx.h"

/* Two letters, how many operands follow in an expression, and the text. A space at the end separates a word. */
static const struct {
    char code[3];
    uint8_t args;
    const char *text;
} operators[] = {
    {"aN", 2, "&="},
    {"aS", 2, "="},
    {"aa", 2, "&&"},
    {"ad", 1, "&"},
    {"an", 2, "&"},
    {"at", 1, "alignof "},
    {"aw", 1, "co_await "},
    {"az", 1, "alignof "},
    {"cc", 2, "const_cast"},
    {"cl", 2, "()"},
    {"cm", 2, ","},
    {"co", 1, "~"},
    {"cp", 2, "()"},
    {"dV", 2, "/="},
    {"dX", 3, "[...]="},
    {"da", 1, "delete[] "},
    {"dc", 2, "dynamic_cast"},
    {"de", 1, "*"},
    {"di", 2, "="},
    {"dl", 1, "delete "},
    {"ds", 2, ".*"},
    {"dt", 2, "."},
    {"dv", 2, "/"},
    {"dx", 2, "]="},
    {"eO", 2, "^="},
    {"eo", 2, "^"},
    {"eq", 2, "=="},
    {"fL", 3, "..."},
    {"fR", 3, "..."},
    {"fl", 2, "..."},
    {"fr", 2, "..."},
    {"ge", 2, ">="},
    {"gs", 1, "::"},
    {"gt", 2, ">"},
    {"ix", 2, "[]"},
    {"lS", 2, "<<="},
    {"le", 2, "<="},
    {"li", 1, "operator\"\" "},
    {"ls", 2, "<<"},
    {"lt", 2, "<"},
    {"mI", 2, "-="},
    {"mL", 2, "*="},
    {"mi", 2, "-"},
    {"ml", 2, "*"},
    {"mm", 1, "--"},
    {"na", 3, "new[]"},
    {"ne", 2, "!="},
    {"ng", 1, "-"},
    {"nt", 1, "!"},
    {"nw", 3, "new"},
    {"nx", 1, "noexcept"},
    {"oR", 2, "|="},
    {"oo", 2, "||"},
    {"or", 2, "|"},
    {"pL", 2, "+="},
    {"pl", 2, "+"},
    {"pm", 2, "->*"},
    {"pp", 1, "++"},
    {"ps", 1, "+"},
    {"pt", 2, "->"},
    {"qu", 3, "?"},
    {"rM", 2, "%="},
    {"rS", 2, ">>="},
    {"rc", 2, "reinterpret_cast"},
    {"rm", 2, "%"},
    {"rs", 2, ">>"},
    {"sP", 1, "sizeof..."},
    {"sZ", 1, "sizeof..."},
    {"sc", 2, "static_cast"},
    {"ss", 2, "<=>"},
    {"st", 1, "sizeof "},
    {"sz", 1, "sizeof "},
    {"te", 1, "typeid "},
    {"ti", 1, "typeid "},
    {"tr", 0, "throw"},
    {"tw", 1, "throw "},
};

static struct dm_node *operator_leaf(struct dm *d, const char *text)
{
    return dm_leaf(d, DM_OPERATOR, str_from(text), 0);
}

/* cv type: outside expressions its template parameters belong to a template that is read later. */
static struct dm_node *cast_operator(struct dm *d, bool in_expression)
{
    struct dm_node *to;

    if (!in_expression)
        dm_push(d, &d->templates, NULL);
    to = dm_type(d, !in_expression);
    if (d->failed)
        return &d->bad;
    if (!in_expression)
        d->templates.n--;
    return DM(d, DM_CAST, to);
}

struct dm_node *dm_operator(struct dm *d, bool in_expression, int *ret_args)
{
    const char *code = d->p;
    int ignored, *args = ret_args ? ret_args : &ignored;
    struct dm_node *a;

    *args = 1;
    if (d->end - d->p < 2)
        return dm_fail(d);
    d->p += 2;
    if (code[0] == 'v' && dm_is_digit(code[1])) {
        *args = code[1] - '0';
        a = dm_source_name(d);
        return d->failed ? a : dm_leaf(d, DM_OPERATOR, a->text, 0);
    }
    if (code[0] == 'c' && code[1] == 'v')
        return cast_operator(d, in_expression);
    for (size_t i = 0; i < ARRAY_SIZE(operators); i++)
        if (operators[i].code[0] == code[0] && operators[i].code[1] == code[1]) {
            *args = operators[i].args;
            return operator_leaf(d, operators[i].text);
        }
    return dm_fail(d);
}

static struct dm_node *maybe_with_args(struct dm *d, struct dm_node *a)
{
    return dm_peek(d) == 'I' ? dm_with_args(d, a) : a;
}

static struct dm_node *expression_list(struct dm *d, char stop)
{
    struct dm_list l = {0};

    while (!d->failed && !dm_eat(d, stop))
        dm_push(d, &l, dm_expression(d));
    return dm_make_list(d, DM_LIST, NULL, &l);
}

static struct dm_node *base_unresolved_name(struct dm *d)
{
    struct dm_node *a;

    if (dm_at(d, "on")) {
        d->p += 2;
        a = dm_operator(d, true, NULL);
    } else if (dm_at(d, "dn")) {
        d->p += 2;
        a = dm_is_digit(dm_peek(d)) ? dm_source_name(d) : dm_type(d, false);
        a = DM(d, DM_DTOR, a);
    } else if (dm_is_digit(dm_peek(d))) {
        a = dm_source_name(d);
    } else { /* GCC leaves the "on" out */
        a = dm_operator(d, true, NULL);
    }
    return maybe_with_args(d, a);
}

/* GCC may end the qualifiers without an E; what it read then was a name, whose scope is a substitution candidate. */
static struct dm_node *unended_scope(struct dm *d, struct dm_node *scope)
{
    struct dm_node *outer = scope->kids[0];

    if (outer->kind == DM_TEMPLATE)
        dm_add_sub(d, outer->kids[0]);
    dm_add_sub(d, outer);
    return scope;
}

static struct dm_node *scoped_name(struct dm *d)
{
    struct dm_node *scope = NULL, *a;

    if (dm_eat(d, 'N'))
        scope = dm_type(d, false);
    while (!d->failed && dm_peek(d) != 'E') {
        if (scope && d->p < d->end && !dm_is_digit(*d->p) && scope->kind == DM_QUALIFIED)
            return unended_scope(d, scope);
        a = dm_source_name(d);
        if (dm_peek(d) == 'I') {
            dm_add_sub(d, a);
            a = dm_with_args(d, a);
        }
        scope = scope ? DM(d, DM_QUALIFIED, scope, a) : a;
    }
    if (!scope || d->failed)
        return dm_fail(d);
    d->p++;
    return DM(d, DM_QUALIFIED, scope, base_unresolved_name(d));
}

static struct dm_node *unresolved_name(struct dm *d)
{
    struct dm_node *a, *type;

    if (dm_at(d, "gs")) {
        d->p += 2;
        a = dm_enter(d) ? unresolved_name(d) : &d->bad;
        dm_leave(d);
        return DM(d, DM_UNARY, operator_leaf(d, "::"), a);
    }
    if (!dm_at(d, "sr"))
        return base_unresolved_name(d);
    d->p += 2;
    if (!dm_peek(d) || !strchr("TDS", dm_peek(d)))
        return scoped_name(d);
    type = dm_type(d, false);
    a = DM(d, DM_QUALIFIED, type, base_unresolved_name(d));
    if (dm_peek(d) == 'I') {
        a = dm_with_args(d, a);
        dm_add_sub(d, a);
    }
    return a;
}

static struct dm_node *requirement(struct dm *d)
{
    struct dm_node *a, *type = NULL;
    bool is_noexcept;
    char c = *d->p++;

    switch (c) {
    case 'X':
        a = dm_expression(d);
        is_noexcept = dm_eat(d, 'N');
        if (dm_eat(d, 'R'))
            type = dm_name(d, NULL);
        a = DM(d, DM_EXPR_REQ, a, type);
        a->flag = is_noexcept;
        return a;
    case 'T':
        return DM(d, DM_TYPE_REQ, dm_type(d, false));
    case 'Q':
        return DM(d, DM_NESTED_REQ, dm_expression(d));
    default:
        return dm_fail(d);
    }
}

/* rq requirements E, rQ types _ requirements E */
static struct dm_node *requires_expression(struct dm *d)
{
    struct dm_list l = {0};
    struct dm_node *a;
    uint32_t n_params;
    bool has_params = dm_peek2(d) == 'Q';

    d->p += 2;
    if (has_params) {
        while (d->p < d->end && *d->p != '_')
            dm_push(d, &l, dm_type(d, false));
        dm_expect(d, '_');
    }
    n_params = l.n;
    while (d->p < d->end && *d->p != 'E')
        dm_push(d, &l, requirement(d));
    dm_expect(d, 'E');
    a = dm_make_list(d, DM_REQUIRES, NULL, &l);
    a->split = n_params;
    return a;
}

static bool is_array(const struct dm_node *a)
{
    return a->kind == DM_ARRAY || (a->kind == DM_TYPE_QUAL && a->kids[0]->kind == DM_ARRAY);
}

static struct dm_node *typed_literal(struct dm *d)
{
    struct dm_node *type = dm_type(d, false), *a;
    bool negative = dm_eat(d, 'n');
    const char *start = d->p;

    if (d->failed)
        return &d->bad;
    if (dm_peek(d) == 'E' && !(type->kind == DM_BUILTIN && str_is(type->text, "decltype(nullptr)"))) {
        d->p++;
        if (type->kind == DM_CLOSURE)
            return DM(d, DM_LAMBDA, type);
        return is_array(type) ? DM(d, DM_STRING, type) : dm_fail(d);
    }
    while (d->p < d->end && *d->p != 'E')
        d->p++;
    a = DM(d, DM_LITERAL, type);
    a->text = (struct str){start, (uint32_t) (d->p - start)};
    a->flag = negative;
    dm_expect(d, 'E');
    return a;
}

/* L type value E, L _Z encoding E */
struct dm_node *dm_primary(struct dm *d)
{
    struct dm_node *a;

    d->p++;
    if (dm_peek(d) != '_' && dm_peek(d) != 'Z')
        return typed_literal(d);
    dm_eat(d, '_'); /* old g++ leaves it out */
    dm_expect(d, 'Z');
    a = dm_encoding(d, true, false);
    dm_expect(d, 'E');
    return a;
}

struct dm_node *dm_constraint(struct dm *d)
{
    struct dm_node *a;
    bool hold = d->in_constraint;

    d->p++;
    d->in_constraint = true;
    a = dm_expression(d);
    d->in_constraint = hold;
    return a;
}

static struct dm_node *function_param(struct dm *d)
{
    d->p++;
    if (dm_eat(d, 'L'))
        dm_number(d); /* scopes out: not shown */
    dm_expect(d, 'p');
    if (d->p < d->end && d->p[-2] == 'f' && dm_eat(d, 'T'))
        return dm_leaf(d, DM_FPARAM, STR(""), 0);
    dm_cv_qualifiers(d);
    return dm_leaf(d, DM_FPARAM, STR(""), dm_compact_number(d) + 1);
}

static int optional_number(struct dm *d)
{
    return dm_peek(d) == 'n' || dm_is_digit(dm_peek(d)) ? dm_number(d) : 0;
}

/* so type expression [offset] (_ [selector])* [p] E; mc type expression [offset] E */
static struct dm_node *object_expression(struct dm *d, enum dm_kind kind)
{
    struct dm_node *type, *a;

    d->p += 2;
    type = dm_type(d, false);
    a = DM(d, kind, type, dm_expression(d));
    a->num = optional_number(d);
    if (kind == DM_SUBOBJECT) {
        while (dm_eat(d, '_'))
            optional_number(d);
        dm_eat(d, 'p');
    }
    dm_expect(d, 'E');
    return a;
}

/* u name arguments E; __uuidof takes t type or z expression */
static struct dm_node *vendor_expression(struct dm *d)
{
    struct dm_list l = {0};
    struct dm_node *name;

    d->p++;
    name = dm_source_name(d);
    if (str_is(name->text, "__uuidof") && (dm_peek(d) == 't' || dm_peek(d) == 'z') && d->end - d->p > 1) {
        bool is_type = *d->p++ == 't';

        dm_push(d, &l, is_type ? dm_type(d, false) : dm_expression(d));
    } else {
        while (!d->failed && !dm_eat(d, 'E'))
            dm_push(d, &l, dm_template_arg(d, NULL));
    }
    return DM(d, DM_BINARY, operator_leaf(d, "()"), name, dm_make_list(d, DM_LIST, NULL, &l));
}

static struct dm_node *pack_expression(struct dm *d, char c)
{
    struct dm_list l = {0};
    struct dm_node *a, *pack;

    d->p += 2;
    if (c == 'P') {
        while (!d->failed && !dm_eat(d, 'E'))
            dm_push(d, &l, dm_template_arg(d, NULL));
        return dm_make_list(d, DM_SIZEOF_ARGS, NULL, &l);
    }
    a = dm_expression(d);
    pack = d->failed ? NULL : dm_find_pack(d, a);
    if (c == 'Z' && !pack)
        return dm_fail(d);
    a = c == 'Z' ? dm_make(d, DM_SIZEOF_PACK, NULL, 0) : DM(d, DM_EXPANSION, a);
    a->ref = pack;
    return a;
}

static struct dm_node *unary_expression(struct dm *d, struct dm_node *op, const char *code)
{
    bool postfix = false;
    struct dm_node *operand, *a;

    if (memcmp(code, "pp", 2) == 0 || memcmp(code, "mm", 2) == 0)
        postfix = !dm_eat(d, '_');
    if (op->kind == DM_CAST && dm_eat(d, '_'))
        operand = expression_list(d, 'E');
    else
        operand = dm_expression(d);
    a = DM(d, DM_UNARY, op, operand);
    a->flag = postfix;
    return a;
}

static struct dm_node *fold_expression(struct dm *d, char side, int operands)
{
    struct dm_node *op = dm_operator(d, true, NULL), *first = dm_expression(d), *second = NULL, *a;

    if (operands == 2)
        second = dm_expression(d);
    a = DM(d, DM_FOLD, op, first, second);
    a->flag = side == 'l' || side == 'L';
    return a;
}

static struct dm_node *binary_expression(struct dm *d, struct dm_node *op, const char *code)
{
    struct dm_node *left, *right;

    if (code[0] == 'f')
        return fold_expression(d, code[1], 1);
    if (code[1] == 'c' && strchr("sdcr", code[0]))
        left = dm_type(d, false);
    else if (memcmp(code, "di", 2) == 0)
        left = dm_unqualified_name(d, NULL, NULL);
    else
        left = dm_expression(d);
    if (code[0] == 'c' && (code[1] == 'l' || code[1] == 'p')) {
        right = expression_list(d, 'E');
    } else if (code[1] == 't' && (code[0] == 'd' || code[0] == 'p')) {
        right = dm_peek(d) == 'L' ? dm_primary(d) : maybe_with_args(d, unresolved_name(d));
    } else {
        right = dm_expression(d);
    }
    return DM(d, DM_BINARY, op, left, right);
}

static struct dm_node *new_expression(struct dm *d, struct dm_node *op)
{
    struct dm_node *place = expression_list(d, '_'), *type = dm_type(d, false), *init = NULL;

    if (dm_at(d, "pi")) {
        d->p += 2;
        init = expression_list(d, 'E');
    } else if (dm_at(d, "il")) {
        init = dm_expression(d);
    } else {
        dm_expect(d, 'E');
    }
    return DM(d, DM_NEW, op, place->n_kids ? place : NULL, type, init);
}

static struct dm_node *operator_expression(struct dm *d)
{
    const char *code = d->p;
    int args;
    struct dm_node *op = dm_operator(d, true, &args), *first, *second;

    if (d->failed)
        return &d->bad;
    switch (args) {
    case 0:
        return DM(d, DM_NULLARY, op);
    case 1:
        return unary_expression(d, op, code);
    case 2:
        return binary_expression(d, op, code);
    case 3:
        if (code[0] == 'n')
            return new_expression(d, op);
        if (code[0] == 'f')
            return fold_expression(d, code[1], 2);
        first = dm_expression(d);
        second = dm_expression(d);
        return DM(d, DM_TRINARY, op, first, second, dm_expression(d));
    default:
        return dm_fail(d);
    }
}

static struct dm_node *braced_list(struct dm *d)
{
    struct dm_node *type = NULL;
    bool typed = *d->p == 't';

    d->p += 2;
    if (typed)
        type = dm_type(d, false);
    return DM(d, DM_INIT_LIST, type, expression_list(d, 'E'));
}

static struct dm_node *s_expression(struct dm *d)
{
    struct dm_node *op, *a;

    switch (dm_peek2(d)) {
    case 'o':
        return object_expression(d, DM_SUBOBJECT);
    case 'r':
        return unresolved_name(d);
    case 'p':
    case 'Z':
    case 'P':
        return pack_expression(d, dm_peek2(d));
    case 't':
        op = dm_operator(d, true, NULL);
        a = DM(d, DM_UNARY, op, dm_type(d, false));
        a->flag2 = true;
        return a;
    default:
        return operator_expression(d);
    }
}

static struct dm_node *expression_inside(struct dm *d)
{
    char c = dm_peek(d), c2 = dm_peek2(d);

    if (c == 'L')
        return dm_primary(d);
    if (c == 'T')
        return dm_template_param(d);
    if (c == 's')
        return s_expression(d);
    if (c == 'f' && (c2 == 'p' || (c2 == 'L' && d->end - d->p > 2 && dm_is_digit(d->p[2]))))
        return function_param(d);
    if (c == 'm' && c2 == 'c')
        return object_expression(d, DM_PTRMEM_CAST);
    if (dm_is_digit(c) || (c == 'o' && c2 == 'n')) {
        if (c == 'o')
            d->p += 2;
        return maybe_with_args(d, dm_unqualified_name(d, NULL, NULL));
    }
    if ((c == 'i' || c == 't') && c2 == 'l')
        return braced_list(d);
    if (c == 'u')
        return vendor_expression(d);
    if (c == 'r' && (c2 == 'q' || c2 == 'Q'))
        return requires_expression(d);
    return operator_expression(d);
}

struct dm_node *dm_expression(struct dm *d)
{
    struct dm_node *a = dm_enter(d) ? expression_inside(d) : &d->bad;

    dm_leave(d);
    return a;
}
