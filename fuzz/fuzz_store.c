/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's decoders of bytes from disk, after their checksums were verified. The first byte says which: 0 the sections of a chunk
 * (each with its size in 4 bytes), 1 symbol definitions, 2 a segment's dictionary, 3 a log record's payload, 4 a
 * selector, 5 packed symbols, 6 a segment's footer, 7 a directory, 8 columns, 9 a block of a trace index, 10 keys of
 * deduplication as the catalogue has them, 11 the log of the catalogue's database.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/dedup.h"
#include "store/engines/segment/format/blobs.h"
#include "store/engines/segment/format/chunk.h"
#include "store/engines/segment/format/column.h"
#include "store/engines/segment/format/segment_file.h"
#include "store/engines/segment/format/vfs_sum.h"
#include "store/engines/segment/format/wal_record.h"
#include "store/engines/segment/symbols/symbol_pack.h"
#include "store/engines/segment/write/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t other_number(void *ctx, uint32_t n)
{
    (void) ctx;
    return n + 1 == UINT32_MAX ? 0 : n + 1;
}

/* The sections as a chunk of a file, into another one. */
static void fuzz_copy(const struct chunk *c)
{
    struct chunk_renumber how = {NULL, other_number, other_number, other_number, 1000};
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    unsigned char header[CHUNK_HEADER] = {0};
    struct chunk_encoder *encoder;
    struct chunk_out out = {0};

    buf_put(&bytes, header, sizeof header);
    for (int i = 0; i < SECTIONS; i++) {
        buf_put(&bytes, c->raw[i], c->size[i]);
        store_u32(header + 8 + 12 * i, c->size[i]);
        store_u32(header + 16 + 12 * i, crc32c(0, c->raw[i], c->size[i]));
    }
    store_u32(header, CHUNK_MAGIC);
    store_u32(header + 4, CHUNK_VERSION | SECTIONS << 16);
    store_u32(header + 68, crc32c(0, header, 68));
    memcpy(bytes.p, header, sizeof header);
    if (chunk_encoder_new(&encoder) < 0)
        return;
    chunk_copy(encoder, &how, bytes.p, bytes.n, &out, NULL);
    chunk_encoder_free(encoder);
    chunk_out_done(&out);
}

static void fuzz_chunk(const uint8_t *p, size_t n)
{
    struct chunk c = {0};
    struct chunk_profiles profs;
    struct totals t = {0};
    struct arena a;

    arena_init(&a, 64 << 20);
    for (int i = 0; i < SECTIONS && n >= 4; i++) {
        uint32_t size = load_u32(p);

        p += 4;
        n -= 4;
        if (size > n)
            break;
        c.raw[i] = size ? mem_dup(p, size) : NULL;
        c.size[i] = size;
        p += size;
        n -= size;
    }
    fuzz_copy(&c);
    chunk_read_totals(&c, 0, 1 << 20, &t);
    if (chunk_decode_profiles(&c, &a, &profs) == 0)
        chunk_decode_rows(&c, &a, &profs, &(struct chunk_wanted){.plain = true});
    totals_done(&t);
    chunk_done(&c);
    arena_done(&a);
}

static void fuzz_record(const uint8_t *p, size_t n)
{
    _cleanup_(memtable_unrefp) struct memtable *m = NULL;
    _cleanup_(symbols_unrefp) struct symbols *s = NULL;
    struct mempart *part;
    struct record r;
    int rc = record_parse(p, n, &r);

    if (rc < 0 || memtable_new(1, &m) < 0 || symbols_new(1, 1, &s) < 0 || memtable_part(m, s, &part) < 0)
        return;
    if (symbols_apply(s, r.symbols.p, r.symbols.n) < 0 || blobs_apply(&part->blobs, r.blobs.p, r.blobs.n) < 0)
        return;
    for (uint32_t i = 0; rc == 0 && i < r.n_profs; i++)
        rc = record_read_prof(&r, part);
}

static void fuzz_trace_block(const uint8_t *p, size_t n)
{
    struct trace_block b;
    uint32_t chunk, seen = 0;

    trace_block_init(&b, p, n, 7);
    while (trace_block_next(&b) > 0)
        while (++seen % 3 && trace_block_chunk(&b, 100, &chunk) > 0) /* some are left to the next */
            if (chunk >= 100)
                abort();
}

static void fuzz_keys(const uint8_t *p, size_t n)
{
    struct dedup d;

    dedup_init(&d, 1000, 1000);
    catalog_unpack_keys(p, n, 1, &d);
    if (d.n > 1000)
        abort();
    dedup_done(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;

    if (!size)
        return 0;
    arena_init(&a, 16 << 20);
    switch (data[0]) {
    case 0:
        fuzz_chunk(data + 1, size - 1);
        break;
    case 1: {
        _cleanup_(symbols_unrefp) struct symbols *s = NULL;

        if (symbols_new(1, 1, &s) == 0)
            symbols_apply(s, data + 1, size - 1);
        break;
    }
    case 2: {
        struct blobs b;

        if (blobs_init(&b) == 0)
            blobs_decode(&b, data + 1, size - 1);
        blobs_done(&b);
        break;
    }
    case 3:
        fuzz_record(data + 1, size - 1);
        break;
    case 4: {
        struct selector sel = {0};

        selector_parse((struct str){(const char *) data + 1, (uint32_t) size - 1}, &a, &sel, NULL);
        selector_done(&sel);
        break;
    }
    case 5: {
        _cleanup_(symbols_unrefp) struct symbols *s = NULL;

        if (symbols_new(1, 1, &s) == 0)
            symbols_unpack(s, data + 1, size - 1);
        break;
    }
    case 6: {
        struct segment_footer *f;

        if (segment_parse_footer(data + 1, size - 1, &f) == 0)
            segment_footer_free(f);
        break;
    }
    case 7: {
        struct dir_entry *d;
        uint32_t n;

        segment_parse_directory(data + 1, size - 1, &(struct segment_group){.gauge = size & 1}, &a, &d, &n);
        break;
    }
    case 8: {
        struct cursor r = cursor_of(data + 1, size - 1), skipped = r;

        while (r.p < r.end && !r.bad) {
            column_get(&r, &a);
            column_skip(&skipped);
        }
        break;
    }
    case 9:
        fuzz_trace_block(data + 1, size - 1);
        break;
    case 10:
        fuzz_keys(data + 1, size - 1);
        break;
    case 11:
        vfs_wal_state(data + 1, size - 1);
        break;
    default:
        break;
    }
    arena_done(&a);
    return 0;
}
