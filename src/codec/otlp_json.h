/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the JSON decoder, shared by its files: values, dictionary, body.
 *
 * Order. References are checked as they are read, so their targets are read first: the body is skipped until the
 * dictionary has been read, and the positions of the dictionary's tables are recorded and then read in the order of
 * DICT_* below.
 *
 * Errors. The reader's errors stick (json.h), and so do ours: every function returns 0 or the error, with the place in
 * `w`. json_check() turns the reader's into that form.
 */
#ifndef CODEC_OTLP_JSON_H
#define CODEC_OTLP_JSON_H

#include "base/json.h"
#include "codec/otlp.h"
#include "codec/otlp_value.h"

/* Every growing array of the batch; the order of `owned`. */
enum otlp_array {
    ARRAY_STRINGS,
    ARRAY_MAPPINGS,
    ARRAY_FUNCTIONS,
    ARRAY_LOCATIONS,
    ARRAY_STACKS,
    ARRAY_LINKS,
    ARRAY_ATTRS,
    ARRAY_LINES,
    ARRAY_INDICES,
    ARRAY_RESOURCES,
    ARRAY_SCOPES,
    ARRAY_PROFILES,
    ARRAY_TYPES,
    ARRAY_SAMPLES,
    ARRAY_VALUES,
    ARRAY_TIMESTAMPS,
    ARRAYS
};

struct otlp_json {
    struct json r;
    struct batch *b;
    struct wire_err w;
    struct otlp_table strings, mappings, functions, locations, stacks, links, attrs;
    struct value_type *types; /* one per profile */
    uint32_t n_types;
    size_t cap[ARRAYS]; /* elements */
    size_t memory, used;
    uint32_t empty;     /* objects without a key: see WIRE_EMPTY_MAX */
    struct buf scratch; /* elements of lists that are being read, moved to the arena when complete */
};

/* Records the place and the error message of the reader's error, if it has one, and returns it. */
int otlp_json_check(struct otlp_json *d);
/* A sticky error that is not caused by the input: -EFBIG, -ENOMEM. */
int otlp_json_stop(struct otlp_json *d, int r);
/* Makes room for one more element of *table (a pointer to elements of `size` bytes) and counts it; NULL on failure. */
void *otlp_json_add(struct otlp_json *d, enum otlp_array which, void *table, uint32_t *n, size_t size);

/* Begins an object or array; false for null, which means an empty one, and for anything else (an error). */
bool otlp_json_object(struct otlp_json *d);
bool otlp_json_array(struct otlp_json *d);
/* A reference; see otlp_ref(). Returns 0 after a failure. */
uint32_t otlp_json_ref(struct otlp_json *d, const struct otlp_table *t, const char *field, bool optional);
/* A list of references into the pool of indices. */
struct run otlp_json_refs(struct otlp_json *d, const struct otlp_table *t, const char *field);
uint32_t otlp_json_u32(struct otlp_json *d);
/* n bytes as hex or base64; an empty string leaves ret alone. */
void otlp_json_id(struct otlp_json *d, const char *field, uint8_t *ret, size_t n);
/* base64 of any length, in the arena. */
struct str otlp_json_bytes(struct otlp_json *d, const char *field);

int otlp_json_value(struct otlp_json *d, unsigned depth, struct value *ret);
int otlp_json_kvs(struct otlp_json *d, const char *field, unsigned depth, struct kvs *ret);
int otlp_json_dictionary(struct otlp_json *d);

/* True if this key of an object inside `parent` belongs to older generations only. */
bool otlp_json_is_old_key(const char *parent, struct str key);
/* Reads the whole request, as far as it is well-formed, to determine its generation from its keys: G5 unless they rule
 * that out. */
enum otlp_generation otlp_json_generation(struct str text, struct arena *a);

#define KEY_IS(key, lit) ((key).n == sizeof(lit) - 1 && memcmp((key).p, lit, sizeof(lit) - 1) == 0)

#endif
