/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses YAML: libyaml's events become nodes (yaml.h). The limits (size, depth, nodes) also hold for hostile files and
 * for aliases: an alias is a copy of the anchor's node and everything below it, and all copies together may have at
 * most a quarter of CONF_NODES_MAX nodes.
 */
#include "conf/yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

#include "base/mem.h"

enum { ANCHORS_MAX = 256 };

struct anchor {
    struct str name;
    struct conf_node *node;
    bool open; /* still being read: an alias to it would make a cycle */
};

struct parse {
    struct conf *conf;
    yaml_parser_t yaml;
    const char *name;
    struct anchor anchors[ANCHORS_MAX];
    uint32_t n_anchors;
    uint32_t alias_cost; /* nodes copied for aliases */
    struct err *e;
};

void conf_init(struct conf *c)
{
    *c = (struct conf){0};
    arena_init(&c->arena, CONF_TEXT_MAX);
}

void conf_done(struct conf *c)
{
    arena_done(&c->arena);
    c->root = NULL;
}

struct conf_node *conf_new(struct conf *c, enum conf_kind kind, const char *file, uint32_t line)
{
    struct conf_node *n;

    if (c->n_nodes >= CONF_NODES_MAX)
        return NULL;
    n = arena_zalloc(&c->arena, sizeof *n);
    if (!n)
        return NULL;
    c->n_nodes++;
    n->kind = kind;
    n->file = file;
    n->line = line;
    return n;
}

int conf_append(struct conf *c, struct conf_node *to, struct str key, struct conf_node *item)
{
    if (to->n == to->cap) {
        uint32_t cap = to->cap ? to->cap * 2 : 4;
        struct conf_node **items = arena_zalloc_array(&c->arena, cap, sizeof *items);
        struct str *keys = arena_zalloc_array(&c->arena, cap, sizeof *keys);

        if (!items || !keys)
            return -ENOMEM;
        if (to->n) {
            memcpy(items, to->items, to->n * sizeof *items);
            memcpy(keys, to->keys, to->n * sizeof *keys);
        }
        to->items = items;
        to->keys = keys;
        to->cap = cap;
    }
    to->keys[to->n] = key;
    to->items[to->n++] = item;
    return 0;
}

static int fail_at(struct parse *p, const yaml_event_t *ev, int code, const char *what)
{
    return err_set(p->e, code, "%s:%zu:%zu: %s", p->name, ev->start_mark.line + 1, ev->start_mark.column + 1, what);
}

static int next_event(struct parse *p, yaml_event_t *ret)
{
    if (yaml_parser_parse(&p->yaml, ret))
        return 0;
    if (p->yaml.error == YAML_MEMORY_ERROR)
        return -ENOMEM;
    return err_set(p->e, -EINVAL, "%s:%zu:%zu: %s%s%s", p->name, p->yaml.problem_mark.line + 1,
                   p->yaml.problem_mark.column + 1, p->yaml.problem ? p->yaml.problem : "invalid YAML", p->yaml.context ? " " : "",
                   p->yaml.context ? p->yaml.context : "");
}

static int remember(struct parse *p, const yaml_event_t *ev, const yaml_char_t *anchor, struct conf_node *n, bool open)
{
    if (!anchor)
        return 0;
    if (p->n_anchors == ANCHORS_MAX)
        return fail_at(p, ev, -E2BIG, "too many anchors");
    p->anchors[p->n_anchors++] = (struct anchor){arena_str(&p->conf->arena, str_from((const char *) anchor)), n, open};
    return 0;
}

static uint32_t count_nodes(const struct conf_node *n, uint32_t limit)
{
    uint32_t sum = 1;

    for (uint32_t i = 0; i < n->n && sum <= limit; i++)
        sum += count_nodes(n->items[i], limit - sum);
    return sum;
}

/* An alias is a deep copy (only text is shared), so that each place can be merged and expanded independently; the
 * caller bounds the cost. */
static struct conf_node *copy_node(struct parse *p, const struct conf_node *from)
{
    struct conf_node *n = conf_new(p->conf, from->kind, from->file, from->line);

    if (!n)
        return NULL;
    n->column = from->column;
    n->key_line = from->key_line;
    n->key_column = from->key_column;
    n->quoted = from->quoted;
    n->text = from->text;
    for (uint32_t i = 0; i < from->n; i++) {
        struct conf_node *child = copy_node(p, from->items[i]);

        if (!child || conf_append(p->conf, n, from->keys[i], child) < 0)
            return NULL;
    }
    return n;
}

static int resolve_alias(struct parse *p, const yaml_event_t *ev, struct conf_node **ret)
{
    struct str name = str_from((const char *) ev->data.alias.anchor);

    for (uint32_t i = p->n_anchors; i-- > 0;) {
        if (!str_eq(p->anchors[i].name, name))
            continue;
        if (p->anchors[i].open)
            return fail_at(p, ev, -EINVAL, "an alias refers to a node that contains it");
        p->alias_cost += count_nodes(p->anchors[i].node, CONF_NODES_MAX);
        if (p->alias_cost > CONF_NODES_MAX / 4)
            return fail_at(p, ev, -E2BIG, "aliases expand to too much data");
        *ret = copy_node(p, p->anchors[i].node);
        return *ret ? 0 : fail_at(p, ev, -E2BIG, "too large");
    }
    return fail_at(p, ev, -EINVAL, "an alias refers to an unknown anchor");
}

static int parse_node(struct parse *p, const yaml_event_t *ev, int depth, struct conf_node **ret);

static int parse_list(struct parse *p, struct conf_node *n, int depth)
{
    for (;;) {
        struct conf_node *item = NULL;
        yaml_event_t ev;
        int r = next_event(p, &ev);

        if (r < 0)
            return r;
        if (ev.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&ev);
            return 0;
        }
        r = parse_node(p, &ev, depth + 1, &item);
        if (r == 0)
            r = conf_append(p->conf, n, (struct str){0}, item);
        yaml_event_delete(&ev);
        if (r < 0)
            return r;
    }
}

/* YAML's merge key: the mapping's own keys take precedence, whatever the order. */
static int merge_into(struct parse *p, const yaml_event_t *ev, struct conf_node *n, const struct conf_node *from)
{
    if (from->kind == CONF_LIST) {
        for (uint32_t i = 0; i < from->n; i++) {
            int r = merge_into(p, ev, n, from->items[i]);

            if (r < 0)
                return r;
        }
        return 0;
    }
    if (from->kind != CONF_MAP)
        return fail_at(p, ev, -EINVAL, "'<<' requires a mapping");
    for (uint32_t i = 0; i < from->n; i++)
        if (!conf_get_str(n, from->keys[i]) && conf_append(p->conf, n, from->keys[i], from->items[i]) < 0)
            return -ENOMEM;
    return 0;
}

static int parse_map_value(struct parse *p, struct conf_node *n, const yaml_event_t *key, int depth,
                           struct conf_node **ret_merge)
{
    struct str k = {(const char *) key->data.scalar.value, (uint32_t) key->data.scalar.length};
    struct conf_node *item = NULL;
    yaml_event_t ev;
    int r;

    if (key->type != YAML_SCALAR_EVENT)
        return fail_at(p, key, -EINVAL, "a key must be a scalar");
    k = arena_str(&p->conf->arena, k);
    if (!k.p)
        return -ENOMEM;
    r = next_event(p, &ev);
    if (r < 0)
        return r;
    r = parse_node(p, &ev, depth + 1, &item);
    yaml_event_delete(&ev);
    if (r < 0)
        return r;
    if (str_is(k, "<<")) {
        *ret_merge = item;
        return 0;
    }
    for (uint32_t i = 0; i < n->n; i++)
        if (str_eq(n->keys[i], k))
            return err_set(p->e, -EINVAL, "%s:%zu:%zu: key '%.*s' appears twice", p->name, key->start_mark.line + 1,
                           key->start_mark.column + 1, STR_FMT(k));
    item->key_line = (uint32_t) key->start_mark.line + 1;
    item->key_column = (uint32_t) key->start_mark.column + 1;
    return conf_append(p->conf, n, k, item);
}

static int parse_map(struct parse *p, struct conf_node *n, int depth)
{
    struct conf_node *merge = NULL; /* applied last */

    for (;;) {
        yaml_event_t key;
        int r = next_event(p, &key);

        if (r < 0)
            return r;
        if (key.type == YAML_MAPPING_END_EVENT) {
            r = merge ? merge_into(p, &key, n, merge) : 0;
            yaml_event_delete(&key);
            return r;
        }
        r = parse_map_value(p, n, &key, depth, &merge);
        yaml_event_delete(&key);
        if (r < 0)
            return r;
    }
}

static int parse_scalar(struct parse *p, const yaml_event_t *ev, struct conf_node *n)
{
    n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->text = arena_str(&p->conf->arena,
                        (struct str){(const char *) ev->data.scalar.value, (uint32_t) ev->data.scalar.length});
    if (!n->text.p)
        return -ENOMEM;
    if (conf_is_null(n))
        n->kind = CONF_NULL;
    return remember(p, ev, ev->data.scalar.anchor, n, false);
}

static int parse_node(struct parse *p, const yaml_event_t *ev, int depth, struct conf_node **ret)
{
    bool map = ev->type == YAML_MAPPING_START_EVENT, list = ev->type == YAML_SEQUENCE_START_EVENT;
    struct conf_node *n;
    uint32_t anchor = p->n_anchors;
    int r;

    if (depth > CONF_DEPTH_MAX)
        return fail_at(p, ev, -E2BIG, "nested too deeply");
    if (ev->type == YAML_ALIAS_EVENT)
        return resolve_alias(p, ev, ret);
    if (!map && !list && ev->type != YAML_SCALAR_EVENT)
        return fail_at(p, ev, -EINVAL, "unexpected end");
    n = conf_new(p->conf, map ? CONF_MAP : list ? CONF_LIST : CONF_SCALAR, p->name, ev->start_mark.line + 1);
    if (!n)
        return fail_at(p, ev, -E2BIG, "too large");
    n->column = (uint32_t) ev->start_mark.column + 1;
    *ret = n;
    if (!map && !list)
        return parse_scalar(p, ev, n);
    r = remember(p, ev, map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor, n, true);
    if (r == 0)
        r = map ? parse_map(p, n, depth) : parse_list(p, n, depth);
    if (r == 0 && p->n_anchors > anchor && p->anchors[anchor].node == n)
        p->anchors[anchor].open = false;
    return r;
}

/* STREAM-START [DOCUMENT-START node DOCUMENT-END] STREAM-END; a second document is refused. */
static int parse_document(struct parse *p, struct conf_node **ret)
{
    bool seen = false;

    for (;;) {
        yaml_event_t ev;
        int type, r = next_event(p, &ev);

        if (r < 0)
            return r;
        type = ev.type;
        if (type == YAML_DOCUMENT_START_EVENT && seen)
            r = fail_at(p, &ev, -EINVAL, "a second document ('---'): only one is allowed");
        else if (type == YAML_SCALAR_EVENT || type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT ||
                 type == YAML_ALIAS_EVENT)
            r = parse_node(p, &ev, 0, ret);
        seen |= type == YAML_DOCUMENT_END_EVENT;
        yaml_event_delete(&ev);
        if (r < 0 || type == YAML_STREAM_END_EVENT)
            return r;
    }
}

int conf_parse(struct conf *c, struct str text, const char *name, struct conf_node **ret, struct err *e)
{
    struct parse p = {.conf = c, .name = arena_cstr(&c->arena, str_from(name)), .e = e};
    struct conf_node *n = NULL;
    int r;

    if (text.n > CONF_SIZE_MAX)
        return err_set(e, -E2BIG, "%s: larger than %d bytes", name, CONF_SIZE_MAX);
    if (!p.name || !yaml_parser_initialize(&p.yaml))
        return -ENOMEM;
    yaml_parser_set_input_string(&p.yaml, (const unsigned char *) (text.p ? text.p : ""), text.n);
    yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
    r = parse_document(&p, &n);
    yaml_parser_delete(&p.yaml);
    if (r == 0 && !n)
        n = conf_new(c, CONF_NULL, p.name, 1);
    if (r == 0 && !n)
        r = -ENOMEM;
    if (r == 0)
        *ret = n;
    return r;
}

struct conf_node *conf_get_str(const struct conf_node *map, struct str key)
{
    if (!map || map->kind != CONF_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->n; i++)
        if (str_eq(map->keys[i], key))
            return map->items[i];
    return NULL;
}

struct conf_node *conf_get(const struct conf_node *map, const char *key)
{
    return conf_get_str(map, str_from(key));
}

int conf_error(const struct conf_node *n, int code, struct err *e, const char *fmt, ...)
{
    char text[ERR_MESSAGE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!n || !n->file)
        return err_set(e, code, "%s", text);
    if (n->column)
        return err_set(e, code, "%s:%u:%u: %s", n->file, n->line, n->column, text);
    return err_set(e, code, "%s:%u: %s", n->file, n->line, text);
}

bool conf_is_null(const struct conf_node *n)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};

    if (!n || n->kind == CONF_NULL)
        return true;
    for (size_t i = 0; n->kind == CONF_SCALAR && !n->quoted && i < ARRAY_SIZE(words); i++)
        if (str_is(n->text, words[i]))
            return true;
    return false;
}

bool conf_to_bool(const struct conf_node *n, bool *ret)
{
    static const char *const yes[] = {"true", "True", "TRUE"}, *const no[] = {"false", "False", "FALSE"};

    if (!n || n->kind != CONF_SCALAR)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (!str_is(n->text, yes[i]) && !str_is(n->text, no[i]))
            continue;
        *ret = str_is(n->text, yes[i]);
        return true;
    }
    return false;
}

bool conf_to_int(const struct conf_node *n, int64_t *ret)
{
    struct str s;
    bool hex;

    if (!n || n->kind != CONF_SCALAR || !n->text.n)
        return false;
    s = n->text;
    hex = str_starts(s, STR("0x"));
    if (str_starts(s, STR("+")))
        s = str_slice(s, 1, s.n);
    return str_to_i64(s, hex ? 0 : 10, ret) == 0;
}

bool conf_to_double(const struct conf_node *n, double *ret)
{
    return n && n->kind == CONF_SCALAR && n->text.n && str_to_double(n->text, ret) == 0;
}
