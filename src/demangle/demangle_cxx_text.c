/* SPDX-License-Identifier: Apache-2.0 */
/* C++ expressions and special names as text. Operands are in parentheses unless they are plain names. */
#include "demangle/demangle_cxx.h"

static bool is_operator(const struct dm_node *a, const char *text)
{
    return a->kind == DM_OPERATOR && str_is(a->text, text);
}

static void print_in(struct dm_printer *p, char open, struct dm_node *a, char close)
{
    dm_open(p, open);
    dm_print(p, a);
    dm_close(p, close);
}

static void print_operand(struct dm_printer *p, struct dm_node *a)
{
    switch (a->kind) {
    case DM_NAME:
    case DM_INIT_LIST:
    case DM_FPARAM:
        dm_print(p, a);
        break;
    case DM_QUALIFIED:
        if (!a->flag) {
            dm_print(p, a);
            break;
        }
        /* fall through */
    default:
        print_in(p, '(', a, ')');
    }
}

static void print_unary_operator(struct dm_printer *p, struct dm_node *op)
{
    if (op->kind == DM_OPERATOR)
        dm_put_str(p, op->text);
    else if (op->kind == DM_CAST)
        print_in(p, '(', op->kids[0], ')');
    else
        dm_print(p, op);
}

static void print_unary(struct dm_printer *p, struct dm_node *a)
{
    struct dm_node *op = a->kids[0], *x = a->kids[1];

    if (is_operator(op, "&") && x->kind == DM_TYPED && x->kids[1]->kind == DM_FUNCTION)
        x = x->kids[0]; /* the address of a function: only its name is printed */
    if (a->flag)
        print_operand(p, x);
    print_unary_operator(p, op);
    if (a->flag)
        return;
    if (is_operator(op, "::"))
        dm_print(p, x);
    else if (a->flag2 || is_operator(op, "__alignof__"))
        print_in(p, '(', x, ')');
    else
        print_operand(p, x);
}

/* .name=…, [index]=… and [from ... to]=… in braces. */
static bool is_designated(const struct dm_node *a)
{
    if (a->kind == DM_BINARY && a->kids[0]->kind == DM_OPERATOR)
        return is_operator(a->kids[0], "]=") || (is_operator(a->kids[0], "=") && a->kids[1]->kind != DM_LITERAL);
    return a->kind == DM_TRINARY && is_operator(a->kids[0], "[...]=");
}

static void print_designated_value(struct dm_printer *p, struct dm_node *a)
{
    if (is_designated(a)) {
        dm_print(p, a);
        return;
    }
    dm_put(p, "=");
    print_operand(p, a);
}

static void print_designated(struct dm_printer *p, struct dm_node *a)
{
    if (a->kind == DM_TRINARY) {
        dm_put(p, "[");
        dm_print(p, a->kids[1]);
        dm_put(p, " ... ");
        dm_print(p, a->kids[2]);
        dm_put(p, "]");
        print_designated_value(p, a->kids[3]);
        return;
    }
    dm_put(p, is_operator(a->kids[0], "=") ? "." : "[");
    dm_print(p, a->kids[1]);
    if (is_operator(a->kids[0], "]="))
        dm_put(p, "]");
    print_designated_value(p, a->kids[2]);
}

/* static_cast<left>(right) and the other named casts */
static void print_named_cast(struct dm_printer *p, struct dm_node *a)
{
    int scopes = p->scopes;

    dm_put_str(p, a->kids[0]->text);
    p->scopes = 0;
    dm_put(p, "<");
    dm_print(p, a->kids[1]);
    dm_put(p, ">");
    p->scopes = scopes;
    print_in(p, '(', a->kids[2], ')');
}

static void print_left(struct dm_printer *p, struct dm_node *op, struct dm_node *left)
{
    if (is_operator(op, "()") && left->kind == DM_TYPED) {
        if (left->kids[1]->kind == DM_FUNCTION && left->kids[1]->kids[0]) {
            dm_print(p, left);
            return;
        }
        left = left->kids[0]; /* a call: only the function's name is printed */
    }
    print_operand(p, left);
}

static void print_binary(struct dm_printer *p, struct dm_node *a)
{
    struct dm_node *op = a->kids[0];
    bool outer = is_operator(op, ">") || is_operator(op, ">>");

    if (op->kind == DM_OPERATOR && str_find(op->text, STR("cast")) >= 0) {
        print_named_cast(p, a);
        return;
    }
    if (is_designated(a)) {
        print_designated(p, a);
        return;
    }
    if (outer)
        dm_open(p, '(');
    print_left(p, op, a->kids[1]);
    if (is_operator(op, "[]")) {
        dm_put(p, "[");
        dm_print(p, a->kids[2]);
        dm_put(p, "]");
        return;
    }
    if (op->kind != DM_OPERATOR)
        dm_print(p, op);
    else if (!is_operator(op, "()"))
        dm_put_str(p, op->text);
    print_operand(p, a->kids[2]);
    if (outer)
        dm_close(p, ')');
}

static void print_trinary(struct dm_printer *p, struct dm_node *a)
{
    if (is_designated(a)) {
        print_designated(p, a);
        return;
    }
    print_operand(p, a->kids[1]);
    dm_put(p, "?");
    print_operand(p, a->kids[2]);
    dm_put(p, " : ");
    print_operand(p, a->kids[3]);
}

static void print_fold(struct dm_printer *p, struct dm_node *a)
{
    dm_open(p, '(');
    if (!a->kids[2] && a->flag) {
        dm_put(p, "...");
        print_unary_operator(p, a->kids[0]);
        print_operand(p, a->kids[1]);
    } else {
        print_operand(p, a->kids[1]);
        print_unary_operator(p, a->kids[0]);
        dm_put(p, "...");
        if (a->kids[2]) {
            print_unary_operator(p, a->kids[0]);
            print_operand(p, a->kids[2]);
        }
    }
    dm_close(p, ')');
}

static void print_new(struct dm_printer *p, struct dm_node *a)
{
    dm_put(p, "new ");
    if (a->kids[1]) {
        print_operand(p, a->kids[1]);
        dm_put(p, " ");
    }
    dm_print(p, a->kids[2]);
    if (a->kids[3])
        print_operand(p, a->kids[3]);
}

static void print_value(struct dm_printer *p, struct dm_node *a)
{
    if (a->flag)
        dm_put(p, "-");
    dm_put_str(p, a->text);
}

static void print_literal(struct dm_printer *p, struct dm_node *a)
{
    static const char *const suffixes[][2] = {
        {"int", ""},         {"unsigned int", "u"},         {"long", "l"}, {"unsigned long", "ul"},
        {"long long", "ll"}, {"unsigned long long", "ull"},
    };
    static const char *const floats[] = {"double", "long double", "float", "__float128", "half"};
    struct str type = a->kids[0]->kind == DM_BUILTIN ? a->kids[0]->text : STR("");
    bool is_float = false;

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
        if (str_is(type, suffixes[i][0])) {
            print_value(p, a);
            dm_put(p, suffixes[i][1]);
            return;
        }
    if (str_is(type, "bool") && !a->flag && (str_is(a->text, "0") || str_is(a->text, "1"))) {
        dm_put(p, a->text.p[0] == '1' ? "true" : "false");
        return;
    }
    if (str_is(type, "decltype(nullptr)") && (a->text.n == 0 || str_is(a->text, "0"))) {
        dm_print(p, a->kids[0]);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(floats); i++)
        is_float = is_float || str_is(type, floats[i]);
    print_in(p, '(', a->kids[0], ')');
    dm_put(p, is_float ? "[" : "");
    print_value(p, a);
    dm_put(p, is_float ? "]" : "");
}

static int count_args(const struct dm_node *a)
{
    int n = 0;

    for (uint32_t i = 0; i < a->n_kids; i++)
        n += a->kids[i]->kind == DM_PACK || a->kids[i]->kind == DM_LIST ? (int) a->kids[i]->n_kids : 1;
    return n;
}

static void print_number(struct dm_printer *p, int v)
{
    char text[16];
    size_t n = sizeof(text);

    text[--n] = 0;
    do
        text[--n] = (char) ('0' + v % 10);
    while (v /= 10);
    dm_put(p, text + n);
}

static void print_subobject(struct dm_printer *p, struct dm_node *a)
{
    dm_print(p, a->kids[1]);
    dm_put(p, ".<");
    dm_print(p, a->kids[0]);
    dm_put(p, " at offset ");
    if (a->num < 0)
        dm_put(p, "-");
    print_number(p, a->num < 0 ? -a->num : a->num);
    dm_put(p, ">");
}

static void print_requires(struct dm_printer *p, struct dm_node *a)
{
    dm_put(p, "requires");
    if (a->split) {
        dm_put(p, " ");
        dm_open(p, '(');
        dm_print_list(p, a->kids, a->split, false);
        dm_close(p, ')');
    }
    dm_put(p, " ");
    dm_open(p, '{');
    for (uint32_t i = a->split; i < a->n_kids; i++)
        dm_print(p, a->kids[i]);
    dm_put(p, " ");
    dm_close(p, '}');
}

static void print_requirement(struct dm_printer *p, struct dm_node *a)
{
    if (a->kind == DM_EXPR_REQ && (a->flag || a->kids[1])) {
        dm_put(p, " ");
        print_in(p, '{', a->kids[0], '}');
    } else {
        dm_put(p, a->kind == DM_EXPR_REQ ? " " : a->kind == DM_TYPE_REQ ? " typename " : " requires ");
        dm_print(p, a->kids[0]);
    }
    if (a->kind == DM_EXPR_REQ && a->flag)
        dm_put(p, " noexcept");
    if (a->kind == DM_EXPR_REQ && a->kids[1]) {
        dm_put(p, " -> ");
        dm_print(p, a->kids[1]);
    }
    dm_put(p, ";");
}

static void print_pack(struct dm_printer *p, struct dm_node *a)
{
    for (uint32_t i = 0; i < a->n_kids; i++) {
        if (i)
            dm_put(p, ", ");
        dm_print(p, a->kids[i]);
    }
}

static void print_expansion(struct dm_printer *p, struct dm_node *a)
{
    if (a->ref) {
        dm_print(p, a->kids[0]);
    } else {
        print_operand(p, a->kids[0]);
        dm_put(p, "...");
    }
}

static void print_lambda(struct dm_printer *p, struct dm_node *a)
{
    dm_put(p, "[]");
    if (a->kids[0]->kind == DM_CLOSURE)
        dm_print_closure_types(p, a->kids[0]);
    dm_put(p, "{...}");
}

static void print_init_list(struct dm_printer *p, struct dm_node *a)
{
    if (a->kids[0])
        dm_print(p, a->kids[0]);
    dm_put(p, "{");
    dm_print(p, a->kids[1]);
    dm_put(p, "}");
}

static void print_string(struct dm_printer *p, struct dm_node *a)
{
    dm_put(p, "\"<");
    dm_print_kind(p, a->kids[0]);
    dm_put(p, ">\"");
}

static void print_ptrmem_cast(struct dm_printer *p, struct dm_node *a)
{
    dm_open(p, '(');
    dm_print(p, a->kids[0]);
    dm_put(p, ")(");
    dm_print(p, a->kids[1]);
    dm_close(p, ')');
}

static void print_sizeof_args(struct dm_printer *p, struct dm_node *a)
{
    print_number(p, count_args(a));
}

static void print_nullary(struct dm_printer *p, struct dm_node *a)
{
    print_unary_operator(p, a->kids[0]);
}

/* False when a is not an expression. */
bool dm_print_expression(struct dm_printer *p, struct dm_node *a)
{
    static void (*const printers[DM_NESTED_REQ + 1])(struct dm_printer *, struct dm_node *) = {
        [DM_NULLARY] = print_nullary,
        [DM_UNARY] = print_unary,
        [DM_BINARY] = print_binary,
        [DM_TRINARY] = print_trinary,
        [DM_FOLD] = print_fold,
        [DM_SUBOBJECT] = print_subobject,
        [DM_PTRMEM_CAST] = print_ptrmem_cast,
        [DM_NEW] = print_new,
        [DM_LITERAL] = print_literal,
        [DM_STRING] = print_string,
        [DM_LAMBDA] = print_lambda,
        [DM_LIST] = print_pack,
        [DM_INIT_LIST] = print_init_list,
        [DM_SIZEOF_ARGS] = print_sizeof_args,
        [DM_REQUIRES] = print_requires,
        [DM_EXPR_REQ] = print_requirement,
        [DM_TYPE_REQ] = print_requirement,
        [DM_NESTED_REQ] = print_requirement,
        [DM_PACK] = print_pack,
        [DM_EXPANSION] = print_expansion,
    };

    if (!printers[a->kind])
        return false;
    printers[a->kind](p, a);
    return true;
}

static void print_module_name(struct dm_printer *p, struct dm_node *a)
{
    if (a->kids[0])
        dm_print(p, a->kids[0]);
    if (a->flag)
        dm_put_char(p, ':');
    else if (a->kids[0])
        dm_put_char(p, '.');
    dm_print(p, a->kids[1]);
}

void dm_print_two(struct dm_printer *p, struct dm_node *a, const char *before, const char *between, const char *after)
{
    dm_put(p, before);
    dm_print(p, a->kids[0]);
    dm_put(p, between);
    dm_print(p, a->kids[1]);
    dm_put(p, after);
}

bool dm_print_special(struct dm_printer *p, struct dm_node *a)
{
    switch (a->kind) {
    case DM_GLOBAL_CDTOR:
        dm_put(p, a->flag ? "global constructors keyed to " : "global destructors keyed to ");
        dm_print(p, a->kids[0]);
        return true;
    case DM_CLONE:
        dm_print(p, a->kids[0]);
        dm_put(p, " [clone ");
        dm_put_str(p, a->text);
        dm_put(p, "]");
        return true;
    case DM_SPECIAL:
        dm_put_str(p, a->text);
        dm_print(p, a->kids[0]);
        return true;
    case DM_SPECIAL2:
        dm_print_two(p, a, "construction vtable for ", "-in-", "");
        return true;
    case DM_ENABLE_IF:
        dm_print(p, a->kids[0]);
        dm_put(p, " [enable_if:");
        dm_print_list(p, a->kids + 1, a->n_kids - 1, false);
        dm_put(p, "]");
        return true;
    case DM_MODULE_NAME:
        print_module_name(p, a);
        return true;
    case DM_MODULE_ENTITY:
        dm_print(p, a->kids[1]);
        dm_put_char(p, '@');
        dm_print(p, a->kids[0]);
        return true;
    case DM_CONSTRAINT:
        dm_print_two(p, a, "", " requires ", "");
        return true;
    default:
        return false;
    }
}
