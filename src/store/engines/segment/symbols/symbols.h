/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols of one tenant and epoch: strings, mappings, functions, locations, services with their call trees, series.
 * Each item has a number that is valid within the epoch; segments of the epoch use these numbers. A new epoch begins
 * when this one has grown large or old; an epoch and its file are removed with the last segment that uses it (this is
 * the garbage collection: nothing is ever rewritten).
 *
 * A location is found by identity: (mapping's build ID, ELF address), or for interpreted frames its lines. Names are an
 * attribute that may arrive later, and lines and inlined calls later still (symbols_name()): more detailed information
 * replaces less detailed (enum sym_rank).
 *
 * A service's tree: node 0 is the root, a node is (parent, location) with parent < node.
 *
 * One thread adds (the log writer, or recovery); any thread reads: tables never move, counts are published. Every
 * addition appends its definition to `defs`, bytes that symbols_apply() turns into the same addition elsewhere. The log
 * and the symbol file both store definitions.
 *
 * Definitions: a list of
 *   0x01 string     bytes
 *   0x02 mapping    build id (string), kind of id, file name (string)
 *   0x03 function   name, system name, file (strings), start line (zigzag)
 *   0x04 location   mapping, address, kind, flags, attributes (string), n, n x line
 *   0x05 names      location, n, n x line             line: function, line (zigzag), column (zigzag)
 *   0x06 service    name (string)
 *   0x07 series     service, type, unit (strings), rule, n, n x (name, value: strings)
 *   0x08 nodes      service, first, n, n x (node - parent, location)
 *   0x09 start      counts of strings, mappings, functions, locations, services, series: what follows has these
 *                   numbers. Where some are missing (damage), placeholders fill the gap.
 * All numbers are varints. The log stores definitions in this form; the symbol file stores them packed (symbol_pack.h).
 */
#ifndef SEGMENT_SYMBOLS_H
#define SEGMENT_SYMBOLS_H

#include <pthread.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/map.h"
#include "model/batch.h"
#include "model/labels.h"
#include "model/types.h"
#include "store/engines/segment/symbols/idmap.h"
#include "store/engines/segment/symbols/pinned.h"
#include "store/fingerprints.h"

struct sym_mapping {
    uint32_t build_id, filename;
    uint8_t id_kind; /* 0 none, 1 gnu, 2 go, 3 htlhash */
};

struct sym_function {
    uint32_t name, system_name, file;
    int64_t start_line;
};

struct sym_line {
    uint32_t function;
    int64_t line, column;
};

struct sym_lines {
    uint32_t n;
    struct sym_line v[];
};

/* How much is known about a native location. */
enum sym_rank { RANK_NONE, RANK_NAMES, RANK_LINES };

struct sym_location {
    uint64_t address;
    uint32_t mapping;
    uint32_t attrs; /* string: its attributes as encoded by blob_values.c, except the frame's type */
    uint8_t kind, flags;
    struct sym_lines *_Atomic lines; /* NULL: not symbolised */
};

struct sym_node {
    uint32_t parent, location;
};

struct lru;
struct sym_view;

struct sym_service {
    uint32_t name;
    struct pinned nodes;
    /* used only by the writer */
    struct map node_map;
    uint32_t mapped; /* nodes in node_map */
    struct sym_stack {
        uint64_t hi, lo;
        uint32_t node;    /* + 1; 0 = free */
        uint32_t unnamed; /* some of its native locations had no names when last checked */
    } * stacks;
    uint32_t n_stacks, stack_mask;
    /* used by readers: trees by granularity (view.h) */
    pthread_rwlock_t view_lock;
    struct sym_view *views[10];
};

struct sym_series {
    uint32_t service;
    struct type type;
    uint32_t type_name; /* string */
    struct labels labels;
    struct id128 labels_id;
};

struct symbols {
    uint32_t tenant, epoch;
    _Atomic uint32_t refs;
    struct pinned strings;   /* struct str */
    struct pinned mappings;  /* struct sym_mapping; 0 = none */
    struct pinned functions; /* struct sym_function; 0 = none */
    struct pinned locations; /* struct sym_location */
    struct pinned services;  /* struct sym_service * */
    struct pinned series;    /* struct sym_series */
    _Atomic uint64_t names_generation;
    struct arena arena;
    struct lru *lru;   /* cache of views; NULL: they are kept */
    size_t out;        /* bytes that were moved to files (symbols_page_begin()) */
    size_t n_out;      /* in so many pieces */
    size_t chunks_out; /* of these, in the arena */
    /* used only by the writer */
    struct buf defs;   /* definitions that are not in a log yet: pending */
    size_t defs_taken; /* how many of their bytes are in records of the group that is being written */
    struct map string_map, mapping_map, function_map, location_map, series_map, service_map;
    struct idmap location_prints; /* locations of recent batches, by their fingerprint */
    uint32_t n_unlined;           /* native locations with names but without lines */
    uint32_t mapped[5];           /* how far each map is up to date: strings, mappings, functions, locations, series */
    bool frozen;                  /* new stacks are refused for lack of memory */
    bool replaying;               /* additions come from definitions: do not write any */
    uint32_t known[6];            /* while replaying: how many of the next definitions, per kind, already exist */
};

int symbols_new(uint32_t tenant, uint32_t epoch, struct symbols **ret);
struct symbols *symbols_ref(struct symbols *s);
void symbols_unref(struct symbols *s);
DEFINE_CLEANUP(struct symbols *, symbols_unref)

/* Adds what the definitions contain. Damage in them is -EINVAL; what was added before it stays. */
int symbols_apply(struct symbols *s, const void *p, size_t n);
/* Writes a `start` definition with the current counts. */
void symbols_put_start(const struct symbols *s, struct buf *out);

/* The memory of the symbols, and of this what only the writer needs; without what was moved to files. To be called by the
 * writer, or while writing is locked out. */
size_t symbols_bytes(const struct symbols *s, size_t *ret_maps);
/* Frees what only the writer needs; it is rebuilt when something is added. */
void symbols_drop_maps(struct symbols *s);

/* Moves symbols to which little is added to a file without a name, in steps: begin (while writing is locked out) chooses about
 * `most` bytes, write takes its time, end (while writing is locked out) replaces what did not change meanwhile. Readers
 * notice nothing. */
struct symbols_paging {
    struct symbols *symbols;
    struct symbols_piece {
        void *p;
        size_t size;
        uint32_t *out, bit; /* of a table */
        bool *chunk;        /* of the arena */
    } pieces[64];
    unsigned n;
    int fd;
};
bool symbols_page_begin(struct symbols *s, size_t most,
                        struct symbols_paging *ret); /* false: there is nothing to move */
int symbols_page_write(struct symbols_paging *x, int dir);
void symbols_page_end(struct symbols_paging *x);

/* --- the writer --- */
/* Numbers of a batch's items, filled in on demand. */
struct sym_memo {
    const struct batch *batch;
    struct arena *arena;
    uint32_t *strings, *mappings, *functions, *locations; /* number + 1, 0 = not looked up yet */
    struct fingerprints prints;
    uint32_t *scratch; /* as long as the longest stack */
};
int sym_memo_init(struct sym_memo *m, const struct batch *b, struct arena *a);

/* Each returns the number; UINT32_MAX when memory runs out. */
uint32_t symbols_string(struct symbols *s, struct str v);
uint32_t symbols_location(struct symbols *s, struct sym_memo *m, uint32_t location);
uint32_t symbols_series(struct symbols *s, const struct type *t, const struct labels *l, struct id128 labels_id);
/* Returns the node of a batch's stack in the service's tree. */
uint32_t symbols_stack(struct symbols *s, struct sym_memo *m, uint32_t service, uint32_t stack);
/* Prefetches the slot of a stack whose fingerprint is known and for which symbols_stack() follows soon. */
void symbols_stack_ahead(const struct symbols *s, struct sym_memo *m, uint32_t service, uint32_t stack);
/* Adds lines to known locations of the batch that had only names. To be called after its stacks. Returns 0 or
 * -ENOMEM. */
int symbols_improve(struct symbols *s, struct sym_memo *m);
/* Adds names to a location; no effect if as much is already known about it. */
int symbols_name(struct symbols *s, uint32_t location, const struct sym_line *lines, uint32_t n);
uint32_t symbols_function(struct symbols *s, const struct sym_function *f);
/* Return the mapping of a build ID, and the location at an address of a mapping; or UINT32_MAX. */
uint32_t symbols_find_binary(const struct symbols *s, struct str build_id);
uint32_t symbols_find_native(struct symbols *s, uint32_t mapping, uint64_t address);

/* --- any thread --- */
static inline struct str sym_string(const struct symbols *s, uint32_t i)
{
    return i < pinned_count(&s->strings) ? *(struct str *) pinned_at(&s->strings, i) : (struct str){0};
}

static inline enum sym_rank sym_rank(const struct symbols *s, const struct sym_line *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i].line || ((struct sym_function *) pinned_at(&s->functions, v[i].function))->file)
            return RANK_LINES;
    return n ? RANK_NAMES : RANK_NONE;
}

static inline enum sym_rank sym_lines_rank(const struct symbols *s, const struct sym_lines *l)
{
    return l ? sym_rank(s, l->v, l->n) : RANK_NONE;
}

static inline struct sym_service *sym_service(const struct symbols *s, uint32_t i)
{
    return *(struct sym_service **) pinned_at(&s->services, i);
}

static inline struct sym_series *sym_series(const struct symbols *s, uint32_t i)
{
    return pinned_at(&s->series, i);
}

static inline const struct sym_node *sym_node(const struct sym_service *s, uint32_t i)
{
    return pinned_at(&s->nodes, i);
}

static inline struct sym_location *sym_location(const struct symbols *s, uint32_t i)
{
    return pinned_at(&s->locations, i);
}

#endif
