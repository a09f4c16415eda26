/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one pprof_decode(), shared by its two passes: pprof_scan.c counts and records ids; pprof_decode.c and
 * pprof_decode_profile.c fill the tables. Not for use by other files.
 */
#ifndef CODEC_PPROF_DECODER_H
#define CODEC_PPROF_DECODER_H

#include <stdbool.h>

#include "base/map.h"
#include "codec/pprof_wire.h"
#include "model/batch.h"

enum { PPROF_FIELDS = 16 };

/* A message of varints only, for errors and for pprof_scalars(). */
struct pprof_shape {
    const char *name;
    uint32_t n; /* highest field number */
    const char *fields[11];
};

/* The part of the file in which a repeated field of Profile was found. */
struct pprof_span {
    const uint8_t *first, *end;
    uint32_t n;
};

/* Maps the file's ids to indices of the dictionary. */
struct pprof_ids {
    const char *name;
    uint32_t n;      /* entries, known from the scan */
    uint32_t *dense; /* NULL: the i-th has id i. Otherwise indices of ids 0..n */
    uint64_t *all;   /* with dense: ids by index, kept in the batch */
    struct map map;  /* for ids above n */
};

struct pprof_decoder {
    struct batch *b;
    const uint8_t *start, *end;
    struct err *e;
    struct pprof_span spans[PPROF_FIELDS];
    uint64_t scalars[PPROF_FIELDS]; /* of Profile */
    uint64_t period_type[3];
    uint64_t n_refs, n_values, n_labels, n_lines, n_mapping_attrs, n_comments;
    uint64_t n_empty; /* empty samples, labels, lines and strings: see WIRE_EMPTY_MAX */
    struct pprof_ids mappings, functions, locations;
    struct map attrs;
    size_t cap_attrs;
    uint32_t *stack_pos, *attr_pos; /* position of the next sample's locations and attributes in dict.indices */
    struct run folded;              /* the shared attribute list of all folded locations, once created */
    struct arena scratch;
};

extern const struct pprof_shape pprof_value_type, pprof_label, pprof_line, pprof_function, pprof_mapping;
extern const char *const pprof_profile_fields[PPROF_FIELDS];

/* Sets the error "pprof: MESSAGE.FIELD at byte N: WHY" and returns -EBADMSG. */
int pprof_bad(const struct pprof_decoder *d, const uint8_t *at, const char *message, const char *field,
              const char *why);

static inline size_t pprof_offset(const struct pprof_decoder *d, const uint8_t *at)
{
    return (size_t) (at - d->start);
}

#define PPROF_WRONG_TYPE "wrong wire type"
#define PPROF_NO_STRING "points outside the string table"
#define PPROF_BAD_VARINT "a varint runs past the end"

/* Walks the whole file and fills in spans, scalars, period_type and the counts. Afterwards all fields of Profile,
 * Sample, Mapping and Location are known to have valid lengths; the content of the other messages is not examined. */
int pprof_scan(struct pprof_decoder *d);
/* Reads a message of varints: v[number] becomes the value. v has shape->n + 1 elements, all zero. */
int pprof_scalars(struct pprof_decoder *d, const struct pprof_shape *s, const uint8_t *p, const uint8_t *end,
                  uint64_t *v);

/* Records that entry `index` has this id. Indices come in order from 1. */
int pprof_ids_add(struct pprof_decoder *d, struct pprof_ids *ids, uint64_t id, uint32_t index, const uint8_t *at);
uint32_t pprof_ids_large(const struct pprof_ids *ids, uint64_t id);

/* 0 if there is none. */
static inline uint32_t pprof_ids_find(const struct pprof_ids *ids, uint64_t id)
{
    if (likely(!ids->dense))
        return likely(id <= ids->n) ? (uint32_t) id : 0;
    return id <= ids->n ? ids->dense[id] : pprof_ids_large(ids, id);
}

/* The next field `num` of Profile at or after *pos, which is advanced. The scan has checked all fields: none is
 * malformed. */
static inline bool pprof_next(const struct pprof_decoder *d, uint32_t num, const uint8_t **pos, struct pb_field *f)
{
    const uint8_t *end = d->spans[num].end;

    if (!*pos)
        *pos = d->spans[num].first;
    while (*pos < end) {
        *pos = pb_field(*pos, end, f);
        if (f->num == num)
            return true;
    }
    return false;
}

/* --- pass 2 --- */

/* The number of strings in the file. */
static inline uint32_t pprof_file_strings(const struct pprof_decoder *d)
{
    return d->spans[6].n;
}

static inline struct value pprof_string_value(const struct pprof_decoder *d, uint32_t string)
{
    struct str s = d->b->dict.strings[string];

    return (struct value){.kind = VALUE_STR, .n = s.n, .str = s.p};
}

/* The index of one of our own names, which is added after the file's strings at its first use. */
uint32_t pprof_own_string(struct pprof_decoder *d, struct str s);
/* The index of the attribute equal to *a; 0 if out of memory. Unused bytes of a->value must be zero. */
uint32_t pprof_intern_attr(struct pprof_decoder *d, const struct attr *a);
/* Appends an attribute index to the pool after the samples' lists. */
int pprof_put_index(struct pprof_decoder *d, struct run *run, uint32_t attr);

/* pprof_decode_profile.c */
int pprof_fill_types(struct pprof_decoder *d);
int pprof_fill_profile(struct pprof_decoder *d);

#endif
