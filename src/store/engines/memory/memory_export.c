/* SPDX-License-Identifier: Apache-2.0 */
/* Export of profiles from the engine `memory`. One item becomes one profile of its original type, with its twin if it
 * had one. */
#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"
#include "store/engines/memory/memory.h"

enum { LIST_MAX = 65536 };

struct export
{
    struct builder *to;
    const struct batch *from;
    uint32_t resource, scope; /* of the previous item, valid with `from` */
    uint32_t list[LIST_MAX];
    struct line lines[LIST_MAX / 16];
    int64_t values[LIST_MAX];
};

static uint32_t copy_string(struct export *x, uint32_t i)
{
    return builder_string(x->to, batch_string(x->from, i));
}

static uint32_t copy_attr_list(struct export *x, struct run attrs, uint32_t *list)
{
    uint32_t n = MIN(attrs.n, 256u);

    for (uint32_t i = 0; i < n; i++) {
        const struct attr *a = &x->from->dict.attrs[x->from->dict.indices[attrs.off + i]];

        list[i] = builder_attr(x->to, copy_string(x, a->key), copy_string(x, a->unit), &a->value);
    }
    return n;
}

static struct run copy_attrs(struct export *x, struct run attrs)
{
    uint32_t list[256], n = copy_attr_list(x, attrs, list);

    return builder_attrs(x->to, list, n);
}

static uint32_t copy_mapping(struct export *x, uint32_t i)
{
    struct mapping m = x->from->dict.mappings[i];
    uint32_t list[256], n = copy_attr_list(x, m.attrs, list);

    if (!i)
        return 0;
    m.filename = copy_string(x, m.filename);
    return builder_mapping(x->to, &m, list, n);
}

static uint32_t copy_location(struct export *x, uint32_t i)
{
    const struct location *l = &x->from->dict.locations[i];
    uint32_t list[256], n = copy_attr_list(x, l->attrs, list), n_lines = MIN(l->lines.n, ARRAY_SIZE(x->lines));

    for (uint32_t k = 0; k < n_lines; k++) {
        struct line line = x->from->dict.lines[l->lines.off + k];
        struct function f = x->from->dict.functions[line.function];

        f.name = copy_string(x, f.name);
        f.system_name = copy_string(x, f.system_name);
        f.filename = copy_string(x, f.filename);
        line.function = builder_function(x->to, &f);
        x->lines[k] = line;
    }
    return builder_location(x->to, &(struct builder_location){.mapping = copy_mapping(x, l->mapping),
                                                              .address = l->address,
                                                              .lines = x->lines,
                                                              .n_lines = n_lines,
                                                              .attrs = list,
                                                              .n_attrs = n});
}

/* Copies the part of a sample that was taken when the column says. */
static void copy_taken(struct export *x, const struct sample *s, const struct builder_sample *like,
                       const struct store_column *c)
{
    for (uint32_t i = 0; i < s->timestamps.n; i++) {
        const uint64_t *time = &x->from->timestamps[s->timestamps.off + i];
        struct builder_sample one = *like;

        if (!store_column_taken(c, (int64_t) *time))
            continue;
        one.timestamps = time;
        one.n_timestamps = 1;
        one.values = s->values.n ? &x->from->values[s->values.off + i] : NULL;
        one.n_values = s->values.n ? 1 : 0;
        builder_sample(x->to, &one);
    }
}

static void copy_sample(struct export *x, const struct memory_item *it, uint32_t index, const struct match *match)
{
    const struct batch *b = x->from;
    const struct sample *s = &b->samples[index];
    struct run st = b->dict.stacks[s->stack];
    uint32_t n = MIN(st.n, (uint32_t) LIST_MAX), n_values = 1;
    uint32_t link = s->link ? builder_link(x->to, &b->dict.links[s->link]) : 0, stack;
    bool stamped = intake_is_stamped(&it->in, s);

    for (uint32_t i = 0; i < n; i++)
        x->list[i] = copy_location(x, b->dict.indices[st.off + i]);
    stack = builder_stack(x->to, x->list, n);
    if (stamped && match->column->taken_to) {
        copy_taken(x, s, &(struct builder_sample){.stack = stack, .link = link, .attrs = copy_attrs(x, s->attrs)},
                   match->column);
        return;
    }
    if (stamped && s->values.n) {
        builder_sample(x->to, &(struct builder_sample){.stack = stack,
                                                       .link = link,
                                                       .attrs = copy_attrs(x, s->attrs),
                                                       .values = b->values + s->values.off,
                                                       .n_values = s->values.n,
                                                       .timestamps = b->timestamps + s->timestamps.off,
                                                       .n_timestamps = s->timestamps.n});
        return;
    }
    x->values[0] = intake_value(b, &it->in, index) / it->in.scale;
    if (it->in.has_twin) {
        x->values[1] = x->values[0];
        x->values[0] = x->values[1] / it->in.twin_scale;
        n_values = 2;
    }
    builder_sample(x->to, &(struct builder_sample){.stack = stack,
                                                   .link = link,
                                                   .attrs = copy_attrs(x, s->attrs),
                                                   .values = x->values,
                                                   .n_values = stamped ? 0 : n_values,
                                                   .timestamps = stamped ? b->timestamps + s->timestamps.off : NULL,
                                                   .n_timestamps = stamped ? s->timestamps.n : 0});
}

static void copy_kvs(struct export *x, const struct kvs *kvs,
                     void (*put)(struct builder *, struct str, const struct value *))
{
    for (uint32_t i = 0; i < kvs->n; i++)
        put(x->to, kvs->v[i].key, &kvs->v[i].value);
}

static void copy_item(struct export *x, const struct memory_item *it, const struct store_query *q,
                      const struct match *match)
{
    const struct batch *b = it->batch;
    const struct profile *p = &b->profiles[it->in.profile];
    const struct scope *scope = &b->scopes[it->in.scope];
    struct value_type types[2];
    struct profile *out;
    uint32_t n = 0;

    if (x->from != b || x->resource != it->in.resource || x->scope != it->in.scope) {
        builder_resource(x->to);
        copy_kvs(x, &b->resources[it->in.resource].attrs, builder_resource_attr);
        builder_scope(x->to, scope->name, scope->version);
        copy_kvs(x, &scope->attrs, builder_scope_attr);
    }
    x->from = b;
    x->resource = it->in.resource;
    x->scope = it->in.scope;
    if (it->in.has_twin)
        types[n++] = (struct value_type){copy_string(x, it->in.twin.type), copy_string(x, it->in.twin.unit)};
    types[n++] = (struct value_type){copy_string(x, p->types[it->in.type_index].type),
                                     copy_string(x, p->types[it->in.type_index].unit)};
    out = builder_profile(x->to, types, n);
    if (!out)
        return;
    out->period_type = (struct value_type){copy_string(x, p->period_type.type), copy_string(x, p->period_type.unit)};
    out->period = p->period;
    out->time_ns = it->time_ns;
    out->duration_ns = p->duration_ns;
    memcpy(out->id, p->id, sizeof out->id);
    out->group = it->group;
    out->dropped_attrs = p->dropped_attrs;
    out->attrs = copy_attrs(x, p->attrs);
    for (uint32_t i = 0; i < p->samples.n && !builder_error(x->to); i++)
        if (memory_sample_matches(it, &b->samples[p->samples.off + i], q, match))
            copy_sample(x, it, p->samples.off + i, match);
}

int memory_export(struct store *s, const struct store_query *q, store_batch_fn fn, void *ctx, struct err *e)
{
    struct memory_store *m = container_of(s, struct memory_store, store);
    _cleanup_(mem_freep) struct export *x = mem_zalloc(sizeof *x);
    _cleanup_(batch_unrefp) struct batch *out = NULL;
    struct match match;
    int r = x ? match_column(&match, &q->columns[0], m->limits.allow, false, e) : -ENOMEM;

    if (r == 0)
        r = builder_new(&(struct builder_limits){.memory = q->memory_limit}, &x->to);
    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < m->n; i++)
        if (memory_item_matches(m, &m->items[i], q, &match, &q->columns[0]))
            copy_item(x, &m->items[i], q, &match);
    pthread_mutex_unlock(&m->lock);
    r = builder_finish(x->to, &out, e);
    builder_free(x->to);
    if (r < 0)
        return r;
    return out->n_profiles ? fn(ctx, out) : 0;
}
