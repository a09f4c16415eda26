/* SPDX-License-Identifier: Apache-2.0 */
/* Framing, compression and status of unary gRPC calls, for both sides. See grpc.h. */
#include "net/grpc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/server.h"

#define ACCEPTED "gzip,zstd,deflate,identity"
enum { COMPRESS_MIN = 1024 }; /* size of a response */

void grpc_status_set(struct grpc_status *s, enum grpc_code code, const char *fmt, ...)
{
    va_list ap;

    *s = (struct grpc_status){.code = code};
    va_start(ap, fmt);
    vsnprintf(s->message, sizeof s->message, fmt, ap);
    va_end(ap);
}

const char *grpc_code_name(enum grpc_code code)
{
    static const char *const names[] = {
        "OK",       "Canceled",        "Unknown",          "InvalidArgument",   "DeadlineExceeded",
        "NotFound", "AlreadyExists",   "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
        "Aborted",  "OutOfRange",      "Unimplemented",    "Internal",          "Unavailable",
        "DataLoss", "Unauthenticated",
    };

    return (unsigned) code < ARRAY_SIZE(names) ? names[code] : "Unknown";
}

int grpc_code_to_http(enum grpc_code code)
{
    switch (code) {
    case GRPC_OK:
        return 200;
    case GRPC_CANCELLED:
    case GRPC_DEADLINE_EXCEEDED:
    case GRPC_ABORTED:
    case GRPC_OUT_OF_RANGE:
    case GRPC_UNAVAILABLE:
    case GRPC_DATA_LOSS:
        return 503;
    case GRPC_RESOURCE_EXHAUSTED:
        return 429;
    case GRPC_INVALID_ARGUMENT:
        return 400;
    case GRPC_UNAUTHENTICATED:
        return 401;
    case GRPC_PERMISSION_DENIED:
        return 403;
    case GRPC_UNIMPLEMENTED:
        return 404;
    default:
        return 500;
    }
}

enum grpc_code grpc_code_from_http(int status)
{
    switch (status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

/* --- framing --- */
int grpc_unframe(struct str *body, size_t max, struct str *ret, bool *ret_compressed)
{
    const uint8_t *p = (const uint8_t *) body->p;
    uint32_t n;

    if (body->n < 5)
        return -ENODATA;
    if (p[0] > 1)
        return -EBADMSG;
    n = load_be32(p + 1);
    if (n > max)
        return -EMSGSIZE;
    if (n > body->n - 5)
        return -ENODATA;
    *ret = (struct str){body->p + 5, n};
    *ret_compressed = p[0] == 1;
    *body = str_slice(*body, 5 + (size_t) n, body->n);
    return 0;
}

int grpc_frame(struct buf *b, struct str message, enum compression c, int level, struct err *e)
{
    size_t head = b->n, n;
    char *p;

    buf_put(b, "\0\0\0\0\0", 5);
    if (c == COMPRESS_NONE) {
        buf_put_str(b, message);
    } else {
        int r = compress_deflate(c, level, message.p, message.n, b, e);

        if (r < 0)
            return r;
    }
    if (buf_error(b))
        return buf_error(b);
    n = b->n - head - 5;
    if (n > UINT32_MAX)
        return err_set(e, -EMSGSIZE, "message larger than 4 GiB");
    p = b->p + head;
    p[0] = c != COMPRESS_NONE;
    for (int i = 0; i < 4; i++)
        p[1 + i] = (char) (n >> (24 - 8 * i));
    return 0;
}

/* Reads exactly one message, and decompresses it. Used by both sides; fills in the status on failure. */
static int take_message(struct str body, struct str encoding, size_t max, struct buf *inflated, struct str *ret,
                        struct grpc_status *st)
{
    enum compression c;
    struct err e = {0};
    bool compressed;
    int r = grpc_unframe(&body, max, ret, &compressed);

    if (r == -EMSGSIZE)
        grpc_status_set(st, GRPC_RESOURCE_EXHAUSTED, "received message larger than max (%zu bytes)", max);
    else if (r < 0)
        grpc_status_set(st, GRPC_INTERNAL, "malformed gRPC message frame");
    else if (body.n)
        grpc_status_set(st, GRPC_UNIMPLEMENTED, "more than one message in a unary call");
    if (r < 0 || body.n)
        return r < 0 ? r : -EBADMSG;
    if (!compressed)
        return 0;
    if (!encoding.n || compress_by_name(encoding, &c) < 0 || c == COMPRESS_NONE) {
        grpc_status_set(st, encoding.n ? GRPC_UNIMPLEMENTED : GRPC_INTERNAL,
                        "compression '%.*s' is not supported; supported: " ACCEPTED, (int) MIN(encoding.n, 64),
                        encoding.p ? encoding.p : "");
        return -ENOTSUP;
    }
    inflated->limit = 0;
    r = compress_inflate(c, ret->p, ret->n, max, inflated, &e);
    if (r == -EFBIG)
        grpc_status_set(st, GRPC_RESOURCE_EXHAUSTED, "received message larger than max after decompression (%zu bytes)",
                        max);
    else if (r < 0)
        grpc_status_set(st, GRPC_INTERNAL, "cannot decompress the message: %s", err_message(&e, r));
    *ret = inflated->n ? buf_str(inflated) : STR("");
    return r < 0 ? r : 0;
}

/* --- server --- */
bool grpc_is_request(const struct http_request *q)
{
    struct str type = http_headers_get(&q->headers, "content-type");

    return str_is(q->method, "POST") && str_starts(type, STR("application/grpc")) &&
           (type.n == 16 || type.p[16] == '+' || type.p[16] == ';');
}

int grpc_request_message(const struct http_request *q, size_t max, struct buf *inflated, struct str *ret,
                         struct grpc_status *ret_status)
{
    *ret = (struct str){0};
    if (!q->body.n) {
        grpc_status_set(ret_status, GRPC_INTERNAL, "no message in a unary call");
        return -ENODATA;
    }
    return take_message(q->body, http_headers_get(&q->headers, "grpc-encoding"), max, inflated, ret, ret_status);
}

static void add_status(struct http_request *q, const struct grpc_status *s, bool as_trailer)
{
    int (*add)(struct http_request *, const char *, struct str) = as_trailer ? http_add_trailer : http_add_header;
    _cleanup_(buf_done) struct buf text = BUF_INIT, details = BUF_INIT, coded = BUF_INIT;
    char code[16];

    snprintf(code, sizeof code, "%d", (int) s->code);
    add(q, "grpc-status", str_from(code));
    if (s->message[0]) {
        grpc_percent_encode(&text, str_from(s->message));
        add(q, "grpc-message", buf_str(&text));
    }
    if (s->code != GRPC_OK && s->has_retry) {
        grpc_status_encode(&details, s);
        grpc_base64_encode(&coded, buf_str(&details));
        add(q, "grpc-status-details-bin", buf_str(&coded));
    }
}

/* A message that is large enough is compressed with the first coding of the client's list that we support. */
static void put_message(struct http_request *q, struct str message)
{
    struct str list = http_headers_get(&q->headers, "grpc-accept-encoding");
    enum compression c = COMPRESS_NONE;

    while (list.n && c == COMPRESS_NONE && message.n >= COMPRESS_MIN)
        if (compress_by_name(str_trim(str_cut(&list, ',')), &c) < 0)
            c = COMPRESS_NONE;
    if (c != COMPRESS_NONE)
        http_add_header(q, "grpc-encoding", str_from(compress_name(c)));
    grpc_frame(&q->answer, message, c, 1, NULL);
}

void grpc_reply(struct http_request *q, const struct grpc_status *s, struct str message)
{
    bool ok = s->code == GRPC_OK;

    q->status = 200;
    http_add_header(q, "content-type", STR("application/grpc"));
    http_add_header(q, "grpc-accept-encoding", STR(ACCEPTED));
    buf_reset(&q->answer);
    if (ok)
        put_message(q, message);
    add_status(q, s, ok);
    http_finish(q);
}

/* --- client --- */
void grpc_answer(const struct grpc_response *p, size_t max, struct buf *inflated, struct str *ret_message,
                 struct grpc_status *st)
{
    const struct http_headers *from = http_headers_has(p->trailers, "grpc-status") ? p->trailers : p->headers;
    struct str code = http_headers_get(from, "grpc-status"), message = http_headers_get(from, "grpc-message");
    struct str details = http_headers_get(from, "grpc-status-details-bin");
    struct str type = http_headers_get(p->headers, "content-type");
    _cleanup_(buf_done) struct buf bin = BUF_INIT;
    struct grpc_status detailed;
    struct arena a;
    uint64_t v;

    *ret_message = (struct str){0};
    if (!code.p || str_to_u64(code, 10, &v) < 0) {
        grpc_status_set(st, p->http_status == 200 ? GRPC_UNKNOWN : grpc_code_from_http(p->http_status),
                        "the response is not gRPC: HTTP status %d, content-type '%.*s'", p->http_status,
                        (int) MIN(type.n, 64), type.p ? type.p : "");
        return;
    }
    arena_init(&a, 1 << 20);
    message = http_percent_decode(&a, message, false);
    grpc_status_set(st, v > 16 ? GRPC_UNKNOWN : (enum grpc_code) v, "%.*s", STR_FMT(message));
    arena_done(&a);
    if (details.n && grpc_base64_decode(&bin, details) == 0 && grpc_status_decode(buf_str(&bin), &detailed) == 0) {
        st->has_retry = detailed.has_retry;
        st->retry_ns = detailed.retry_ns;
    }
    if (st->code == GRPC_OK)
        take_message(p->body, http_headers_get(p->headers, "grpc-encoding"), max, inflated, ret_message, st);
}

/* --- coding --- */
void grpc_percent_encode(struct buf *b, struct str s)
{
    for (uint32_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char) s.p[i];

        if (c >= 0x20 && c <= 0x7e && c != '%')
            buf_putc(b, (char) c);
        else
            buf_printf(b, "%%%02X", c);
    }
}

/* Without the padding, as gRPC recommends for -bin headers. */
void grpc_base64_encode(struct buf *b, struct str s)
{
    base64_encode(b, s.p, s.n);
    while (b->n && !buf_error(b) && b->p[b->n - 1] == '=')
        b->n--;
}

int grpc_base64_decode(struct buf *b, struct str s)
{
    char *p = buf_reserve(b, base64_decoded_max(s));
    ssize_t n = p ? base64_decode(s, p) : buf_error(b);

    if (n < 0)
        return n == -EINVAL ? -EBADMSG : (int) n;
    b->n += (size_t) n;
    return 0;
}
