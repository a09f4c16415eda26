/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by segment_write.c, segment_footer.c and segment_traces.c: a segment being written. */
#ifndef SEGMENT_SEGMENT_WRITER_H
#define SEGMENT_SEGMENT_WRITER_H

#include "base/map.h"
#include "store/engines/segment/format/segment_file.h"

/* The traces of a segment, numbered in the order of their first use, and which of the chunks with links contain
 * each. */
struct trace_table {
    unsigned char (*ids)[16];
    size_t cap_ids;
    uint32_t n;
    struct map map;
    struct trace_use {
        uint32_t trace, chunk;
    } * uses; /* chunks in ascending order */
    size_t cap_uses;
    uint32_t n_uses;
    struct segment_linked *linked;
    size_t cap_linked;
    uint32_t n_linked;
};

void trace_table_done(struct trace_table *t);
/* Returns the number of a trace, adding it if new; UINT32_MAX when memory runs out. */
uint32_t trace_table_find(struct trace_table *t, const uint8_t id[16]);
/* Records that the chunk at this offset and of this length (without its detail) contains these traces. */
int trace_table_add_chunk(struct trace_table *t, uint64_t off, uint32_t len, const uint32_t *traces, uint32_t n);

struct dir_record {
    struct dir_entry d;
    uint8_t level;
};

/* The sums of one entry over the current hour or day. */
struct sums {
    struct chunk_entry entry;
    struct totals totals;
    int64_t window;
};

struct segment_writer {
    struct segment_writer_options o;
    int fd;
    char tmp[80], name[64];
    bool finished;
    struct buf out; /* not written yet */
    uint64_t off;   /* file offset of the end of `out` */
    struct chunk_encoder *encoder;
    struct chunk_out chunk;
    struct buf scratch, packed;
    struct dir_record *dir;
    size_t cap_dir;
    uint32_t n_dir;
    struct sums *sums[2]; /* hour, day */
    size_t cap_sums[2];
    uint32_t n_sums[2];
    struct map sums_map[2];
    struct blobs blobs;
    struct trace_table traces;
    struct lanes {
        uint32_t *v; /* lane + 1; 0 = not looked up yet */
        size_t cap;
    } set_lanes, attr_lanes; /* per attribute set, per attribute */
    struct segment_meta meta;
};

/* Appends raw, compressed, to the file. */
int segment_put_block(struct segment_writer *w, const struct buf *raw, struct segment_block *ret, struct err *e);
void segment_put_block_ref(struct buf *b, const struct segment_block *k);
/* Writes the table to the file, and what is needed to find it to the footer. */
int segment_write_traces(struct segment_writer *w, struct buf *footer, struct err *e);
/* Writes everything after the chunks. */
int segment_write_footer(struct segment_writer *w, struct err *e);
int segment_write_out(struct segment_writer *w, bool all, struct err *e);

#endif
