/* SPDX-License-Identifier: Apache-2.0 */
/* Copies chunks from one segment into another, changing only the numbers of its dictionary; see compact.h. */
#include <errno.h>

#include "base/mem.h"
#include "store/engines/segment/write/compact.h"

struct input {
    struct rewriting *x;
    uint32_t i;
};

static uint32_t find_header(void *ctx, uint32_t header)
{
    const struct input *in = ctx;

    return blob_remap_header(&in->x->maps[in->i], header);
}

static uint32_t find_set(void *ctx, uint32_t set)
{
    const struct input *in = ctx;

    return blob_remap_set(&in->x->maps[in->i], set);
}

/* Traces are numbered in the order of the input, whichever chunk is first, so that traces of the same time stay
 * adjacent. */
static uint32_t find_trace(void *ctx, uint32_t trace)
{
    const struct input *in = ctx;
    struct rewrite_traces *t = &in->x->traces[in->i];

    for (; t->n_numbered <= trace; t->n_numbered++) {
        uint32_t n = segment_writer_trace(in->x->out, t->ids + (size_t) t->n_numbered * 16);

        if (n == UINT32_MAX)
            return n;
        t->numbers[t->n_numbered] = n;
    }
    return t->numbers[trace];
}

bool compact_can_copy(const struct rewriting *x, uint32_t from, uint32_t to)
{
    return x->whole && x->entries[from].input == x->entries[to - 1].input;
}

/* Entries [from, to) are one chunk. */
static int copy_chunk(struct rewriting *x, uint32_t from, uint32_t to, struct buf *bytes, struct err *e)
{
    const struct rewrite_entry *first = &x->entries[from];
    struct input in = {x, first->input};
    struct chunk_renumber how = {&in, find_header, find_set, find_trace, x->traces[in.i].n};
    const struct dir_entry **entries = mem_alloc((to - from) * sizeof *entries);
    int r = entries ? 0 : -ENOMEM;

    for (uint32_t i = from; r == 0 && i < to; i++) {
        const struct dir_entry *d = &x->entries[i].d;

        if (d->e.series != SERIES_ALL && d->e.series >= pinned_count(&x->w->symbols->series))
            r = err_set(e, -EBADMSG, "a directory refers to a missing series");
        entries[i - from] = d;
    }
    buf_reset(bytes);
    if (r == 0)
        r = compact_read_error(segment_chunk_bytes(x->w->inputs[in.i], first->d.off, first->d.len, bytes, e));
    if (r == 0)
        r = segment_writer_copy(x->out, &(struct segment_copy){first->d.window, entries, to - from, bytes}, &how, e);
    mem_free(entries);
    if (r == -EBADMSG)
        err_prefix(e, r, "segment %llu at %llu: ", (unsigned long long) x->w->inputs[in.i]->meta.number,
                   (unsigned long long) first->d.off);
    return compact_damage(x, in.i, r, e);
}

int compact_copy(struct rewriting *x, uint32_t from, uint32_t to, struct err *e)
{
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    int r = 0;

    for (uint32_t i = from, j; r == 0 && i < to; i = j) {
        for (j = i + 1; j < to && x->entries[j].d.off == x->entries[i].d.off;)
            j++;
        r = copy_chunk(x, i, j, &bytes, e);
    }
    return r;
}
