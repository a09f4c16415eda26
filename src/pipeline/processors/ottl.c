/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles and evaluates conditions, see ottl.h. A recursive-descent parser over the text:
 *
 *     or    = and { "or" and }        and  = not { "and" not }       not = [ "not" ] test
 *     test  = "(" or ")" | "true" | "false" | Call "(" value "," string ")" | value [ op value ]
 *     value = string | number | "true" | "false" | "nil" | path
 */
#include "pipeline/processors/ottl.h"

#include <ctype.h>
#include <errno.h>

#include "base/regex.h"

enum { DEPTH_MAX = 64 };

enum node_kind { NODE_OR, NODE_AND, NODE_NOT, NODE_COMPARE, NODE_MATCH, NODE_PREFIX, NODE_SUFFIX, NODE_CONST };
enum compare_op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE };
enum path_kind {
    PATH_LITERAL,
    PATH_RESOURCE_ATTRIBUTE,
    PATH_PROFILE_ATTRIBUTE,
    PATH_SAMPLE_ATTRIBUTE,
    PATH_SCOPE_NAME,
    PATH_SCOPE_VERSION,
    PATH_TYPE,
    PATH_UNIT,
    PATH_PERIOD_TYPE,
    PATH_PERIOD_UNIT,
    PATH_PERIOD,
    PATH_DURATION,
    PATH_TIME,
    PATH_FUNCTION,
    PATH_FILE,
};

struct operand {
    enum path_kind path;
    struct str key;
    struct value literal; /* VALUE_EMPTY is nil */
};

struct node {
    enum node_kind kind;
    struct node *a, *b;
    struct operand left, right;
    enum compare_op op;
    struct regex *regex;
    bool constant;
};

struct ottl {
    struct node *root;
    struct node **with_regex;
    uint32_t n_regex;
};

struct ottl_parse {
    const char *start, *p, *end;
    enum ottl_scope scope;
    struct arena *arena;
    struct err *e;
    struct node *regexes[64];
    uint32_t n_regex;
    int depth;
};

static int fail(struct ottl_parse *p, const char *what, struct str word)
{
    return err_set(p->e, -EINVAL, "'%.*s': %s%s%.*s%s at %td", (int) (p->end - p->start), p->start, what,
                   word.n ? " '" : "", STR_FMT(word), word.n ? "'" : "", p->p - p->start);
}

static void skip_space(struct ottl_parse *p)
{
    while (p->p < p->end && isspace((unsigned char) *p->p))
        p->p++;
}

/* A name with dots and underscores, not consumed. */
static struct str peek_word(struct ottl_parse *p)
{
    const char *q;

    skip_space(p);
    for (q = p->p; q < p->end && (isalnum((unsigned char) *q) || *q == '_' || *q == '.'); q++)
        ;
    return (struct str){p->p, (uint32_t) (q - p->p)};
}

static bool take_word(struct ottl_parse *p, const char *word)
{
    struct str w = peek_word(p);

    if (!str_is(w, word))
        return false;
    p->p += w.n;
    return true;
}

static bool take_char(struct ottl_parse *p, char c)
{
    skip_space(p);
    if (p->p >= p->end || *p->p != c)
        return false;
    p->p++;
    return true;
}

static int parse_string(struct ottl_parse *p, struct str *ret)
{
    char *out, quote;
    uint32_t n = 0;

    skip_space(p);
    if (p->p >= p->end || *p->p != '"')
        return fail(p, "expected a quoted string", (struct str){0});
    quote = *p->p++;
    out = arena_alloc_aligned(p->arena, (size_t) (p->end - p->p) + 1, 1);
    if (!out)
        return -ENOMEM;
    for (; p->p < p->end && *p->p != quote; p->p++) {
        if (*p->p == '\\' && p->p + 1 < p->end) {
            p->p++;
            if (*p->p != '"' && *p->p != '\\') /* "\." of a regular expression is kept as it is */
                out[n++] = '\\';
        }
        out[n++] = *p->p;
    }
    if (p->p >= p->end)
        return fail(p, "unterminated string", (struct str){0});
    p->p++;
    *ret = (struct str){out, n};
    return 0;
}

static int parse_key(struct ottl_parse *p, struct str *ret)
{
    int r;

    if (!take_char(p, '['))
        return fail(p, "attributes require a key: attributes[\"key\"]", (struct str){0});
    r = parse_string(p, ret);
    if (r < 0)
        return r;
    if (!take_char(p, ']'))
        return fail(p, "']' is missing", (struct str){0});
    if (p->p < p->end && *p->p == '[')
        return fail(p, "nested keys in attribute values are not supported", (struct str){0});
    return 0;
}

struct path_name {
    const char *name;
    enum path_kind path;
    enum ottl_scope scope; /* the level at which it is available */
};

static const struct path_name path_names[] = {
    {"resource.attributes", PATH_RESOURCE_ATTRIBUTE, OTTL_RESOURCE},
    {"instrumentation_scope.name", PATH_SCOPE_NAME, OTTL_PROFILE},
    {"instrumentation_scope.version", PATH_SCOPE_VERSION, OTTL_PROFILE},
    {"scope.name", PATH_SCOPE_NAME, OTTL_PROFILE},
    {"scope.version", PATH_SCOPE_VERSION, OTTL_PROFILE},
    {"profile.attributes", PATH_PROFILE_ATTRIBUTE, OTTL_PROFILE},
    {"sample.attributes", PATH_SAMPLE_ATTRIBUTE, OTTL_SAMPLE},
    {"type", PATH_TYPE, OTTL_PROFILE},
    {"sample_type.type", PATH_TYPE, OTTL_PROFILE},
    {"sample_type.unit", PATH_UNIT, OTTL_PROFILE},
    {"period_type.type", PATH_PERIOD_TYPE, OTTL_PROFILE},
    {"period_type.unit", PATH_PERIOD_UNIT, OTTL_PROFILE},
    {"period", PATH_PERIOD, OTTL_PROFILE},
    {"duration_unix_nano", PATH_DURATION, OTTL_PROFILE},
    {"duration_nano", PATH_DURATION, OTTL_PROFILE},
    {"time_unix_nano", PATH_TIME, OTTL_PROFILE},
    {"function", PATH_FUNCTION, OTTL_SAMPLE},
    {"function.name", PATH_FUNCTION, OTTL_SAMPLE},
    {"file", PATH_FILE, OTTL_SAMPLE},
};

static int parse_path(struct ottl_parse *p, struct str word, struct operand *ret)
{
    struct str name = word;
    bool attribute;

    if (str_starts(name, STR("profile.")) && !str_is(name, "profile.attributes"))
        name = str_slice(name, 8, name.n);
    else if (str_starts(name, STR("sample.")) && !str_is(name, "sample.attributes"))
        name = str_slice(name, 7, name.n);
    if (str_is(name, "attributes")) {
        static const enum path_kind own[] = {PATH_RESOURCE_ATTRIBUTE, PATH_PROFILE_ATTRIBUTE, PATH_SAMPLE_ATTRIBUTE};

        ret->path = own[p->scope];
        p->p += word.n;
        return parse_key(p, &ret->key);
    }
    for (size_t i = 0; i < ARRAY_SIZE(path_names); i++) {
        if (!str_is(name, path_names[i].name))
            continue;
        if (path_names[i].scope > p->scope)
            return fail(p, "not available at this level: path", word);
        ret->path = path_names[i].path;
        p->p += word.n;
        attribute = ret->path == PATH_RESOURCE_ATTRIBUTE || ret->path == PATH_PROFILE_ATTRIBUTE ||
                    ret->path == PATH_SAMPLE_ATTRIBUTE;
        return attribute ? parse_key(p, &ret->key) : 0;
    }
    return fail(p, "not supported: path", word);
}

static int parse_operand(struct ottl_parse *p, struct operand *ret)
{
    struct str word = peek_word(p);
    struct value *v = &ret->literal;
    struct str text;
    uint32_t sign;

    *ret = (struct operand){.path = PATH_LITERAL};
    if (p->p < p->end && *p->p == '"') {
        int r = parse_string(p, &text);

        *v = (struct value){.kind = VALUE_STR, .n = text.n, .str = text.p};
        return r;
    }
    sign = p->p < p->end && *p->p == '-';
    if (sign) {
        p->p++;
        word = peek_word(p);
        word.p--;
        word.n++;
        p->p--;
    }
    if (word.n == sign) /* nothing, or a minus without a number */
        return fail(p, "expected a value or a path", (struct str){0});
    p->p += word.n;
    if (str_to_i64(word, 10, &v->integer) == 0)
        v->kind = VALUE_INT;
    else if ((isdigit((unsigned char) word.p[sign]) || word.p[sign] == '.') && str_to_double(word, &v->number) == 0)
        v->kind = VALUE_DOUBLE;
    else if (str_is(word, "true") || str_is(word, "false"))
        *v = (struct value){.kind = VALUE_BOOL, .boolean = str_is(word, "true")};
    else if (!str_is(word, "nil")) {
        p->p -= word.n;
        return parse_path(p, word, ret);
    }
    return 0;
}

static struct node *node_new(struct ottl_parse *p, enum node_kind kind)
{
    struct node *n = arena_zalloc(p->arena, sizeof *n);

    if (n)
        n->kind = kind;
    return n;
}

static int parse_call(struct ottl_parse *p, enum node_kind kind, struct node **ret)
{
    struct node *n = node_new(p, kind);
    struct str text;
    int r;

    if (!n)
        return -ENOMEM;
    if (!take_char(p, '('))
        return fail(p, "'(' is missing", (struct str){0});
    r = parse_operand(p, &n->left);
    if (r == 0 && !take_char(p, ','))
        r = fail(p, "',' is missing", (struct str){0});
    if (r == 0)
        r = parse_string(p, &text);
    if (r == 0 && !take_char(p, ')'))
        r = fail(p, "')' is missing", (struct str){0});
    if (r < 0)
        return r;
    n->right.literal = (struct value){.kind = VALUE_STR, .n = text.n, .str = text.p};
    if (kind == NODE_MATCH) {
        if (p->n_regex == ARRAY_SIZE(p->regexes))
            return fail(p, "too many expressions", (struct str){0});
        r = regex_new(text, &n->regex, p->e);
        if (r < 0)
            return r;
        p->regexes[p->n_regex++] = n;
    }
    *ret = n;
    return 0;
}

static int parse_compare(struct ottl_parse *p, struct node **ret)
{
    static const struct {
        const char *text;
        enum compare_op op;
    } ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE}, {">=", OP_GE}, {"<", OP_LT}, {">", OP_GT}};
    struct node *n = node_new(p, NODE_COMPARE);
    int r;

    if (!n)
        return -ENOMEM;
    r = parse_operand(p, &n->left);
    if (r < 0)
        return r;
    *ret = n;
    skip_space(p);
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        struct str text = str_from(ops[i].text), rest = {p->p, (uint32_t) (p->end - p->p)};

        if (!str_starts(rest, text))
            continue;
        p->p += text.n;
        n->op = ops[i].op;
        return parse_operand(p, &n->right);
    }
    if (n->left.path == PATH_LITERAL && n->left.literal.kind == VALUE_BOOL) {
        n->kind = NODE_CONST;
        n->constant = n->left.literal.boolean;
        return 0;
    }
    return fail(p, "expected a comparison", (struct str){0});
}

static int parse_or(struct ottl_parse *p, struct node **ret);

static int parse_test(struct ottl_parse *p, struct node **ret)
{
    static const struct {
        const char *name;
        enum node_kind kind;
    } calls[] = {{"IsMatch", NODE_MATCH}, {"HasPrefix", NODE_PREFIX}, {"HasSuffix", NODE_SUFFIX}};
    struct str word;
    int r;

    if (take_char(p, '(')) {
        r = parse_or(p, ret);
        if (r == 0 && !take_char(p, ')'))
            r = fail(p, "')' is missing", (struct str){0});
        return r;
    }
    word = peek_word(p);
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        if (take_word(p, calls[i].name))
            return parse_call(p, calls[i].kind, ret);
    if (word.n && p->p + word.n < p->end && p->p[word.n] == '(')
        return fail(p, "not supported: function", word);
    return parse_compare(p, ret);
}

static int parse_not(struct ottl_parse *p, struct node **ret)
{
    struct node *n;

    if (!take_word(p, "not"))
        return parse_test(p, ret);
    n = node_new(p, NODE_NOT);
    if (!n)
        return -ENOMEM;
    *ret = n;
    return parse_test(p, &n->a);
}

/* Left-associative chains of one operator. */
static int parse_chain(struct ottl_parse *p, const char *word, enum node_kind kind,
                       int (*next)(struct ottl_parse *p, struct node **ret), struct node **ret)
{
    int r = next(p, ret);

    while (r == 0 && take_word(p, word)) {
        struct node *n = node_new(p, kind);

        if (!n)
            return -ENOMEM;
        n->a = *ret;
        *ret = n;
        r = next(p, &n->b);
    }
    return r;
}

static int parse_and(struct ottl_parse *p, struct node **ret)
{
    return parse_chain(p, "and", NODE_AND, parse_not, ret);
}

static int parse_or(struct ottl_parse *p, struct node **ret)
{
    int r;

    if (++p->depth > DEPTH_MAX)
        return fail(p, "nested too deeply", (struct str){0});
    r = parse_chain(p, "or", NODE_OR, parse_and, ret);
    p->depth--;
    return r;
}

int ottl_compile(struct str text, enum ottl_scope scope, struct arena *a, struct ottl **ret, struct err *e)
{
    struct ottl_parse p = {text.p, text.p, text.p + text.n, scope, a, e, {0}, 0, 0};
    struct ottl *o = arena_zalloc(a, sizeof *o);
    int r;

    if (!o)
        return -ENOMEM;
    r = parse_or(&p, &o->root);
    skip_space(&p);
    if (r == 0 && p.p < p.end)
        r = fail(&p, "unexpected:", peek_word(&p));
    o->with_regex = arena_zalloc_array(a, p.n_regex + 1, sizeof *o->with_regex);
    if (r == 0 && !o->with_regex)
        r = -ENOMEM;
    if (r < 0) {
        for (uint32_t i = 0; i < p.n_regex; i++)
            regex_free(p.regexes[i]->regex);
        return r;
    }
    memcpy(o->with_regex, p.regexes, p.n_regex * sizeof *o->with_regex);
    o->n_regex = p.n_regex;
    *ret = o;
    return 0;
}

void ottl_free(struct ottl *o)
{
    for (uint32_t i = 0; o && i < o->n_regex; i++)
        regex_free(o->with_regex[i]->regex);
}

/* --- evaluation --- */

static struct value of_str(struct str s)
{
    return s.n ? (struct value){.kind = VALUE_STR, .n = s.n, .str = s.p} : (struct value){0};
}

static struct value of_attr(const struct batch *b, struct run attrs, struct str key)
{
    const struct attr *a = batch_attr(b, attrs, key);

    return a ? a->value : (struct value){0};
}

static struct value operand_value(const struct operand *o, const struct ottl_subject *s)
{
    const struct batch *b = s->batch;
    const struct value *v;

    switch (o->path) {
    case PATH_LITERAL:
        return o->literal;
    case PATH_RESOURCE_ATTRIBUTE:
        v = kvs_get(&s->resource->attrs, o->key);
        return v ? *v : (struct value){0};
    case PATH_PROFILE_ATTRIBUTE:
        return of_attr(b, s->profile->attrs, o->key);
    case PATH_SAMPLE_ATTRIBUTE:
        return of_attr(b, s->sample->attrs, o->key);
    case PATH_SCOPE_NAME:
        return of_str(s->scope->name);
    case PATH_SCOPE_VERSION:
        return of_str(s->scope->version);
    case PATH_TYPE:
        return of_str(batch_string(b, s->profile->types[0].type));
    case PATH_UNIT:
        return of_str(batch_string(b, s->profile->types[0].unit));
    case PATH_PERIOD_TYPE:
        return of_str(batch_string(b, s->profile->period_type.type));
    case PATH_PERIOD_UNIT:
        return of_str(batch_string(b, s->profile->period_type.unit));
    case PATH_PERIOD:
        return (struct value){.kind = VALUE_INT, .integer = s->profile->period};
    case PATH_DURATION:
        return (struct value){.kind = VALUE_INT, .integer = s->profile->duration_ns};
    case PATH_TIME:
        return (struct value){.kind = VALUE_INT, .integer = s->profile->time_ns};
    default:
        return (struct value){0};
    }
}

static bool ordered(enum compare_op op, int c)
{
    switch (op) {
    case OP_EQ:
        return c == 0;
    case OP_NE:
        return c != 0;
    case OP_LT:
        return c < 0;
    case OP_LE:
        return c <= 0;
    case OP_GT:
        return c > 0;
    default:
        return c >= 0;
    }
}

static bool compare(enum compare_op op, const struct value *a, const struct value *b)
{
    if (a->kind == VALUE_EMPTY || b->kind == VALUE_EMPTY) /* nil is equal to nil only */
        return op == OP_EQ ? a->kind == b->kind : op == OP_NE && a->kind != b->kind;
    if (a->kind == VALUE_STR && b->kind == VALUE_STR)
        return ordered(op, str_cmp(value_str(a), value_str(b)));
    if (a->kind == VALUE_INT && b->kind == VALUE_INT)
        return ordered(op, (a->integer > b->integer) - (a->integer < b->integer));
    if ((a->kind == VALUE_INT || a->kind == VALUE_DOUBLE) && (b->kind == VALUE_INT || b->kind == VALUE_DOUBLE)) {
        double x = a->kind == VALUE_INT ? (double) a->integer : a->number;
        double y = b->kind == VALUE_INT ? (double) b->integer : b->number;

        return ordered(op, (x > y) - (x < y));
    }
    if (op == OP_EQ || op == OP_NE)
        return (op == OP_EQ) == value_eq(a, b);
    return false;
}

static bool test_value(const struct node *n, const struct value *left, const struct value *right)
{
    struct str text = value_str(left), arg = value_str(&n->right.literal);

    switch (n->kind) {
    case NODE_MATCH:
        return left->kind == VALUE_STR && regex_search(n->regex, text);
    case NODE_PREFIX:
        return left->kind == VALUE_STR && str_starts(text, arg);
    case NODE_SUFFIX:
        return left->kind == VALUE_STR && str_ends(text, arg);
    default:
        return compare(n->op, left, right);
    }
}

/* function and file: true if the test is true for any frame of the stack (for !=, if no frame is equal). */
static bool test_frames(const struct node *n, const struct ottl_subject *s, const struct value *right)
{
    const struct dict *d = &s->batch->dict;
    struct run stack = d->stacks[s->sample->stack];
    struct node equal = *n;
    bool any = false;

    if (n->kind == NODE_COMPARE && n->op == OP_NE)
        equal.op = OP_EQ;
    for (uint32_t i = 0; i < stack.n && !any; i++) {
        struct run lines = d->locations[d->indices[stack.off + i]].lines;

        for (uint32_t k = 0; k < lines.n && !any; k++) {
            const struct function *f = &d->functions[d->lines[lines.off + k].function];
            struct value v = of_str(d->strings[n->left.path == PATH_FUNCTION ? f->name : f->filename]);

            any = test_value(&equal, &v, right);
        }
    }
    return n->kind == NODE_COMPARE && n->op == OP_NE ? !any : any;
}

static bool node_matches(const struct node *n, const struct ottl_subject *s)
{
    struct value left, right;

    switch (n->kind) {
    case NODE_OR:
        return node_matches(n->a, s) || node_matches(n->b, s);
    case NODE_AND:
        return node_matches(n->a, s) && node_matches(n->b, s);
    case NODE_NOT:
        return !node_matches(n->a, s);
    case NODE_CONST:
        return n->constant;
    default:
        right = operand_value(&n->right, s);
        if (n->left.path == PATH_FUNCTION || n->left.path == PATH_FILE)
            return test_frames(n, s, &right);
        left = operand_value(&n->left, s);
        return test_value(n, &left, &right);
    }
}

bool ottl_matches(const struct ottl *o, const struct ottl_subject *s)
{
    return node_matches(o->root, s);
}
