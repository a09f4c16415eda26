/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a whole segment: every checksum, every column, and of a segment in the object store the object; see
 * segment_file.h. */
#include <errno.h>
#include <string.h>

#include "store/engines/segment/format/segment_file.h"

static int check_group(struct segment *s, const struct segment_group *g, void (*fn)(void *, const char *), void *ctx)
{
    struct arena a;
    int found = 0;

    arena_init(&a, 0);
    for (int level = 0; level < SEGMENT_LEVELS; level++) {
        struct directory dir;
        struct err e = {0};

        if (segment_read_directory(s, g, level, &a, &dir, &e) < 0) {
            fn(ctx, e.message);
            found++;
            continue;
        }
        for (uint32_t i = 0; i < dir.n; i++) {
            const struct dir_entry *d = dir.v;
            struct chunk_profiles p;
            struct chunk c;
            int r;

            if (i && d[i].off == d[i - 1].off)
                continue;
            r = segment_chunk(s, d[i].off, d[i].len, ~0u, &c, &e);
            if (r == 0 && c.raw[SEC_PROFILES]) {
                r = chunk_decode_profiles(&c, &a, &p);
                if (r == 0)
                    r = chunk_decode_rows(&c, &a, &p, &(struct chunk_wanted){.plain = true});
                if (r < 0)
                    err_set(&e, r, "segment %llu at %llu: a chunk's columns are damaged",
                            (unsigned long long) s->meta.number, (unsigned long long) d[i].off);
            }
            if (r == 0)
                chunk_done(&c);
            if (r < 0) {
                fn(ctx, err_message(&e, r));
                found++;
            }
        }
    }
    arena_done(&a);
    return found;
}

static bool index_is_sound(const struct segment_footer *f, uint32_t block, const struct buf *raw)
{
    struct trace_block b;
    uint32_t chunk;
    int r, more = 0;

    trace_block_init(&b, raw->p, raw->n, f->trace_first[block]);
    while ((r = trace_block_next(&b)) > 0 && more >= 0 && b.number < f->n_traces)
        while ((more = trace_block_chunk(&b, f->n_linked, &chunk)) > 0)
            ;
    return r == 0 && more == 0;
}

static int check_traces(struct segment *s, const struct segment_footer *f, void (*fn)(void *, const char *), void *ctx)
{
    _cleanup_(buf_done) struct buf raw = BUF_INIT;
    int found = 0;

    for (uint32_t i = 0; i < (f->n_traces + TRACE_BLOCK - 1) / TRACE_BLOCK; i++) {
        struct err e = {0};
        int r;

        buf_reset(&raw);
        r = segment_read_block(s, &f->trace_ids[i], "its traces are damaged", &raw, &e);
        buf_reset(&raw);
        if (r == 0)
            r = segment_read_block(s, &f->trace_index[i], "its trace index is damaged", &raw, &e);
        if (r == 0 && !index_is_sound(f, i, &raw))
            r = segment_bad(s, "its trace index is damaged", &e);
        if (r < 0) {
            fn(ctx, err_message(&e, r));
            found++;
        }
    }
    return found;
}

int segment_check(struct segment *s, void (*fn)(void *ctx, const char *what), void *ctx)
{
    _cleanup_(segment_releasep) _unused_ struct segment *used = segment_use(s);
    const struct segment_footer *f;
    const struct blobs *b;
    struct err e = {0};
    int found = 0;
    char magic[8];

    if (s->stub && cold_read_all(&(struct cold_source){s->cold, s->stub, s->meta.number}, NULL, NULL, &e) < 0) {
        fn(ctx,
           e.message); /* the checksum of the whole object is wrong, or it cannot be read: no need to read its parts */
        return 1;
    }
    if (segment_read_at(s, magic, sizeof magic, 0, &e) < 0 || memcmp(magic, "WICKSEG1", 8) != 0) {
        segment_bad(s, "its header is damaged", &e);
        fn(ctx, e.message);
        found++;
    }
    if (segment_footer(s, &f, &e) < 0) {
        fn(ctx, e.message);
        return found + 1;
    }
    if (segment_blobs(s, &b, &e) < 0) {
        fn(ctx, e.message);
        found++;
    }
    found += check_traces(s, f, fn, ctx);
    for (uint32_t i = 0; i < f->n_groups; i++)
        found += check_group(s, &f->groups[i], fn, ctx);
    return found;
}
