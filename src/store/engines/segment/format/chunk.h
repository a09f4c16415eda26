/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk: the profiles of one five-minute window, of one service and type or of several small ones, stored as columns.
 * Chunks also store the sums of an hour or a day, which have totals only.
 *
 *   offset  size  what
 *   0       4     magic 0x4b484357 ("WCHK")
 *   4       2     version (1)
 *   6       2     sections (5)
 *   8       60    per section: u32 size on disk, u32 size raw (0: not compressed as a whole), u32 CRC-32C of the bytes
 *                 on disk
 *   68      4     CRC-32C of the preceding bytes
 *   72            the sections: totals, profiles, extra, links, detail. Totals and detail are compressed as a whole
 *                 with zstd level 1; the others consist of columns that are compressed one by one (column.h).
 *
 * totals    per entry, at the offset that the directory contains: n, scale, flags, n x node (delta), n x sum / scale
 * profiles  window start, n entries, columns over entries: series (delta) and flags, instances of gauges, n profiles
 *           and totals offset (delta); over all profiles: time (delta), duration (delta), header (delta), [unit,] value
 *           / unit, group, has id, ids
 * extra     rows that have attributes, a link or a timestamp: n, n without a timestamp; columns
 *           of those without, by profile and node: profile (delta), node's place in the entry's totals (delta in one
 *           profile); of those with, by lane and time: entries by rank, rank, node's place, profile (relative to the
 *           one that the time implies); unit, period, n lanes, per lane rows and first timestamp (relative to the
 *           previous lane's); ticks of the period to the next, n planes, the byte planes of the remainder (zigzag); of
 *           all: value, set (0 new, else 1 + its number among those seen at its lane and entry), new sets (relative to
 *           the previous), link (0 none, 1 new, 2 the newest known, ...)
 * links     n, columns trace (the segment's number, relative to the previous), span (8 bytes each)
 * detail    rows with nothing but a stack and a value. n entries x u32 offset, then per entry: mode and, per node of
 *           the entry's totals, which profiles have it (bitmap up to 64 profiles, else a list); then the values. The
 *           last value of a node is omitted when the node has no extra rows: it is the total minus the other values.
 *
 * Where a service and type has four series or more, their sum is an entry as well (SERIES_ALL), totals only.
 * An entry is one series; of a gauge, one series and instance: gauges keep sum and count separate (count: its
 * profiles). A stack that occurs twice in a profile is stored once, with the sum.
 */
#ifndef SEGMENT_CHUNK_H
#define SEGMENT_CHUNK_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "store/engines/segment/format/rows.h"

enum chunk_section { SEC_TOTALS, SEC_PROFILES, SEC_EXTRA, SEC_LINKS, SEC_DETAIL, SECTIONS };
enum { CHUNK_HEADER = 72, CHUNK_MAGIC = 0x4b484357, CHUNK_VERSION = 1, CHUNK_BITMAP_MAX = 64, CHUNK_SUM_MIN = 4 };
#define SERIES_ALL UINT32_MAX /* the sum over all series of a service and type */

struct chunk_entry {
    uint32_t series, service, type; /* numbers in the epoch's symbols */
    bool gauge;
    struct id128 instance; /* of gauges */
    uint32_t n_profs, n_nodes;
    int64_t sum, min_time, max_time;
    uint32_t totals_off;
};

/* A list of (node, value) sorted by node, each node once. */
struct totals {
    uint32_t *nodes;
    int64_t *values;
    uint32_t n;
    size_t cap;
};
void totals_done(struct totals *t);
int totals_add(struct totals *t, uint32_t node, int64_t value);
/* Sorts and merges entries that were appended in any order. */
int totals_normalize(struct totals *t);

struct chunk_encoder;
int chunk_encoder_new(struct chunk_encoder **ret);
void chunk_encoder_free(struct chunk_encoder *c);

struct chunk_out {
    struct buf bytes; /* the whole chunk */
    struct chunk_entry *entries;
    struct totals *totals; /* per entry, for sums of longer windows */
    uint32_t n_entries;
    size_t cap_entries;
    uint32_t head;    /* bytes of header and totals */
    uint32_t front;   /* bytes before the detail */
    uint32_t *traces; /* numbers of the traces in it, with duplicates */
    uint32_t n_traces;
    size_t cap_traces;
    uint64_t n_rows;
};
void chunk_out_done(struct chunk_out *o);

/* Callbacks to the segment. */
struct chunk_hooks {
    void *ctx;
    uint32_t (*trace)(void *ctx, const uint8_t id[16]); /* the number of a trace; UINT32_MAX: no memory */
    uint32_t (*lane)(void *ctx, uint32_t set);          /* the CPU in an attribute set, + 1; 0 = none */
};

/* Encodes profiles of one window, sorted by (service, type, series, instance, time), into *out, whose memory is
 * reused. */
int chunk_encode(struct chunk_encoder *c, const struct chunk_hooks *hooks, int64_t window,
                 struct stored_profile *const *profs, uint32_t n, struct chunk_out *out);
/* Encodes totals only: entries[i] with totals[i]. Fills in n_nodes and totals_off. */
int chunk_encode_totals(struct chunk_encoder *c, struct chunk_entry *entries, const struct totals *totals, uint32_t n,
                        struct buf *out, uint32_t *ret_head);

/* Maps numbers that a chunk refers to into those of another segment; each returns UINT32_MAX when memory runs out. */
struct chunk_renumber {
    void *ctx;
    uint32_t (*header)(void *ctx, uint32_t header);
    uint32_t (*set)(void *ctx, uint32_t set);
    uint32_t (*trace)(void *ctx, uint32_t trace);
    uint32_t n_traces;
};
/* Writes a chunk with these new numbers to out: bytes, head, front and traces. The caller fills in the entries. Returns
 * -EBADMSG with an error message when the chunk is damaged. */
int chunk_copy(struct chunk_encoder *c, const struct chunk_renumber *how, const void *p, size_t n,
               struct chunk_out *out, struct err *e);
/* Makes room for one more entry with its totals. */
int chunk_out_grow(struct chunk_out *out);

/* --- reading --- */
struct chunk {
    unsigned char *raw[SECTIONS]; /* NULL: not loaded or empty */
    uint32_t size[SECTIONS];
    bool is_shared; /* the sections belong to the segment's cache */
};

struct chunk_profiles {
    int64_t window;
    struct chunk_entry *entries; /* series, gauge, instance, n_profs, totals_off */
    uint32_t n_entries;
    struct stored_profile *profs; /* entry by entry; rows NULL until chunk_decode_rows() */
    uint32_t *first;              /* per entry: its first profile; n_entries + 1 */
    uint32_t n_profs;
};

/* Parses the bytes of a chunk as stored in a file; head_only: they end after the totals. Returns -EBADMSG with an error
 * message when a CRC or a size is wrong. Sections not in the mask are not read. */
int chunk_open(struct chunk *c, const void *p, size_t n, unsigned mask, struct err *e);
void chunk_done(struct chunk *c);
/* Adds an entry's totals to acc, which has n_acc nodes. */
int chunk_add_totals(const struct chunk *c, uint32_t totals_off, int64_t *acc, uint32_t n_acc);
/* Sets *ret to an entry's sum over the marked nodes; there are n marks. */
int chunk_sum_totals(const struct chunk *c, uint32_t totals_off, const uint8_t *marks, uint32_t n, int64_t *ret);
int chunk_read_totals(const struct chunk *c, uint32_t totals_off, uint32_t n_nodes_max, struct totals *ret);
/* Decodes all profiles without their rows; needs SEC_PROFILES. */
int chunk_decode_profiles(const struct chunk *c, struct arena *a, struct chunk_profiles *ret);
/* Which rows to decode, and what is known about traces. */
struct chunk_wanted {
    bool plain;                  /* include rows without attributes, link and timestamp; needs SEC_DETAIL */
    const unsigned char *traces; /* IDs by the segment's number, 16 bytes each; NULL: IDs are left zero */
    uint32_t n_traces;
    const unsigned char *one_trace; /* only rows of this trace: its ID, or NULL */
    uint32_t trace;                 /* and its number */
};
/* Decodes the rows of all entries as well; needs every section. */
int chunk_decode_rows(const struct chunk *c, struct arena *a, struct chunk_profiles *p, const struct chunk_wanted *w);
/* Counts the rows of each profile (n_rows) without decoding them. Needs every section. */
int chunk_count_rows(const struct chunk *c, struct arena *a, struct chunk_profiles *p);
struct chunk_sums {
    const uint8_t *wanted; /* per profile: whether its rows are added */
    int64_t *acc;          /* sums per node, n_acc of them */
    uint32_t n_acc;
    uint64_t rows; /* set to how many there were */
};
/* Adds the rows of wanted profiles to acc without decoding them into rows. Needs every section. */
int chunk_sum_rows(const struct chunk *c, struct arena *a, struct chunk_profiles *p, struct chunk_sums *s);

#endif
