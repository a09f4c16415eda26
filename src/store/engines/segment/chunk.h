/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk: the profiles of one five-minute window, of one service and type or of several small ones, column by column.
 * Also the sums of an hour or a day, which have totals only.
 *
 *   offset  size  what
 *   0       4     magic 0x4b484357 ("WCHK")
 *   4       2     version (1)
 *   6       2     sections (5)
 *   8       60    per section: u32 size compressed, u32 size raw, u32 CRC-32C of the compressed bytes
 *   68      4     CRC-32C of the bytes before
 *   72            the sections, zstd level 1: totals, profiles, detail, extra, links
 *
 * totals    per entry, at the offset that the directory names: n, scale, flags, n x node (delta), n x sum / scale
 * profiles  window start, n entries, per entry: series, flags, [instance], profiles, totals offset;
 *           then columns over all profiles: time, duration, header, value, group, has id, ids
 * detail    rows with nothing but a stack and a value. n entries x u32 offset, then per entry: mode and, per node of the
 *           entry's totals, which profiles have it (bitmap up to 64 profiles, else a list); then the values. The last
 *           value of a node is not written where the node has no extra rows: it is what the total lacks.
 * extra     rows that have attributes, a link or a timestamp, of the whole chunk in order of time: columns node (its
 *           place in the chunk's list of nodes), profile (against the entry's last), value, attribute set, link,
 *           timestamp (byte planes of the delta).
 * links     traces (16 bytes each), then per link: trace, span (8 bytes)
 *
 * Where a service and type has four series or more, their sum is an entry as well (SERIES_ALL), totals only.
 * An entry is one series; of a gauge, one series and instance: gauges keep sum and count apart (count: its profiles).
 * A profile that holds a stack twice has it once afterwards, added up.
 */
#ifndef SEGMENT_CHUNK_H
#define SEGMENT_CHUNK_H

#include "base/arena.h"
#include "base/err.h"
#include "store/engines/segment/coding.h"
#include "store/engines/segment/rows.h"

enum chunk_section { SEC_TOTALS, SEC_PROFILES, SEC_DETAIL, SEC_EXTRA, SEC_LINKS, SECTIONS };
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
/* Sorts and merges what was appended in any order. */
int totals_normalize(struct totals *t);

struct chunk_encoder;
int chunk_encoder_new(struct chunk_encoder **ret);
void chunk_encoder_free(struct chunk_encoder *c);

struct chunk_out {
    struct buf bytes; /* the whole chunk */
    struct chunk_entry *entries;
    struct totals *totals; /* per entry, for sums over longer windows */
    uint32_t n_entries;
    size_t cap_entries;
    uint32_t head; /* bytes of header and totals */
    uint32_t *trace_hashes;
    uint32_t n_traces;
    size_t cap_traces;
    uint64_t n_rows;
};
void chunk_out_done(struct chunk_out *o);

/* Profiles of one window sorted by (service, type, series, instance, time) into *out, whose memory is reused. */
int chunk_encode(struct chunk_encoder *c, int64_t window, struct prof *const *profs, uint32_t n, struct chunk_out *out);
/* Totals alone: entries[i] with totals[i]. Fills in n_nodes and totals_off. */
int chunk_encode_totals(struct chunk_encoder *c, struct chunk_entry *entries, const struct totals *totals, uint32_t n,
                        struct buf *out, uint32_t *ret_head);

uint32_t chunk_trace_hash(const uint8_t trace_id[16]);

/* --- reading --- */
struct chunk {
    unsigned char *raw[SECTIONS]; /* NULL: not loaded or empty */
    uint32_t size[SECTIONS];
};

struct chunk_profiles {
    int64_t window;
    struct chunk_entry *entries; /* series, gauge, instance, n_profs, totals_off */
    uint32_t n_entries;
    struct prof *profs; /* entry by entry; rows NULL until chunk_decode_rows() */
    uint32_t *first;    /* per entry: its first profile; n_entries + 1 */
    uint32_t n_profs;
};

/* Takes apart the bytes of a chunk as they lie in a file; head_only: they end behind the totals. -EBADMSG with words
 * where a CRC or a size is wrong. Sections not in the mask stay unread. */
int chunk_open(struct chunk *c, const void *p, size_t n, unsigned mask, struct err *e);
void chunk_done(struct chunk *c);
/* Adds an entry's totals into acc, which has n_acc nodes. *ret_sum is what was added. */
int chunk_add_totals(const struct chunk *c, uint32_t totals_off, int64_t *acc, uint32_t n_acc);
int chunk_read_totals(const struct chunk *c, uint32_t totals_off, uint32_t n_nodes_max, struct totals *ret);
/* All profiles without their rows; needs SEC_PROFILES. */
int chunk_decode_profiles(const struct chunk *c, struct arena *a, struct chunk_profiles *ret);
/* And the rows of entry e, or of all with e = UINT32_MAX; needs every section. Without `plain` only those that have a
 * link, attributes or a timestamp (and SEC_DETAIL is not needed). */
int chunk_decode_rows(const struct chunk *c, struct arena *a, struct chunk_profiles *p, uint32_t e, bool plain);

#endif
