/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit of work of a sender, from intake to its end: one accepted request, one record of the log, or a batch made of
 * several. A parcel owns its payload and one hold on an acknowledgement (work.ack). Everything that it needs on its way
 * is allocated with it; only encoding and splitting allocate later, and these are retried if there is no memory.
 *
 *   QUEUED ──> COLLECTED ──> SENDING <──> PAUSED        the end: its hold is completed, it is freed
 *      └──────────────────────^
 */
#ifndef PIPELINE_PARCEL_H
#define PIPELINE_PARCEL_H

#include "net/loop.h"
#include "pipeline/delivery/sender.h"

enum parcel_state {
    PARCEL_QUEUED,    /* in the queue, or held by the writer of the log */
    PARCEL_COLLECTED, /* in the batcher */
    PARCEL_SENDING,   /* the transport is sending one piece */
    PARCEL_PAUSED,    /* waiting for its next attempt */
};

struct parcel_piece {
    struct buf own; /* memory of bytes, if this piece owns it */
    struct str bytes;
    uint32_t items;
};

struct parcel {
    struct work work; /* must be first: batch or blob (or neither: body), acknowledgement, context */
    struct buf body;  /* encoded already */
    bool json;        /* encoding of body */
    uint32_t items;   /* total of samples, spans, ...; 0: unknown */
    int64_t size;     /* in units of the queue's sizer */
    bool ack_on_take; /* the queue was full: acknowledged only when the parcel is taken out of it */
    enum parcel_state state;
    struct sender *sender;
    struct parcel *next, **prev; /* list of those in progress */
    struct send_request rq;
    struct loop_timer timer;
    struct parcel_piece one, *pieces; /* pieces: NULL until encoded; &one if there is only one */
    size_t n_pieces, cap_pieces, at;
    struct ack_result worst; /* worst result of the pieces so far */
    int64_t started;
    int64_t pause; /* state of backoff_next() */
    bool starting, answered;
    struct ack_result answer; /* a result that arrived while ops.send was running */
};

int parcel_new(struct parcel **ret);
void parcel_free(struct parcel *p); /* the ack must be completed; accepts NULL */
DEFINE_CLEANUP(struct parcel *, parcel_free)
static inline struct parcel *parcel_of(struct work *w)
{
    return container_of(w, struct parcel, work);
}

/* Decodes body into a batch, so that it can be merged with others. On failure nothing is changed. */
int parcel_decode(struct parcel *p, struct err *e);

struct parcel_encoding {
    const struct sender_ops *ops;
    void *arg;
    size_t max_body; /* 0: no limit */
    bool json;
    bool profiles; /* bodies can be split by samples */
};

/* Makes the pieces, of at most max_body bytes each as far as whole samples allow. On failure there are none, and it can
 * be called again; every error except -ENOMEM is permanent. */
int parcel_encode(struct parcel *p, const struct parcel_encoding *x, struct err *e);

#endif
