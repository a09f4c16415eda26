/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary of one log and of one segment: everything about profiles that is not a symbol. Each distinct item is
 * stored once, as encoded bytes with a number per kind. Number 0 of each kind is the empty item.
 *
 *   BLOB_ATTR      key, unit (bytes), value
 *   BLOB_SET       n, n x attr
 *   BLOB_RESOURCE  instance id (16), dropped, schema url, entity refs, n, n x (key, value)
 *   BLOB_SCOPE     name, version, schema url, dropped, n, n x (key, value)
 *   BLOB_HEADER    resource, scope, type, unit, scale, twin type, twin unit, twin scale, period type, period unit,
 *                  period, default type, set of attributes, dropped, mappings, payload
 *   BLOB_MAPPINGS  n, n x (file name, start, limit, offset, set of attributes): the mappings of a profile that carry
 *                  more than the binary's identity
 *   BLOB_PAYLOAD   format, bytes: the original profile, before it was converted to OTLP
 *   value          kind, then bytes | 0/1 | zigzag | 8 bytes | n values | n x (key, value)
 *
 * On disk: per kind n and n x bytes (without number 0). In a log: definitions (kind + 1, bytes) in order, and 0x7f with
 * the counts of each kind first, for the same reason as in symbols.h.
 *
 * One thread adds; others read what has been published, as with symbols.
 */
#ifndef SEGMENT_BLOBS_H
#define SEGMENT_BLOBS_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/map.h"
#include "model/batch.h"
#include "model/builder.h"
#include "store/engines/segment/symbols/pinned.h"

enum { BLOB_SET_MAX = 4096 }; /* attributes of a set */

enum blob_kind { BLOB_ATTR, BLOB_SET, BLOB_RESOURCE, BLOB_SCOPE, BLOB_HEADER, BLOB_MAPPINGS, BLOB_PAYLOAD, BLOB_KINDS };

struct blobs {
    struct pinned tables[BLOB_KINDS]; /* struct str */
    struct map maps[BLOB_KINDS];
    struct arena arena;
    struct buf defs;   /* definitions that are not in a log yet: pending */
    size_t defs_taken; /* how many of their bytes are in records of the group that is being written */
    bool recording;    /* keep defs */
    struct buf scratch, scratch2;
    uint64_t serial; /* unique among all dictionaries */
};

int blobs_init(struct blobs *b);
void blobs_done(struct blobs *b);
size_t blobs_bytes(const struct blobs *b); /* approximate memory */
/* Returns the number of these bytes; UINT32_MAX when memory runs out. */
uint32_t blobs_put(struct blobs *b, enum blob_kind kind, struct str bytes);
static inline struct str blobs_get(const struct blobs *b, enum blob_kind kind, uint32_t i)
{
    return i < pinned_count(&b->tables[kind]) ? *(struct str *) pinned_at(&b->tables[kind], i) : (struct str){0};
}

void blobs_put_start(const struct blobs *b, struct buf *out);
int blobs_apply(struct blobs *b, const void *p, size_t n);
/* Encodes everything, for a segment. */
void blobs_encode(const struct blobs *b, struct buf *out);
int blobs_decode(struct blobs *b, const void *p, size_t n);

/* --- from and to batches --- */
struct blob_header {
    uint32_t resource, scope, attrs;
    struct str type, unit, twin_type, twin_unit, period_type, period_unit;
    int64_t scale, twin_scale, period;
    uint32_t default_type, dropped;
    uint32_t mappings, payload;
};

/* A mapping as it was sent. */
struct blob_mapping {
    struct str filename;
    uint64_t start, limit, offset;
    uint32_t attrs; /* set */
};

uint32_t blobs_attr(struct blobs *b, const struct batch *from, uint32_t attr);
uint32_t blobs_set_of(struct blobs *b, const uint32_t *attrs, uint32_t n);
uint32_t blobs_set(struct blobs *b, const struct batch *from, struct run attrs);
uint32_t blobs_resource(struct blobs *b, const struct resource *r, struct id128 instance);
uint32_t blobs_scope(struct blobs *b, const struct scope *s);
uint32_t blobs_header(struct blobs *b, const struct blob_header *h);
/* Stores the batch's mappings that are marked. */
uint32_t blobs_mappings(struct blobs *b, const struct batch *from, const uint8_t *marked);
uint32_t blobs_payload(struct blobs *b, struct str format, struct str bytes);

/* Strings point into the dictionary. Returns false if damaged. */
bool blobs_read_header(const struct blobs *b, uint32_t i, struct blob_header *ret);
/* Reads at most n mappings; returns how many. */
uint32_t blobs_read_mappings(const struct blobs *b, uint32_t i, struct blob_mapping *ret, uint32_t n);
bool blobs_read_payload(const struct blobs *b, uint32_t i, struct str *ret_format, struct str *ret_bytes);
struct id128 blobs_instance(const struct blobs *b, uint32_t resource);
/* Returns the numbers of a set's attributes, at most n; the result is their count. */
uint32_t blobs_set_attrs(const struct blobs *b, uint32_t set, uint32_t *ret, uint32_t n);
/* If the attribute has this name (in any spelling, see label_name_eq()), appends its text to out and returns true. */
bool blobs_attr_find(const struct blobs *b, uint32_t attr, struct str name, struct buf *out);
/* Appends the text of the attribute of this name to out; false when there is none. */
bool blobs_set_find(const struct blobs *b, uint32_t set, struct str name, struct buf *out);
bool blobs_resource_find(const struct blobs *b, uint32_t resource, struct str name, struct buf *out);
/* Calls fn for each attribute until it fails; what is damaged is skipped. */
typedef int (*blob_attr_fn)(void *ctx, struct str key, const struct value *v);
int blobs_set_each(const struct blobs *b, uint32_t set, blob_attr_fn fn, void *ctx);
int blobs_resource_each(const struct blobs *b, uint32_t resource, blob_attr_fn fn, void *ctx);

/* Copies into a builder: to the last resource or scope, or as a run of attributes. */
void blobs_emit_resource(const struct blobs *b, uint32_t resource, struct builder *to);
void blobs_emit_scope(const struct blobs *b, uint32_t scope, struct builder *to);
struct run blobs_emit_set(const struct blobs *b, uint32_t set, struct builder *to);
/* Encodes the attributes of a location, except `except`, as separate bytes; and decodes them into list, which has room
 * for n, and returns their count. */
void blob_attrs_encode(struct buf *out, const struct batch *from, struct run attrs, struct str except);
uint32_t blob_attrs_emit(struct str bytes, struct builder *to, uint32_t *list, uint32_t n);

/* Copies numbers from one dictionary to another, remembering what was copied. */
struct blob_remap {
    const struct blobs *from;
    struct blobs *to;
    uint32_t *attrs, *sets, *headers; /* number + 1 */
};
int blob_remap_init(struct blob_remap *m, const struct blobs *from, struct blobs *to);
void blob_remap_done(struct blob_remap *m);
uint32_t blob_remap_set(struct blob_remap *m, uint32_t set);
uint32_t blob_remap_header(struct blob_remap *m, uint32_t header);

#endif
