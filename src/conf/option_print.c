/* SPDX-License-Identifier: Apache-2.0 */
/* The output direction of option.h and yaml.h: effective configuration as a tree, a tree as YAML, tables as help. */
#include <ctype.h>

#include "base/url.h"
#include "conf/option.h"

static struct conf_node *hidden(struct conf *c, const struct conf_node *like)
{
    struct conf_node *n = conf_new(c, CONF_SCALAR, like->file, like->line);

    if (n) {
        n->text = STR("[REDACTED]");
        n->quoted = true;
    }
    return n;
}

/* Hides the values of a map or list, or the value itself. */
static struct conf_node *redact(struct conf *c, const struct conf_node *n)
{
    struct conf_node *copy;

    if (n->kind == CONF_NULL || (n->kind == CONF_SCALAR && !n->text.n))
        return (struct conf_node *) n;
    if (n->kind == CONF_SCALAR)
        return hidden(c, n);
    copy = conf_new(c, n->kind, n->file, n->line);
    for (uint32_t i = 0; copy && i < n->n; i++) {
        struct conf_node *item =
            n->kind == CONF_MAP && str_is(n->keys[i], "name") ? n->items[i] : redact(c, n->items[i]);

        if (!item || conf_append(c, copy, n->keys[i], item) < 0)
            return NULL;
    }
    return copy;
}

/* A URL, or a list of them, without the password that may be in it. */
static struct conf_node *without_password(struct conf *c, struct conf_node *n)
{
    char *text = NULL;
    struct conf_node *copy;

    if (n->kind == CONF_SCALAR && (str_find(n->text, STR("://")) < 0 || str_find_char(n->text, '@') < 0))
        return n;
    if (n->kind != CONF_SCALAR && n->kind != CONF_LIST)
        return n;
    copy = conf_new(c, n->kind, n->file, n->line);
    if (copy && n->kind == CONF_SCALAR) {
        size_t room = (size_t) n->text.n + sizeof ":xxxxx";
        char *given = arena_cstr(&c->arena, n->text);

        text = arena_alloc(&c->arena, room);
        if (!text || !given)
            return NULL;
        copy->text = str_from(url_redact(given, text, room));
        copy->quoted = n->quoted;
    }
    for (uint32_t i = 0; copy && n->kind == CONF_LIST && i < n->n; i++) {
        struct conf_node *item = without_password(c, n->items[i]);

        if (!item || conf_append(c, copy, (struct str){0}, item) < 0)
            return NULL;
    }
    return copy;
}

static struct conf_node *effective_value(struct conf *c, const struct option *o, struct conf_node *given, bool show)
{
    struct conf_node *n = given, *list;
    struct err e;

    if (o->kind == OPT_TABLE && (given || !o->present))
        return option_effective(c, o->table, given, show);
    if (o->kind == OPT_TABLES && given && given->kind == CONF_LIST) {
        list = conf_new(c, CONF_LIST, given->file, given->line);
        for (uint32_t i = 0; list && i < given->n; i++) {
            n = option_effective(c, o->table, given->items[i], show);
            if (!n || conf_append(c, list, (struct str){0}, n) < 0)
                return NULL;
        }
        return list;
    }
    if (!n && o->def && conf_parse(c, str_from(o->def), o->name, &n, &e) < 0)
        return NULL;
    if (!n || show)
        return n;
    return o->secret ? redact(c, n) : without_password(c, n);
}

struct conf_node *option_effective(struct conf *c, const struct option *table, const struct conf_node *node, bool show)
{
    struct conf_node *out = conf_new(c, CONF_MAP, node ? node->file : NULL, node ? node->line : 0);

    for (const struct option *o = table; out && o->name; o++) {
        struct conf_node *given = conf_get(node, o->name), *n = effective_value(c, o, given, show);

        if (n && conf_append(c, out, str_from(o->name), n) < 0)
            return NULL;
    }
    return out;
}

/* --- YAML text --- */

static bool needs_quotes(struct str s, bool quoted)
{
    struct conf_node n = {.kind = CONF_SCALAR, .text = s};
    int64_t i;
    double d;
    bool b;

    if (!s.n || isspace((unsigned char) s.p[0]) || isspace((unsigned char) s.p[s.n - 1]))
        return true;
    if (quoted && (conf_is_null(&n) || conf_to_bool(&n, &b) || conf_to_int(&n, &i) || conf_to_double(&n, &d)))
        return true;
    if (strchr("-?:,[]{}#&*!|>'\"%@`", s.p[0]) && !(s.p[0] == '-' && s.n > 1 && isdigit((unsigned char) s.p[1])))
        return true;
    for (uint32_t k = 0; k < s.n; k++)
        if ((unsigned char) s.p[k] < 0x20 || (unsigned char) s.p[k] == 0x7f ||
            (s.p[k] == ':' && (k + 1 == s.n || s.p[k + 1] == ' ')) || (s.p[k] == '#' && k && s.p[k - 1] == ' '))
            return true;
    return false;
}

void conf_print_scalar(struct buf *out, struct str s, bool quoted)
{
    if (!needs_quotes(s, quoted)) {
        buf_put_str(out, s);
        return;
    }
    buf_putc(out, '"');
    for (uint32_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char) s.p[i];

        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_puts(out, "\\n");
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\x%02x", c);
        else
            buf_putc(out, (char) c);
    }
    buf_putc(out, '"');
}

static void print_child(struct buf *out, const struct conf_node *n, int indent)
{
    if (n->kind == CONF_MAP || n->kind == CONF_LIST) {
        if (!n->n) {
            buf_puts(out, n->kind == CONF_MAP ? " {}\n" : " []\n");
            return;
        }
        buf_putc(out, '\n');
        conf_print(out, n, indent);
        return;
    }
    if (n->kind == CONF_SCALAR) {
        buf_putc(out, ' ');
        conf_print_scalar(out, n->text, n->quoted);
    }
    buf_putc(out, '\n');
}

void conf_print(struct buf *out, const struct conf_node *n, int indent)
{
    if (n->kind != CONF_MAP && n->kind != CONF_LIST) {
        if (n->kind == CONF_SCALAR)
            conf_print_scalar(out, n->text, n->quoted);
        buf_putc(out, '\n');
        return;
    }
    for (uint32_t i = 0; i < n->n; i++) {
        buf_pad(out, ' ', (size_t) indent);
        if (n->kind == CONF_MAP) {
            conf_print_scalar(out, n->keys[i], true);
            buf_putc(out, ':');
        } else {
            buf_putc(out, '-');
        }
        print_child(out, n->items[i], indent + 4);
    }
}

/* --- help --- */

static const char *kind_word(const struct option *o)
{
    static const char *const words[] = {
        [OPT_BOOL] = "true|false", [OPT_INT] = "number",    [OPT_DOUBLE] = "number",       [OPT_STRING] = "text",
        [OPT_DURATION] = "time",   [OPT_SIZE] = "bytes",    [OPT_STRINGS] = "list",        [OPT_MAP] = "map",
        [OPT_ENUM] = "word",       [OPT_TABLE] = "map",     [OPT_TABLES] = "list of maps", [OPT_CUSTOM] = "value",
        [OPT_IGNORED] = "value",   [OPT_REFUSED] = "value",
    };

    return words[o->kind];
}

static void help_option(struct buf *out, const struct option *o, int indent, bool markdown)
{
    size_t start;

    buf_pad(out, ' ', (size_t) indent);
    start = out->n;
    buf_printf(out, markdown ? "- `%s` (" : "%s (", o->name);
    if (o->kind == OPT_ENUM)
        for (int i = 0; o->words[i]; i++)
            buf_printf(out, "%s%s", i ? "|" : "", *o->words[i] ? o->words[i] : "\"\"");
    else
        buf_puts(out, kind_word(o));
    if (o->required)
        buf_puts(out, ", required");
    if (o->def)
        buf_printf(out, ", default %s", o->def);
    buf_puts(out, ")");
    if (!markdown && out->n - start < 44)
        buf_pad(out, ' ', 44 - (out->n - start));
    buf_printf(out, "%s%s%s\n", markdown ? ": " : " ",
               o->kind == OPT_IGNORED && !o->elsewhere ? "accepted, no effect: "
               : o->kind == OPT_REFUSED                ? "not supported: "
                                                       : "",
               o->help ? o->help : "");
}

void option_help(struct buf *out, const struct option *table, int indent, bool markdown)
{
    for (const struct option *o = table; o->name; o++) {
        help_option(out, o, indent, markdown);
        if (o->table)
            option_help(out, o->table, indent + 2, markdown);
    }
}
