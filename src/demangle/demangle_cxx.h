/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal header of the C++ demangler: the tree that a mangled name is parsed into, shared by the demangle_cxx*.c
 * files. Only demangle_cxx() is called from outside.
 *
 *   demangle_cxx.c           entry point, encodings, special names
 *   demangle_cxx_name.c      names
 *   demangle_cxx_type.c      types
 *   demangle_cxx_template.c  template parameters and arguments, closures
 *   demangle_cxx_expr.c      operators and expressions
 *   demangle_cxx_tree.c      nodes, walks, substitution, replacing template parameters by their arguments
 *   demangle_cxx_print.c     names and types as text
 *   demangle_cxx_text.c      expressions and special names as text
 *
 * A node has a kind, up to one number and one text, and kids whose places depend on the kind (table below; "?" may be
 * NULL, "*" any number). Nodes live in the arena of the parse; substitutions make them shared, so the tree is a graph.
 *
 * The first error is sticky: dm_fail() empties the input and returns a node that is safe to store, so that parsers need
 * no check after each step and every loop ends. Nothing is printed once `failed` is set.
 */
#ifndef DEMANGLE_DEMANGLE_CXX_H
#define DEMANGLE_DEMANGLE_CXX_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

/* As demangle() for "_Z…", "___Z…_block_invoke" and "_GLOBAL__I_…". */
int demangle_cxx(struct str name, unsigned flags, struct buf *out);

enum dm_kind {
    DM_BAD,
    /* leaves */
    DM_NAME,        /* text */
    DM_BUILTIN,     /* text */
    DM_OPERATOR,    /* text */
    DM_TPARAM,      /* num: index; ref: its DM_TEMPLATE, NULL until known (conversion operators) */
    DM_LAMBDA_AUTO, /* num: index */
    DM_FPARAM,      /* num: 0 is this */
    DM_BINARY_FP,   /* num: bits */
    DM_UNNAMED,     /* num */
    DM_TPARAM_NAME, /* text: prefix, num */
    DM_SIZEOF_PACK, /* ref: the pack */
    /* names */
    DM_TYPED,         /* name, type */
    DM_QUALIFIED,     /* scope, name; flag: a local name */
    DM_TEMPLATE,      /* name, argument* */
    DM_TPARAM_ARG,    /* parameter, argument */
    DM_TAGGED,        /* name, tag */
    DM_CTOR,          /* name, base? */
    DM_DTOR,          /* name */
    DM_GLOBAL_CDTOR,  /* key; flag: constructors */
    DM_CAST,          /* to */
    DM_DEFAULT_ARG,   /* argument; num */
    DM_CLOSURE,       /* template parameter*, constraint?, type*, constraint?; num; split: template parameters */
    DM_BINDINGS,      /* name* */
    DM_CLONE,         /* base; text: suffix */
    DM_SPECIAL,       /* value; text: prefix */
    DM_SPECIAL2,      /* value, value: construction vtable */
    DM_ENABLE_IF,     /* type, argument* */
    DM_MODULE_NAME,   /* parent?, name; flag: partition */
    DM_MODULE_ENTITY, /* module, name */
    DM_FRIEND,        /* name */
    DM_CONSTRAINT,    /* name, requires */
    /* types */
    DM_QUALIFIERS,   /* qualifier* */
    DM_QUALIFIER,    /* expression*; text */
    DM_TYPE_QUAL,    /* base, qualifiers */
    DM_METHOD_QUAL,  /* method, qualifiers?; text: "", "&" or "&&" */
    DM_POINTER,      /* base */
    DM_REFERENCE,    /* base */
    DM_RVALUE_REF,   /* base */
    DM_COMPLEX,      /* base */
    DM_IMAGINARY,    /* base */
    DM_SUFFIXED,     /* base; text */
    DM_TRANSFORMED,  /* base; text */
    DM_VENDOR,       /* qualifier, type */
    DM_ARRAY,        /* dimension, element */
    DM_VECTOR,       /* dimension, element */
    DM_FUNCTION,     /* return?, argument*; flag: of a local name's function */
    DM_PTRMEM,       /* class, member */
    DM_FIXED,        /* base; flag: _Accum; flag2: _Sat */
    DM_BITINT,       /* size; flag: signed */
    DM_ELABORATED,   /* type; text */
    DM_DECLTYPE,     /* expression */
    DM_PACK,         /* argument* */
    DM_EXPANSION,    /* base; ref: its DM_PACK or NULL */
    DM_TYPE_PARAM,   /* name */
    DM_VALUE_PARAM,  /* name, type */
    DM_TT_PARAM,     /* name, parameter*, constraint? */
    DM_CONSTR_PARAM, /* name, constraint */
    DM_PARAM_PACK,   /* parameter */
    DM_EXPLICIT_OBJ, /* base */
    /* expressions */
    DM_NULLARY,     /* operator */
    DM_UNARY,       /* operator, expression; flag: postfix; flag2: sizeof (type) */
    DM_BINARY,      /* operator, left, right */
    DM_TRINARY,     /* operator, first, second, third */
    DM_FOLD,        /* operator, argument, argument?; flag: left */
    DM_SUBOBJECT,   /* type, expression; num: offset */
    DM_PTRMEM_CAST, /* type, expression */
    DM_NEW,         /* operator, place?, type, initializer? */
    DM_LITERAL,     /* type; text; flag: negative */
    DM_STRING,      /* type */
    DM_LAMBDA,      /* closure */
    DM_LIST,        /* expression* */
    DM_INIT_LIST,   /* type?, list */
    DM_SIZEOF_ARGS, /* argument* */
    DM_REQUIRES,    /* parameter*, requirement*; split: parameters */
    DM_EXPR_REQ,    /* expression, type constraint?; flag: noexcept */
    DM_TYPE_REQ,    /* type */
    DM_NESTED_REQ,  /* constraint */
};

struct dm_node {
    enum dm_kind kind;
    bool flag, flag2;
    int num;
    uint32_t split, n_kids;
    struct str text;
    struct dm_node *ref;
    struct dm_node **kids;
};

struct dm_list {
    struct dm_node **v;
    uint32_t n, cap;
};

enum {
    DM_DEPTH_MAX = 800,        /* of the parser, of walks, of printing */
    DM_STEPS_MAX = 2000000,    /* nodes made, visited or printed */
    DM_MEMORY_MAX = 32u << 20, /* of the arena */
};

struct dm {
    const char *p, *end;
    struct dm_list subs, templates; /* templates has NULL for "a conversion operator's, to be known later" */
    uint32_t lambda_level;          /* templates.n + 1 when the innermost lambda began, 0 outside */
    int n_type_params, n_value_params, n_template_params;
    bool in_constraint; /* template parameters are not replaced there */
    bool failed;
    unsigned depth, steps;
    struct dm_node bad, *bad_kids[4];
    struct arena arena;
};

static inline char dm_peek(const struct dm *d)
{
    return d->p < d->end ? *d->p : 0;
}

static inline char dm_peek2(const struct dm *d)
{
    return d->end - d->p > 1 ? d->p[1] : 0;
}

static inline bool dm_at(const struct dm *d, const char *two)
{
    return d->end - d->p > 1 && d->p[0] == two[0] && d->p[1] == two[1];
}

static inline bool dm_eat(struct dm *d, char c)
{
    if (d->p >= d->end || *d->p != c)
        return false;
    d->p++;
    return true;
}

static inline bool dm_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool dm_is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static inline bool dm_is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* demangle_cxx_tree.c */
struct dm_node *dm_fail(struct dm *d); /* &d->bad */
bool dm_enter(struct dm *d);           /* one level deeper; always followed by dm_leave(), also when false */
void dm_leave(struct dm *d);
void dm_expect(struct dm *d, char c);
struct dm_node *dm_make(struct dm *d, enum dm_kind kind, struct dm_node *const *kids, uint32_t n);
struct dm_node *dm_leaf(struct dm *d, enum dm_kind kind, struct str text, int num);
void dm_push(struct dm *d, struct dm_list *l, struct dm_node *a);
void dm_add_kid(struct dm *d, struct dm_node *a, struct dm_node *kid);
/* kind with `first` (when not NULL) before the list's nodes. */
struct dm_node *dm_make_list(struct dm *d, enum dm_kind kind, struct dm_node *first, const struct dm_list *l);
void dm_add_sub(struct dm *d, struct dm_node *a);
struct dm_node *dm_simplify(struct dm *d, struct dm_node *a);
struct dm_node *dm_find_pack(struct dm *d, struct dm_node *a);
void dm_set_template(struct dm *d, struct dm_node *a, struct dm_node *tmpl);
struct dm_node *dm_merge_qualifiers(struct dm *d, struct dm_node *a, struct dm_node *b);
struct dm_node *dm_substitution(struct dm *d, bool for_prefix);
bool dm_is_standard_sub(const struct dm_node *a);

#define DM(d, kind, ...)                                     \
    dm_make(d, kind, (struct dm_node *const[]){__VA_ARGS__}, \
            (uint32_t) (sizeof((struct dm_node *const[]){__VA_ARGS__}) / sizeof(struct dm_node *)))

/* demangle_cxx.c */
struct dm_node *dm_encoding(struct dm *d, bool params, bool local);

/* demangle_cxx_name.c */
struct dm_node *dm_name(struct dm *d, bool *ret_explicit_object); /* ret may be NULL */
struct dm_node *dm_unqualified_name(struct dm *d, struct dm_node *module, bool *ret_cast);
struct dm_node *dm_source_name(struct dm *d);
struct dm_node *dm_module_name(struct dm *d, struct dm_node *parent); /* parent may be NULL */
struct dm_node *dm_tagged_name(struct dm *d, struct dm_node *a);
int dm_number(struct dm *d);
int dm_compact_number(struct dm *d);
int dm_seq_id(struct dm *d, bool eof_ok);

/* demangle_cxx_type.c */
struct dm_node *dm_type(struct dm *d, bool is_cast);
struct dm_node *dm_bare_function(struct dm *d, bool has_return, bool explicit_object);
struct dm_node *dm_with_args(struct dm *d, struct dm_node *name); /* DM_TEMPLATE of name and the I…E here */
struct dm_node *dm_cv_qualifiers(struct dm *d);                   /* NULL when there are none */
struct str dm_ref_qualifier(struct dm *d);
struct dm_list dm_parameters(struct dm *d, bool explicit_object);

/* demangle_cxx_template.c */
struct dm_list dm_template_args(struct dm *d);
struct dm_node *dm_template_arg(struct dm *d, const struct dm_list *previous);
struct dm_node *dm_template_param(struct dm *d);
struct dm_node *dm_closure(struct dm *d);
struct dm_node *dm_unnamed(struct dm *d);

/* demangle_cxx_expr.c */
struct dm_node *dm_operator(struct dm *d, bool in_expression, int *ret_args);
struct dm_node *dm_expression(struct dm *d);
struct dm_node *dm_constraint(struct dm *d);
struct dm_node *dm_primary(struct dm *d);

/* demangle_cxx_print.c, demangle_cxx_text.c */
struct dm_inner { /* what is still to be written around a type, innermost last: a shared, immutable list */
    struct dm_node *node;
    struct dm_inner *next;
};

struct dm_printer {
    struct dm *d;
    struct buf *out;
    size_t start;
    char last;
    int scopes; /* 0 directly inside template arguments, where '>' needs parentheses */
    bool template_params, enclosing_params;
    struct dm_inner *inner;
    struct dm_node *printing[DM_DEPTH_MAX]; /* guards against cycles */
};

void dm_print(struct dm_printer *p, struct dm_node *a);
void dm_print_kind(struct dm_printer *p, struct dm_node *a); /* without the guard */
bool dm_print_expression(struct dm_printer *p, struct dm_node *a);
bool dm_print_special(struct dm_printer *p, struct dm_node *a);
/* before, the first kid, between, the second kid, after */
void dm_print_two(struct dm_printer *p, struct dm_node *a, const char *before, const char *between, const char *after);
void dm_print_list(struct dm_printer *p, struct dm_node **v, uint32_t n, bool skip_empty);
void dm_print_closure_types(struct dm_printer *p, struct dm_node *closure);
void dm_put(struct dm_printer *p, const char *s);
void dm_put_char(struct dm_printer *p, char c);
void dm_put_str(struct dm_printer *p, struct str s);
void dm_put_quiet(struct dm_printer *p, const char *fmt, ...) _printf_(2, 3); /* a number; `last` stays as it was */
void dm_open(struct dm_printer *p, char c);
void dm_close(struct dm_printer *p, char c);

#endif
