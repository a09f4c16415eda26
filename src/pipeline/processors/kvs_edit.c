/* SPDX-License-Identifier: Apache-2.0 */
/* Edits a list of attributes, copying it before the first change. See kvs_edit.h. */
#include "pipeline/processors/kvs_edit.h"

#include <errno.h>

#include "conf/yaml.h"

void kvs_edit_init(struct kvs_edit *x, struct kvs *kvs, struct arena *a)
{
    *x = (struct kvs_edit){.kvs = kvs, .arena = a};
}

/* Makes a copy that can be changed, with room for `more`, unless there is one already. */
static bool own(struct kvs_edit *x, uint32_t more)
{
    uint32_t need = x->kvs->n + more, cap = MAX(x->cap * 2, need + 4);
    struct kv *v;

    if (x->err)
        return false;
    if (x->cap >= need && x->cap)
        return true;
    v = arena_zalloc_array(x->arena, cap, sizeof *v);
    if (!v) {
        x->err = -ENOMEM;
        return false;
    }
    if (x->kvs->n)
        memcpy(v, x->kvs->v, x->kvs->n * sizeof *v);
    x->kvs->v = v;
    x->cap = cap;
    return true;
}

struct value *kvs_edit_find(struct kvs_edit *x, struct str key)
{
    for (uint32_t i = 0; i < x->kvs->n; i++)
        if (str_eq(x->kvs->v[i].key, key))
            return &x->kvs->v[i].value;
    return NULL;
}

void kvs_edit_set(struct kvs_edit *x, struct str key, struct value v)
{
    struct value *old;

    if (!own(x, 1))
        return;
    old = kvs_edit_find(x, key);
    if (old)
        *old = v;
    else
        x->kvs->v[x->kvs->n++] = (struct kv){key, v};
}

void kvs_edit_filter(struct kvs_edit *x, bool (*keep)(void *arg, const struct kv *kv), void *arg)
{
    uint32_t n = 0;

    if (!own(x, 0))
        return;
    for (uint32_t i = 0; i < x->kvs->n; i++)
        if (keep(arg, &x->kvs->v[i]))
            x->kvs->v[n++] = x->kvs->v[i];
    x->kvs->n = n;
}

static bool differs(void *arg, const struct kv *kv)
{
    return !str_eq(*(struct str *) arg, kv->key);
}

void kvs_edit_remove(struct kvs_edit *x, struct str key)
{
    if (kvs_edit_find(x, key))
        kvs_edit_filter(x, differs, &key);
}

struct value value_from_conf(const struct conf_node *n, struct arena *a)
{
    struct value v = {0};
    bool flag;

    switch (n->kind) {
    case CONF_SCALAR:
        if (n->quoted)
            return value_from_str(n->text);
        if (conf_to_bool(n, &flag))
            return (struct value){.kind = VALUE_BOOL, .boolean = flag};
        if (conf_to_int(n, &v.integer))
            v.kind = VALUE_INT;
        else if (conf_to_double(n, &v.number))
            v.kind = VALUE_DOUBLE;
        else
            return value_from_str(n->text);
        return v;
    case CONF_LIST:
        v.array = arena_zalloc_array(a, n->n + 1, sizeof *v.array);
        if (!v.array)
            return (struct value){0};
        v.kind = VALUE_ARRAY;
        v.n = n->n;
        for (uint32_t i = 0; i < n->n; i++)
            v.array[i] = value_from_conf(n->items[i], a);
        return v;
    case CONF_MAP:
        v.map = arena_zalloc_array(a, n->n + 1, sizeof *v.map);
        if (!v.map)
            return (struct value){0};
        v.kind = VALUE_MAP;
        v.n = n->n;
        for (uint32_t i = 0; i < n->n; i++)
            v.map[i] = (struct kv){n->keys[i], value_from_conf(n->items[i], a)};
        return v;
    default:
        return v;
    }
}
