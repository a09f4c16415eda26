/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps the headers of profiles and the attributes of samples to numbers of the dictionary; see writer.h. An agent sends
 * the same headers for the same processes every few seconds, so known ones are found by their fingerprint, and only
 * new ones are encoded.
 */
#include <errno.h>

#include "model/identity.h"
#include "store/engines/segment/write/writer.h"

enum { RANGES_FEW = 8 };

/* Whether a mapping carries more than the symbols store of it (its binary). */
static bool is_rich_mapping(const struct batch *b, uint32_t i)
{
    const struct mapping *m = &b->dict.mappings[i];

    return m->start || m->limit || m->offset || m->attrs.n > 1 || (m->attrs.n && !identity_build_id(b, i).n);
}

/* If there are only a few, all of them are stored with every profile of the request, whichever it uses: that costs
 * nothing. */
int writer_find_ranges(struct writer *w, const struct batch *b)
{
    uint32_t n = 0;

    w->ranges = w->marked = NULL;
    w->mappings = 0;
    for (uint32_t i = 1; i < b->dict.n_mappings; i++) {
        if (!is_rich_mapping(b, i))
            continue;
        if (!w->ranges) {
            w->ranges = arena_zalloc_array(&w->arena, b->dict.n_mappings, 1);
            w->marked = arena_alloc(&w->arena, b->dict.n_mappings);
        }
        if (!w->ranges || !w->marked)
            return -ENOMEM;
        w->ranges[i] = 1;
        n++;
    }
    w->few_ranges = n <= RANGES_FEW || b->n_resources == 1;
    return 0;
}

/* Marks the mappings, among those to be stored, that a profile's stacks use. */
static void mark_mappings(struct writer *w, const struct batch *b, const struct profile *p)
{
    memset(w->marked, 0, b->dict.n_mappings);
    for (uint32_t i = 0; i < p->samples.n; i++) {
        struct run st = b->dict.stacks[b->samples[p->samples.off + i].stack];

        for (uint32_t k = 0; k < st.n; k++) {
            uint32_t m = b->dict.locations[b->dict.indices[st.off + k]].mapping;

            w->marked[m] = w->ranges[m];
        }
    }
}

static uint32_t find_mappings(struct writer *w, struct blobs *blobs, const struct profile *p)
{
    const struct batch *b = w->memo.batch;

    if (!w->ranges)
        return 0;
    if (!w->few_ranges) {
        mark_mappings(w, b, p);
        return blobs_mappings(blobs, b, w->marked);
    }
    if (!w->mappings)
        w->mappings = blobs_mappings(blobs, b, w->ranges) + 1;
    return w->mappings - 1;
}

static uint32_t find_attr(struct writer *w, struct mempart *part, uint32_t attr)
{
    struct id128 print = fingerprints_attr(&w->memo.prints, attr);
    uint32_t n = idmap_find(&part->attrs, print);

    if (n != UINT32_MAX)
        return n;
    n = blobs_attr(&part->blobs, w->memo.batch, attr);
    if (n != UINT32_MAX)
        idmap_put(&part->attrs, print, n); /* if memory runs out, it is only slower */
    return n;
}

uint32_t writer_set(struct writer *w, struct mempart *part, struct run attrs, struct id128 print)
{
    uint32_t n = idmap_find(&part->sets, print), list[BLOB_SET_MAX], count = MIN(attrs.n, (uint32_t) BLOB_SET_MAX);

    if (n != UINT32_MAX)
        return n;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = find_attr(w, part, w->memo.batch->dict.indices[attrs.off + i]);
        if (list[i] == UINT32_MAX)
            return UINT32_MAX;
    }
    n = blobs_set_of(&part->blobs, list, count);
    if (n != UINT32_MAX)
        idmap_put(&part->sets, print, n); /* if memory runs out, it is only slower */
    return n;
}

static struct id128 header_print(struct writer *w, const struct intake *in, const struct intake_item *it,
                                 uint32_t mappings)
{
    const struct batch *b = w->memo.batch;
    const struct profile *p = &b->profiles[it->profile];
    const struct value_type *t = &p->types[it->type_index];
    struct fingerprints *prints = &w->memo.prints;
    struct id128 s = print_add_id(in->resources[it->resource].print, fingerprints_scope(&b->scopes[it->scope]));

    s = print_add_id(print_add_id(s, fingerprints_string(prints, t->type)), fingerprints_string(prints, t->unit));
    s = print_add_id(s, fingerprints_string(prints, p->period_type.type));
    s = print_add_id(s, fingerprints_string(prints, p->period_type.unit));
    s = print_add(s, (uint64_t) p->period, (uint64_t) it->scale);
    s = print_add(s, (uint64_t) p->default_type << 32 | p->dropped_attrs, mappings);
    s = print_add_id(s, fingerprints_attrs(prints, p->attrs));
    if (it->has_twin) {
        s = print_add_id(s, fingerprints_string(prints, it->twin.type));
        s = print_add_id(print_add(s, 1, (uint64_t) it->twin_scale), fingerprints_string(prints, it->twin.unit));
    }
    return s;
}

static uint32_t make_header(struct writer *w, struct mempart *part, const struct intake *in,
                            const struct intake_item *it, uint32_t mappings)
{
    const struct batch *b = w->memo.batch;
    const struct profile *p = &b->profiles[it->profile];
    struct blobs *blobs = &part->blobs;
    struct blob_header h = {
        .type = batch_string(b, p->types[it->type_index].type),
        .unit = batch_string(b, p->types[it->type_index].unit),
        .scale = it->scale,
        .period_type = batch_string(b, p->period_type.type),
        .period_unit = batch_string(b, p->period_type.unit),
        .period = p->period,
        .default_type = p->default_type,
        .dropped = p->dropped_attrs,
        .mappings = mappings,
    };

    if (it->has_twin) {
        h.twin_type = batch_string(b, it->twin.type);
        h.twin_unit = batch_string(b, it->twin.unit);
        h.twin_scale = it->twin_scale;
    }
    h.resource = blobs_resource(blobs, &b->resources[it->resource], in->resources[it->resource].instance);
    h.scope = blobs_scope(blobs, &b->scopes[it->scope]);
    h.attrs = p->attrs.n ? writer_set(w, part, p->attrs, fingerprints_attrs(&w->memo.prints, p->attrs)) : 0;
    h.payload = blobs_payload(blobs, p->payload_format, p->payload);
    if (h.payload == UINT32_MAX || h.resource == UINT32_MAX || h.scope == UINT32_MAX || h.attrs == UINT32_MAX)
        return UINT32_MAX;
    return blobs_header(blobs, &h);
}

uint32_t writer_header(struct writer *w, struct mempart *part, const struct intake *in, const struct intake_item *it)
{
    const struct profile *p = &w->memo.batch->profiles[it->profile];
    uint32_t mappings = find_mappings(w, &part->blobs, p), n;
    struct id128 id;

    if (mappings == UINT32_MAX)
        return UINT32_MAX;
    if (p->payload.n || p->payload_format.n) /* unlikely to repeat */
        return make_header(w, part, in, it, mappings);
    id = header_print(w, in, it, mappings);
    n = idmap_find(&part->headers, id);
    if (n != UINT32_MAX)
        return n;
    n = make_header(w, part, in, it, mappings);
    if (n != UINT32_MAX)
        idmap_put(&part->headers, id, n); /* if memory runs out, it is only slower */
    return n;
}
