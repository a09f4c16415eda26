/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and lists the labels and attributes of samples in the engine `memory`; see memory.h. */
#include "base/mem.h"
#include "store/engines/memory/memory.h"

static const struct attr *find_in_run(const struct batch *b, struct run attrs, struct str name)
{
    for (uint32_t i = 0; i < attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[attrs.off + i]];

        if (label_name_eq(b->dict.strings[a->key], name))
            return a;
    }
    return NULL;
}

void memory_find_attr(const struct memory_item *it, const struct sample *s, struct str name, struct buf *out)
{
    const struct batch *b = it->batch;
    const struct attr *a = find_in_run(b, s->attrs, name);
    const struct value *v;

    if (!a)
        a = find_in_run(b, b->profiles[it->in.profile].attrs, name);
    v = a ? &a->value : labels_find_kv(&b->resources[it->in.resource].attrs, name);
    if (v)
        value_print(out, v);
}

struct memory_listing {
    struct str name; /* empty: all names */
    store_attribute_fn fn;
    void *ctx;
};

static int report(const struct memory_listing *x, struct str key, const struct value *v)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    if (!x->name.n)
        return x->fn(x->ctx, key, (struct str){"", 0});
    if (!label_name_eq(key, x->name))
        return 0;
    value_print(&text, v);
    return buf_error(&text) ? buf_error(&text) : x->fn(x->ctx, key, buf_str(&text));
}

static int report_run(const struct memory_listing *x, const struct batch *b, struct run attrs)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < attrs.n; i++) {
        const struct attr *a = &b->dict.attrs[b->dict.indices[attrs.off + i]];

        r = report(x, b->dict.strings[a->key], &a->value);
    }
    return r;
}

static int report_item(const struct memory_listing *x, const struct memory_item *it, bool is_label)
{
    const struct batch *b = it->batch;
    const struct kvs *resource = &b->resources[it->in.resource].attrs;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < it->labels->n; i++) {
        const struct label *l = &it->labels->v[i];

        if (!x->name.n || label_name_eq(l->name, x->name))
            r = x->fn(x->ctx, l->name, x->name.n ? l->value : (struct str){"", 0});
    }
    if (is_label)
        return r;
    if (r == 0)
        r = report_run(x, b, b->profiles[it->in.profile].attrs);
    for (uint32_t i = 0; r == 0 && i < resource->n; i++)
        r = report(x, resource->v[i].key, &resource->v[i].value);
    return r;
}

int memory_attributes(struct store *s, const struct store_query *q, struct str name, store_attribute_fn fn, void *ctx,
                      struct err *e)
{
    struct memory_store *m = container_of(s, struct memory_store, store);
    struct memory_listing x = {name, fn, ctx};
    bool is_label = match_is_label(s->labels, name);
    struct match match;
    int r = match_column(&match, &q->columns[0], m->limits.allow, false, e);

    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; r == 0 && i < m->n; i++) {
        const struct memory_item *it = &m->items[i];
        const struct profile *p = &it->batch->profiles[it->in.profile];
        bool any = !match.n_detail && !store_query_by_span(q);

        if (!memory_item_matches(m, it, q, &match, &q->columns[0]))
            continue;
        for (uint32_t k = 0; r == 0 && k < p->samples.n; k++) {
            const struct sample *sample = &it->batch->samples[p->samples.off + k];

            if (!memory_sample_matches(it, sample, q, &match))
                continue;
            any = true;
            if (!is_label)
                r = report_run(&x, it->batch, sample->attrs);
        }
        if (r == 0 && any)
            r = report_item(&x, it, is_label);
    }
    pthread_mutex_unlock(&m->lock);
    return r;
}
