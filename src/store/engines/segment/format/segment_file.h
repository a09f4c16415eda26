/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment: an immutable file of chunks of one tenant and epoch, with what is needed to find them.
 *
 *   offset  size  what
 *   0       8     magic "WICKSEG1"
 *   8             chunks (chunk.h), one after the other
 *                 directories: per service, type and level, zstd
 *                 dictionary (blobs.h), zstd
 *                 trace ids: blocks of 256 x 16 bytes, in the order of their numbers, zstd
 *                 trace index: blocks of 256 traces sorted by hash, zstd: n, then per trace hash (delta), number,
 *                 n chunks that contain it (as the footer lists them), n x delta
 *                 footer, zstd
 *   end-40  8     footer's offset
 *   end-32  4     footer's size compressed
 *   end-28  4     footer's size raw
 *   end-24  4     CRC-32C of the footer's compressed bytes
 *   end-20  4     version (1)
 *   end-16  4     zero
 *   end-12  4     CRC-32C of the bytes from end-40 on
 *   end-8   8     magic "WICKEND1"
 *
 * footer     tenant, epoch, level, log (the last one whose rows it contains), first and last time, rows, profiles,
 *            flags, n replaced segments, series (number, first and last time), groups (service, type, gauge and per
 *            level a directory: offset, size, raw size, CRC), dictionary (offset, size, raw size, CRC), n traces,
 *            blocks of their ids, blocks of their index with the first hash of each, chunks that contain links (offset,
 *            size up to their detail)
 * directory  columns over its entries: window, series + 1 (0: the sum of all), [instance], profiles, nodes, sum, first
 *            and last time, chunk's offset, head size, size, totals offset
 *
 * Levels of a directory: 0 five minutes, 1 an hour, 2 a day. They are sums of the detail in the same segment, so that a
 * range is answered from the largest sums that lie in it.
 *
 * A segment is written to a temporary file, synced and renamed; it is valid only when the catalogue lists it. One whose
 * file is an object in an object store has N.cold instead of N.seg (cold.h).
 */
#ifndef SEGMENT_SEGMENT_FILE_H
#define SEGMENT_SEGMENT_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "store/engines/segment/cold/cold.h"
#include "store/engines/segment/format/blobs.h"
#include "store/engines/segment/format/chunk.h"
#include "store/engines/segment/format/rows.h"
#include "store/engines/segment/read/lru.h"

enum { SEGMENT_LEVELS = 3, SEGMENT_VERSION = 1, SEGMENT_TAIL = 40, TRACE_BLOCK = 256 };

struct segment_listed;
struct segment_meta {
    uint64_t number;
    uint32_t tenant, epoch, level;
    uint64_t log;   /* rows of logs up to this one */
    int64_t t0, t1; /* first and last start of a profile */
    uint64_t bytes, rows, profiles;
    bool has_detail;
};

struct dir_entry {
    struct chunk_entry e;
    int64_t window;
    uint64_t off;
    uint32_t head, len;
};

struct directory {
    const struct dir_entry *v;
    uint32_t n;
};

/* What occurs in the profiles of a chunk, each once, in ascending order. */
struct segment_attribute {
    uint32_t series;
    enum segment_attribute_kind { ATTRIBUTE_SERIES, ATTRIBUTE_HEADER, ATTRIBUTE_SET } kind;
    uint32_t number; /* of a header or a set of attributes in the dictionary; 0 for the series itself */
};

struct segment_attributes {
    int64_t first, last; /* start of the first and the last profile */
    const struct segment_attribute *v;
    uint32_t n;
};

/* --- writing --- */
struct segment_writer;
struct segment_writer_options {
    int dir;
    struct segment_meta meta; /* number, tenant, epoch, level, log */
    const uint64_t *replaced; /* segments that this one replaces */
    uint32_t n_replaced;
};
int segment_writer_new(const struct segment_writer_options *o, struct segment_writer **ret, struct err *e);
struct blobs *segment_writer_blobs(struct segment_writer *w);
/* Writes all profiles of one window; windows must be in ascending order. Sorts the pointers. */
int segment_writer_window(struct segment_writer *w, int64_t window, struct stored_profile **profs, uint32_t n,
                          struct err *e);
/* A chunk of another segment: its entries and its bytes. */
struct segment_copy {
    int64_t window;
    const struct dir_entry *const *entries;
    uint32_t n;
    const struct buf *bytes;
};
/* Copies a chunk, changing only its numbers; in the same order of windows. */
int segment_writer_copy(struct segment_writer *w, const struct segment_copy *from, const struct chunk_renumber *how,
                        struct err *e);
/* Returns the number of a trace; UINT32_MAX when memory runs out. */
uint32_t segment_writer_trace(struct segment_writer *w, const uint8_t id[16]);
/* Sets the number of rows when chunks were copied without decoding them. */
void segment_writer_rows(struct segment_writer *w, uint64_t rows);
/* Writes totals of another segment's window whose detail was dropped. */
int segment_writer_totals(struct segment_writer *w, int64_t window, struct chunk_entry *entries,
                          const struct totals *totals, uint32_t n, struct err *e);
/* Writes the rest, syncs and renames; the caller syncs the directory. */
int segment_writer_finish(struct segment_writer *w, struct segment_meta *ret, struct err *e);
void segment_writer_free(struct segment_writer *w); /* removes an unfinished file */
DEFINE_CLEANUP(struct segment_writer *, segment_writer_free)

/* --- reading --- */
struct segment_series {
    uint32_t series;
    int64_t first, last;
};

struct segment_block {
    uint64_t off;
    uint32_t len, raw, crc;
};

struct segment_group {
    uint32_t service, type;
    bool gauge;
    struct segment_block dirs[SEGMENT_LEVELS];
};

struct segment_footer {
    struct segment_meta meta;
    uint64_t *replaced;
    uint32_t n_replaced;
    struct segment_series *series; /* sorted */
    uint32_t n_series;
    struct segment_group *groups; /* sorted by service, type */
    uint32_t n_groups;
    struct segment_block dict;
    uint32_t n_traces;
    struct segment_block *trace_ids; /* one per TRACE_BLOCK of them */
    struct segment_block *trace_index;
    uint32_t *trace_first; /* the first hash of each block of the index */
    struct segment_linked {
        uint64_t off;
        uint32_t len;
    } * linked;
    uint32_t n_linked;
    struct arena arena;
};

struct segment {
    struct segment_meta meta;
    int fd; /* negative: not open, or the error of opening it. Changes under lock while there are no users */
    struct cold_stub
        *stub;           /* with fd: it is N.cold, and the rest is in the object store; NULL: it is the complete file */
    struct cold *cold;   /* the object store; NULL: unknown. Set before there are users, or under lock */
    atomic_bool is_cold; /* there is no complete file */
    bool moved;          /* under lock: the open file is not the one to be used from now on */
    _Atomic uint32_t refs;
    atomic_bool unreadable; /* its footer or dictionary is: it is not rewritten */
    atomic_bool dead;       /* no longer listed: unlinked with the last reference */
    int dir;                /* its directory, for the unlink; not owned */
    uint32_t lost_of;       /* it is in lost/, and this is its tenant; 0 = it is not */
    pthread_mutex_t lock;
    /* under lock: loaded on demand, kept while in use, then cached */
    struct segment_footer *footer;
    struct blobs *blobs;
    struct segment_listed *listed;
    uint32_t users;
    struct lru *lru; /* NULL: kept until the segment is freed */
    struct lru_item item;
};

void segment_name(char *out, size_t size, uint64_t number);
void segment_cold_name(char *out, size_t size, uint64_t number);
void segment_gone_name(char *out, size_t size, uint64_t number);
/* Opens the file and checks its tail. The footer is read on first use and cached in lru (may be NULL). */
int segment_open(int dir, uint64_t number, struct lru *lru, struct segment **ret, struct err *e);
/* The object store to be used once the segment is in it; and: its complete file was removed or came back, so that the next
 * user opens the other one. */
void segment_set_cold(struct segment *s, struct cold *c);
void segment_moved(struct segment *s, bool is_cold);
/* Reads ranges of a segment in the object store into the cache, together; does nothing for other segments. Between use and
 * release. */
int segment_prefetch(struct segment *s, const struct segment_range *v, uint32_t n, struct err *e);
/* The parts that stay on disk when the segment is moved to the object store. */
void segment_cold_extents(const struct segment_footer *f, uint64_t bytes, struct cold_stub *ret);
/* Removes the file of a segment that was written but is not open. If it is in the object store, N.cold becomes N.gone. */
void segment_discard(int dir, uint64_t number);
/* Opens a segment in the directory lost/, where its name begins with the tenant's number. */
int segment_open_lost(int dir, uint32_t tenant, uint64_t number, struct segment **ret, struct err *e);
struct segment *segment_ref(struct segment *s);
void segment_unref(struct segment *s);
DEFINE_CLEANUP(struct segment *, segment_unref)

/* File, footer and dictionary are valid between use and release, which any number of users may call. Returns s. */
struct segment *segment_use(struct segment *s);
void segment_release(struct segment *s); /* s may be NULL */
DEFINE_CLEANUP(struct segment *, segment_release)
int segment_footer(struct segment *s, const struct segment_footer **ret, struct err *e);
int segment_blobs(struct segment *s, const struct blobs **ret, struct err *e);
/* Reads the entries of one group and level into the arena. */
int segment_read_directory(struct segment *s, const struct segment_group *g, int level, struct arena *a,
                           struct directory *ret, struct err *e);
/* The same for queries: the entries are also kept for the next one, and are valid until the segment is released. */
int segment_directory(struct segment *s, const struct segment_group *g, int level, struct arena *a,
                      struct directory *ret, struct err *e);
/* Reads those sections of a chunk that are in the mask. */
int segment_chunk(struct segment *s, uint64_t off, uint32_t len, unsigned mask, struct chunk *ret, struct err *e);
/* Reads the totals of a chunk for a query: they are also kept for the next one, and are valid until the segment is
 * released. head: bytes of the chunk up to their end. The caller calls chunk_done(). */
int segment_totals(struct segment *s, uint64_t off, uint32_t head, struct chunk *ret, struct err *e);
/* The profiles of a chunk, without rows, as an earlier query decoded them (segment_listed.c); counted: with n_rows. Sets
 * profs and n_profs, which must not be changed and are valid until the segment is released. */
bool segment_listed_find(struct segment *s, uint64_t off, bool counted, struct chunk_profiles *ret);
void segment_listed_keep(struct segment *s, uint64_t off, bool counted, const struct chunk_profiles *p);
/* The attributes of a chunk as an earlier query found them, valid until the segment is released; NULL: not known. */
const struct segment_attributes *segment_attributes_find(struct segment *s, uint64_t off);
void segment_attributes_keep(struct segment *s, uint64_t off, const struct segment_attributes *p);
void segment_listed_free(struct segment_listed *l);
size_t segment_listed_bytes(const struct segment_listed *l);
/* Reads its bytes as stored. */
int segment_chunk_bytes(struct segment *s, uint64_t off, uint32_t len, struct buf *out, struct err *e);
/* Calls fn for each chunk that contains the trace, with its length up to the detail. *ret_number: the segment's number
 * of the trace, UINT32_MAX when it is not in the segment. */
int segment_find_trace(struct segment *s, const uint8_t trace_id[16], uint32_t *ret_number,
                       int (*fn)(void *ctx, uint64_t off, uint32_t len), void *ctx, struct err *e);
/* Returns the IDs of all its traces by number, 16 bytes each, in the arena; NULL when there are none. */
int segment_trace_ids(struct segment *s, struct arena *a, const unsigned char **ret, uint32_t *ret_n, struct err *e);
uint32_t segment_trace_hash(const uint8_t trace_id[16]);
/* A decompressed block of the trace index, read trace by trace. next: returns 1 with hash, number and n_chunks set, 0
 * at the end, or -EBADMSG; chunk: the same for the chunks of the current trace, as the footer lists them. */
struct trace_block {
    struct cursor r;
    uint32_t left, hash, number, n_chunks, chunk;
};
void trace_block_init(struct trace_block *b, const void *p, size_t n, uint32_t first);
int trace_block_next(struct trace_block *b);
int trace_block_chunk(struct trace_block *b, uint32_t n_linked, uint32_t *ret);
/* Adds up the size of each section of its chunks, as far as the chunks' headers are intact. */
void segment_sections(struct segment *s, uint64_t sizes[SECTIONS]);
/* Parses parts of the file, decompressed and with verified checksums. Returns -EBADMSG when their contents are
 * invalid. */
int segment_parse_footer(const void *p, size_t n, struct segment_footer **ret);
void segment_footer_free(struct segment_footer *f);
int segment_parse_directory(const void *p, size_t size, const struct segment_group *g, struct arena *a,
                            struct dir_entry **ret, uint32_t *ret_n);
int segment_read_block(struct segment *s, const struct segment_block *k, const char *what, struct buf *out,
                       struct err *e);
/* Reads bytes of the file or of the object, between use and release. */
int segment_read_at(const struct segment *s, void *p, size_t n, uint64_t off, struct err *e);
/* Returns -EBADMSG with a message that names the segment. */
int segment_bad(const struct segment *s, const char *what, struct err *e);
/* Reads everything and checks every CRC (segment_check.c); calls fn for each damage. */
int segment_check(struct segment *s, void (*fn)(void *ctx, const char *what), void *ctx);

#endif
