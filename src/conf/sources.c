/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where configuration comes from, as in the Collector: --config sources merged in order, --set on top, then ${...}
 * replaced. A value that consists of a single ${...} gets the type that its text has as YAML (so "1" is a number);
 * inside a longer string it stays text. `$$` is a dollar sign.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "conf/yaml.h"

struct conf_node *conf_merge(struct conf *c, struct conf_node *base, struct conf_node *over)
{
    if (!base || !over || base->kind != CONF_MAP || over->kind != CONF_MAP) {
        /* An empty later map or value does not erase a map: `otlp:` after `otlp: {...}` keeps it. */
        return base && base->kind == CONF_MAP && (!over || over->kind == CONF_NULL) ? base : over;
    }
    for (uint32_t i = 0; i < over->n; i++) {
        uint32_t k = 0;

        while (k < base->n && !str_eq(base->keys[k], over->keys[i]))
            k++;
        if (k < base->n) {
            base->items[k] = conf_merge(c, base->items[k], over->items[i]);
            if (!base->items[k])
                return NULL;
        } else if (conf_append(c, base, over->keys[i], over->items[i]) < 0) {
            return NULL;
        }
    }
    return base;
}

_printf_(2, 3) static void warn(struct conf *c, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (!c->warn)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->warn(c->warn_arg, text);
}

/* "a::b::c: v": every :: is one level down. */
static int parse_yaml_uri(struct conf *c, struct str text, struct conf_node **ret, struct err *e)
{
    struct str path[CONF_DEPTH_MAX];
    struct conf_node *n = NULL;
    int depth = 0, r;

    for (ptrdiff_t at; (at = str_find(text, STR("::"))) >= 0;) {
        ptrdiff_t colon = str_find(text, STR(": "));

        if (colon >= 0 && colon < at)
            break;
        if (depth == CONF_DEPTH_MAX - 1)
            return err_set(e, -E2BIG, "yaml: nested too deeply");
        path[depth++] = str_slice(text, 0, (size_t) at);
        text = str_slice(text, (size_t) at + 2, text.n);
    }
    r = conf_parse(c, text, "yaml:", &n, e);
    while (r == 0 && depth > 0) {
        struct conf_node *map = conf_new(c, CONF_MAP, "yaml:", 1);

        r = map ? conf_append(c, map, arena_str(&c->arena, path[--depth]), n) : -ENOMEM;
        n = map;
    }
    if (r == 0)
        *ret = n;
    return r;
}

static bool valid_name(struct str name)
{
    if (!name.n || isdigit((unsigned char) name.p[0]))
        return false;
    for (uint32_t i = 0; i < name.n; i++)
        if (!isalnum((unsigned char) name.p[i]) && name.p[i] != '_')
            return false;
    return true;
}

/* NAME or NAME:-default. *ret_text is NULL when unset. */
static int read_env(struct conf *c, struct str spec, struct str *ret_text, struct err *e)
{
    ptrdiff_t at = str_find(spec, STR(":-"));
    struct str name = at >= 0 ? str_slice(spec, 0, (size_t) at) : spec;
    char *cname;
    const char *value;

    if (!valid_name(name))
        return err_set(e, -EINVAL, "'%.*s' is not a valid name of an environment variable", STR_FMT(name));
    cname = arena_cstr(&c->arena, name);
    if (!cname)
        return -ENOMEM;
    value = getenv(cname);
    if (value && *value)
        *ret_text = str_from(value);
    else if (at >= 0)
        *ret_text = str_slice(spec, (size_t) at + 2, spec.n);
    else if (value)
        *ret_text = STR("");
    else {
        warn(c, "environment variable %s is not set; using an empty value", cname);
        *ret_text = STR("");
    }
    return 0;
}

static int read_text(struct conf *c, struct str path, struct str *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char *cpath = arena_cstr(&c->arena, path);
    int r;

    if (!cpath)
        return -ENOMEM;
    r = fd_read_file(cpath, CONF_SIZE_MAX, &b, e);
    if (r < 0)
        return r;
    *ret = arena_str(&c->arena, buf_str(&b));
    return ret->p || !b.n ? 0 : -ENOMEM;
}

/* A source, parsed. bare_is_file says what a source without a scheme is: a path (on the command line), else a variable
 * (in ${...}). */
static int read_source(struct conf *c, struct str uri, bool bare_is_file, struct conf_node **ret, struct str *ret_text,
                       struct err *e)
{
    char name[300];
    int r;

    *ret_text = (struct str){0};
    if (str_starts(uri, STR("yaml:"))) {
        *ret_text = str_slice(uri, 5, uri.n);
        return parse_yaml_uri(c, *ret_text, ret, e);
    }
    if (str_starts(uri, STR("env:")) || (!bare_is_file && !str_starts(uri, STR("file:")))) {
        struct str spec = str_starts(uri, STR("env:")) ? str_slice(uri, 4, uri.n) : uri;

        r = read_env(c, spec, ret_text, e);
        snprintf(name, sizeof name, "env:%.*s", (int) MIN(spec.n, 250u), spec.p ? spec.p : "");
    } else {
        struct str path = str_starts(uri, STR("file:")) ? str_slice(uri, 5, uri.n) : uri;

        r = read_text(c, path, ret_text, e);
        snprintf(name, sizeof name, "%.*s", (int) MIN(path.n, 290u), path.p ? path.p : "");
    }
    return r < 0 ? r : conf_parse(c, *ret_text, name, ret, e);
}

static int put(struct conf *c, struct conf_node *n, const char *what, struct err *e)
{
    if (n->kind == CONF_NULL)
        return 0;
    if (n->kind != CONF_MAP)
        return conf_error(n, -EINVAL, e, "a configuration must be a mapping of keys to values");
    n = c->root ? conf_merge(c, c->root, n) : n;
    if (!n)
        return err_set(e, -ENOMEM, "%s: out of memory", what);
    c->root = n;
    return 0;
}

int conf_add(struct conf *c, struct str uri, struct err *e)
{
    struct conf_node *n = NULL;
    struct str text;
    int r;

    if (str_starts(uri, STR("http:")) || str_starts(uri, STR("https:")))
        return err_set(
            e, -EOPNOTSUPP,
            "--config %.*s: configuration over HTTP is not supported; use file:, env: or yaml:", STR_FMT(uri));
    r = read_source(c, uri, true, &n, &text, e);
    return r < 0 ? r : put(c, n, "--config", e);
}

int conf_set(struct conf *c, struct str assignment, struct err *e)
{
    ptrdiff_t eq = str_find_char(assignment, '=');
    struct conf_node *n = NULL;
    struct str path;
    int r;

    if (eq <= 0)
        return err_set(e, -EINVAL, "--set %.*s: expected KEY=VALUE", STR_FMT(assignment));
    path = str_slice(assignment, 0, (size_t) eq);
    r = conf_parse(c, str_slice(assignment, (size_t) eq + 1, assignment.n), "--set", &n, e);
    while (r == 0 && path.n) {
        ptrdiff_t dot = -1, sep;
        struct conf_node *map = conf_new(c, CONF_MAP, "--set", 1);

        for (uint32_t i = 0; i < path.n; i++) /* the last component: the tree is built from its leaf upwards */
            if (path.p[i] == '.')
                dot = i;
        sep = dot >= 0 ? dot + 1 : 0;
        r = map ? conf_append(c, map, arena_str(&c->arena, str_slice(path, (size_t) sep, path.n)), n) : -ENOMEM;
        n = map;
        path = str_slice(path, 0, dot >= 0 ? (size_t) dot : 0);
    }
    return r < 0 ? r : put(c, n, "--set", e);
}

/* --- ${...} --- */

/* The '}' that belongs to the "${" at `from`, or -1. */
static ptrdiff_t closing(struct str s, size_t from)
{
    int depth = 0;

    for (size_t i = from; i < s.n; i++) {
        if (s.p[i] == '{')
            depth++;
        else if (s.p[i] == '}' && --depth == 0)
            return (ptrdiff_t) i;
    }
    return -1;
}

static int expand_text(struct conf *c, const struct conf_node *at, struct str s, int depth, struct buf *out,
                       struct err *e);

/* What a ${...} stands for: its value, and the text that the value was parsed from. */
struct conf_expansion {
    struct conf_node *node;
    struct str text;
};

static int read_expansion(struct conf *c, const struct conf_node *at, struct str inner, int depth,
                          struct conf_expansion *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct str uri;
    int r;

    if (depth > CONF_EXPAND_MAX)
        return conf_error(at, -E2BIG, e, "${...} nested too deeply");
    buf_init(&b, CONF_SIZE_MAX);
    r = expand_text(c, at, inner, depth + 1, &b, e);
    if (r < 0)
        return r;
    uri = arena_str(&c->arena, buf_str(&b));
    r = read_source(c, uri, false, &ret->node, &ret->text, e);
    if (r < 0)
        return err_prefix(e, r, "%s:%u:%u: ${%.*s}: ", at->file, at->line, at->column, STR_FMT(uri));
    return 0;
}

/* All of s with every ${...} replaced by its text and $$ by $. */
static int expand_text(struct conf *c, const struct conf_node *at, struct str s, int depth, struct buf *out,
                       struct err *e)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '$' && i + 1 < s.n && s.p[i + 1] == '$') {
            buf_putc(out, '$');
            i++;
        } else if (s.p[i] == '$' && i + 1 < s.n && s.p[i + 1] == '{') {
            ptrdiff_t end = closing(s, i);
            struct conf_expansion x = {0};
            const struct conf_node *n;
            int r;

            if (end < 0)
                return conf_error(at, -EINVAL, e, "'${' without '}' in '%.*s'", STR_FMT(s));
            r = read_expansion(c, at, str_slice(s, i + 2, (size_t) end), depth, &x, e);
            if (r < 0)
                return r;
            n = x.node;
            if (n->kind == CONF_MAP || n->kind == CONF_LIST)
                return conf_error(at, -EINVAL, e, "a map or list cannot be inserted into a string: '%.*s'", STR_FMT(s));
            buf_put_str(out, n->kind == CONF_SCALAR ? n->text : STR(""));
            i = (size_t) end;
        } else {
            buf_putc(out, s.p[i]);
        }
    }
    return buf_error(out);
}

static int expand_node(struct conf *c, struct conf_node **slot, int depth, struct err *e);

static int expand_scalar(struct conf *c, struct conf_node **slot, int depth, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct conf_node *n = *slot, *value;
    struct conf_expansion x = {0};
    int r;

    if (str_find_char(n->text, '$') < 0)
        return 0;
    if (str_starts(n->text, STR("${")) && closing(n->text, 0) == (ptrdiff_t) n->text.n - 1) {
        r = read_expansion(c, n, str_slice(n->text, 2, n->text.n - 1), depth, &x, e);
        if (r < 0)
            return r;
        value = x.node;
        if (n->quoted && value->kind == CONF_SCALAR) { /* "${env:X}": quotes make it a string */
            value->quoted = true;
            value->text = x.text;
        }
        value->file = n->file;
        value->line = n->line;
        value->column = n->column;
        value->key_line = n->key_line;
        value->key_column = n->key_column;
        *slot = value;
        return value->kind == CONF_SCALAR || depth > CONF_EXPAND_MAX ? 0 : expand_node(c, slot, depth + 1, e);
    }
    buf_init(&b, CONF_SIZE_MAX);
    r = expand_text(c, n, n->text, depth, &b, e);
    if (r < 0)
        return r;
    n->text = arena_str(&c->arena, buf_str(&b));
    return n->text.p ? 0 : -ENOMEM;
}

static int expand_node(struct conf *c, struct conf_node **slot, int depth, struct err *e)
{
    struct conf_node *n = *slot;
    int r = 0;

    if (depth > CONF_EXPAND_MAX)
        return conf_error(n, -E2BIG, e, "nested too deeply");
    if (n->kind == CONF_SCALAR)
        return expand_scalar(c, slot, depth, e);
    for (uint32_t i = 0; r == 0 && i < n->n; i++)
        r = expand_node(c, &n->items[i], depth + 1, e);
    return r;
}

int conf_expand(struct conf *c, struct err *e)
{
    return c->root ? expand_node(c, &c->root, 0, e) : 0;
}
