/* SPDX-License-Identifier: Apache-2.0 */
/* The labels that samples of a joined profile get from their resource and link (see convert_joiner.h). Strings,
 * attributes and index lists become private copies of the result when the first label is added. */
#include <errno.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "model/convert_joiner.h"

/* --- a growable dictionary --- */

static int copy_table(struct joiner *j, int own, void *table, uint32_t n, size_t *cap, size_t elem)
{
    void **p = table, *copy = NULL;
    int r = mem_grow(&copy, cap, (size_t) n + 16, elem, UINT32_MAX);

    if (r < 0)
        return r;
    if (n)
        memcpy(copy, *p, n * elem);
    *p = j->out->owned[own] = copy;
    return 0;
}

static int own_dict(struct joiner *j)
{
    struct dict *d = &j->out->dict;
    int r;

    if (j->grown)
        return 0;
    r = copy_table(j, OWN_STRINGS, &d->strings, d->n_strings, &j->cap_strings, sizeof *d->strings);
    if (r == 0)
        r = copy_table(j, OWN_ATTRS, &d->attrs, d->n_attrs, &j->cap_attrs, sizeof *d->attrs);
    if (r == 0)
        r = copy_table(j, OWN_INDICES, &d->indices, d->n_indices, &j->cap_indices, sizeof *d->indices);
    j->grown = r == 0;
    return r;
}

static int add_string(struct joiner *j, struct str s, uint32_t *ret)
{
    struct dict *d = &j->out->dict;
    struct str copy = arena_str(&j->out->arena, s);
    int r = own_dict(j);

    if (r == 0)
        r = array_reserve(d->strings, j->cap_strings, (size_t) d->n_strings + 1, UINT32_MAX);
    if (r < 0 || (s.n && !copy.p))
        return r < 0 ? r : -ENOMEM;
    j->out->owned[OWN_STRINGS] = d->strings;
    d->strings[d->n_strings] = copy;
    *ret = d->n_strings++;
    return 0;
}

static int add_attr(struct joiner *j, struct str key, const struct value *v, uint32_t *ret)
{
    struct dict *d = &j->out->dict;
    struct attr a = {.value = *v};
    int r = add_string(j, key, &a.key);

    if (r == 0)
        r = array_reserve(d->attrs, j->cap_attrs, (size_t) d->n_attrs + 1, UINT32_MAX);
    if (r < 0)
        return r;
    j->out->owned[OWN_ATTRS] = d->attrs;
    d->attrs[d->n_attrs] = a; /* values live as long as the source: the result holds a reference to it */
    *ret = d->n_attrs++;
    return 0;
}

int joiner_add_run(struct joiner *j, const uint32_t *v, uint32_t n, struct run *ret)
{
    struct dict *d = &j->out->dict;
    int r = own_dict(j);

    if (r == 0)
        r = array_reserve(d->indices, j->cap_indices, (size_t) d->n_indices + n, UINT32_MAX);
    if (r < 0)
        return r;
    j->out->owned[OWN_INDICES] = d->indices;
    memcpy(d->indices + d->n_indices, v, n * sizeof *v);
    *ret = (struct run){d->n_indices, n};
    d->n_indices += n;
    return 0;
}

/* --- labels --- */

static bool has_key(const struct joiner *j, struct str key)
{
    for (size_t i = 0; i < j->n_keys; i++)
        if (str_eq(j->keys[i], key))
            return true;
    return false;
}

/* Records the keys of a that b lacks or has with another value. */
static int note_keys(struct joiner *j, const struct kvs *a, const struct kvs *b)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const struct value *other = kvs_get(b, a->v[i].key);
        int r;

        if ((other && value_eq(other, &a->v[i].value)) || has_key(j, a->v[i].key))
            continue;
        r = array_push(j->keys, j->n_keys, j->cap_keys, UINT32_MAX, a->v[i].key);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Finds the resource attributes that differ between units of the set: each unit is compared with the first, both
 * ways. */
int joiner_find_keys(struct joiner *j, uint32_t set)
{
    const struct resource *all = j->b->resources;
    const struct kvs *first = &all[j->units[j->sets[set].unit].resource].attrs;
    int r = 0;

    j->n_keys = 0;
    for (size_t i = j->sets[set].unit; r == 0 && j->sets[set].n_units > 1 && i < j->n_units; i++) {
        const struct kvs *attrs = &all[j->units[i].resource].attrs;

        if (j->units[i].set != set || attrs == first)
            continue;
        r = note_keys(j, attrs, first);
        if (r == 0)
            r = note_keys(j, first, attrs);
    }
    return r;
}

/* Prepares the labels that samples of this unit get from their resource. */
int joiner_resource_labels(struct joiner *j, const struct unit *u)
{
    const struct kvs *attrs = &j->b->resources[u->resource].attrs;
    int r = 0;

    j->n_resource_attrs = 0;
    mem_free(j->resource_attrs);
    j->resource_attrs = NULL;
    if (!j->n_keys || !j->single)
        return 0;
    j->resource_attrs = mem_zalloc_array((size_t) attrs->n + 1, sizeof(uint32_t));
    if (!j->resource_attrs)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < attrs->n; i++)
        if (has_key(j, attrs->v[i].key))
            r = add_attr(j, attrs->v[i].key, &attrs->v[i].value, &j->resource_attrs[j->n_resource_attrs++]);
    return r;
}

static int hex_attr(struct joiner *j, struct str key, const uint8_t *bytes, size_t n, uint32_t *ret)
{
    char *hex = arena_alloc_aligned(&j->out->arena, 2 * n, 1);

    if (!hex)
        return -ENOMEM;
    hex_write(hex, bytes, n);
    return add_attr(j, key, &(struct value){.kind = VALUE_STR, .n = (uint32_t) (2 * n), .str = hex}, ret);
}

static int link_labels(struct joiner *j, uint32_t link)
{
    const struct link *l = &j->b->dict.links[link];
    int r;

    if (!j->link_attrs) {
        j->link_attrs = mem_zalloc_array(j->b->dict.n_links, sizeof *j->link_attrs);
        if (!j->link_attrs)
            return -ENOMEM;
    }
    if (j->link_attrs[link][0])
        return 0;
    r = hex_attr(j, STR("trace_id"), l->trace_id, sizeof l->trace_id, &j->link_attrs[link][0]);
    return r < 0 ? r : hex_attr(j, STR("span_id"), l->span_id, sizeof l->span_id, &j->link_attrs[link][1]);
}

/* Collects the attributes of a sample in the result: its own, its resource's and its link's. */
int joiner_sample_attrs(struct joiner *j, const struct sample *s, struct run *ret)
{
    uint32_t n = s->attrs.n;
    bool linked = j->single && s->link;
    int r;

    *ret = s->attrs;
    if (!j->n_resource_attrs && !linked)
        return 0;
    r = linked ? link_labels(j, s->link) : 0;
    if (r == 0)
        r = array_reserve(j->list, j->cap_list, (size_t) n + j->n_resource_attrs + 2, UINT32_MAX);
    if (r < 0)
        return r;
    if (n)
        memcpy(j->list, j->b->dict.indices + s->attrs.off, n * sizeof *j->list);
    if (j->n_resource_attrs)
        memcpy(j->list + n, j->resource_attrs, j->n_resource_attrs * sizeof *j->list);
    n += j->n_resource_attrs;
    if (linked) {
        memcpy(j->list + n, j->link_attrs[s->link], sizeof j->link_attrs[s->link]);
        n += 2;
    }
    return joiner_add_run(j, j->list, n, ret);
}
