/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels through a sender, from intake to its end: one accepted request, one record of the log, or a batch made of
 * several. A parcel owns its payload and one hold of an acknowledgement (work.ack). Everything that it needs on its way is
 * allocated with it; only encoding and cutting allocate later, and these are tried again when there is no memory.
 *
 *   QUEUED ──> COLLECTED ──> SENDING <──> PAUSED        the end: its hold is completed, it is freed
 *      └──────────────────────^
 */
#ifndef PIPELINE_PARCEL_H
#define PIPELINE_PARCEL_H

#include "net/loop.h"
#include "pipeline/delivery/sender.h"

enum parcel_state {
    PARCEL_QUEUED,    /* in the queue, or with the writer of the log */
    PARCEL_COLLECTED, /* in the batcher */
    PARCEL_SENDING,   /* one piece is with the transport */
    PARCEL_PAUSED,    /* waits for its next attempt */
};

struct parcel_piece {
    struct buf own; /* memory of bytes, when it is this piece's */
    struct str bytes;
    uint32_t items;
};

struct parcel {
    struct work work; /* first: batch or blob (or neither: body), acknowledgement, context */
    struct buf body;  /* encoded already */
    bool json;        /* body */
    uint32_t items;   /* samples, spans, ... of all of it; 0: not known */
    int64_t size;     /* by the queue's sizer */
    bool ack_on_take; /* the queue was full: its sender waits until it leaves the queue */
    enum parcel_state state;
    struct sender *sender;
    struct parcel *next, **prev; /* of those under way */
    struct send_request rq;
    struct loop_timer timer;
    struct parcel_piece one, *pieces; /* pieces: NULL until encoded; &one when there is one */
    size_t n_pieces, cap_pieces, at;
    struct ack_result worst; /* of the pieces so far */
    int64_t started;
    double pause; /* ns, of the last retry */
    bool starting, answered;
    struct ack_result answer; /* that came while ops.send was running */
};

int parcel_new(struct parcel **ret);
void parcel_free(struct parcel *p); /* the ack must be completed; NULL is allowed */
DEFINE_CLEANUP(struct parcel *, parcel_free)
static inline struct parcel *parcel_of(struct work *w)
{
    return container_of(w, struct parcel, work);
}

/* Turns body into a batch, so that it can be put together with others. On failure nothing is changed. */
int parcel_decode(struct parcel *p, struct err *e);

struct parcel_encoding {
    const struct sender_ops *ops;
    void *arg;
    size_t max_body; /* 0: no limit */
    bool json;
    bool profiles; /* bodies can be cut by samples */
};

/* Makes the pieces, of at most max_body bytes where samples allow it. On failure there are none, and it can be tried again;
 * everything but -ENOMEM is final. */
int parcel_encode(struct parcel *p, const struct parcel_encoding *x, struct err *e);

#endif
