/* SPDX-License-Identifier: Apache-2.0 */
/* A unit of sending, inside the sender: what it carries, who waits for it, where it stands. Loop's thread only. */
#ifndef PIPELINE_JOB_H
#define PIPELINE_JOB_H

#include "net/loop.h"
#include "pipeline/delivery/sender.h"

struct job_piece {
    struct buf body;
    uint32_t items;
};

struct job {
    struct send_request rq;
    struct sender *sender;
    struct job *next, **prev; /* of the sender's jobs */
    struct loop_timer timer;
    struct batch *batch; /* not yet encoded */
    struct blob *blob;
    struct ack **acks;
    size_t n_acks, cap_acks;
    struct job_piece *pieces;
    size_t n_pieces, cap_pieces, at;
    uint64_t first_seq; /* in the log; 0: not from a log */
    uint64_t rejected;
    uint32_t items_left;
    int64_t started;
    double pause; /* ns, of the last retry */
    bool json, sending;
};

int job_new(struct job **ret);
void job_free(struct job *j); /* acks must be completed; NULL is allowed */
void job_link(struct job **list, struct job *j);
void job_unlink(struct job **list, struct job *j);
int job_add_ack(struct job *j, struct ack *ack); /* NULL is nothing */
void job_ack(struct job *j, const struct ack_result *r);
void job_add_batch(struct job *j, struct batch *b); /* takes a reference */
void job_add_blob(struct job *j, struct blob *b);
/* Encoded bytes, taken out of `body`. */
void job_add_bytes(struct job *j, struct buf *body, bool json, enum signal signal);
/* The same of a batch of so many items, below the limit of a request. */
void job_add_encoded(struct job *j, struct buf *body, bool json, uint32_t items);
/* Turns what it carries into pieces of at most max_body bytes (0: no limit), where samples allow it. */
int job_encode(struct job *j, const struct sender_ops *ops, void *arg, size_t max_body, bool json, struct err *e);

#endif
