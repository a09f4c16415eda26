/* SPDX-License-Identifier: Apache-2.0 */
/* Parcels: decodes what is read from a log, encodes what is sent to a peer, and splits what is too large for one
 * request. */
#include "pipeline/delivery/parcel.h"

#include <errno.h>

#include "base/mem.h"
#include "codec/otlp.h"
#include "model/builder.h"

enum { PIECES_MAX = 1 << 16 };

int parcel_new(struct parcel **ret)
{
    *ret = mem_zalloc(sizeof **ret);
    return *ret ? 0 : -ENOMEM;
}

static void drop_pieces(struct parcel *p)
{
    for (size_t i = 0; i < p->n_pieces; i++)
        buf_done(&p->pieces[i].own);
    if (p->pieces != &p->one)
        mem_free(p->pieces);
    p->pieces = NULL;
    p->n_pieces = p->cap_pieces = 0;
}

void parcel_free(struct parcel *p)
{
    if (!p)
        return;
    drop_pieces(p);
    buf_done(&p->body);
    batch_unref(p->work.batch);
    blob_unref(p->work.blob);
    mem_free(p);
}

static int decode(const struct parcel *p, struct batch **ret, struct err *e)
{
    return p->json ? otlp_json_decode_borrowed(p->body.p, p->body.n, NULL, ret, e)
                   : otlp_decode_borrowed(p->body.p, p->body.n, NULL, ret, e);
}

int parcel_decode(struct parcel *p, struct err *e)
{
    struct batch *b;
    int r = decode(p, &b, e);

    if (r < 0)
        return r;
    otlp_own(b, &p->body);
    p->body = BUF_INIT;
    p->work.batch = b;
    p->items = b->n_samples;
    return 0;
}

static void one_piece(struct parcel *p, struct str bytes)
{
    p->one = (struct parcel_piece){.own = BUF_INIT, .bytes = bytes, .items = p->items};
    p->pieces = &p->one;
    p->n_pieces = 1;
}

static int add_piece(struct parcel *p, struct buf *body, uint32_t items)
{
    int r = array_push(p->pieces, p->n_pieces, p->cap_pieces, PIECES_MAX,
                       (struct parcel_piece){.own = *body, .bytes = buf_str(body), .items = items});

    if (r == 0)
        *body = BUF_INIT;
    return r;
}

static int encode_part(struct parcel *p, const struct batch *x, struct run samples, const struct parcel_encoding *c,
                       struct err *e);

/* Splits these samples of x into as many parts as their size requires; a part that is still too large is split
 * again. */
static int split(struct parcel *p, const struct batch *x, struct run samples, size_t size,
                 const struct parcel_encoding *c, struct err *e)
{
    uint32_t n = samples.n, parts = (uint32_t) MIN(size / MAX(c->max_body * 4 / 5, 1u) + 1, (size_t) n), done = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < parts; i++) {
        uint32_t end = (uint32_t) ((uint64_t) n * (i + 1) / parts);

        if (end > done)
            r = encode_part(p, x, (struct run){samples.off + done, end - done}, c, e);
        done = end;
    }
    return r;
}

static int encode_part(struct parcel *p, const struct batch *x, struct run samples, const struct parcel_encoding *c,
                       struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *part = NULL;
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    int r = builder_new(NULL, &b);

    if (r == 0)
        r = builder_append_part(b, x, samples.off, samples.n);
    if (r == 0)
        r = builder_finish(b, &part, e);
    if (r == 0)
        r = c->ops->encode(c->arg, part, &body, e);
    if (r < 0)
        return r;
    if (body.n > c->max_body && samples.n > 1)
        return split(p, x, samples, MAX(body.n, c->max_body * 2), c, e);
    return add_piece(p, &body, samples.n);
}

static int encode_batch(struct parcel *p, const struct batch *x, const struct parcel_encoding *c, struct err *e)
{
    _cleanup_(buf_done) struct buf body = BUF_INIT;
    int r = c->ops->encode(c->arg, x, &body, e);

    if (r < 0)
        return r;
    if (c->max_body && body.n > c->max_body && x->n_samples > 1)
        return split(p, x, (struct run){0, x->n_samples}, body.n, c, e);
    return add_piece(p, &body, x->n_samples);
}

/* Splits a body that is too large for one request, after decoding it. If it cannot be decoded, it is sent as it is. */
static int resplit(struct parcel *p, const struct parcel_encoding *c, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r = decode(p, &b, e);

    if (r == 0) {
        p->json = c->json;
        p->items = b->n_samples;
        r = encode_batch(p, b, c, e);
    }
    if (r < 0 && r != -ENOMEM) {
        drop_pieces(p);
        one_piece(p, buf_str(&p->body));
        r = 0;
    }
    return r;
}

int parcel_encode(struct parcel *p, const struct parcel_encoding *c, struct err *e)
{
    int r = 0;

    if (p->work.batch) {
        p->json = c->json;
        r = encode_batch(p, p->work.batch, c, e);
        if (r == 0)
            batch_unref(TAKE(p->work.batch)); /* from here on only the bytes are needed */
    } else if (p->work.blob) {
        p->json = p->work.blob->json;
        one_piece(p, (struct str){p->work.blob->p, (uint32_t) p->work.blob->n});
    } else if (c->profiles && c->max_body && p->body.n > c->max_body) {
        r = resplit(p, c, e);
    } else {
        one_piece(p, buf_str(&p->body));
    }
    if (r < 0)
        drop_pieces(p);
    return r;
}
