/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ names (Itanium ABI, chapter 5.1.2 to 5.1.5): nested, local and unscoped names, and the numbers in them.
 *
 *   name         = N … E (nested) | Z encoding E … (local) | [St] unqualified [I…E] | S…_ I…E
 *   unqualified  = length source-name | operator | L name | U{l,t,b}… | DC name* E,   each with B tag*
 */
#include "demangle/demangle_cxx.h"

int dm_number(struct dm *d)
{
    bool negative = dm_eat(d, 'n');
    int v = 0;

    if (!dm_is_digit(dm_peek(d)))
        dm_fail(d);
    while (dm_is_digit(dm_peek(d))) {
        if (v >= (int) (0x80000000u / 10 - 10)) {
            dm_fail(d);
            return 0;
        }
        v = v * 10 + (*d->p++ - '0');
    }
    return negative ? -v : v;
}

/* [number] "_": 0 without a number, else one more than it. */
int dm_compact_number(struct dm *d)
{
    int v;

    if (dm_eat(d, '_'))
        return 0;
    if (dm_peek(d) == 'n')
        dm_fail(d);
    v = dm_number(d);
    dm_expect(d, '_');
    return v + 1;
}

/* Digits in base 36 up to "_" (or, with eof_ok, the end): 0 for none, else one more than they say. */
int dm_seq_id(struct dm *d, bool eof_ok)
{
    const int most = (int) (0x80000000u / 36 - 36);
    int v = 0, digit;

    if (dm_eat(d, '_'))
        return 0;
    for (; d->p < d->end && *d->p != '_'; d->p++) {
        digit = dm_is_digit(*d->p) ? *d->p - '0' : dm_is_upper(*d->p) ? *d->p - 'A' + 10 : -1;
        if (digit < 0 || v >= most) {
            dm_fail(d);
            return 0;
        }
        v = v * 36 + digit;
    }
    if (d->p >= d->end ? !eof_ok || d->failed : v >= most || !dm_eat(d, '_')) {
        dm_fail(d);
        return 0;
    }
    return v + 1;
}

struct dm_node *dm_source_name(struct dm *d)
{
    int n = dm_number(d);
    struct str id;

    if (d->failed || n <= 0 || d->end - d->p < n)
        return dm_fail(d);
    id = (struct str){d->p, (uint32_t) n};
    d->p += n;
    if (str_starts(id, STR("_GLOBAL_")) && id.n > 10 && strchr("._$", id.p[8]) && id.p[8] && id.p[9] == 'N')
        id = STR("(anonymous namespace)");
    return dm_leaf(d, DM_NAME, id, 0);
}

struct dm_node *dm_tagged_name(struct dm *d, struct dm_node *a)
{
    while (dm_eat(d, 'B'))
        a = DM(d, DM_TAGGED, a, dm_source_name(d));
    return a;
}

struct dm_node *dm_module_name(struct dm *d, struct dm_node *parent)
{
    while (dm_eat(d, 'W')) {
        bool partition = dm_eat(d, 'P');

        parent = DM(d, DM_MODULE_NAME, parent, dm_source_name(d));
        parent->flag = partition;
        dm_add_sub(d, parent);
    }
    return parent;
}

/* _ digit, __ number _, or (clang) digits up to the end; not shown. */
static void skip_discriminator(struct dm *d)
{
    bool two;
    int v;

    if (dm_peek(d) != '_') {
        const char *q = d->p;

        while (q < d->end && dm_is_digit(*q))
            q++;
        if (q == d->end)
            d->p = q;
        return;
    }
    d->p++;
    two = dm_eat(d, '_');
    v = dm_number(d);
    if (v < 0)
        dm_fail(d);
    if (two && v >= 10)
        dm_expect(d, '_');
}

static struct dm_node *structured_bindings(struct dm *d)
{
    struct dm_list names = {0};

    d->p += 2;
    do
        dm_push(d, &names, dm_source_name(d));
    while (!d->failed && !dm_eat(d, 'E'));
    return dm_make_list(d, DM_BINDINGS, NULL, &names);
}

static struct dm_node *operator_or_literal(struct dm *d, bool *ret_cast)
{
    struct dm_node *a = dm_operator(d, false, NULL);

    *ret_cast = a->kind == DM_CAST;
    if (a->kind == DM_OPERATOR && str_is(a->text, "operator\"\" "))
        a = DM(d, DM_UNARY, a, dm_source_name(d));
    return a;
}

static struct dm_node *unnamed_entity(struct dm *d)
{
    switch (dm_peek2(d)) {
    case 'b':
        d->p += 2;
        dm_compact_number(d);
        return dm_leaf(d, DM_NAME, STR("'block-literal'"), 0);
    case 'l':
        return dm_closure(d);
    case 't':
        return dm_unnamed(d);
    default:
        return dm_fail(d);
    }
}

struct dm_node *dm_unqualified_name(struct dm *d, struct dm_node *module, bool *ret_cast)
{
    struct dm_node *a;
    bool is_friend, cast = false;
    char c;

    module = dm_module_name(d, module);
    is_friend = dm_eat(d, 'F');
    c = dm_peek(d);
    if (dm_is_digit(c)) {
        a = dm_source_name(d);
    } else if (dm_is_lower(c)) {
        a = operator_or_literal(d, &cast);
    } else if (dm_at(d, "DC")) {
        a = structured_bindings(d);
    } else if (c == 'L') {
        d->p++;
        a = dm_source_name(d);
        skip_discriminator(d);
    } else if (c == 'U') {
        a = unnamed_entity(d);
    } else {
        a = dm_fail(d);
    }
    if (module)
        a = DM(d, DM_MODULE_ENTITY, module, a);
    a = dm_tagged_name(d, a);
    if (is_friend)
        a = DM(d, DM_FRIEND, a);
    if (ret_cast)
        *ret_cast = cast;
    return a;
}

/* The template arguments here belong to name, which may be a conversion operator to one of them. */
static struct dm_node *with_args_of_cast(struct dm *d, struct dm_node *name, struct dm_node *cast)
{
    struct dm_node *tmpl = dm_with_args(d, name);

    if (cast && !d->failed) {
        dm_set_template(d, cast, tmpl);
        for (uint32_t i = 1; i < tmpl->n_kids; i++)
            dm_set_template(d, tmpl->kids[i], NULL);
    }
    return tmpl;
}

/* The name that a constructor or destructor repeats. */
static struct dm_node *last_name(struct dm_node *a)
{
    for (;;) {
        if (a->kind == DM_TEMPLATE || a->kind == DM_TAGGED)
            a = a->kids[0];
        else if (a->kind == DM_QUALIFIED)
            a = a->kids[1];
        else
            return a;
    }
}

static struct dm_node *constructor(struct dm *d, struct dm_node *last)
{
    struct dm_node *base = NULL;
    bool inheriting;

    d->p++;
    inheriting = dm_eat(d, 'I');
    if (d->p >= d->end || !last)
        return dm_fail(d);
    d->p++;
    if (inheriting)
        base = dm_type(d, false);
    return dm_tagged_name(d, DM(d, DM_CTOR, last_name(last), base));
}

static struct dm_node *destructor(struct dm *d, struct dm_node *last)
{
    if (d->end - d->p < 2 || !last)
        return dm_fail(d);
    d->p += 2;
    return dm_tagged_name(d, DM(d, DM_DTOR, last_name(last)));
}

struct prefix {
    struct dm_node *a, *last, *module, *cast;
};

/* Arguments up to E, the first a pack (J…E), where clang leaves the I out. */
static struct dm_node *bare_args(struct dm *d, struct dm_node *name)
{
    struct dm_list args = {0};

    while (!d->failed && dm_peek(d) != 'E')
        dm_push(d, &args, dm_template_arg(d, NULL));
    dm_expect(d, 'E');
    return dm_make_list(d, DM_TEMPLATE, name, &args);
}

static struct dm_node *prefix_args(struct dm *d, struct prefix *x, char c)
{
    struct dm_node *tmpl;

    if (!x->a)
        return dm_fail(d);
    if (c == 'I') {
        tmpl = with_args_of_cast(d, x->a, x->cast);
    } else {
        tmpl = bare_args(d, x->a);
        if (x->cast) {
            dm_set_template(d, x->cast, tmpl);
            for (uint32_t i = 1; i < tmpl->n_kids; i++)
                dm_set_template(d, tmpl->kids[i], NULL);
        }
    }
    x->cast = NULL;
    x->a = NULL;
    return tmpl;
}

static struct dm_node *prefix_unqualified(struct dm *d, struct prefix *x)
{
    bool is_cast;
    struct dm_node *a = dm_unqualified_name(d, x->module, &is_cast), *b = a;

    x->module = NULL;
    if (is_cast) {
        while (b->kind == DM_TAGGED)
            b = b->kids[0];
        x->cast = b->kind == DM_CAST ? b : dm_fail(d);
    }
    return a;
}

/* The next part of a nested name; NULL when it adds none (a module's name, a lambda's initializer). */
static struct dm_node *prefix_part(struct dm *d, struct prefix *x)
{
    struct dm_node *a;
    char c = dm_peek(d);

    if (dm_is_digit(c) || dm_is_lower(c) || (c && strchr("ULFW", c)) || dm_at(d, "DC"))
        return prefix_unqualified(d, x);
    switch (c) {
    case 'C':
        return constructor(d, x->last);
    case 'D':
        return dm_peek2(d) == 'T' || dm_peek2(d) == 't' ? dm_type(d, false) : destructor(d, x->last);
    case 'S':
        a = dm_substitution(d, true);
        if (a->kind != DM_MODULE_NAME)
            return a;
        x->module = a;
        return NULL;
    case 'I':
    case 'J':
        return prefix_args(d, x, c);
    case 'T':
        return dm_template_param(d);
    case 'M':
        d->p++;
        return x->a ? NULL : dm_fail(d);
    default:
        return dm_fail(d);
    }
}

static struct dm_node *nested_prefix(struct dm *d)
{
    struct prefix x = {0};

    while (!d->failed && (dm_peek(d) != 'E' || !x.a)) {
        char c = dm_peek(d);
        struct dm_node *next = prefix_part(d, &x);

        if (!next)
            continue;
        x.last = next;
        x.a = x.a ? DM(d, DM_QUALIFIED, x.a, next) : next;
        if (c != 'S' && dm_peek(d) != 'E')
            dm_add_sub(d, x.a);
        if (++d->steps > DM_STEPS_MAX)
            dm_fail(d);
    }
    if (d->failed)
        return &d->bad;
    if (x.cast) {
        struct dm_node *to = x.cast->kids[0];

        dm_set_template(d, x.cast, to->kind == DM_TEMPLATE ? to : NULL);
    }
    return x.a;
}

static struct dm_node *nested_name(struct dm *d, bool *ret_explicit_object)
{
    struct dm_node *a, *quals = NULL;
    struct str ref = STR("");

    d->p++;
    if (dm_eat(d, 'H')) {
        *ret_explicit_object = true;
    } else {
        quals = dm_cv_qualifiers(d);
        ref = dm_ref_qualifier(d);
    }
    a = nested_prefix(d);
    if (quals || ref.n) {
        a = DM(d, DM_METHOD_QUAL, a, quals);
        a->text = ref;
    }
    dm_expect(d, 'E');
    return a;
}

static struct dm_node *local_name(struct dm *d, bool *ret_explicit_object)
{
    struct dm_node *function, *a;
    int num = -1;

    d->p++;
    function = dm_encoding(d, true, true);
    dm_expect(d, 'E');
    if (dm_eat(d, 's')) {
        a = dm_leaf(d, DM_NAME, STR("string literal"), 0);
        skip_discriminator(d);
    } else {
        if (dm_eat(d, 'd'))
            num = dm_compact_number(d);
        a = dm_name(d, ret_explicit_object);
        skip_discriminator(d);
        if (num >= 0) {
            a = DM(d, DM_DEFAULT_ARG, a);
            a->num = num;
        }
    }
    a = DM(d, DM_QUALIFIED, function, a);
    a->flag = true;
    return a;
}

/* An unscoped name that may take template arguments; candidate: it becomes a substitution when it does. */
static struct dm_node *finish_unscoped(struct dm *d, struct dm_node *a, bool is_cast, bool candidate)
{
    if (dm_peek(d) == 'I') {
        if (candidate)
            dm_add_sub(d, a);
        return with_args_of_cast(d, a, is_cast ? a : NULL);
    }
    if (is_cast)
        dm_set_template(d, a, NULL);
    return a;
}

static struct dm_node *name_inside(struct dm *d, bool *ret_explicit_object)
{
    struct dm_node *a, *module = NULL;
    bool is_cast = false;

    switch (dm_peek(d)) {
    case 'N':
        return nested_name(d, ret_explicit_object);
    case 'Z':
        return local_name(d, ret_explicit_object);
    case 'U':
        a = dm_unqualified_name(d, NULL, &is_cast);
        if (is_cast)
            dm_set_template(d, a, NULL);
        return a;
    case 'S':
        if (dm_peek2(d) == 't') {
            d->p += 2;
            a = dm_unqualified_name(d, NULL, &is_cast);
            a = DM(d, DM_QUALIFIED, dm_leaf(d, DM_NAME, STR("std"), 0), a);
            return finish_unscoped(d, a, is_cast, true);
        }
        a = dm_substitution(d, false);
        if (a->kind != DM_MODULE_NAME)
            return finish_unscoped(d, a, false, false);
        module = a;
        break;
    default:
        break;
    }
    a = dm_unqualified_name(d, module, &is_cast);
    return finish_unscoped(d, a, is_cast, true);
}

struct dm_node *dm_name(struct dm *d, bool *ret_explicit_object)
{
    bool ignored;
    struct dm_node *a = dm_enter(d) ? name_inside(d, ret_explicit_object ? ret_explicit_object : &ignored) : &d->bad;

    dm_leave(d);
    return a;
}
