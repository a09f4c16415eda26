/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the OTLP codecs: AnyValue and KeyValue of protobuf, and tables of references. */
#ifndef CODEC_OTLP_VALUE_H
#define CODEC_OTLP_VALUE_H

#include <errno.h>

#include "base/wire.h"
#include "model/batch.h"

enum { OTLP_VALUE_DEPTH_MAX = 32 }; /* maximum nesting of lists */

/* A table of the dictionary as seen by references: the sender's entries, and where they are in the batch (otlp.h,
 * "shifted"). */
struct otlp_table {
    uint32_t n;     /* number of the sender's entries, at least 1: 0 is always a valid reference */
    uint32_t shift; /* added to every reference: 1 if the sender's entry 0 is not the zero value */
    const char *name;
};

struct otlp_values {
    struct arena *arena;
    const struct str *strings; /* the batch's strings, already shifted */
    struct otlp_table string_table;
    struct wire_err *w;
    struct kv *pool; /* room for attributes that are not nested */
    uint32_t n_pool;
    unsigned depth; /* of lists around the value being decoded */
};

/* Converts a sender's reference to the batch's index in *ret; -EINVAL with an error message if it is out of range. */
static inline int otlp_ref(const struct otlp_table *t, uint64_t v, const uint8_t *at, const char *field,
                           struct wire_err *w, uint32_t *ret)
{
    if (unlikely(v >= t->n))
        return wire_fail(w, at, field, "%lld is outside %s, which has %u entries", (long long) v, t->name, t->n);
    *ret = (uint32_t) v + t->shift;
    return 0;
}

/* As otlp_ref(), for optional references: 0 means none even in a shifted table. */
static inline int otlp_ref_optional(const struct otlp_table *t, uint64_t v, const uint8_t *at, const char *field,
                                    struct wire_err *w, uint32_t *ret)
{
    int r = otlp_ref(t, v, at, field, w, ret);

    if (!v)
        *ret = 0;
    return r;
}

/* Allocates n elements of `size` bytes, not cleared: -EFBIG if the arena's limit prevents it, else -ENOMEM. */
int otlp_alloc(struct arena *a, uint64_t n, size_t size, void *ret);

/* One AnyValue. */
int otlp_value_decode(struct otlp_values *d, const uint8_t *p, const uint8_t *end, struct value *ret);
/* Decodes all KeyValues in field `field` of the message [p, end); its other fields are ignored. */
int otlp_kvs_decode(struct otlp_values *d, const uint8_t *p, const uint8_t *end, uint32_t field, const char *name,
                    struct kvs *ret);

#endif
