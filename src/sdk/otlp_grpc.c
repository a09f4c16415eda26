/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A minimal HTTP/2 client for one gRPC call (otlp_grpc.h). RFC 9113 frames: u24 length, u8 type, u8 flags, u31 stream,
 * payload. RFC 7541 headers: sent as literals without indexing; read without a dynamic table, because our SETTINGS set
 * its size to zero.
 */
#include "sdk/otlp_grpc.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/otlp.h"
#include "sdk/transport.h"

enum {
    F_DATA = 0,
    F_HEADERS = 1,
    F_RST = 3,
    F_SETTINGS = 4,
    F_PING = 6,
    F_GOAWAY = 7,
    F_WINDOW = 8,
    F_CONTINUATION = 9
};
enum { GRPC_UNAUTHENTICATED = 16 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8, PRIORITY = 32 };
enum { FRAME_MAX = 16384, BLOCK_MAX = 65536 };

struct unary_call {
    struct transport t;
    const struct settings *s;
    int64_t window, stream_window; /* bytes that may be sent */
    int64_t initial_window;
    struct buf in;    /* bytes read and not yet consumed */
    struct buf block; /* a header block being collected */
    uint8_t block_flags;
    bool ended, have_status, have_http_status;
    unsigned status, http_status;
    char message[256];
};

/* --- writing --- */
static void put_frame(struct buf *b, size_t n, uint8_t type, uint8_t flags, uint32_t stream)
{
    uint8_t h[9];

    store_be32(h, (uint32_t) n << 8 | type);
    h[4] = flags;
    store_be32(h + 5, stream);
    buf_put(b, h, sizeof h);
}

static void put_int(struct buf *b, uint8_t first, unsigned bits, size_t v)
{
    size_t max = (1u << bits) - 1;

    if (v < max) {
        buf_putc(b, (char) (first | v));
        return;
    }
    buf_putc(b, (char) (first | max));
    for (v -= max; v >= 128; v >>= 7)
        buf_putc(b, (char) ((v & 127) | 128));
    buf_putc(b, (char) v);
}

static void put_header(struct buf *b, struct str name, struct str value)
{
    buf_putc(b, 0); /* literal without indexing, new name */
    put_int(b, 0, 7, name.n);
    buf_put_str(b, name);
    put_int(b, 0, 7, value.n);
    buf_put_str(b, value);
}

static void put_headers(struct buf *out, const struct settings *s)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT, authority = BUF_INIT;

    buf_printf(&authority, "%.*s:%u", STR_FMT(s->host), s->port);
    put_header(&b, STR(":method"), STR("POST"));
    put_header(&b, STR(":scheme"), s->tls ? STR("https") : STR("http"));
    put_header(&b, STR(":path"), STR("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"));
    put_header(&b, STR(":authority"), buf_str(&authority));
    put_header(&b, STR("te"), STR("trailers"));
    put_header(&b, STR("content-type"), STR("application/grpc"));
    put_header(&b, STR("user-agent"), STR("wick/" WICK_VERSION));
    put_header(&b, STR(OTLP_VERSION_HEADER), STR(OTLP_VERSION));
    if (s->compression == WICK_COMPRESSION_GZIP)
        put_header(&b, STR("grpc-encoding"), STR("gzip"));
    for (uint32_t i = 0; i < s->n_headers; i++)
        put_header(&b, s->headers[i].name, s->headers[i].value);
    put_frame(out, b.n, F_HEADERS, END_HEADERS, 1);
    buf_put(out, b.p, b.n);
}

/* Preface, settings (no header table, no push), a large receive window, and the request's headers. */
static int send_opening(struct unary_call *c, struct err *e)
{
    static const uint8_t settings[] = {0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0};
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_puts(&b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    put_frame(&b, sizeof settings, F_SETTINGS, 0, 0);
    buf_put(&b, settings, sizeof settings);
    put_headers(&b, c->s);
    if (buf_error(&b))
        return -ENOMEM;
    return transport_write(&c->t, b.p, b.n, e);
}

/* --- header blocks --- */
static size_t get_int(struct cursor *c, unsigned bits)
{
    size_t max = (1u << bits) - 1, v;

    if (c->p == c->end) {
        c->bad = true;
        return 0;
    }
    v = *c->p++ & max;
    if (v < max)
        return v;
    for (unsigned shift = 0; c->p < c->end && shift < 28; shift += 7) {
        v += (size_t) (*c->p & 127) << shift;
        if (!(*c->p++ & 128))
            return v;
    }
    c->bad = true;
    return 0;
}

struct hstring {
    struct str raw;
    bool huffman;
};

static struct hstring get_string(struct cursor *c)
{
    struct hstring s = {.huffman = c->p < c->end && *c->p & 128};
    size_t n = get_int(c, 7);

    if (c->bad || n > (size_t) (c->end - c->p)) {
        c->bad = true;
        return s;
    }
    s.raw = (struct str){(const char *) c->p, (uint32_t) n};
    c->p += n;
    return s;
}

/* Compares with the header names that matter, both as plain text and Huffman-coded. */
static bool is_name(const struct hstring *s, const char *plain, struct str coded)
{
    return s->huffman ? str_eq(s->raw, coded) : str_is(s->raw, plain);
}

/* Reads digits only. In the Huffman code 0-2 have 5 bits (0-2), 3-9 six (25-31). */
static unsigned get_number(const struct hstring *s)
{
    unsigned v = 0, have = 0;
    uint32_t bits = 0;

    for (uint32_t i = 0; i < s->raw.n && i < 8; i++) {
        uint8_t c = (uint8_t) s->raw.p[i];

        if (!s->huffman) {
            v = v * 10 + (c >= '0' && c <= '9' ? c - '0' : 0);
            continue;
        }
        bits = bits << 8 | c;
        have += 8;
        while (have >= 5) {
            unsigned five = bits >> (have - 5) & 31, six = have >= 6 ? bits >> (have - 6) & 63 : 64;

            if (five <= 2) {
                v = v * 10 + five;
                have -= 5;
            } else if (six >= 25 && six <= 31) {
                v = v * 10 + six - 22;
                have -= 6;
            } else {
                break; /* padding, or more bits needed */
            }
        }
    }
    return v;
}

static void on_header(struct unary_call *c, const struct hstring *name, const struct hstring *value)
{
    if (is_name(name, "grpc-status", STR("\x9a\xca\xc8\xb2\x12\x34\xda\x8f"))) {
        c->status = get_number(value);
        c->have_status = true;
    } else if (is_name(name, "grpc-message", STR("\x9a\xca\xc8\xb5\x25\x42\x07\x31\x7f")) && !value->huffman) {
        size_t n = MIN((size_t) value->raw.n, sizeof c->message - 1);

        memcpy(c->message, value->raw.p, n);
        c->message[n] = 0;
    }
}

/* :status from the static table: 8 = 200, 9 = 204, 10 = 206, 11 = 304, 12 = 400, 13 = 404, 14 = 500. */
static void on_indexed(struct unary_call *c, size_t index)
{
    static const unsigned status[] = {200, 204, 206, 304, 400, 404, 500};

    if (index >= 8 && index <= 14) {
        c->http_status = status[index - 8];
        c->have_http_status = true;
    }
}

static int read_block(struct unary_call *c, const uint8_t *p, size_t n, struct err *e)
{
    struct cursor x = {p, p + n, false};

    while (x.p < x.end && !x.bad) {
        uint8_t b = *x.p;
        struct hstring name = {0}, value;
        size_t index;

        if (b & 0x80) {
            on_indexed(c, get_int(&x, 7));
            continue;
        }
        if ((b & 0xe0) == 0x20) { /* table size */
            get_int(&x, 5);
            continue;
        }
        index = get_int(&x, b & 0x40 ? 6 : 4);
        if (!index)
            name = get_string(&x);
        value = get_string(&x);
        if (index >= 8 && index <= 14) {
            c->http_status = get_number(&value);
            c->have_http_status = true;
        } else if (!index && !x.bad) {
            on_header(c, &name, &value);
        }
    }
    return x.bad ? err_set(e, -EPROTO, "cannot parse the collector's HTTP/2 headers") : 0;
}

/* --- reading frames --- */
static int on_settings(struct unary_call *c, uint8_t flags, const uint8_t *p, size_t n, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (flags & ACK)
        return 0;
    for (; n >= 6; p += 6, n -= 6)
        if (p[0] == 0 && p[1] == 4) { /* INITIAL_WINDOW_SIZE also changes the window of the stream */
            c->stream_window += (int64_t) load_be32(p + 2) - c->initial_window;
            c->initial_window = load_be32(p + 2);
        }
    put_frame(&b, 0, F_SETTINGS, ACK, 0);
    return transport_write(&c->t, b.p, b.n, e);
}

struct http2_frame {
    uint8_t type, flags;
    uint32_t stream;
    const uint8_t *p; /* its payload of n bytes */
    size_t n;
};

static int on_headers(struct unary_call *c, const struct http2_frame *f, struct err *e)
{
    const uint8_t *p = f->p;
    uint8_t flags = f->flags;
    size_t n = f->n;

    if (f->type == F_HEADERS) {
        size_t pad = flags & PADDED && n ? *p : 0, skip = (flags & PADDED ? 1u : 0u) + (flags & PRIORITY ? 5u : 0u);

        if (skip + pad > n)
            return err_set(e, -EPROTO, "cannot parse the collector's HTTP/2 headers");
        p += skip;
        n -= skip + pad;
        buf_reset(&c->block);
        c->block_flags = flags;
    }
    if (c->block.n + n > BLOCK_MAX)
        return err_set(e, -EPROTO, "the collector's HTTP/2 headers are too large");
    buf_put(&c->block, p, n);
    if (!(flags & END_HEADERS))
        return 0;
    c->ended |= c->block_flags & END_STREAM;
    return read_block(c, (const uint8_t *) c->block.p, c->block.n, e);
}

static int on_frame(struct unary_call *c, const struct http2_frame *f, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    const uint8_t *p = f->p;
    size_t n = f->n;

    switch (f->type) {
    case F_SETTINGS:
        return on_settings(c, f->flags, p, n, e);
    case F_WINDOW:
        if (n >= 4)
            *(f->stream ? &c->stream_window : &c->window) += load_be32(p) & 0x7fffffff;
        return 0;
    case F_PING:
        if (f->flags & ACK || n != 8)
            return 0;
        put_frame(&b, 8, F_PING, ACK, 0);
        buf_put(&b, p, n);
        return transport_write(&c->t, b.p, b.n, e);
    case F_HEADERS:
    case F_CONTINUATION:
        return on_headers(c, f, e);
    case F_DATA: /* the message of the response: nothing in it is needed */
        c->ended |= f->flags & END_STREAM;
        return 0;
    case F_RST:
        return err_set(e, -EAGAIN, "the collector reset the stream (HTTP/2 error %u)", n >= 4 ? load_be32(p) : 0);
    case F_GOAWAY:
        return c->have_status ? 0
                              : err_set(e, -EAGAIN, "the collector closed the connection (HTTP/2 error %u)",
                                        n >= 8 ? load_be32(p + 4) : 0);
    default:
        return 0;
    }
}

/* Reads and handles one frame, waiting for it. */
static int take_frame(struct unary_call *c, struct err *e)
{
    for (;;) {
        const uint8_t *p = (const uint8_t *) c->in.p;
        size_t n = c->in.n >= 9 ? (size_t) p[0] << 16 | (size_t) p[1] << 8 | p[2] : 0;
        char *room;
        ptrdiff_t got;
        int r;

        if (c->in.n >= 9 && n > FRAME_MAX)
            return err_set(e, -EPROTO, "%.*s:%u does not speak HTTP/2: is it an OTLP/gRPC port?", STR_FMT(c->s->host),
                           c->s->port);
        if (c->in.n >= 9 + n && c->in.n >= 9) {
            r = on_frame(c, &(struct http2_frame){p[3], p[4], load_be32(p + 5) & 0x7fffffff, p + 9, n}, e);
            memmove(c->in.p, c->in.p + 9 + n, c->in.n - 9 - n);
            c->in.n -= 9 + n;
            return r;
        }
        room = buf_reserve(&c->in, FRAME_MAX + 9);
        if (!room)
            return -ENOMEM;
        got = transport_read(&c->t, room, FRAME_MAX + 9, e);
        if (got < 0)
            return (int) got;
        if (got == 0)
            return err_set(e, -ECONNRESET, "the collector closed the connection without a response");
        c->in.n += (size_t) got;
    }
}

static int send_body(struct unary_call *c, const struct buf *body, struct err *e)
{
    uint8_t head[5] = {c->s->compression == WICK_COMPRESSION_GZIP};
    size_t total = body->n + sizeof head;
    int r = 0;

    store_be32(head + 1, (uint32_t) body->n);
    for (size_t sent = 0; sent < total && r == 0;) {
        int64_t room = MIN(MIN(c->window, c->stream_window), (int64_t) FRAME_MAX);
        _cleanup_(buf_done) struct buf b = BUF_INIT;
        size_t n, h;

        if (c->ended) /* rejected before everything was sent */
            return 0;
        if (room <= 0) {
            r = take_frame(c, e);
            continue;
        }
        n = MIN((size_t) room, total - sent);
        h = sent < sizeof head ? MIN(n, sizeof head - sent) : 0;
        put_frame(&b, n, F_DATA, sent + n == total ? END_STREAM : 0, 1);
        buf_put(&b, head + MIN(sent, sizeof head), h);
        buf_put(&b, body->p + (sent + h - sizeof head), n - h);
        r = buf_error(&b) ? -ENOMEM : transport_write(&c->t, b.p, b.n, e);
        c->window -= (int64_t) n;
        c->stream_window -= (int64_t) n;
        sent += n;
    }
    return r;
}

static int check_status(const struct unary_call *c, struct err *e)
{
    if (c->have_status && c->status == 0)
        return 0;
    if (!c->have_status)
        return err_set(e, -EPROTO, "%.*s:%u responded with HTTP status %u and no grpc-status: is it an OTLP/gRPC port?",
                       STR_FMT(c->s->host), c->s->port, c->have_http_status ? c->http_status : 0);
    if (c->status == 12)
        return err_set(e, -EPROTO, "the collector at %.*s:%u does not accept profiles (gRPC status 12: %s)",
                       STR_FMT(c->s->host), c->s->port, c->message[0] ? c->message : "unimplemented");
    if (c->status == GRPC_UNAUTHENTICATED)
        return err_set(e, -EPROTO, "the token is missing or wrong for %.*s:%u: set WICK_TOKEN (gRPC status 16%s%s)",
                       STR_FMT(c->s->host), c->s->port, c->message[0] ? ": " : "", c->message);
    return err_set(e, c->status == 14 || c->status == 8 ? -EAGAIN : -EPROTO,
                   "the collector responded with gRPC status %u%s%s", c->status, c->message[0] ? ": " : "", c->message);
}

int otlp_grpc_call(const struct settings *s, const struct buf *body, int64_t deadline, void (*pump)(void),
                   struct err *e)
{
    struct transport_target to = {.host = s->host, .port = s->port, .tls = s->tls, .h2 = true, .ca_file = s->ca_file};
    struct unary_call c = {.s = s, .window = 65535, .stream_window = 65535, .initial_window = 65535};
    int r;

    c.t = (struct transport){.fd = -1, .deadline = deadline, .pump = pump};
    r = transport_open(&c.t, &to, e);
    if (r < 0)
        return r;
    r = send_opening(&c, e);
    if (r == 0)
        r = send_body(&c, body, e);
    while (r == 0 && !c.ended)
        r = take_frame(&c, e);
    if (r == 0)
        r = check_status(&c, e);
    transport_close(&c.t);
    buf_done(&c.in);
    buf_done(&c.block);
    return r;
}
