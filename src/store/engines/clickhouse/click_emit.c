/* SPDX-License-Identifier: Apache-2.0 */
/* Turns rows of ClickHouse's answers into profiles of a temporary store in memory; see click_load.h. The cache is locked by
 * the caller. */
#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"
#include "store/engines/clickhouse/click_load.h"
#include "store/engines/segment/format/blobs.h"

enum { LINES_MAX = 4096, ATTRS_MAX = 256, DEPTH_MAX = 1 << 20 };

struct emitting {
    struct click_load *l;
    const struct click_want *want;
    uint32_t column;
    int64_t shift;
    /* of the last profile */
    bool begun;
    uint64_t meta, series;
    struct blobs blobs;
    bool has_blobs;
    struct blob_header header;
    struct labels *labels;
    struct id128 labels_id, instance;
    uint32_t resource, scope;
};

/* --- symbols --- */

static uint32_t emit_lines(struct builder *to, struct str bytes, struct line *lines)
{
    struct cursor r = cursor_of(bytes.p, bytes.n);
    uint32_t n = 0;

    while (r.p < r.end && n < LINES_MAX) {
        struct function f;
        struct str name = get_bytes(&r), system = get_bytes(&r), file = get_bytes(&r);

        f.start_line = get_zigzag(&r);
        lines[n].line = get_zigzag(&r);
        lines[n].column = get_zigzag(&r);
        if (r.bad)
            break;
        f.name = builder_string(to, name);
        f.system_name = builder_string(to, system);
        f.filename = builder_string(to, file);
        lines[n++].function = builder_function(to, &f);
    }
    return n;
}

static uint32_t emit_location(struct click_load *l, uint32_t entry)
{
    static _Thread_local struct line lines[LINES_MAX];
    struct str bytes = l->cache->kinds[CLICK_LOCATIONS].v[entry].bytes;
    struct cursor r = cursor_of(bytes.p, bytes.n), h;
    struct str head = get_bytes(&r), named = get_bytes(&r), file, mapping_attrs, attrs;
    uint32_t list[ATTRS_MAX], n, n_lines, mapping = 0;
    uint64_t address;
    bool mapped;

    h = cursor_of(head.p, head.n);
    file = get_bytes(&h);
    mapped = get_u8(&h);
    address = get_varint(&h);
    mapping_attrs = get_bytes(&h);
    attrs = get_bytes(&h);
    if (r.bad || h.bad) {
        l->lost++;
        return 0;
    }
    if (mapped) {
        n = blob_attrs_emit(mapping_attrs, l->builder, list, ATTRS_MAX);
        mapping = builder_mapping(l->builder, &(struct mapping){.filename = builder_string(l->builder, file)}, list, n);
    }
    n_lines = emit_lines(l->builder, named, lines);
    n = blob_attrs_emit(attrs, l->builder, list, ATTRS_MAX);
    return builder_location(
        l->builder,
        &(struct builder_location){
            .mapping = mapping, .address = address, .lines = lines, .n_lines = n_lines, .attrs = list, .n_attrs = n});
}

/* The memo of builder indices per entry of the cache, which may have grown since the last call. */
static int grow_memo(uint32_t **memo, uint32_t *n, uint32_t want)
{
    uint32_t *more;

    if (*memo && *n >= want)
        return 0;
    more = mem_realloc_array(*memo, (size_t) want + 1, sizeof *more);
    if (!more)
        return -ENOMEM;
    memset(more + *n, 0, (want + 1 - *n) * sizeof *more);
    *memo = more;
    *n = want;
    return 0;
}

static uint32_t find_location(struct click_load *l, struct id128 id)
{
    uint32_t at = click_cache_find(l->cache, CLICK_LOCATIONS, click_cache_key(l->q->tenant, id));

    if (at == MAP_NONE) {
        l->lost++;
        return 0;
    }
    if (!l->locations[at])
        l->locations[at] = emit_location(l, at) + 1;
    return l->locations[at] - 1;
}

static int emit_stack(struct click_load *l, struct id128 id, uint32_t *ret)
{
    uint32_t at = click_cache_find(l->cache, CLICK_STACKS, click_cache_key(l->q->tenant, id)), n, *list;
    struct str bytes;

    *ret = 0;
    if (at == MAP_NONE) {
        l->lost++;
        return 0;
    }
    if (l->stacks[at]) {
        *ret = l->stacks[at] - 1;
        return 0;
    }
    bytes = l->cache->kinds[CLICK_STACKS].v[at].bytes;
    n = MIN(bytes.n / 16, (uint32_t) DEPTH_MAX);
    list = mem_alloc(((size_t) n + 1) * sizeof *list);
    if (!list)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        list[i] = find_location(
            l, (struct id128){load_u64(bytes.p + (size_t) i * 16), load_u64(bytes.p + (size_t) i * 16 + 8)});
    *ret = builder_stack(l->builder, list, n);
    mem_free(list);
    l->stacks[at] = *ret + 1;
    return 0;
}

/* --- profiles --- */

/* Makes the resource and the scope of the rows that follow. */
static int begin_meta(struct emitting *x, uint64_t meta)
{
    struct click_load *l = x->l;
    uint32_t at = click_cache_find(l->cache, CLICK_METAS, click_cache_key(l->q->tenant, click_id64(meta)));
    struct str body = at == MAP_NONE ? (struct str){0} : l->cache->kinds[CLICK_METAS].v[at].bytes;

    if (x->has_blobs)
        blobs_done(&x->blobs);
    x->has_blobs = true;
    x->header = (struct blob_header){.scale = 1};
    x->instance = (struct id128){0, 0};
    if (blobs_init(&x->blobs) < 0)
        return -ENOMEM;
    if (at != MAP_NONE && blobs_decode(&x->blobs, body.p, body.n) == 0 && blobs_read_header(&x->blobs, 1, &x->header))
        x->instance = blobs_instance(&x->blobs, x->header.resource);
    else
        l->lost += x->want->meta || x->want->time;
    x->resource = builder_batch(l->builder)->n_resources;
    x->scope = builder_batch(l->builder)->n_scopes;
    if (x->header.resource) {
        blobs_emit_resource(&x->blobs, x->header.resource, l->builder);
        blobs_emit_scope(&x->blobs, x->header.scope, l->builder);
    } else {
        builder_resource(l->builder);
        builder_scope(l->builder, STR(""), STR(""));
    }
    return builder_error(l->builder);
}

static int begin_series(struct emitting *x, uint64_t series)
{
    struct memory_store *m = x->l->memory;

    x->labels = arena_zalloc(&m->arena, sizeof *x->labels);
    if (!x->labels)
        return -ENOMEM;
    if ((x->want->series || x->want->time) &&
        click_labels_of(x->l->cache, x->l->q->tenant, series, &m->arena, x->labels) < 0)
        return -ENOMEM;
    x->labels_id = labels_id(x->labels);
    return 0;
}

static void set_profile(struct emitting *x, const struct click_row *row, struct profile *p)
{
    struct builder *b = x->l->builder;
    const struct blob_header *h = &x->header;

    p->period_type = (struct value_type){builder_string(b, h->period_type), builder_string(b, h->period_unit)};
    p->period = h->period;
    p->dropped_attrs = h->dropped;
    p->attrs = blobs_emit_set(&x->blobs, h->attrs, b);
    if (!row->is_profile)
        return;
    p->time_ns = row->time;
    p->duration_ns = row->duration;
    p->group = row->joined;
    memcpy(p->id, row->id, 16);
}

static int64_t time_of(const struct emitting *x, const struct click_row *row)
{
    const struct store_column *c = &x->l->q->columns[x->column];

    if (x->shift >= 0)
        return x->shift;
    return x->want->time ? row->time : x->want->step ? wrap_add(c->from, wrap_mul(row->time, x->want->step)) : c->from;
}

static int begin_profile(struct emitting *x, const struct click_row *row)
{
    struct click_load *l = x->l;
    struct memory_store *m = l->memory;
    struct str name = l->columns[x->column].match.any_type ? arena_str(&m->arena, row->type) : (struct str){0};
    struct memory_item *it;
    struct value_type type;
    struct profile *p;
    int r = 0;

    if (!x->begun || x->meta != row->meta)
        r = begin_meta(x, row->meta);
    if (r == 0 && (!x->begun || x->series != row->series))
        r = begin_series(x, row->series);
    if (r == 0)
        r = array_reserve(m->items, m->cap, (size_t) m->n + 1, UINT32_MAX - 1);
    if (r == 0)
        r = array_reserve(l->counts, l->cap_counts, (size_t) m->n + 1, UINT32_MAX - 1);
    if (r < 0)
        return r;
    l->counts[m->n] = row->is_profile ? row->count : 0;
    x->begun = true;
    x->meta = row->meta;
    x->series = row->series;
    it = &m->items[m->n];
    *it = (struct memory_item){.labels = x->labels,
                               .labels_id = x->labels_id,
                               .instance = x->instance,
                               .tenant = l->q->tenant,
                               .time_ns = time_of(x, row),
                               .value = row->is_profile ? row->value : 0,
                               .group = row->joined};
    it->in = (struct intake_item){.resource = x->resource,
                                  .scope = x->scope,
                                  .profile = builder_batch(l->builder)->n_profiles,
                                  .type = l->columns[x->column].type,
                                  .scale = x->header.scale};
    if (name.n)
        click_make_type(name, arena_str(&m->arena, row->unit), &it->in.type);
    type = (struct value_type){builder_string(l->builder, x->header.type.n ? x->header.type : it->in.type.name),
                               builder_string(l->builder, x->header.type.n ? x->header.unit : it->in.type.unit)};
    if (x->header.twin_type.n && x->header.twin_scale) {
        it->in.has_twin = true;
        it->in.twin_scale = x->header.twin_scale;
        it->in.twin = (struct value_type){builder_string(l->builder, x->header.twin_type),
                                          builder_string(l->builder, x->header.twin_unit)};
    }
    p = builder_profile(l->builder, &type, 1);
    if (!p)
        return builder_error(l->builder) ? builder_error(l->builder) : -ENOMEM;
    set_profile(x, row, p);
    m->n++;
    return builder_error(l->builder);
}

static int emit_sample(struct emitting *x, const struct click_row *row)
{
    struct click_load *l = x->l;
    struct builder *b = l->builder;
    int64_t value = row->value / x->header.scale;
    uint64_t ts = (uint64_t) wrap_add(row->time, row->ts);
    uint32_t at = row->attrs
                      ? click_cache_find(l->cache, CLICK_ATTRS, click_cache_key(l->q->tenant, click_id64(row->attrs)))
                      : MAP_NONE;
    uint32_t stack = 0, link = 0, list[ATTRS_MAX], n = 0;
    static const struct link none;
    int r = x->want->stack ? emit_stack(l, row->stack, &stack) : 0;

    if (r < 0)
        return r;
    if (at != MAP_NONE)
        n = blob_attrs_emit(l->cache->kinds[CLICK_ATTRS].v[at].bytes, b, list, ATTRS_MAX);
    else if (row->attrs)
        l->lost++;
    if (memcmp(&row->link, &none, sizeof none) != 0)
        link = builder_link(b, &row->link);
    builder_sample(b, &(struct builder_sample){.stack = stack,
                                               .link = link,
                                               .attrs = builder_attrs(b, list, n),
                                               .values = &value,
                                               .n_values = 1,
                                               .timestamps = &ts,
                                               .n_timestamps = row->ts != CLICK_NO_TS});
    return builder_error(b);
}

int click_emit_rows(struct click_load *l, const struct click_row *rows, size_t n, const struct click_want *want,
                    uint32_t column, int64_t shift)
{
    struct emitting x = {.l = l, .want = want, .column = column, .shift = shift};
    int r = grow_memo(&l->stacks, &l->n_stacks, l->cache->kinds[CLICK_STACKS].n);

    if (r == 0)
        r = grow_memo(&l->locations, &l->n_locations, l->cache->kinds[CLICK_LOCATIONS].n);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct click_row *row = &rows[i];

        if (!i || row->is_profile || !click_row_same_profile(row, &rows[i - 1]))
            r = begin_profile(&x, row);
        if (r == 0 && !row->is_profile)
            r = emit_sample(&x, row);
    }
    if (x.has_blobs)
        blobs_done(&x.blobs);
    return r;
}

int click_load_finish(struct click_load *l, struct err *e)
{
    struct memory_store *m = l->memory;
    struct batch *b = NULL;
    int r = builder_finish(l->builder, &b, e);

    if (r < 0) {
        m->n = 0;
        return r;
    }
    for (uint32_t i = 0; i < m->n; i++)
        m->items[i].batch = batch_ref(b);
    batch_unref(b);
    return 0;
}
