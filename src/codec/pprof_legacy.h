/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats that pprof read before profile.proto, and still reads: gperftools' binary CPU profile, its heap, growth,
 * contention and thread text, Go's count profiles, and the Java variants. They are interpreted exactly as google/pprof
 * does, including its guesses about mappings; each parser's file describes its format.
 *
 * A parser fills a struct legacy; legacy_finish() turns that into a batch. Parsers return 0, -ENOMSG when the bytes are
 * of another format, or another negative errno with an error message when they are of this one but malformed.
 */
#ifndef CODEC_PPROF_LEGACY_H
#define CODEC_PPROF_LEGACY_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "base/wrap.h"

struct batch;
struct regex;

/* Decodes any of them. The bytes stay with the caller; memory limits the batch, 0 = none. -ENOMSG if no parser
 * recognised them. */
int pprof_legacy_decode(struct str data, size_t memory, struct batch **ret, struct err *e);

/* --- for the parsers --- */

enum { LEGACY_VALUES = 4, LEGACY_LINE_MAX = 65535 };

enum legacy_pattern {
    RE_COUNT_START,
    RE_COUNT,
    RE_HEAP_HEADER,
    RE_HEAP_SAMPLE,
    RE_CONTENTION_SAMPLE,
    RE_GROWTH_HEADER,
    RE_FRAGMENTATION_HEADER,
    RE_THREADZ_START,
    RE_THREAD_START,
    RE_PROC_MAPS,
    RE_BRIEF_MAPS,
    RE_LOG_INFO,
    RE_LIBRARY,
    RE_JAVA_ATTRIBUTE,
    RE_JAVA_SAMPLE,
    RE_JAVA_LOCATION,
    RE_JAVA_FILE_LINE,
    RE_JAVA_PATH,
    LEGACY_PATTERNS
};

struct legacy_location {
    uint64_t address;
    uint32_t mapping;  /* index + 1, 0 = none */
    uint32_t function; /* index + 1, 0 = none */
    int64_t line;
};

struct legacy_mapping {
    uint64_t start, limit, offset;
    struct str file, build_id;
};

struct legacy_function {
    struct str name, file;
};

struct legacy_sample {
    size_t first; /* index into refs: locations, leaf first */
    size_t n;
    int64_t values[LEGACY_VALUES];
    int64_t bytes; /* the label "bytes", if has_bytes */
    bool has_bytes;
};

struct legacy_type {
    struct str type, unit;
};

struct legacy {
    struct str data;
    struct legacy_type types[LEGACY_VALUES], period_type;
    uint32_t n_types;
    int64_t period, duration_ns;

    struct legacy_location *locations;
    struct legacy_mapping *mappings;
    struct legacy_function *functions;
    struct legacy_sample *samples;
    uint32_t *refs;
    size_t n_locations, n_mappings, n_functions, n_samples, n_refs;
    size_t cap_locations, cap_mappings, cap_functions, cap_samples, cap_refs;
    struct map by_address, by_name; /* of locations, of functions */

    size_t pos;      /* position of the line scanner */
    struct str line; /* the last line read, without its end; empty at the end of the file */
    int scan_error;

    struct regex *patterns[LEGACY_PATTERNS];
    struct arena arena;
    struct err *e;
};

/* The parsers, in the order in which they are tried. */
int legacy_cpu(struct legacy *l);
int legacy_heap(struct legacy *l);
int legacy_go_count(struct legacy *l);
int legacy_thread(struct legacy *l);
int legacy_contention(struct legacy *l);
int legacy_java(struct legacy *l);
/* The part after the header of a binary CPU profile: samples of words, then symbols. */
int legacy_java_symbols(struct legacy *l, struct str rest);

/* The next line; false at the end or if a line is too long (then scan_error is set). */
bool legacy_scan(struct legacy *l);
/* First match of a pattern; groups may be NULL. Also false if out of memory. */
bool legacy_match(struct legacy *l, enum legacy_pattern p, struct str text, struct str *groups, int n);
bool legacy_is_comment(struct str line); /* or empty */
bool legacy_is_maps_start(struct str line);

/* Integers as Go's strconv.ParseInt(s, 0, 64) reads them: 0x, 0o, 0b and a leading 0 choose the base. */
int legacy_int(struct str s, int64_t *ret);
int legacy_decimal(struct str s, int64_t *ret);
/* Estimates the actual allocations from a count and bytes that were sampled once every `rate` bytes (a Poisson
 * process). */
void legacy_unsample(int64_t *count, int64_t *size, int64_t rate);

/* A new sample without locations; the pointer is valid until the next call. NULL if out of memory. */
struct legacy_sample *legacy_add_sample(struct legacy *l);
/* Appends the location of this address to the last sample. */
int legacy_add_ref(struct legacy *l, uint64_t address);
/* Appends every "0x..." in text to the last sample: `leaf` is subtracted from the first one, `caller` from the
 * others. */
int legacy_add_refs(struct legacy *l, struct str text, uint64_t leaf, uint64_t caller);
void legacy_set_types(struct legacy *l, const struct legacy_type *types, uint32_t n);

/* Skips to the memory map, if there is one, and reads it. */
int legacy_read_sections(struct legacy *l);
/* Reads a memory map from the current position, then assigns mappings to locations and drops unused ones. */
int legacy_read_maps(struct legacy *l);
/* Numbers locations and functions in the order of their use, as pprof does. */
int legacy_renumber(struct legacy *l);
int legacy_map_locations(struct legacy *l);
/* The leaf may occur twice, from the signal context and, less one, from the stack: drops the second. */
void legacy_drop_double_leaf(struct legacy *l);
/* Removes the k-th location of a sample. */
void legacy_drop_ref(struct legacy *l, struct legacy_sample *s, size_t k);

#endif
