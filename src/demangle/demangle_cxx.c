/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ names (Itanium ABI, chapter 5.1): the entry point, encodings and special names.
 *
 *   encoding     = name type* | special
 */
#include "demangle/demangle_cxx.h"

#include <errno.h>

#include "demangle/demangle.h"

/* True when the mangled form of a function with this name has its return type. */
static bool is_cdtor_or_cast(const struct dm_node *a)
{
    while (a->kind == DM_QUALIFIED)
        a = a->kids[1];
    return a->kind == DM_CTOR || a->kind == DM_DTOR || a->kind == DM_CAST;
}

static bool has_return_type(const struct dm_node *a)
{
    for (;;) {
        if (a->kind == DM_TEMPLATE)
            return !is_cdtor_or_cast(a->kids[0]);
        if (a->kind == DM_QUALIFIED && a->flag)
            a = a->kids[1];
        else if (a->kind == DM_TYPE_QUAL || a->kind == DM_METHOD_QUAL)
            a = a->kids[0];
        else
            return false;
    }
}

/* The template whose arguments the parameters' types may name. */
static struct dm_node *template_of(struct dm_node *a)
{
    while (a) {
        if (a->kind == DM_TEMPLATE)
            return a;
        if (a->kind == DM_QUALIFIED && (a->flag || a->kids[1]->kind == DM_CTOR))
            a = a->kids[1];
        else if (a->kind == DM_METHOD_QUAL)
            a = a->kids[0];
        else if (a->kind == DM_CTOR)
            a = a->kids[1];
        else
            return NULL;
    }
    return NULL;
}

/* Removes the qualifiers of `this` from a (also from a local name's last part); *ret is the node that had them, or
 * NULL. */
static struct dm_node *take_qualifiers(struct dm_node *a, struct dm_node **ret)
{
    struct dm_node **slot;

    *ret = NULL;
    if (a->kind == DM_METHOD_QUAL) {
        *ret = a;
        return a->kids[0];
    }
    if (a->kind != DM_QUALIFIED || !a->flag)
        return a;
    slot = &a->kids[1];
    if ((*slot)->kind == DM_DEFAULT_ARG)
        slot = &(*slot)->kids[0];
    if ((*slot)->kind == DM_METHOD_QUAL) {
        *ret = *slot;
        *slot = (*slot)->kids[0];
    }
    return a;
}

static struct dm_node *encoding_parameters(struct dm *d, struct dm_node *a, bool local, bool explicit_object)
{
    struct dm_node *tmpl = template_of(a), *type, *constraint = NULL, *quals, *r;
    struct dm_list enable_if = {0};
    uint32_t level = d->lambda_level;

    if (tmpl) {
        dm_push(d, &d->templates, tmpl);
        d->lambda_level = 0;
    }
    if (d->end - d->p >= 13 && memcmp(d->p, "Ua9enable_ifI", 13) == 0) {
        d->p += 12;
        enable_if = dm_template_args(d);
    }
    type = dm_bare_function(d, has_return_type(a), explicit_object);
    if (dm_peek(d) == 'Q')
        constraint = dm_constraint(d);
    if (d->failed)
        return &d->bad;
    if (tmpl) {
        d->templates.n--;
        d->lambda_level = level;
    }
    type = dm_simplify(d, type);
    if (local && type->kind == DM_FUNCTION)
        type->flag = true;
    for (int i = 0; i < 2; i++) { /* a's own, then those of a local name's last part */
        a = take_qualifiers(a, &quals);
        if (quals) {
            quals->kids[0] = type;
            type = quals;
        }
    }
    r = DM(d, DM_TYPED, a, type);
    if (enable_if.n)
        r = dm_make_list(d, DM_ENABLE_IF, r, &enable_if);
    return constraint ? DM(d, DM_CONSTRAINT, r, constraint) : r;
}

static struct dm_node *special_name(struct dm *d);

static struct dm_node *encoding_inside(struct dm *d, bool params, bool local)
{
    struct dm_node *a, *quals;
    bool explicit_object = false;

    if (dm_peek(d) == 'G' || dm_peek(d) == 'T')
        return special_name(d);
    a = dm_simplify(d, dm_name(d, &explicit_object));
    if (d->failed)
        return &d->bad;
    if (!params) {
        a = take_qualifiers(a, &quals);
        return take_qualifiers(a, &quals);
    }
    if (d->p >= d->end || *d->p == 'E') /* data */
        return a;
    return encoding_parameters(d, a, local, explicit_object);
}

struct dm_node *dm_encoding(struct dm *d, bool params, bool local)
{
    struct dm_node *a = dm_enter(d) ? encoding_inside(d, params, local) : &d->bad;

    dm_leave(d);
    return a;
}

static struct dm_node *special(struct dm *d, const char *prefix, struct dm_node *a)
{
    struct dm_node *s = DM(d, DM_SPECIAL, a);

    s->text = str_from(prefix);
    return s;
}

static void skip_call_offset(struct dm *d, char c)
{
    if (!c && d->p < d->end)
        c = *d->p++;
    if (c != 'h' && c != 'v')
        dm_fail(d);
    dm_number(d);
    if (c == 'v') {
        dm_expect(d, '_');
        dm_number(d);
    }
    dm_expect(d, '_');
}

static struct dm_node *construction_vtable(struct dm *d)
{
    struct dm_node *derived = dm_type(d, false), *base;

    if (dm_number(d) < 0)
        dm_fail(d);
    dm_expect(d, '_');
    base = dm_type(d, false);
    return DM(d, DM_SPECIAL2, base, derived);
}

static struct dm_node *java_resource(struct dm *d)
{
    struct buf text;
    struct str copy;
    int n = dm_number(d);

    dm_expect(d, '_');
    n--;
    if (d->failed || n <= 0 || d->end - d->p < n)
        return dm_fail(d);
    buf_init(&text, DEMANGLE_OUTPUT_MAX);
    for (int i = 0; i < n; i++) {
        char c = d->p[i];

        if (c == '$') {
            c = ++i < n ? d->p[i] : 0;
            c = c == 'S' ? '/' : c == '_' ? '.' : c == '$' ? '$' : 0;
            if (!c)
                dm_fail(d);
        }
        if (d->failed)
            break;
        buf_putc(&text, c);
    }
    copy = arena_str(&d->arena, buf_str(&text));
    if (buf_error(&text) || copy.n != text.n)
        dm_fail(d);
    buf_done(&text);
    if (d->failed)
        return &d->bad;
    d->p += n;
    return special(d, "java resource ", dm_leaf(d, DM_NAME, copy, 0));
}

static struct dm_node *special_t(struct dm *d)
{
    static const struct {
        char c;
        const char *prefix;
    } of_types[] = {
        {'V', "vtable for "},        {'T', "VTT for "},         {'I', "typeinfo for "},
        {'S', "typeinfo name for "}, {'F', "typeinfo fn for "}, {'J', "java Class for "},
    };
    char c = dm_peek(d);

    if (c)
        d->p++;
    for (size_t i = 0; i < ARRAY_SIZE(of_types); i++)
        if (of_types[i].c == c)
            return special(d, of_types[i].prefix, dm_type(d, false));
    switch (c) {
    case 'A':
        return special(d, "template parameter object for ", dm_template_arg(d, NULL));
    case 'h':
    case 'v':
        skip_call_offset(d, c);
        return special(d, c == 'h' ? "non-virtual thunk to " : "virtual thunk to ", dm_encoding(d, true, false));
    case 'c':
        skip_call_offset(d, 0);
        skip_call_offset(d, 0);
        return special(d, "covariant return thunk to ", dm_encoding(d, true, false));
    case 'C':
        return construction_vtable(d);
    case 'H':
        return special(d, "TLS init function for ", dm_name(d, NULL));
    case 'W':
        return special(d, "TLS wrapper function for ", dm_name(d, NULL));
    default:
        return dm_fail(d);
    }
}

static struct dm_node *special_g(struct dm *d)
{
    struct dm_node *a;
    char c = dm_peek(d);

    if (c)
        d->p++;
    switch (c) {
    case 'V':
        return special(d, "guard variable for ", dm_name(d, NULL));
    case 'R':
        a = dm_name(d, NULL);
        dm_seq_id(d, true);
        return special(d, "reference temporary for ", a);
    case 'A':
        return special(d, "hidden alias for ", dm_encoding(d, true, false));
    case 'T':
        c = dm_peek(d);
        if (c)
            d->p++;
        return special(d, c == 'n' ? "non-transaction clone for " : "transaction clone for ",
                       dm_encoding(d, true, false));
    case 'r':
        return java_resource(d);
    case 'I':
        a = dm_module_name(d, NULL);
        return a ? special(d, "initializer for module ", a) : dm_fail(d);
    default:
        return dm_fail(d);
    }
}

static struct dm_node *special_name(struct dm *d)
{
    char c = *d->p++;

    return c == 'T' ? special_t(d) : special_g(d);
}

static bool at_clone(const struct dm *d)
{
    char c = dm_peek2(d);

    return dm_peek(d) == '.' && (dm_is_lower(c) || dm_is_digit(c) || c == '_');
}

/* .word(.digits)* that the compiler appended. */
static struct dm_node *clone_suffix(struct dm *d, struct dm_node *a)
{
    const char *start = d->p;

    d->p += 2;
    while (dm_is_lower(dm_peek(d)) || dm_is_digit(dm_peek(d)) || dm_peek(d) == '_')
        d->p++;
    while (dm_peek(d) == '.' && dm_is_digit(dm_peek2(d)))
        for (d->p += 2; dm_is_digit(dm_peek(d));)
            d->p++;
    a = DM(d, DM_CLONE, a);
    a->text = (struct str){start, (uint32_t) (d->p - start)};
    return a;
}

/* Parses what follows "_Z". */
static struct dm_node *parse(struct dm *d, struct str s, unsigned flags)
{
    bool clones = !(flags & (DEMANGLE_NO_PARAMS | DEMANGLE_NO_CLONES));
    struct dm_node *a;

    d->p = s.p;
    d->end = s.p + s.n;
    a = dm_encoding(d, !(flags & DEMANGLE_NO_PARAMS), false);
    while (clones && !d->failed && at_clone(d))
        a = clone_suffix(d, a);
    if (clones && d->p < d->end)
        dm_fail(d);
    return a;
}

/* ___Z… _block_invoke [_] digits [.…]: clang's name for the function of a block. */
static struct dm_node *parse_block(struct dm *d, struct str s, unsigned flags)
{
    static const struct str word = {"_block_invoke", 13};
    ptrdiff_t at = -1;
    struct str rest = {0};

    for (uint32_t i = 4; i + word.n <= s.n; i++)
        if (memcmp(s.p + i, word.p, word.n) == 0)
            at = i;
    if (at >= 0) {
        rest = str_slice(s, (size_t) at + word.n, s.n);
        if (rest.n && rest.p[0] == '_')
            rest = str_slice(rest, 1, rest.n);
        while (rest.n && dm_is_digit(rest.p[0]))
            rest = str_slice(rest, 1, rest.n);
    }
    if (at < 0 || (rest.n && rest.p[0] != '.'))
        return dm_fail(d);
    return special(d, "invocation function for block in ", parse(d, str_slice(s, 4, (size_t) at), flags));
}

/* _GLOBAL_[._$][ID]_…: all initializers of a file. Parameters are always shown here. */
static struct dm_node *parse_global(struct dm *d, struct str s, unsigned flags)
{
    struct str rest = str_slice(s, 8, s.n);
    struct dm_node *a;

    if (rest.n < 4 || !strchr("._$", rest.p[0]) || (rest.p[1] != 'I' && rest.p[1] != 'D') || rest.p[2] != '_')
        return dm_fail(d);
    if (str_starts(str_slice(rest, 3, rest.n), STR("_Z")))
        a = parse(d, str_slice(rest, 5, rest.n), flags & ~(unsigned) DEMANGLE_NO_PARAMS);
    else
        a = dm_leaf(d, DM_NAME, rest, 0);
    a = DM(d, DM_GLOBAL_CDTOR, a);
    a->flag = rest.p[1] == 'I';
    return a;
}

static int print_to(struct dm *d, struct dm_node *a, unsigned flags, struct buf *out)
{
    struct dm_printer p = {.d = d,
                           .out = out,
                           .start = out->n,
                           .scopes = 1,
                           .template_params = !(flags & DEMANGLE_NO_TEMPLATE_PARAMS),
                           .enclosing_params = !(flags & DEMANGLE_NO_ENCLOSING_PARAMS)};

    if (!d->failed)
        dm_print_kind(&p, a);
    if (!d->failed && !buf_error(out))
        return 0;
    out->n = p.start;
    return buf_error(out) ? buf_error(out) : -EINVAL;
}

int demangle_cxx(struct str name, unsigned flags, struct buf *out)
{
    struct dm d = {0};
    struct dm_node *a;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(d.bad_kids); i++)
        d.bad_kids[i] = &d.bad;
    d.bad.kids = d.bad_kids;
    arena_init(&d.arena, DM_MEMORY_MAX);
    if (str_starts(name, STR("_Z")))
        a = parse(&d, str_slice(name, 2, name.n), flags);
    else if (str_starts(name, STR("___Z")))
        a = parse_block(&d, name, flags);
    else if (str_starts(name, STR("_GLOBAL_")))
        a = parse_global(&d, name, flags);
    else
        a = dm_fail(&d);
    r = print_to(&d, a, flags, out);
    arena_done(&d.arena);
    return r;
}
