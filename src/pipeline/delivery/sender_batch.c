/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batching stage of a sender. Collected parcels are merged and, if necessary, split into parts. The parts share a
 * bundle: each of them holds its ack, and when the last part has ended, the bundle completes the acks of all collected
 * parcels with the worst result. If there is no memory for any of this, the parcels are sent one by one instead:
 * nothing that was accepted depends on an allocation.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/batch.h"
#include "pipeline/delivery/sender_state.h"

struct bundle {
    struct ack ack;
    struct work *members;
};

static void bundle_done(struct ack *a, const struct ack_result *r)
{
    struct bundle *b = container_of(a, struct bundle, ack);
    struct work *w = b->members;

    while (w) {
        struct work *next = batcher_next(w);

        ack_complete(w->ack, r);
        parcel_free(parcel_of(w));
        w = next;
    }
    mem_free(b);
}

/* Makes a parcel for each part, linked by next. NULL if there is no memory. */
static struct parcel *make_parcels(struct batch **parts, uint32_t n)
{
    struct parcel *list = NULL, *p;

    for (uint32_t i = n; i-- > 0;) {
        if (parcel_new(&p) < 0) {
            while ((p = list)) {
                list = p->next;
                parcel_free(p);
            }
            return NULL;
        }
        p->work.batch = batch_ref(parts[i]);
        p->items = parts[i]->n_samples;
        p->next = list;
        list = p;
    }
    return list;
}

/* Returns the list as merged parcels that hold a bundle. NULL if that is not possible; then nothing has changed. */
static struct parcel *merge(struct sender *s, struct work *list)
{
    struct bundle *b = NULL;
    struct batch **parts = NULL;
    struct parcel *first = NULL;
    uint32_t n = 0;

    if (batcher_merge(s->batcher, list, &parts, &n, NULL) < 0)
        return NULL;
    b = mem_zalloc(sizeof *b);
    if (b)
        first = make_parcels(parts, n);
    batcher_parts_free(parts, n);
    if (!first) {
        mem_free(b);
        return NULL;
    }
    *b = (struct bundle){.ack = {bundle_done}, .members = list};
    ack_hold(&b->ack, n - 1);
    for (struct parcel *p = first; p; p = p->next)
        p->work.ack = &b->ack;
    for (struct work *w = list; w; w = batcher_next(w))
        batch_unref(TAKE(w->batch)); /* the parts contain all of it */
    return first;
}

void sender_flush(struct sender *s)
{
    struct work *list = batcher_take(s->batcher);
    struct parcel *p = list ? merge(s, list) : NULL;

    loop_timer_cancel(&s->flush_timer);
    if (p)
        list = NULL;
    while (p) {
        struct parcel *next = p->next;

        sender_ship(s, p);
        p = next;
    }
    while (list) {
        struct work *next = batcher_next(list);

        sender_ship(s, parcel_of(list));
        list = next;
    }
}

void sender_flush_fire(struct loop_timer *t)
{
    struct sender *s = container_of(t, struct sender, flush_timer);

    sender_flush(s);
    sender_pump(s);
}

void sender_collect(struct sender *s, struct parcel *p)
{
    int64_t now = clock_mono();

    if (!p->work.batch && (p->work.blob || parcel_decode(p, NULL) < 0)) {
        sender_ship(s, p); /* unmerged */
        return;
    }
    if (batcher_must_flush(s->batcher, &p->work))
        sender_flush(s);
    p->state = PARCEL_COLLECTED;
    batcher_add(s->batcher, &p->work, now);
    if (batcher_ready(s->batcher, now) || s->draining)
        sender_flush(s);
    else
        loop_timer_set(s->loop, &s->flush_timer, batcher_deadline(s->batcher));
}
