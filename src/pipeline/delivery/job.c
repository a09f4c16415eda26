/* SPDX-License-Identifier: Apache-2.0 */
/* See job.h. */
#include "pipeline/delivery/job.h"

#include <errno.h>

#include "base/mem.h"
#include "codec/otlp.h"
#include "model/builder.h"

/* Moves a buffer out of a struct. */
#define TAKE_BUF(b)              \
    ({                           \
        struct buf taken_ = (b); \
        (b) = BUF_INIT;          \
        taken_;                  \
    })

enum { ACKS_MAX = 1 << 20, PIECES_MAX = 1 << 16 };

int job_new(struct job **ret)
{
    *ret = mem_zalloc(sizeof **ret);
    return *ret ? 0 : -ENOMEM;
}

void job_free(struct job *j)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->n_pieces; i++)
        buf_done(&j->pieces[i].body);
    mem_free(j->pieces);
    mem_free(j->acks);
    batch_unref(j->batch);
    blob_unref(j->blob);
    mem_free(j);
}

void job_link(struct job **list, struct job *j)
{
    j->next = *list;
    j->prev = list;
    if (j->next)
        j->next->prev = &j->next;
    *list = j;
}

void job_unlink(struct job **list, struct job *j)
{
    (void) list;
    *j->prev = j->next;
    if (j->next)
        j->next->prev = j->prev;
}

int job_add_ack(struct job *j, struct ack *ack)
{
    void *p = j->acks;
    int r;

    if (!ack)
        return 0;
    r = mem_grow(&p, &j->cap_acks, j->n_acks + 1, sizeof *j->acks, ACKS_MAX);
    j->acks = p;
    if (r < 0)
        return r;
    j->acks[j->n_acks++] = ack;
    return 0;
}

void job_ack(struct job *j, const struct ack_result *r)
{
    for (size_t i = 0; i < j->n_acks; i++)
        ack_complete(j->acks[i], r);
    j->n_acks = 0;
}

void job_add_batch(struct job *j, struct batch *b)
{
    j->batch = batch_ref(b);
    j->items_left = b->n_samples;
}

void job_add_blob(struct job *j, struct blob *b)
{
    j->blob = blob_ref(b);
    j->json = b->json;
    j->items_left = b->items;
}

static int add_piece(struct job *j, struct buf *body, uint32_t items)
{
    void *p = j->pieces;
    int r = mem_grow(&p, &j->cap_pieces, j->n_pieces + 1, sizeof *j->pieces, PIECES_MAX);

    j->pieces = p;
    if (r < 0)
        return r;
    j->pieces[j->n_pieces++] = (struct job_piece){*body, items};
    *body = BUF_INIT;
    return 0;
}

void job_add_bytes(struct job *j, struct buf *body, bool json, enum signal signal)
{
    uint32_t items = 0;

    if (!json && signal != SIGNAL_PROFILES)
        blob_count(signal, body->p, body->n, &items);
    job_add_encoded(j, body, json, items);
}

void job_add_encoded(struct job *j, struct buf *body, bool json, uint32_t items)
{
    j->json = json;
    j->items_left = items;
    add_piece(j, body, items);
}

static int encode_part(struct job *j, const struct batch *x, uint32_t from, uint32_t n, const struct sender_ops *ops,
                       void *arg, size_t max, struct err *e);

/* Cuts x in as many parts as its size calls for; a part that is still too large is cut again. */
static int split(struct job *j, const struct batch *x, uint32_t from, uint32_t n, size_t size,
                 const struct sender_ops *ops, void *arg, size_t max, struct err *e)
{
    uint32_t parts = (uint32_t) MIN(size / MAX(max * 4 / 5, 1u) + 1, (size_t) n), done = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < parts; i++) {
        uint32_t end = (uint32_t) ((uint64_t) n * (i + 1) / parts);

        if (end > done)
            r = encode_part(j, x, from + done, end - done, ops, arg, max, e);
        done = end;
    }
    return r;
}

static int encode_part(struct job *j, const struct batch *x, uint32_t from, uint32_t n, const struct sender_ops *ops,
                       void *arg, size_t max, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *part = NULL;
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    int r = builder_new(NULL, &b);

    if (r == 0)
        r = builder_append_part(b, x, from, n);
    if (r == 0)
        r = builder_finish(b, &part, e);
    if (r == 0)
        r = ops->encode(arg, part, &body, e);
    if (r < 0)
        return r;
    if (body.n > max && n > 1)
        return split(j, x, from, n, MAX(body.n, max * 2), ops, arg, max, e);
    return add_piece(j, &body, n);
}

static int encode_batch(struct job *j, const struct batch *x, const struct sender_ops *ops, void *arg, size_t max,
                        struct err *e)
{
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    int r = ops->encode(arg, x, &body, e);

    if (r < 0)
        return r;
    if (max && body.n > max && x->n_samples > 1)
        return split(j, x, 0, x->n_samples, body.n, ops, arg, max, e);
    return add_piece(j, &body, x->n_samples);
}

static int encode_blob(struct job *j)
{
    _cleanup_(buf_done) struct buf body = BUF_INIT;

    buf_put(&body, j->blob->p, j->blob->n);
    return buf_error(&body) ? buf_error(&body) : add_piece(j, &body, j->blob->items);
}

/* A request that came out of the log and is too large (or whose samples are not counted yet): decoded after all. */
static int resplit(struct job *j, const struct sender_ops *ops, void *arg, size_t max, struct err *e)
{
    _cleanup_(buf_done) struct buf body = TAKE_BUF(j->pieces[0].body);
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r;

    j->n_pieces = 0;
    r = j->json ? otlp_json_decode(&body, NULL, &b, e) : otlp_decode(&body, NULL, &b, e);
    if (r < 0)
        return r;
    j->items_left = b->n_samples;
    return encode_batch(j, b, ops, arg, max, e);
}

int job_encode(struct job *j, const struct sender_ops *ops, void *arg, size_t max, bool json, struct err *e)
{
    int r = 0;

    if (j->batch) {
        j->json = json;
        r = encode_batch(j, j->batch, ops, arg, max, e);
        batch_unref(TAKE(j->batch)); /* from here on the bytes are all that is needed */
    } else if (j->blob) {
        r = encode_blob(j);
    } else if (max && j->n_pieces && j->pieces[0].body.n > max && !j->items_left) {
        r = resplit(j, ops, arg, max, e);
    }
    if (r == 0 && !j->n_pieces)
        r = -ENOMEM;
    return r;
}
