/* SPDX-License-Identifier: Apache-2.0 */
/* Turns batches into rows; see click_block.h. */
#include "store/engines/clickhouse/click_block.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/identity.h"
#include "model/semconv.h"
#include "store/engines/segment/format/blobs.h"

enum { KNOWN_MAX = 4 << 20, SEQ_MAX = 1000, PLACES_MAX = 1000000 };

/* One batch on its way into the rows. */
struct click_adding {
    struct click_block *k;
    struct batch *b;
    struct fingerprints prints;
    struct intake in;
    struct arena arena;
    const char *tenant;
    struct id128 tenant_id;
    int64_t now;
    uint8_t *stacks; /* per stack: its rows are there */
};

void click_block_init(struct click_block *b, const struct store_config *c, const struct intake_limits *limits)
{
    *b = (struct click_block){.limits = limits, .timestamps = c->timestamps};
    for (int i = 0; i < CLICK_TABLES; i++)
        click_rows_init(&b->rows[i], i);
    click_samples_init(&b->sample_rows);
    dedup_init(&b->dedup, c->dedup_max ? c->dedup_max : 1000000, c->dedup_window ? c->dedup_window : 86400 * NS_PER_S);
    dedup_init(&b->places, PLACES_MAX, 8 * CLICK_DAY_NS);
    b->keep_keys = c->spool != NULL;
}

void click_block_forget(struct click_block *b)
{
    mem_free(b->known.v);
    map_done(&b->known.map);
    b->known = (struct click_known){0};
}

void click_block_done(struct click_block *b)
{
    for (int i = 0; i < CLICK_TABLES; i++)
        click_rows_done(&b->rows[i]);
    click_samples_done(&b->sample_rows);
    click_block_forget(b);
    dedup_done(&b->dedup);
    dedup_done(&b->places);
    mem_free(b->keys);
    b->keys = NULL;
    b->cap_keys = b->n_keys = 0;
    intake_memo_done(&b->memo);
    cumulative_done(&b->cumulative);
}

void click_block_reset(struct click_block *b)
{
    for (int i = 0; i < CLICK_TABLES; i++)
        click_rows_reset(&b->rows[i]);
    click_samples_reset(&b->sample_rows);
    b->profiles = b->samples = b->duplicates = 0;
    b->n_keys = 0;
}

/* 1 if the ID is new in the dictionary table, 0 if it is known. */
static int is_new(struct click_adding *a, enum click_table t, struct id128 id)
{
    struct click_known *k = &a->k->known;
    struct id128 key = print_add_id(print_add(a->tenant_id, t, 0), id);
    int r;

    for (struct map_pos p = map_find(&k->map, hash64_id(key)); p.index != MAP_NONE; p = map_next(&k->map, p))
        if (id128_eq(k->v[p.index], key))
            return 0;
    r = array_reserve(k->v, k->cap, (size_t) k->n + 1, KNOWN_MAX + 1);
    if (r == 0)
        r = map_insert(&k->map, hash64_id(key), k->n);
    if (r < 0)
        return -ENOMEM;
    k->v[k->n++] = key;
    return 1;
}

/* Begins a row of a dictionary table. */
static struct click_rows *begin_entry(struct click_adding *a, enum click_table t)
{
    struct click_rows *r = &a->k->rows[t];

    click_put_str(r, str_from(a->tenant));
    click_put_u32(r, a->k->week);
    return r;
}

/* --- symbols --- */

void click_put_line(struct buf *out, const struct str strings[3], int64_t start_line, int64_t line, int64_t column)
{
    for (int i = 0; i < 3; i++)
        put_bytes(out, strings[i].p, strings[i].n);
    put_zigzag(out, start_line);
    put_zigzag(out, line);
    put_zigzag(out, column);
}

/* The lines are only complete names: those of a location that has none are added by a later version. */
static void put_lines(struct click_rows *rows, const struct batch *b, const struct location *l, struct buf *lines)
{
    struct buf *names = click_begin_array(rows);

    for (uint32_t i = 0; i < l->lines.n; i++) {
        const struct line *n = &b->dict.lines[l->lines.off + i];
        const struct function *f = &b->dict.functions[n->function];
        struct str strings[3] = {batch_string(b, f->name), batch_string(b, f->system_name),
                                 batch_string(b, f->filename)};
        struct str shown = strings[0].n ? strings[0] : strings[1];

        click_put_line(lines, strings, f->start_line, n->line, n->column);
        put_bytes(names, shown.p, shown.n);
    }
    click_end_array(rows, l->lines.n);
}

static int put_location(struct click_adding *a, uint32_t location)
{
    const struct batch *b = a->b;
    const struct location *l = &b->dict.locations[location];
    const struct mapping *m = &b->dict.mappings[l->mapping];
    struct id128 id = a->prints.locations[location];
    _cleanup_(buf_done) struct buf head = BUF_INIT, lines = BUF_INIT, attrs = BUF_INIT;
    struct click_rows *rows;
    uint64_t address = l->address ? identity_elf_address(m, l->address) : 0;
    int r = is_new(a, CLICK_LOCATIONS, l->lines.n ? print_add(id, 1, 1) : id);

    if (r <= 0)
        return r;
    rows = begin_entry(a, CLICK_LOCATIONS);
    click_put_id(rows, id);
    click_put_u64(rows, l->lines.n != 0);
    click_put_str(rows, identity_build_id(b, l->mapping));
    click_put_u64(rows, address);
    put_lines(rows, b, l, &lines);
    put_bytes(&head, batch_string(b, m->filename).p, batch_string(b, m->filename).n);
    buf_putc(&head, l->mapping != 0);
    put_varint(&head, address);
    blob_attrs_encode(&attrs, b, m->attrs, (struct str){0});
    put_bytes(&head, attrs.p, attrs.n);
    buf_reset(&attrs);
    blob_attrs_encode(&attrs, b, l->attrs, (struct str){0});
    put_bytes(&head, attrs.p, attrs.n);
    click_put_str(rows, buf_str(&head));
    click_put_str(rows, buf_str(&lines));
    click_end_row(rows);
    return buf_error(&head) ? buf_error(&head) : buf_error(&lines) ? buf_error(&lines) : buf_error(&attrs);
}

static int put_stack(struct click_adding *a, uint32_t stack, struct id128 id)
{
    struct run st = a->b->dict.stacks[stack];
    const uint32_t *list = st.n ? a->b->dict.indices + st.off : NULL;
    struct click_rows *rows;
    struct buf *out;
    uint32_t named = 0;
    int r;

    if (a->stacks[stack])
        return 0;
    a->stacks[stack] = 1;
    for (uint32_t i = 0; i < st.n; i++)
        named += a->b->dict.locations[list[i]].lines.n != 0;
    r = is_new(a, CLICK_STACKS, print_add(id, named, 1)); /* names may have arrived since the stack was new */
    if (r <= 0)
        return r;
    for (uint32_t i = 0; r >= 0 && i < st.n; i++)
        r = put_location(a, list[i]);
    if (r >= 0)
        r = is_new(a, CLICK_STACKS, id);
    if (r <= 0)
        return r;
    rows = begin_entry(a, CLICK_STACKS);
    click_put_id(rows, id);
    out = click_begin_array(rows);
    for (uint32_t i = 0; i < st.n; i++) {
        put_u64(out, a->prints.locations[list[i]].hi);
        put_u64(out, a->prints.locations[list[i]].lo);
    }
    click_end_array(rows, st.n);
    click_end_row(rows);
    return 0;
}

/* --- what profiles have in common --- */

static int put_series(struct click_adding *a, const struct intake_resource *res)
{
    int r = is_new(a, CLICK_SERIES, res->labels_id);
    struct click_rows *rows;
    struct buf *out;

    if (r <= 0)
        return r;
    rows = begin_entry(a, CLICK_SERIES);
    click_put_u64(rows, res->labels_id.lo);
    click_put_str(rows, labels_get(&res->labels, STR(SEMCONV_SERVICE_NAME)));
    out = click_begin_array(rows);
    for (uint32_t i = 0; i < res->labels.n; i++)
        put_bytes(out, res->labels.v[i].name.p, res->labels.v[i].name.n);
    click_end_array(rows, res->labels.n);
    out = click_begin_array(rows);
    for (uint32_t i = 0; i < res->labels.n; i++)
        put_bytes(out, res->labels.v[i].value.p, res->labels.v[i].value.n);
    click_end_array(rows, res->labels.n);
    click_end_row(rows);
    return 0;
}

static struct id128 add_string(struct click_adding *a, struct id128 id, uint32_t string)
{
    return print_add_id(id, fingerprints_string(&a->prints, string));
}

static struct id128 meta_id(struct click_adding *a, const struct intake_item *it)
{
    const struct profile *p = &a->b->profiles[it->profile];
    struct id128 id = a->in.resources[it->resource].print;

    id = print_add_id(id, fingerprints_scope(&a->b->scopes[it->scope]));
    id = add_string(a, add_string(a, id, p->types[it->type_index].type), p->types[it->type_index].unit);
    id = add_string(a, add_string(a, id, p->period_type.type), p->period_type.unit);
    id = print_add(id, (uint64_t) p->period, (uint64_t) it->scale);
    if (it->has_twin) {
        id = add_string(a, add_string(a, id, it->twin.type), it->twin.unit);
        id = print_add(id, (uint64_t) it->twin_scale, 2);
    }
    if (p->attrs.n)
        id = print_add_id(id, fingerprints_attrs(&a->prints, p->attrs));
    return print_add(id, p->default_type, p->dropped_attrs);
}

/* The body is a dictionary with one header (blobs.h). */
static int encode_meta(struct click_adding *a, const struct intake_item *it, struct buf *out)
{
    const struct batch *b = a->b;
    const struct profile *p = &b->profiles[it->profile];
    struct blobs blobs;
    struct blob_header h = {.type = batch_string(b, p->types[it->type_index].type),
                            .unit = batch_string(b, p->types[it->type_index].unit),
                            .scale = it->scale,
                            .period_type = batch_string(b, p->period_type.type),
                            .period_unit = batch_string(b, p->period_type.unit),
                            .period = p->period,
                            .default_type = p->default_type,
                            .dropped = p->dropped_attrs};
    int r = blobs_init(&blobs);

    if (it->has_twin) {
        h.twin_type = batch_string(b, it->twin.type);
        h.twin_unit = batch_string(b, it->twin.unit);
        h.twin_scale = it->twin_scale;
    }
    if (r == 0) {
        h.resource = blobs_resource(&blobs, &b->resources[it->resource], a->in.resources[it->resource].instance);
        h.scope = blobs_scope(&blobs, &b->scopes[it->scope]);
        h.attrs = blobs_set(&blobs, b, p->attrs);
        if (h.resource == UINT32_MAX || h.scope == UINT32_MAX || h.attrs == UINT32_MAX ||
            blobs_header(&blobs, &h) == UINT32_MAX)
            r = -ENOMEM;
        else
            blobs_encode(&blobs, out);
    }
    blobs_done(&blobs);
    return r < 0 ? r : buf_error(out);
}

static int put_meta(struct click_adding *a, const struct intake_item *it, uint64_t *ret)
{
    struct id128 id = meta_id(a, it);
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    struct click_rows *rows;
    int r = is_new(a, CLICK_METAS, id);

    *ret = id.lo;
    if (r <= 0)
        return r;
    r = encode_meta(a, it, &body);
    if (r < 0)
        return r;
    rows = begin_entry(a, CLICK_METAS);
    click_put_u64(rows, id.lo);
    click_put_str(rows, buf_str(&body));
    click_end_row(rows);
    return 0;
}

static int put_attrs(struct click_adding *a, uint32_t sample, uint64_t *ret)
{
    struct run attrs = a->b->samples[sample].attrs;
    struct id128 id;
    struct click_rows *rows;
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    int r;

    *ret = 0;
    if (!attrs.n)
        return 0;
    id = fingerprints_sample_attrs(&a->prints, sample);
    *ret = id.lo;
    r = is_new(a, CLICK_ATTRS, id);
    if (r <= 0)
        return r;
    blob_attrs_encode(&body, a->b, attrs, (struct str){0});
    rows = begin_entry(a, CLICK_ATTRS);
    click_put_u64(rows, id.lo);
    click_put_str(rows, buf_str(&body));
    click_end_row(rows);
    return buf_error(&body);
}

/* --- profiles and samples --- */

/* What the rows of one item have in common, and what the profile's row needs to know about them. */
struct item_rows {
    struct click_adding *a;
    const struct intake_item *it;
    const struct intake_profile *profile;
    struct str service;
    uint64_t series, meta;
    uint16_t seq;
    uint32_t group;
    int64_t value;
    uint32_t n;
};

struct value_row {
    const struct sample *sample;
    struct id128 stack;
    uint64_t attrs;
    int64_t ts, value;
};

static int put_value(struct item_rows *x, const struct value_row *v)
{
    struct click_sample row = {.stack = v->stack,
                               .time = x->profile->time_ns,
                               .ts = v->ts,
                               .value = v->value,
                               .series = x->series,
                               .meta = x->meta,
                               .attrs = v->attrs,
                               .group = x->group,
                               .seq = x->seq,
                               .linked = v->sample->link != 0};

    if (row.linked)
        row.link = x->a->b->dict.links[v->sample->link];
    x->value = wrap_add(x->value, v->value);
    x->n++;
    return click_samples_add(&x->a->k->sample_rows, &row);
}

static int64_t cut_ts(uint64_t ts, int64_t start, enum store_timestamps how)
{
    if (how == TIMESTAMPS_US)
        ts -= ts % 1000;
    else if (how == TIMESTAMPS_MS)
        ts -= ts % 1000000;
    return wrap_sub((int64_t) ts, start);
}

static int put_sample(struct item_rows *x, uint32_t index)
{
    struct click_adding *a = x->a;
    const struct sample *s = &a->b->samples[index];
    struct value_row v = {.sample = s, .stack = fingerprints_stack(&a->prints, s->stack), .ts = CLICK_NO_TS};
    int r = put_stack(a, s->stack, v.stack);

    if (r >= 0)
        r = put_attrs(a, index, &v.attrs);
    if (r < 0)
        return r;
    if (!intake_is_stamped(x->it, s) || a->k->timestamps == TIMESTAMPS_OFF) {
        v.value = intake_value(a->b, x->it, index);
        return v.value ? put_value(x, &v) : 0;
    }
    for (uint32_t i = 0; r >= 0 && i < s->timestamps.n; i++) {
        v.ts = cut_ts(a->b->timestamps[s->timestamps.off + i], x->profile->time_ns, a->k->timestamps);
        v.value = intake_scale(s->values.n ? a->b->values[s->values.off + i] : 1, x->it->scale);
        r = put_value(x, &v);
    }
    return r;
}

struct id128 click_place_key(const char *tenant, struct str type, uint64_t series, uint64_t meta, int64_t time,
                             uint32_t seq)
{
    struct id128 id = print_add(hash128(tenant, strlen(tenant)), series, meta);

    id = print_add_id(id, hash128(type.p, type.n));
    return dedup_key(time, print_add(id, seq, 7));
}

static int add_key(struct click_adding *a, uint8_t kind, struct id128 key)
{
    struct click_block *k = a->k;

    if (k->keep_keys && array_push(k->keys, k->n_keys, k->cap_keys, 1 << 26, (struct click_key){kind, key, a->now}) < 0)
        return -ENOMEM;
    return dedup_add(kind ? &k->places : &k->dedup, key, a->now);
}

/* The first number that no profile of the same series, header, type and start has. */
static int find_seq(struct item_rows *x, uint16_t *ret)
{
    struct click_adding *a = x->a;
    uint32_t seq = 0;
    struct id128 key;

    do
        key = click_place_key(a->tenant, x->it->type.name, x->series, x->meta, x->profile->time_ns, seq);
    while (dedup_has(&a->k->places, key) && seq++ < SEQ_MAX);
    *ret = (uint16_t) seq;
    return add_key(a, 1, key);
}

static void put_profile_row(struct item_rows *x, const struct profile *p)
{
    struct click_rows *r = &x->a->k->rows[CLICK_PROFILES];
    uint32_t joined = p->n_types > 1 || p->group ? (uint32_t) (x->profile->key.lo ^ p->group) | 1 : 0;

    click_put_str(r, str_from(x->a->tenant));
    click_put_str(r, x->service);
    click_put_str(r, x->it->type.name);
    click_put_str(r, x->it->type.unit);
    click_put_u64(r, (uint64_t) x->profile->time_ns);
    click_put_u64(r, (uint64_t) p->duration_ns);
    click_put_u64(r, x->series);
    click_put_u64(r, x->meta);
    click_put_u16(r, x->seq);
    click_put_u32(r, joined);
    click_put_raw(r, p->id, 16);
    click_put_u64(r, (uint64_t) x->value);
    click_put_u32(r, x->n);
    click_put_u64(r, x->profile->has_key ? x->profile->key.hi : 0);
    click_put_u64(r, x->profile->has_key ? x->profile->key.lo : 0);
    click_put_u64(r, (uint64_t) x->a->now);
    click_end_row(r);
}

static int put_item(struct click_adding *a, const struct intake_profile *p, const struct intake_item *it)
{
    const struct intake_resource *res = &a->in.resources[p->resource];
    const struct profile *prof = &a->b->profiles[p->profile];
    struct item_rows x = {.a = a,
                          .it = it,
                          .profile = p,
                          .service = labels_get(&res->labels, STR(SEMCONV_SERVICE_NAME)),
                          .series = res->labels_id.lo};
    int r = put_series(a, res);

    if (r >= 0)
        r = put_meta(a, it, &x.meta);
    if (r >= 0)
        r = find_seq(&x, &x.seq);
    if (r >= 0)
        r = click_samples_group(&a->k->sample_rows,
                                &(struct click_group){str_from(a->tenant), x.service, it->type.name, 0}, p->time_ns,
                                &x.group);
    for (uint32_t i = 0; r >= 0 && i < prof->samples.n; i++)
        r = put_sample(&x, prof->samples.off + i);
    if (r < 0)
        return r;
    put_profile_row(&x, prof);
    a->k->samples += x.n;
    return 0;
}

static int put_profile(struct click_adding *a, const struct intake_profile *p)
{
    int r;

    if (p->has_key && dedup_has(&a->k->dedup, p->key)) {
        a->k->duplicates++;
        return 0;
    }
    r = intake_difference(a->b, &a->in, p, &a->k->cumulative, &a->arena);
    for (uint32_t i = 0; r >= 0 && i < p->n_items; i++)
        r = put_item(a, p, &a->in.items[p->first_item + i]);
    if (r >= 0 && p->has_key)
        r = add_key(a, 0, p->key);
    a->k->profiles++;
    return r < 0 ? r : 0;
}

int click_block_add(struct click_block *k, struct batch *b, const struct sink_context *ctx, int64_t now,
                    struct ack_result *result)
{
    struct click_adding a = {
        .k = k, .b = b, .tenant = ctx->tenant, .tenant_id = hash128(ctx->tenant, strlen(ctx->tenant)), .now = now};
    uint32_t week = (uint32_t) (now / CLICK_DAY_NS / 7);
    struct intake_limits limits = *k->limits;
    int r;

    limits.now = now;
    arena_init(&a.arena, 0);
    if (k->week != week || k->known.n >= KNOWN_MAX)
        click_block_forget(k);
    k->week = week;
    r = fingerprints_init(&a.prints, b, &a.arena);
    a.stacks = arena_zalloc_array(&a.arena, b->dict.n_stacks + 1, 1);
    if (r == 0 && !a.stacks)
        r = -ENOMEM;
    if (r == 0)
        r = intake_plan(&a.prints, ctx, &limits, &k->memo, &a.arena, &a.in);
    for (uint32_t i = 0; r == 0 && i < a.in.n_profiles; i++)
        r = put_profile(&a, &a.in.profiles[i]);
    for (int t = 0; r == 0 && t < CLICK_TABLES; t++)
        for (int i = 0; r == 0 && i < CLICK_COLUMNS_MAX; i++)
            r = buf_error(&k->rows[t].columns[i]);
    if (r == 0) {
        result->rejected = a.in.rejected;
        snprintf(result->message, sizeof result->message, "%s", a.in.message);
    }
    arena_done(&a.arena);
    return r;
}
