/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch: the unit of data that moves from receivers to the store. It has the shape of an OTLP ProfilesData: one
 * dictionary, and under it resources > scopes > profiles > samples that point into the dictionary by index.
 *
 * Shape
 *   - Every table's entry 0 is the zero value ("none"); index 0 is always valid after batch_new(). Decoders fill in
 *     whatever the sender omitted, so the rest of wick never checks.
 *   - Every index in a batch is in range, every list lies inside its pool: decoders and builders guarantee it (tests
 *     verify it with tests/tools/batch_validate.h), so consumers index without checks.
 *   - Lists of numbers (a stack's locations, a sample's values) are (offset, count) into one pool per kind: no pointer
 *     and no allocation per sample.
 *   - Strings are slices into the batch's arena or into the request it was decoded from, which the batch then owns
 *     (`input`). They are meant to be UTF-8, but the sender's bytes are not checked; consumers that print must not rely
 *     on it.
 *   - Resources, scopes and profiles are arrays in order of arrival; a parent holds the range of its children, so
 *     moving a profile never moves samples.
 *
 * Several values per sample
 *   A profile has n_types >= 1 sample types. Where n_types > 1 (pprof), each sample's values are n_types numbers, and
 *   there are no timestamps. Where n_types == 1 (OTLP), a sample has values, timestamps or both: both then have the
 *   same count; timestamps without values count 1 each (see batch_sample_value()). The OTLP encoder writes a profile of
 *   N types as N Profiles with one `group`; convert_join_types() joins them again.
 *
 * Identity of frames
 *   A native location is (mapping's build id, ELF virtual address); names, lines and inlines are attributes of it that
 *   may be missing and arrive later (symbolizer.h). `lines` are innermost inlined first, as in OTLP and pprof.
 *   An interpreted location has address 0 and is identified by its lines. See identity.h for the 128-bit hash of both.
 *
 * Ownership and threads
 *   A batch is reference-counted and immutable once it has been handed to a sink; before that, only its creator may use
 *   it.
 */
#ifndef MODEL_BATCH_H
#define MODEL_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/wrap.h"

/* A run of a pool: items [off, off + n). */
struct run {
    uint32_t off, n;
};

enum value_kind { VALUE_EMPTY, VALUE_STR, VALUE_BOOL, VALUE_INT, VALUE_DOUBLE, VALUE_BYTES, VALUE_ARRAY, VALUE_MAP };

/* OTLP's AnyValue. Arrays and maps point into the arena. */
struct value {
    uint8_t kind; /* enum value_kind */
    uint32_t n;   /* bytes of STR, BYTES; elements of ARRAY, MAP */
    union {
        const char *str; /* STR, BYTES */
        bool boolean;
        int64_t integer;
        double number;
        struct value *array;
        struct kv *map;
    };
};

/* An attribute of a resource or scope: inline, not in the dictionary. */
struct kv {
    struct str key;
    struct value value;
};

struct kvs {
    struct kv *v;
    uint32_t n;
};

/* A dictionary attribute (OTLP KeyValueAndUnit): of samples, profiles, locations, mappings. */
struct attr {
    uint32_t key, unit; /* strings */
    struct value value;
};

struct mapping {
    uint64_t start, limit, offset;
    uint32_t filename; /* string */
    struct run attrs;  /* into indices; process.executable.build_id.{gnu,go,htlhash}, pprof.mapping.* */
    uint64_t skew;     /* ELF address less file offset of its code, where the two differ and the sender knows it */
};

struct function {
    uint32_t name, system_name, filename; /* strings; name is demangled, system_name is as in the symbol table */
    int64_t start_line;
};

struct line {
    uint32_t function;
    int64_t line, column;
};

struct location {
    uint64_t address; /* ELF virtual address when the mapping allows it (identity.h); 0 for interpreted frames */
    uint32_t mapping;
    struct run lines; /* into lines, innermost inlined first; empty when not symbolised */
    struct run attrs; /* into indices; profile.frame.type, pprof.location.is_folded */
};

struct link {
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

/* All tables. Entry 0 of strings, mappings, functions, locations, stacks, links and attrs is the zero value. */
struct dict {
    struct str *strings;
    struct mapping *mappings;
    struct function *functions;
    struct location *locations;
    struct run *stacks; /* into indices: locations, leaf first */
    struct link *links;
    struct attr *attrs;
    struct line *lines; /* pool */
    uint32_t *indices;  /* pool of u32 lists: stacks' locations, attribute sets */
    uint32_t n_strings, n_mappings, n_functions, n_locations, n_stacks, n_links, n_attrs, n_lines, n_indices;
};

struct sample {
    uint32_t stack, link;
    struct run attrs;      /* into dict.indices */
    struct run values;     /* into batch.values */
    struct run timestamps; /* into batch.timestamps */
};

struct value_type {
    uint32_t type, unit; /* strings */
};

enum { PROFILE_TYPES_MAX = 64, BATCH_OWNED_MAX = 16 };

struct profile {
    struct value_type *types; /* n_types >= 1 */
    uint32_t n_types;
    uint32_t default_type; /* index into types + 1, 0 = not given (pprof default_sample_type) */
    struct run samples;    /* into batch.samples */
    struct value_type period_type;
    int64_t period;
    int64_t time_ns; /* start, Unix; 0 = not given */
    int64_t duration_ns;
    uint8_t id[16];   /* all zero = none */
    struct run attrs; /* into dict.indices; pprof.profile.* */
    uint32_t dropped_attrs;
    struct str payload_format;
    struct str payload;
    uint32_t group; /* profiles of one scope with equal group > 0 were one multi-value profile */
};

struct scope {
    struct str name, version, schema_url;
    struct kvs attrs;
    uint32_t dropped_attrs;
    struct run profiles; /* into batch.profiles */
};

struct resource {
    struct kvs attrs;
    uint32_t dropped_attrs;
    struct str schema_url;
    struct str entity_refs; /* the encoded repeated field, passed on unread */
    struct run scopes;      /* into batch.scopes */
};

struct batch {
    struct dict dict;
    struct resource *resources;
    struct scope *scopes;
    struct profile *profiles;
    struct sample *samples;
    int64_t *values;
    uint64_t *timestamps;
    uint32_t n_resources, n_scopes, n_profiles, n_samples, n_values, n_timestamps;
    struct arena arena; /* all of the above, and generated strings */
    char *input;        /* the request that strings point into (mem_free'd), or NULL */
    size_t input_size;
    void *owned[BATCH_OWNED_MAX]; /* tables that were grown by a builder (mem_free'd), or NULL */
    size_t owned_size;
    struct batch *parent; /* a batch whose tables this one shares (batch_share()), or NULL */
    /* IDs that the entries had in the original pprof file, by index; NULL when they equal the indices. Only pprof's raw
     * report shows them; nothing else should use them. */
    const uint64_t *mapping_ids, *location_ids, *function_ids;
    _Atomic uint32_t refs;
};

/* An empty batch with one reference, tables holding their entry 0. memory_limit bounds its arena; 0 = none. */
int batch_new(size_t memory_limit, struct batch **ret);
struct batch *batch_ref(struct batch *b);
void batch_unref(struct batch *b);
DEFINE_CLEANUP(struct batch *, batch_unref)

/* A new batch over the same tables, which it keeps alive, with its own array of resources that the caller may change:
 * for processors that change nothing else. The resources' attributes still point into the original. */
int batch_share(struct batch *b, struct batch **ret);

/* Bytes held: arena and input. */
size_t batch_memory(const struct batch *b);

/* --- reading --- */
static inline struct str batch_string(const struct batch *b, uint32_t i)
{
    return b->dict.strings[i];
}

static inline struct str value_str(const struct value *v)
{
    return v->kind == VALUE_STR || v->kind == VALUE_BYTES ? (struct str){v->str, v->n} : (struct str){0};
}

/* Sum of type `type` over the sample: its value, or the sum over its timestamps. */
static inline int64_t batch_sample_value(const struct batch *b, const struct profile *p, const struct sample *s,
                                         uint32_t type)
{
    int64_t sum = 0;

    if (p->n_types > 1)
        return type < s->values.n ? b->values[s->values.off + type] : 0;
    if (!s->values.n)
        return s->timestamps.n;
    for (uint32_t i = 0; i < s->values.n; i++)
        sum = wrap_add(sum, b->values[s->values.off + i]);
    return sum;
}

/* The first attribute with this key among a dictionary list, or NULL. */
const struct attr *batch_attr(const struct batch *b, struct run attrs, struct str key);
/* Is there such an attribute with the value true? */
bool batch_attr_true(const struct batch *b, struct run attrs, struct str key);
const struct value *kvs_get(const struct kvs *kvs, struct str key);
bool value_eq(const struct value *a, const struct value *b);
/* A value as text: strings as they are, numbers and booleans printed, bytes as hex, lists as JSON. */
void value_print(struct buf *out, const struct value *v);

#endif
