/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_export() of query.h: the profiles of a selection as one batch. Without focus, ignore and hide they are as they
 * were sent. With them, samples that the flame graph of the selection does not contain are dropped and hidden frames are
 * removed (frames.c does the same to a tree), and then everything that no remaining sample reaches.
 */
#include <errno.h>

#include "base/mem.h"
#include "model/builder.h"
#include "query/query.h"
#include "query/query_names.h"
#include "store/frames.h"

enum { FRAME_FOCUS = 1, FRAME_IGNORE = 2, FRAME_GONE = 4 };

static int collect(void *ctx, struct batch *b)
{
    return builder_append(ctx, b);
}

/* Removes the hidden lines of a location. Returns bits; FRAME_GONE: no frame is left of it. */
static uint8_t filter_location(struct batch *b, uint32_t location, const struct frame_filter *f)
{
    struct location *l = &b->dict.locations[location];
    struct line *lines = l->lines.n ? b->dict.lines + l->lines.off : NULL; /* the tables may be NULL */
    uint32_t n = MAX(l->lines.n, 1u), left = 0;
    uint8_t bits = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct frame frame;

        frame_of_location(b, location, i, &frame);
        if (f->focus && frame_matches(&frame, f->focus))
            bits |= FRAME_FOCUS;
        if (f->ignore && frame_matches(&frame, f->ignore))
            bits |= FRAME_IGNORE;
        if (f->hide && frame_matches(&frame, f->hide))
            continue;
        if (lines)
            lines[left] = lines[i];
        left++;
    }
    if (!left)
        return bits | FRAME_GONE;
    l->lines.n = MIN(l->lines.n, left);
    return bits;
}

/* Removes the locations that are gone. Returns the bits of all of them. */
static uint8_t filter_stack(struct batch *b, uint32_t stack, const uint8_t *locations)
{
    struct run *s = &b->dict.stacks[stack];
    uint32_t *v = s->n ? b->dict.indices + s->off : NULL, left = 0;
    uint8_t bits = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        bits |= locations[v[i]];
        if (!(locations[v[i]] & FRAME_GONE))
            v[left++] = v[i];
    }
    s->n = left;
    return bits;
}

static void filter_profile(struct batch *b, struct profile *p, const struct frame_filter *f, const uint8_t *stacks)
{
    struct sample *v = p->samples.n ? b->samples + p->samples.off : NULL;
    uint32_t left = 0;

    for (uint32_t i = 0; i < p->samples.n; i++) {
        uint8_t bits = stacks[v[i].stack];

        if ((!f->focus || bits & FRAME_FOCUS) && !(bits & FRAME_IGNORE))
            v[left++] = v[i];
    }
    p->samples.n = left;
    p->payload = p->payload_format = (struct str){0}; /* the original, with everything */
}

/* Changes b in place: it comes from a builder, so its locations and stacks share no lists. */
static int filter_batch(struct batch *b, const struct frame_filter *f)
{
    _cleanup_(mem_freep) uint8_t *locations = mem_zalloc_array(b->dict.n_locations, 1);
    _cleanup_(mem_freep) uint8_t *stacks = mem_zalloc_array(b->dict.n_stacks, 1);

    if (!locations || !stacks)
        return -ENOMEM;
    for (uint32_t i = 0; i < b->dict.n_locations; i++)
        locations[i] = filter_location(b, i, f);
    for (uint32_t i = 0; i < b->dict.n_stacks; i++)
        stacks[i] = filter_stack(b, i, locations);
    for (uint32_t i = 0; i < b->n_profiles; i++)
        filter_profile(b, &b->profiles[i], f, stacks);
    return 0;
}

static int filtered(struct batch *b, const struct query *q, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *out = NULL;
    _cleanup_(frame_filter_done) struct frame_filter f;
    int r = frame_filter_init(&f, &q->q, e);

    if (r == 0)
        r = filter_batch(b, &f);
    if (r == 0)
        r = builder_new(&(struct builder_limits){.memory = q->q.memory_limit}, &out);
    if (r == 0)
        r = builder_append_part(out, b, 0, b->n_samples + 1); /* with an empty profile at the end */
    return r < 0 ? r : builder_finish(out, ret, e);
}

int query_export(struct store *s, struct query *q, struct batch **ret, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *all = NULL;
    int r = builder_new(&(struct builder_limits){.memory = q->q.memory_limit}, &b);

    if (r == 0)
        r = named_export(&(struct named_store){.store = s, .names = q->names}, &q->q, collect, b, e);
    if (r >= 0)
        r = builder_finish(b, &all, e);
    if (r < 0)
        return r;
    if (q->q.focus.n || q->q.ignore.n || q->q.hide.n)
        return filtered(all, q, ret, e);
    *ret = TAKE(all);
    return 0;
}
