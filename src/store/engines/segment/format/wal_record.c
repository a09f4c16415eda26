/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes one request as the payload of a log record, and decodes it; see wal_record.h. */
#include "store/engines/segment/format/wal_record.h"

#include <errno.h>

#include "store/dedup.h"

void record_put_keys(struct buf *b, const struct dedup_entry *keys, uint32_t n)
{
    unsigned char *w = (unsigned char *) buf_reserve(b, (size_t) n * 26 + 10);

    if (!w)
        return;
    w = varint_write(w, n);
    for (uint32_t i = 0; i < n; i++) {
        store_u64(w, keys[i].key.hi);
        store_u64(w + 8, keys[i].key.lo);
        w = varint_write(w + 16, zigzag(keys[i].time_ns));
    }
    b->n = (size_t) ((char *) w - b->p);
}

void record_put_prof(struct buf *b, const struct stored_profile *p)
{
    bool has_id = load_u64(p->id) || load_u64(p->id + 8);
    unsigned char *w = (unsigned char *) buf_reserve(b, (size_t) p->n_rows * 20 + (size_t) p->n_extras * 40 + 128);

    if (!w)
        return;
    w = varint_write(w, p->series);
    w = varint_write(w, p->header);
    w = varint_write(w, zigzag(p->time_ns));
    w = varint_write(w, zigzag(p->duration_ns));
    w = varint_write(w, zigzag(p->value));
    w = varint_write(w, p->group);
    w = varint_write(w, has_id | p->gauge << 1);
    if (has_id) {
        memcpy(w, p->id, 16);
        w += 16;
    }
    w = varint_write(w, p->n_rows);
    w = varint_write(w, p->n_extras);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        w = varint_write(w, (uint64_t) p->rows[i].node << 1 | (p->rows[i].extra != 0));
        w = varint_write(w, zigzag(p->rows[i].value));
    }
    for (uint32_t i = 0; i < p->n_extras; i++) {
        const struct extra *x = &p->extras[i];

        w = varint_write(w, x->timestamp);
        w = varint_write(w, x->attrs);
        *w++ = x->has_link;
        if (x->has_link) {
            memcpy(w, &x->link, sizeof x->link);
            w += sizeof x->link;
        }
    }
    b->n = (size_t) ((char *) w - b->p);
}

int record_parse(const void *p, size_t n, struct record *ret)
{
    struct cursor r = cursor_of(p, n);

    ret->tenant = (uint32_t) get_varint(&r);
    ret->epoch = (uint32_t) get_varint(&r);
    ret->name = get_bytes(&r);
    ret->symbols = get_bytes(&r);
    ret->blobs = get_bytes(&r);
    ret->n_keys = get_below(&r, (uint64_t) (r.end - r.p) + 1);
    ret->keys = r;
    for (uint32_t i = 0; i < ret->n_keys; i++) {
        get_raw(&r, 16);
        get_varint(&r);
    }
    ret->n_profs = get_below(&r, (uint64_t) (r.end - r.p) + 1);
    ret->profs = r;
    return r.bad ? -EBADMSG : 0;
}

int record_read_key(struct record *r, struct id128 *ret_key, int64_t *ret_time)
{
    ret_key->hi = get_u64(&r->keys);
    ret_key->lo = get_u64(&r->keys);
    *ret_time = get_zigzag(&r->keys);
    return r->keys.bad ? -EBADMSG : 0;
}

static void read_rows(struct cursor *r, struct stored_profile *p, uint32_t n_nodes)
{
    uint32_t extras = 0;

    for (uint32_t i = 0; i < p->n_rows && !r->bad; i++) {
        uint64_t v = get_varint(r);

        p->rows[i] = (struct row){(uint32_t) (v >> 1), v & 1 ? ++extras : 0, get_zigzag(r)};
        if (v >> 1 >= n_nodes || extras > p->n_extras)
            r->bad = true;
    }
    for (uint32_t i = 0; i < p->n_extras && !r->bad; i++) {
        struct extra *x = &p->extras[i];
        const unsigned char *flag, *link;

        *x = (struct extra){.timestamp = get_varint(r)};
        x->attrs = (uint32_t) get_varint(r);
        flag = get_raw(r, 1);
        link = flag && *flag ? get_raw(r, sizeof x->link) : NULL;
        if (link) {
            x->has_link = true;
            memcpy(&x->link, link, sizeof x->link);
        }
    }
}

int record_read_prof(struct record *rec, struct mempart *part)
{
    struct cursor *r = &rec->profs;
    const struct symbols *s = part->symbols;
    const struct sym_series *series;
    struct blob_header h;
    struct stored_profile p = {0}, *out;
    uint64_t flags;
    const unsigned char *id;

    p.series = get_below(r, pinned_count(&s->series));
    p.header = get_below(r, pinned_count(&part->blobs.tables[BLOB_HEADER]));
    p.time_ns = get_zigzag(r);
    p.duration_ns = get_zigzag(r);
    p.value = get_zigzag(r);
    p.group = (uint32_t) get_varint(r);
    flags = get_varint(r);
    id = flags & 1 ? get_raw(r, 16) : NULL;
    if (id)
        memcpy(p.id, id, 16);
    p.n_rows = get_below(r, (uint64_t) (r->end - r->p) + 1);
    p.n_extras = get_below(r, (uint64_t) p.n_rows + 1);
    if (r->bad)
        return -EBADMSG;
    out = mempart_add(part, p.n_rows, p.n_extras);
    if (!out)
        return -ENOMEM;
    p.rows = out->rows;
    p.extras = out->extras;
    series = sym_series(s, p.series);
    p.service = series->service;
    p.type = series->type_name;
    p.gauge = flags >> 1 & 1;
    if (blobs_read_header(&part->blobs, p.header, &h))
        p.instance = blobs_instance(&part->blobs, h.resource);
    read_rows(r, &p, pinned_count(&sym_service(s, p.service)->nodes));
    if (r->bad) {
        part->n_added--;
        return -EBADMSG;
    }
    *out = p;
    return 0;
}
