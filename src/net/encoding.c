/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes request bodies and encodes response bodies by content-encoding. See encoding.h. */
#include "net/encoding.h"

#include <errno.h>
#include <stdlib.h>

#include "net/server.h"

enum { ENCODE_MIN = 1024 }; /* below this the headers outweigh the gain */
enum { ENCODE_LEVEL = 2 };  /* of 631 kB, level 6 saves no byte more and takes half as long again */

int http_decode_body(const struct http_request *q, size_t max, struct buf *inflated, struct str *ret, struct err *e)
{
    struct str coding = str_trim(http_headers_get(&q->headers, "content-encoding"));
    enum compression c;
    char lower[16];
    int r;

    if (coding.n >= sizeof lower)
        return err_set(e, -EOPNOTSUPP, "content-encoding '%.*s' is not supported", (int) MIN(coding.n, 64), coding.p);
    for (uint32_t i = 0; i < coding.n; i++)
        lower[i] = coding.p[i] >= 'A' && coding.p[i] <= 'Z' ? (char) (coding.p[i] | 32) : coding.p[i];
    if (compress_by_name((struct str){lower, coding.n}, &c) < 0)
        return err_set(e, -EOPNOTSUPP, "content-encoding '%.*s' is not supported", STR_FMT(coding));
    if (c == COMPRESS_NONE) {
        if (q->body.n > max)
            return err_set(e, -EFBIG, "the body is larger than %zu bytes", max);
        *ret = q->body.n ? q->body : STR("");
        return 0;
    }
    r = compress_inflate(c, q->body.p, q->body.n, max, inflated, e);
    if (r == -EFBIG)
        return err_set(e, r, "the body decompresses to more than %zu bytes", max);
    if (r < 0)
        return r;
    *ret = inflated->n ? buf_str(inflated) : STR("");
    return 0;
}

/* The weight of a coding in an Accept-Encoding list, -1 if it is not listed. */
static double weight_of(struct str list, const char *name)
{
    while (list.p) {
        struct str params = str_trim(str_cut(&list, ',')), coding = str_trim(str_cut(&params, ';'));
        double q = 1;

        if (!http_eq_nocase(coding, name))
            continue;
        params = str_trim(params);
        if (params.n > 2 && (params.p[0] | 32) == 'q' && params.p[1] == '=')
            str_to_double(str_slice(params, 2, params.n), &q);
        return q;
    }
    return -1;
}

bool http_accepts_gzip(const struct http_headers *h)
{
    return weight_of(http_headers_get(h, "accept-encoding"), "gzip") > 0;
}

enum compression http_accepted_coding(const struct http_headers *h)
{
    static const struct {
        const char *name;
        enum compression c;
    } ours[] = {{"zstd", COMPRESS_ZSTD}, {"gzip", COMPRESS_GZIP}, {"deflate", COMPRESS_ZLIB}};
    struct str list = http_headers_get(h, "accept-encoding");
    enum compression best = COMPRESS_NONE;
    double best_weight = 0;

    for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
        double w = weight_of(list, ours[i].name);

        if (w > best_weight) {
            best = ours[i].c;
            best_weight = w;
        }
    }
    return best;
}

enum compression http_encode_body(const struct http_request *q, struct buf *body)
{
    enum compression c = http_accepted_coding(&q->headers);
    struct buf out = BUF_INIT;

    if (body->n < ENCODE_MIN || c == COMPRESS_NONE)
        return COMPRESS_NONE;
    if (compress_deflate(c, ENCODE_LEVEL, body->p, body->n, &out, NULL) < 0 || out.n >= body->n) {
        buf_done(&out);
        return COMPRESS_NONE;
    }
    buf_done(body);
    *body = out;
    return c;
}

int http_add_coding(struct http_request *q, enum compression c)
{
    http_add_header(q, "vary", STR("accept-encoding"));
    return c == COMPRESS_NONE ? 0 : http_add_header(q, "content-encoding", str_from(compress_name(c)));
}

void http_encode_answer(struct http_request *q)
{
    if (q->answer.n < ENCODE_MIN || http_headers_has(&q->answer_headers, "content-encoding") ||
        http_headers_has(&q->answer_headers, "vary"))
        return;
    if (http_add_coding(q, http_encode_body(q, &q->answer)) < 0)
        buf_done(&q->answer); /* without memory for a header, there is none for an answer */
}
