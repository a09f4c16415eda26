/* SPDX-License-Identifier: Apache-2.0 */
/* Makes configuration nodes (conf_make.h). */
#include "conf/conf_make.h"

#include <errno.h>

struct conf_node *make_node(struct conf_maker *m, struct conf_node *into, const char *key, enum conf_kind kind)
{
    struct conf_node *n = m->r == 0 ? conf_new(m->conf, kind, m->source, 1) : NULL;
    struct str k = key ? arena_str(&m->conf->arena, str_from(key)) : (struct str){0};

    if (m->r == 0)
        m->r = into && n ? conf_append(m->conf, into, k, n) : -ENOMEM;
    return m->r == 0 ? n : NULL;
}

struct conf_node *make_map(struct conf_maker *m, struct conf_node *into, const char *key)
{
    struct conf_node *there = m->r == 0 && into && key ? conf_get(into, key) : NULL;

    return there && there->kind == CONF_MAP ? there : make_node(m, into, key, CONF_MAP);
}

void make_text(struct conf_maker *m, struct conf_node *into, const char *key, struct str text)
{
    struct conf_node *n = make_node(m, into, key, CONF_SCALAR);

    if (!n)
        return;
    n->text = arena_str(&m->conf->arena, text);
    if (!n->text.p)
        m->r = -ENOMEM;
}

void make_string(struct conf_maker *m, struct conf_node *into, const char *key, struct str text)
{
    make_text(m, into, key, text);
    if (m->r == 0)
        into->items[into->n - 1]->quoted = true;
}

void make_list(struct conf_maker *m, struct conf_node *into, const char *key, const char *const *items)
{
    struct conf_node *list = make_node(m, into, key, CONF_LIST);

    for (; items[0]; items++)
        make_text(m, list, NULL, str_from(items[0]));
}
