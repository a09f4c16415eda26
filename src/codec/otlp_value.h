/* SPDX-License-Identifier: Apache-2.0 */
/* What the OTLP codecs share about attributes: AnyValue and KeyValue of protobuf, and tables of references. */
#ifndef CODEC_OTLP_VALUE_H
#define CODEC_OTLP_VALUE_H

#include <errno.h>

#include "codec/wire.h"
#include "model/batch.h"

enum { OTLP_VALUE_DEPTH_MAX = 32 }; /* lists inside lists */

/* A table of the dictionary as references see it: what the sender wrote, and where it went (otlp.h, "shifted"). */
struct otlp_table {
    uint32_t n;     /* the sender's entries, at least 1: 0 is always a valid reference */
    uint32_t shift; /* added to every reference: 1 when the sender's entry 0 is not the zero value */
    const char *name;
};

struct otlp_values {
    struct arena *arena;
    const struct str *strings; /* the batch's, already shifted */
    struct otlp_table string_table;
    struct wire_err *w;
    struct kv *pool; /* room for attributes that are not inside of others */
    uint32_t n_pool;
};

/* A sender's reference as the batch's index into *ret; -EINVAL with words when it is out of range. */
static inline int otlp_ref(const struct otlp_table *t, uint64_t v, const uint8_t *at, const char *field,
                           struct wire_err *w, uint32_t *ret)
{
    if (unlikely(v >= t->n))
        return wire_fail(w, at, field, "%lld is outside %s, which has %u entries", (long long) v, t->name, t->n);
    *ret = (uint32_t) v + t->shift;
    return 0;
}

/* As otlp_ref(), for references that may be missing: 0 is none even in a shifted table. */
static inline int otlp_ref_optional(const struct otlp_table *t, uint64_t v, const uint8_t *at, const char *field,
                                    struct wire_err *w, uint32_t *ret)
{
    int r = otlp_ref(t, v, at, field, w, ret);

    if (!v)
        *ret = 0;
    return r;
}

/* n pieces of `size` bytes, not cleared: -EFBIG when the arena's limit is what stands against it, else -ENOMEM. */
int otlp_alloc(struct arena *a, uint64_t n, size_t size, void *ret);

/* One AnyValue. */
int otlp_value_decode(struct otlp_values *d, const uint8_t *p, const uint8_t *end, unsigned depth, struct value *ret);
/* All KeyValues in field `field` of the message [p, end), whose other fields are not looked at. */
int otlp_kvs_decode(struct otlp_values *d, const uint8_t *p, const uint8_t *end, uint32_t field, const char *name,
                    unsigned depth, struct kvs *ret);

#endif
