/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a configuration tree into structs, as described by option tables. */
#include "conf/option.h"

#include <errno.h>

#include "base/clock.h"

static int parse_table(struct conf *c, const struct option *table, const struct conf_node *node, void *out,
                       struct err *e);

const char *option_closest(struct str name, const char *const *names)
{
    struct str_guess guess = {name, NULL, 0};

    for (; *names; names++)
        str_guess_offer(&guess, *names);
    return guess.best;
}

static int unknown_key(const struct option *table, struct str key, const struct conf_node *value, struct err *e)
{
    struct conf_node place = {.file = value->file,
                              .line = value->key_line ? value->key_line : value->line,
                              .column = value->key_line ? value->key_column : value->column};
    const struct conf_node *at = &place;
    const char *names[128];
    const char *best;
    size_t n = 0;

    for (const struct option *o = table; o->name && n < ARRAY_SIZE(names) - 1; o++)
        names[n++] = o->name;
    names[n] = NULL;
    best = option_closest(key, names);
    if (best)
        return conf_error(at, -EINVAL, e, "unknown key '%.*s'; did you mean '%s'?", STR_FMT(key), best);
    return conf_error(at, -EINVAL, e, "unknown key '%.*s'", STR_FMT(key));
}

static int wrong(const struct option *o, const struct conf_node *n, const char *wanted, struct err *e)
{
    if (n->kind == CONF_SCALAR)
        return conf_error(n, -EINVAL, e, "'%s' must be %s, not '%.*s'", o->name, wanted, STR_FMT(n->text));
    return conf_error(n, -EINVAL, e, "'%s' must be %s, not a %s", o->name, wanted,
                      n->kind == CONF_MAP    ? "map"
                      : n->kind == CONF_LIST ? "list"
                                             : "null");
}

static int parse_duration(const struct option *o, const struct conf_node *n, int64_t *ret, struct err *e)
{
    bool negative = str_starts(n->text, STR("-"));
    struct err sub = {0};
    int64_t number;
    int r;

    if (n->kind != CONF_SCALAR)
        return wrong(o, n, "a duration such as 10s", e);
    if (conf_to_int(n, &number) && number != 0)
        return conf_error(n, -EINVAL, e, "'%s' requires a unit, as in %.*ss or %.*sms", o->name, STR_FMT(n->text),
                          STR_FMT(n->text));
    r = clock_parse_duration(negative ? str_slice(n->text, 1, n->text.n) : n->text, ret, &sub);
    if (r < 0)
        return conf_error(n, r, e, "'%s': %s", o->name, err_message(&sub, r));
    if (negative)
        *ret = -*ret;
    return 0;
}

static int parse_enum(const struct option *o, const struct conf_node *n, int *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (n->kind == CONF_SCALAR || n->kind == CONF_NULL) {
        struct str text = n->kind == CONF_SCALAR ? n->text : STR("");

        for (int i = 0; o->words[i]; i++) {
            if (str_is(text, o->words[i])) {
                *ret = i;
                return 0;
            }
        }
    }
    buf_puts(&b, "one of ");
    for (int i = 0; o->words[i]; i++)
        buf_printf(&b, "%s%s", i ? ", " : "", *o->words[i] ? o->words[i] : "\"\"");
    return wrong(o, n, buf_cstr(&b) ? b.p : "another value", e);
}

static int parse_strings(struct conf *c, const struct option *o, const struct conf_node *n, struct option_strings *ret,
                         struct err *e)
{
    uint32_t count = n->kind == CONF_LIST ? n->n : 1;
    const char **v = arena_zalloc_array(&c->arena, count + 1, sizeof *v);

    if (!v)
        return -ENOMEM;
    if (n->kind == CONF_MAP)
        return wrong(o, n, "a list of strings", e);
    for (uint32_t i = 0; i < count; i++) {
        const struct conf_node *item = n->kind == CONF_LIST ? n->items[i] : n;

        if (item->kind != CONF_SCALAR)
            return wrong(o, item, "a list of strings", e);
        v[i] = arena_cstr(&c->arena, item->text);
        if (!v[i])
            return -ENOMEM;
    }
    *ret = (struct option_strings){v, count};
    return 0;
}

static int parse_map(struct conf *c, const struct option *o, const struct conf_node *n, struct option_map *ret,
                     struct err *e)
{
    struct option_pair *v = arena_zalloc_array(&c->arena, n->n + 1, sizeof *v);

    if (!v)
        return -ENOMEM;
    if (n->kind != CONF_MAP && n->kind != CONF_LIST)
        return wrong(o, n, "a map of names to values", e);
    for (uint32_t i = 0; i < n->n; i++) {
        const struct conf_node *item = n->items[i], *name = conf_get(item, "name"), *value = conf_get(item, "value");

        if (n->kind == CONF_LIST && (!name || name->kind != CONF_SCALAR || !value))
            return wrong(o, item, "a list of {name, value}", e);
        if (n->kind == CONF_LIST)
            item = value;
        if (item->kind != CONF_SCALAR && item->kind != CONF_NULL)
            return wrong(o, item, "a map of names to strings", e);
        v[i].name = arena_cstr(&c->arena, n->kind == CONF_LIST ? name->text : n->keys[i]);
        v[i].value = arena_cstr(&c->arena, item->kind == CONF_NULL ? STR("") : item->text);
        if (!v[i].name || !v[i].value)
            return -ENOMEM;
    }
    *ret = (struct option_map){v, n->n};
    return 0;
}

static int parse_tables(struct conf *c, const struct option *o, const struct conf_node *n, struct option_tables *ret,
                        struct err *e)
{
    char *v;

    if (n->kind != CONF_LIST)
        return wrong(o, n, "a list", e);
    v = arena_zalloc_array(&c->arena, n->n + 1, o->size);
    if (!v)
        return -ENOMEM;
    for (uint32_t i = 0; i < n->n; i++) {
        int r = parse_table(c, o->table, n->items[i], v + i * o->size, e);

        if (r < 0)
            return r;
    }
    *ret = (struct option_tables){v, n->n};
    return 0;
}

static int parse_string(struct conf *c, const struct option *o, const struct conf_node *n, const char **ret,
                        struct err *e)
{
    if (n->kind != CONF_SCALAR)
        return wrong(o, n, "text", e);
    *ret = arena_cstr(&c->arena, n->text);
    return *ret ? 0 : -ENOMEM;
}

static int parse_value(struct conf *c, const struct option *o, const struct conf_node *n, void *p, struct err *e)
{
    switch (o->kind) {
    case OPT_BOOL:
        return conf_to_bool(n, p) ? 0 : wrong(o, n, "true or false", e);
    case OPT_INT:
        return conf_to_int(n, p) ? 0 : wrong(o, n, "a whole number", e);
    case OPT_DOUBLE:
        return conf_to_double(n, p) ? 0 : wrong(o, n, "a number", e);
    case OPT_STRING:
        return parse_string(c, o, n, p, e);
    case OPT_DURATION:
        return parse_duration(o, n, p, e);
    case OPT_SIZE:
        return n->kind == CONF_SCALAR && str_to_size(n->text, p) == 0 ? 0 : wrong(o, n, "a size such as 10MiB", e);
    case OPT_STRINGS:
        return parse_strings(c, o, n, p, e);
    case OPT_MAP:
        return parse_map(c, o, n, p, e);
    case OPT_ENUM:
        return parse_enum(o, n, p, e);
    case OPT_TABLES:
        return parse_tables(c, o, n, p, e);
    case OPT_CUSTOM:
        *(const struct conf_node **) p = n;
        return 0;
    default:
        return 0;
    }
}

/* Sets the defaults of a table's options, including sub-tables. */
static int set_defaults(struct conf *c, const struct option *table, void *out, struct err *e)
{
    for (const struct option *o = table; o->name; o++) {
        struct conf_node *n = NULL;
        void *p = (char *) out + o->offset;
        int r = 0;

        if (o->kind == OPT_TABLE)
            r = set_defaults(c, o->table, p, e);
        else if (o->def)
            r = conf_parse(c, str_from(o->def), o->name, &n, e);
        if (r == 0 && n)
            r = parse_value(c, o, n, p, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_key(struct conf *c, const struct option *table, struct str key, const struct conf_node *value,
                     void *out, struct err *e)
{
    const struct option *o = table;

    while (o->name && !str_is(key, o->name))
        o++;
    if (!o->name)
        return unknown_key(table, key, value, e);
    if (o->kind == OPT_REFUSED && value->kind != CONF_NULL && value->n + value->text.n > 0)
        return conf_error(value, -EOPNOTSUPP, e, "'%s' is not supported: %s", o->name, o->help);
    if (o->present && (o->kind == OPT_TABLE || value->kind != CONF_NULL))
        *(bool *) ((char *) out + o->present) = true;
    if (o->kind == OPT_TABLE)
        return parse_table(c, o->table, value, (char *) out + o->offset, e);
    if (value->kind == CONF_NULL && o->kind != OPT_CUSTOM && o->kind != OPT_ENUM)
        return 0; /* `key:` alone keeps the default */
    return parse_value(c, o, value, (char *) out + o->offset, e);
}

static int parse_table(struct conf *c, const struct option *table, const struct conf_node *node, void *out,
                       struct err *e)
{
    int r = set_defaults(c, table, out, e);

    if (r < 0)
        return r;
    if (node && node->kind != CONF_MAP && node->kind != CONF_NULL)
        return conf_error(node, -EINVAL, e, "expected a map of options");
    for (uint32_t i = 0; node && i < node->n; i++) {
        r = parse_key(c, table, node->keys[i], node->items[i], out, e);
        if (r < 0)
            return r;
    }
    for (const struct option *o = table; o->name; o++)
        if (o->required && conf_is_null(conf_get(node, o->name)))
            return conf_error(node, -EINVAL, e, "'%s' is required", o->name);
    return 0;
}

int option_parse(struct conf *c, const struct option *table, const struct conf_node *node, void *out, struct err *e)
{
    return parse_table(c, table, node, out, e);
}
